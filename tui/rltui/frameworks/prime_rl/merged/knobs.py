"""What can be turned in `rl.toml` and `sft.toml` of this generation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rltui.core.knobs import Knob
from rltui.frameworks.base import ConfigFiles
from rltui.frameworks.config_data import value_at
from rltui.frameworks.prime_rl import rl_knobs, trainer_knobs
from rltui.frameworks.prime_rl.detection import INFERENCE, ORCHESTRATOR, RL, TRAINER
from rltui.frameworks.prime_rl.knob_tables import Follows, Place, given
from rltui.frameworks.prime_rl.merged.orchestrator_knobs import ORCHESTRATOR_KNOBS
from rltui.frameworks.prime_rl.merged.sft_file import SFT_KNOBS
from rltui.frameworks.prime_rl.merged.trainer_tables import RL_TRAINER_KNOBS, TRAINER_TABLES
from rltui.frameworks.rule_makers import is_on

_OT = (ORCHESTRATOR, TRAINER)
_ALL = (INFERENCE, ORCHESTRATOR, TRAINER)

_SHARED = (
    *Place(_ALL, "model").put((trainer_knobs.MODEL_NAME,)),
    *Place(_OT).put((trainer_knobs.MAX_STEPS, rl_knobs.OUTPUT_DIR)),
    Knob(
        "seq_len", "int", _OT,
        "Longest sequence; the two seq_len of orchestrator and trainer follow it unless set.",
        nullable=True, minimum=1, unit="tokens", control="doubling",
    ),
    Knob(
        "max_async_level", "int", _OT,
        "How many steps inference may be ahead of the trainer; 0 makes them take turns.",
        nullable=True, minimum=0, unit="steps",
    ),
    Knob(
        "max_model_len", "int", (INFERENCE,),
        "Not read by any release, although it may be set: see inference.model.max_model_len.",
        nullable=True, unit="tokens",
    ),
    *Place(_OT, "ckpt").put(
        (*trainer_knobs.CKPT, *trainer_knobs.CKPT_KEEP, trainer_knobs.CKPT_KEEP_SPLIT)
    ),
    *Place(_OT, "wandb").put(
        (
            *rl_knobs.WANDB,
            Knob(
                "shared", "bool", (),
                "One run at Weights & Biases for orchestrator and trainer; from April 2026, not offline.",
                nullable=True,
            ),
        )
    ),
    *Place(_ALL, "weight_broadcast").put(
        (
            rl_knobs.BROADCAST,
            Knob(
                "port", "int", (),
                "TCP port over which GPUs find each other, with nccl.",
                29501, minimum=1, maximum=65535,
            ),
            Knob("timeout", "int", (), "How long GPUs wait for new weights, with nccl.", 1200, unit="s"),
        )
    ),
)  # fmt: skip
_INFERENCE = (
    *Place((INFERENCE,), "inference").put(
        (
            *rl_knobs.INFERENCE,
            trainer_knobs.MODEL_NAME,
            rl_knobs.HOST,
            Knob(
                "enable_prefix_caching", "bool", (),
                "Keep what was computed for the beginning of a prompt for the next one.",
                nullable=True,
            ),
            Knob(
                "api_server_count", "int", (),
                "Processes that take requests; at least one for each copy of the model.",
                1, minimum=0, unit="processes",
            ),
            Knob("enable_lora", "bool", (), "Whether vLLM serves LoRA weights.", default=False),
            Knob(
                "max_lora_rank", "int", (),
                "Largest rank of LoRA weights; rounded up to what vLLM knows.",
                nullable=True, maximum=512,
            ),
            Knob("seed", "int", (), "Start of vLLM's random numbers.", 0),
        ),
        without=("name",),
    ),
    *Place((INFERENCE,), "inference.model").put((trainer_knobs.MODEL_NAME,)),
    *Place((INFERENCE, ORCHESTRATOR), "inference").put((rl_knobs.PORT,)),
    *Place((INFERENCE,), "inference.weight_broadcast").put((rl_knobs.BROADCAST,)),
)  # fmt: skip
_GPUS = (
    Knob(
        "deployment.type", "enum", _ALL,
        "One node, or several by way of SLURM.",
        "single_node", choices=("single_node", "multi_node"),
    ),
    Knob("deployment.num_infer_gpus", "int", _ALL, "GPUs for inference.", 1, minimum=0, unit="GPUs"),
    Knob("deployment.num_train_gpus", "int", _ALL, "GPUs for the trainer.", 1, minimum=0, unit="GPUs"),
    Knob(
        "deployment.num_teacher_gpus", "int", _ALL,
        "GPUs for a teacher model; without it there is none.",
        nullable=True, minimum=0, unit="GPUs",
    ),
    Knob("deployment.gpus_per_node", "int", _ALL, "GPUs that a node has.", 8, minimum=1, unit="GPUs"),
    Knob(
        "inference_gpu_ids", "list", _ALL,
        "GPUs for inference by number, until February 2026; may be the trainer's too.",
        nullable=True,
    ),
    Knob(
        "trainer_gpu_ids", "list", _ALL,
        "GPUs for the trainer by number, until February 2026; may be those of inference too.",
        nullable=True,
    ),
)  # fmt: skip

KNOBS = (*_SHARED, *ORCHESTRATOR_KNOBS, *RL_TRAINER_KNOBS, *_INFERENCE, *_GPUS, *SFT_KNOBS)
BY_NAME = {knob.name: knob for knob in KNOBS}

_BOTH = ("orchestrator", "trainer")
SHARED = {
    "max_steps": tuple(f"{part}.max_steps" for part in _BOTH),
    "max_async_level": tuple(f"{part}.max_async_level" for part in _BOTH),
    "model.name": ("inference.model.name", *(f"{part}.model.name" for part in _BOTH)),
    **{
        f"ckpt.{key}": tuple(f"{part}.ckpt.{key}" for part in _BOTH)
        for key in ("interval", "resume_step", "keep_last", "keep_interval")
    },
    "weight_broadcast.type": tuple(f"{part}.weight_broadcast.type" for part in ("inference", *_BOTH)),
}
"""Shared knob → those that it overrules."""
_FOLLOWS = Follows(
    shared={**SHARED, "seq_len": ("orchestrator.seq_len", "trainer.model.seq_len")},
    table={
        **{f"{file}.{table}": keys for file in ("trainer", "sft") for table, keys in TRAINER_TABLES.items()},
        "orchestrator.eval": rl_knobs.EVAL_TABLE,
        "orchestrator.val": rl_knobs.VAL_TABLE,
        "wandb": rl_knobs.WANDB_TABLE,
    },
)


def defaults(files: ConfigFiles) -> Mapping[str, Any]:
    """What follows from shared values, from GPU counts, and from tables that are there."""
    found = _FOLLOWS.defaults(files, BY_NAME)
    if RL not in files:
        return found
    return {**found, **_batching(files), **_sampling(files), **_copies(files)}


def _batching(files: ConfigFiles) -> dict[str, Any]:
    if given(files, BY_NAME["orchestrator.token_batch_size"]) is not None:
        return {"orchestrator.batch_size": None}
    batch_size = given(files, BY_NAME["orchestrator.batch_size"]) or rl_knobs.BATCH_SIZE.default
    factor = given(files, BY_NAME["orchestrator.oversampling_factor"]) or 1.0
    return {"orchestrator.max_inflight_rollouts": int(batch_size * factor)}


def _sampling(files: ConfigFiles) -> dict[str, Any]:
    scheduled = value_at(files[RL].data, "orchestrator.sampling.temp_scheduler")
    return {"orchestrator.sampling.temperature": None} if is_on(scheduled) else {}


def _copies(files: ConfigFiles) -> dict[str, Any]:
    """`rl` fills the GPUs: copies of the model for inference, and processes of the trainer."""

    def count(name: str) -> int:
        value = given(files, BY_NAME[name])
        return int(BY_NAME[name].default if value is None else value)

    infer, train = _counts(files, count)
    shared = count("inference.parallel.tp")
    each = count("trainer.model.cp") * count("trainer.model.tp")
    found: dict[str, Any] = {}
    if infer and infer % shared == 0:
        found["inference.parallel.dp"] = infer // shared
    if train > 1:
        found["orchestrator.num_train_workers"] = max(1, train // each)
    return found


def _counts(files: ConfigFiles, count: Callable[[str], int]) -> tuple[int, int]:
    by_number = [given(files, BY_NAME[f"{part}_gpu_ids"]) for part in ("inference", "trainer")]
    names = ("deployment.num_infer_gpus", "deployment.num_train_gpus")
    infer, train = (
        len(ids) if ids is not None else count(name) for ids, name in zip(by_number, names, strict=True)
    )
    return infer, train
