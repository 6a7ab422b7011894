"""Knobs of the trainer, for RL and for SFT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rltui.core.knobs import Knob, TomlValue
from rltui.frameworks.prime_rl import rl_knobs, trainer_knobs
from rltui.frameworks.prime_rl.detection import TRAINER
from rltui.frameworks.prime_rl.knob_tables import Place

TRAINER_TABLES: Mapping[str, Mapping[str, TomlValue]] = {
    "model.ac": {"freq": 1, "mode": "full"},
    "model.ac_offloading": {"max_inflight_activations": 5, "pin_memory": True},
    "model.compile": {"fullgraph": False},
    "model.lora": {"rank": 16, "alpha": 32.0, "dropout": 0.0},
}
"""Table → what its keys are when it is there without them."""

_MODEL = (
    trainer_knobs.MODEL_NAME,
    trainer_knobs.SEQ_LEN,
    trainer_knobs.ATTN,
    replace(trainer_knobs.IMPL, choices=("hf", "custom", "auto", "liger_kernel")),
    *trainer_knobs.COMPILE,
    *trainer_knobs.ACTIVATIONS,
    trainer_knobs.AC_MODE,
    *trainer_knobs.SHARDING,
    trainer_knobs.OPTIM_CPU_OFFLOAD,
    trainer_knobs.TENSOR_PARALLEL,
    *trainer_knobs.DTYPES,
    trainer_knobs.REMOTE_CODE,
    Knob(
        "ep_comm_backend", "enum", (),
        "How tokens reach the GPUs of their experts.",
        "torch", choices=("torch", "deepep"),
    ),
    Knob(
        "freeze_moe_router", "bool", (),
        "Do not train the part that chooses experts.",
        default=False,
    ),
)  # fmt: skip
_OPTIM = tuple(
    replace(knob, choices=("sgd", "adamw", "muon", "sign_sgd")) if knob.key == "type" else knob
    for knob in trainer_knobs.OPTIM
)
_LOSS = (
    Knob(
        "type", "enum", (),
        "The loss: default, one of your own, or that of SFT.",
        "default", choices=("default", "custom", "sft"),
    ),
    Knob(
        "token_mask_high", "float", (),
        "Tokens that the policy has become more likely to choose than this factor are left out.",
        8.0, minimum=0.0,
    ),
    Knob(
        "token_mask_low", "float", (),
        "Tokens that the policy has become less likely to choose than this factor are left out.",
        0.125, minimum=0.0,
    ),
    Knob(
        "geo_mask_high", "float", (),
        "Answers whose mean factor is above this are left out.",
        10.0, minimum=0.0,
    ),
    Knob(
        "geo_mask_low", "float", (),
        "Answers whose mean factor is below this are left out.",
        0.1, minimum=0.0,
    ),
    Knob(
        "sequence_mask_high", "float", (),
        "Answers with a token above this factor are left out.",
        100.0, minimum=0.0,
    ),
    Knob(
        "sequence_mask_low", "float", (),
        "Answers with a token below this factor are left out; 0 leaves out none.",
        0.0, minimum=0.0,
    ),
    Knob(
        "dppo_mask_high", "float", (),
        "Tokens whose probability rose by more than this are left out; from March 2026.",
        0.2, minimum=0.0,
    ),
    Knob(
        "dppo_mask_low", "float", (),
        "Tokens whose probability fell by more than this are left out; from March 2026.",
        0.2, minimum=0.0,
    ),
    Knob("adv_tau", "float", (), "How strongly the advantage counts.", 1.0, minimum=0.0),
    Knob(
        "teacher_tau", "float", (),
        "How strongly the policy is drawn to a teacher; above 0 there must be one.",
        0.0, minimum=0.0,
    ),
    Knob("kl_tau", "float", (), "How strongly the policy is held to the one that sampled.", 0.0, minimum=0.0),
)  # fmt: skip
_ADAPTER = Knob(
    "weights.save_adapter_separately", "bool", (),
    "Save LoRA weights by themselves too; only with LoRA.",
    nullable=True,
)  # fmt: skip


def any_trainer(place: Place) -> tuple[Knob, ...]:
    """What the trainers for RL and for SFT both have."""

    def at(table: str) -> Place:
        return replace(place, prefix=f"{place.prefix}.{table}" if place.prefix else table)

    return (
        *place.put((trainer_knobs.DIST_TIMEOUT, trainer_knobs.TRACE_PATH)),
        *at("model").put(_MODEL),
        *at("model.lora").put(trainer_knobs.LORA),
        *at("optim").put(_OPTIM),
        *at("scheduler").put(trainer_knobs.SCHEDULER),
        *at("ckpt").put((*trainer_knobs.CKPT, *trainer_knobs.CKPT_KEEP, _ADAPTER)),
    )


_PLACE = Place((TRAINER,), "trainer")
RL_TRAINER_KNOBS = (
    *_PLACE.put(
        (
            trainer_knobs.MAX_STEPS,
            rl_knobs.MAX_ASYNC,
            Knob("max_concurrent_runs", "int", (), "Runs that train at the same time.", 1, minimum=1),
        )
    ),
    *any_trainer(_PLACE),
    *Place((TRAINER,), "trainer.loss").put(_LOSS),
    *Place((TRAINER,), "trainer.weight_broadcast").put((rl_knobs.BROADCAST,)),
    *Place((TRAINER,), "trainer.data").put(trainer_knobs.FAKE_DATA),
    *Place((TRAINER,), "trainer.metrics_server").put(
        (
            Knob(
                "port", "int", (),
                "TCP port of the trainer's own metrics; without the table there are none.",
                nullable=True, minimum=1, maximum=65535,
            ),
        )
    ),
)  # fmt: skip
