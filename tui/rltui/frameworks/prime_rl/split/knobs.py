"""What can be turned in the four files of this generation; names begin with the role of the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rltui.core.knobs import Knob, TomlValue
from rltui.frameworks.base import ConfigFiles
from rltui.frameworks.prime_rl import rl_knobs, sft_knobs, trainer_knobs
from rltui.frameworks.prime_rl.detection import INFERENCE, ORCHESTRATOR, SFT, TRAINER
from rltui.frameworks.prime_rl.knob_tables import Follows, Place

_LORA = "model.experimental.lora"


def _at(role: str, prefix: str = "", *more: str) -> Place:
    return Place((role, *more), prefix, file=role, namespace=role)


def _any_trainer(role: str) -> tuple[Knob, ...]:
    """What the RL trainer and the SFT trainer both have."""
    model = (
        trainer_knobs.MODEL_NAME,
        trainer_knobs.ATTN_SPLIT,
        trainer_knobs.IMPL_SPLIT,
        *trainer_knobs.COMPILE,
        *trainer_knobs.ACTIVATIONS,
        *trainer_knobs.SHARDING,
        trainer_knobs.TENSOR_PARALLEL,
        *trainer_knobs.DTYPES,
        trainer_knobs.REMOTE_CODE,
        Knob("load_using_meta", "bool", (), "Load weights without a copy in main memory.", default=False),
        Knob("debug.random_init", "bool", (), "Begin with random weights, to debug.", default=False),
    )
    return (
        *_at(role).put(
            (
                trainer_knobs.MAX_STEPS,
                rl_knobs.OUTPUT_DIR,
                trainer_knobs.DIST_TIMEOUT,
                trainer_knobs.TRACE_PATH,
            )
        ),
        *_at(role, "model").put(model),
        *_at(role, _LORA).put(trainer_knobs.LORA),
        *_at(role, "optim").put(trainer_knobs.OPTIM),
        *_at(role, "scheduler").put(trainer_knobs.SCHEDULER),
        *_at(role, "ckpt").put((*trainer_knobs.CKPT, trainer_knobs.CKPT_KEEP_SPLIT)),
        Knob(
            "ckpt.weights.save_adapter_separately", "bool", (role,),
            "Save LoRA weights by themselves too; only with LoRA.",
            nullable=True, file=role, namespace=role,
        ),
        *_at(role, "wandb").put(rl_knobs.WANDB),
    )  # fmt: skip


_LOSS = (
    Knob(
        "ratio_type", "enum", (),
        "Compare new and old policy token by token, or by whole answers.",
        "token", choices=("token", "sequence"),
    ),
    Knob(
        "mask_ratio_high", "float", (),
        "Tokens that the policy has become more likely to choose than this factor are left out.",
        8.0, minimum=0.0,
    ),
    Knob(
        "mask_ratio_low", "float", (),
        "Tokens that the policy has become less likely to choose than this factor are left out.",
        0.125, minimum=0.0,
    ),
    Knob(
        "sequence_mask_ratio_low", "float", (),
        "Answers with a token below this factor are left out; 0 leaves out none.",
        0.0, minimum=0.0,
    ),
    Knob("kl_tau", "float", (), "How strongly the policy is held to the one that sampled.", 0.0, minimum=0.0),
)  # fmt: skip
_BROADCAST = (
    rl_knobs.BROADCAST,
    Knob("adapter_only", "bool", (), "Send only LoRA weights to inference; only with LoRA.", default=False),
)
_TRAINER = (
    *_at(TRAINER).put((rl_knobs.MAX_ASYNC,)),
    *_any_trainer(TRAINER),
    *_at(TRAINER, "loss").put(_LOSS),
    *_at(TRAINER, "weight_broadcast").put(_BROADCAST),
    *_at(TRAINER, "data").put(
        (
            *trainer_knobs.FAKE_DATA,
            Knob(
                "fake.seq_len", "int", (),
                "Tokens of each random sequence.",
                nullable=True, minimum=1, unit="tokens", control="doubling",
            ),
        )
    ),
)  # fmt: skip
_ORCHESTRATOR = (
    *_at(ORCHESTRATOR).put(
        (
            replace(rl_knobs.BATCH_SIZE, nullable=False),
            rl_knobs.GROUP,
            rl_knobs.OVERSAMPLING,
            rl_knobs.MAX_CONCURRENT,
            *rl_knobs.ORCHESTRATOR,
            rl_knobs.MAX_ASYNC,
            rl_knobs.STRICT_ASYNC,
            trainer_knobs.MAX_STEPS,
            rl_knobs.OUTPUT_DIR,
            rl_knobs.BASE_URL,
            rl_knobs.CLIENT_TIMEOUT,
            Knob(
                "trajectory_strategy", "enum", (),
                "Train on conversations as a whole, or on each turn by itself.",
                "interleaved", choices=("interleaved", "branching"),
            ),
            Knob(
                "mask_env_responses", "bool", (),
                "Do not learn to write what the environment answers.",
                default=True,
            ),
            Knob("lora_name", "str", (), "Name of the LoRA that is asked of inference.", nullable=True),
        ),
        defaults={"strict_async_level": True},
    ),
    *_at(ORCHESTRATOR, "model").put((trainer_knobs.MODEL_NAME, trainer_knobs.REMOTE_CODE)),
    *_at(ORCHESTRATOR, "sampling").put(
        (replace(rl_knobs.TEMPERATURE, nullable=False), rl_knobs.MAX_TOKENS, *rl_knobs.SAMPLING)
    ),
    *_at(ORCHESTRATOR, "eval").put(rl_knobs.EVAL),
    *_at(ORCHESTRATOR, "val").put(rl_knobs.VAL),
    *_at(ORCHESTRATOR, "buffer").put(rl_knobs.BUFFER),
    *_at(ORCHESTRATOR, "ckpt").put((*trainer_knobs.CKPT, trainer_knobs.CKPT_KEEP_SPLIT)),
    *_at(ORCHESTRATOR, "weight_broadcast").put((rl_knobs.BROADCAST,)),
    *_at(ORCHESTRATOR, "wandb").put(rl_knobs.WANDB),
)  # fmt: skip
_INFERENCE = (
    *_at(INFERENCE).put(
        (
            *rl_knobs.INFERENCE,
            rl_knobs.HOST,
            Knob("seed", "int", (), "Start of vLLM's random numbers.", nullable=True),
        ),
        defaults={"model.tool_call_parser": "hermes"},
    ),
    *_at(INFERENCE, "", ORCHESTRATOR).put((rl_knobs.PORT,)),
    *_at(INFERENCE, "model").put((trainer_knobs.MODEL_NAME,)),
    *_at(INFERENCE, "weight_broadcast").put((rl_knobs.BROADCAST,)),
)
_SFT = (
    *_any_trainer(SFT),
    *_at(SFT).put((*sft_knobs.DATA, sft_knobs.PACK_FUNCTION, sft_knobs.LOSS_IMPL)),
)

KNOBS = (*_ORCHESTRATOR, *_TRAINER, *_INFERENCE, *_SFT)
BY_NAME = {knob.name: knob for knob in KNOBS}

_ACTIVATIONS: Mapping[str, Mapping[str, TomlValue]] = {
    "model.ac": {"freq": 1},
    "model.ac_offloading": {"max_inflight_activations": 5, "pin_memory": True},
    "model.compile": {"fullgraph": False},
    _LORA: {"rank": 16, "alpha": 16.0, "dropout": 0.0},
    "wandb": rl_knobs.WANDB_TABLE,
}
_FOLLOWS = Follows(
    table={
        **{f"{role}.{table}": keys for role in (TRAINER, SFT) for table, keys in _ACTIVATIONS.items()},
        "trainer.data": {"fake.batch_size": 2, "fake.seq_len": 128},
        "orchestrator.eval": rl_knobs.EVAL_TABLE,
        "orchestrator.val": rl_knobs.VAL_TABLE,
        "orchestrator.wandb": rl_knobs.WANDB_TABLE,
    }
)


def defaults(files: ConfigFiles) -> Mapping[str, Any]:
    """What values of tables are when those are there; a table that is not is off."""
    return _FOLLOWS.defaults(files, BY_NAME)
