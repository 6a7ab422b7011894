"""Which generation of prime-rl a file was written for, and for which of its programs, from its keys alone.

The signs are those of `RLConfig`, `SFTConfig` and the component configs of commits between September 2025 and
August 2026, and of files since; a later generation refuses the keys of an earlier one, so they exclude one
another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

from rltui.frameworks.config_data import value_at

SPLIT, MERGED, CURRENT = "prime-rl-split", "prime-rl-merged", "prime-rl"
"""Ids of the generations: three files (2025), one `rl.toml` (spring 2026), and the one of today."""
GENERATIONS = (SPLIT, MERGED, CURRENT)

RL, SFT, ORCHESTRATOR, INFERENCE, TRAINER = "rl", "sft", "orchestrator", "inference", "trainer"
"""Roles of files."""

_MERGED_TABLES = ("orchestrator", "trainer")
_SFT_DATA = ("name", "seq_len", "batch_size", "micro_batch_size", "type")
_RUN_FOLDERS = ("monitors", "run", "resume")
"""Of mid-August 2026 on: each run has a folder of its own. That parts the last two generations, since their
programs are run differently; names of other keys changed in every month before and after."""
_ONE_FOLDER = ("wandb", "clean_output_dir", "ckpt.resume_step", "file_monitor")
"""Until then."""
_SFT_CURRENT = (
    *_RUN_FOLDERS, "eval", "inference", "clean", "deployment.num_train_gpus", "deployment.num_infer_gpus",
    "deployment.num_eval_gpus",
)  # fmt: skip
_SFT_MERGED = ("deployment.num_gpus", "clean_output_dir", "slurm")
_SFT_SUMMER = ("renderer",)
_RL_TRANSITION = ("inference_gpu_ids", "trainer_gpu_ids", "teacher_gpu_ids", "trainer.model.experimental")
_RL_CURRENT = (
    *_RUN_FOLDERS, "orchestrator.concurrency", "inference.vllm", "orchestrator.constant_trainer_batch_size",
    "orchestrator.train.group_size", "orchestrator.train.algo", "orchestrator.train.select", "dashboard",
)  # fmt: skip
_RL_SUMMER = (
    "orchestrator.group_size", "orchestrator.renderer", "orchestrator.train.source", "inference.router",
    "inference.backend_port", "rollout_transport",
)  # fmt: skip
"""From May 2026 on, so on both sides of run folders."""
_RL_MERGED = (
    *_ONE_FOLDER, "orchestrator.rollouts_per_example", "orchestrator.env", "orchestrator.sampling",
    "orchestrator.max_inflight_rollouts", "orchestrator.oversampling_factor", "orchestrator.max_concurrent",
    "orchestrator.max_async_level", "inference.parallel", "inference.model",
    "inference.gpu_memory_utilization", "inference.vllm_extra", "max_async_level",
)  # fmt: skip
_ORCHESTRATOR_CURRENT = ("group_size", "train.source", "renderer", "concurrency")
_ORCHESTRATOR_SPLIT = ("rollouts_per_example", "env", "environment", "sampling")
_INFERENCE_CURRENT = ("vllm", "router", "backend_port")
_INFERENCE_SPLIT = ("server", "parallel", "gpu_memory_utilization")
_INFERENCE_MODEL = frozenset(
    {
        "name",
        "dtype",
        "max_model_len",
        "enforce_eager",
        "trust_remote_code",
        "enable_auto_tool_choice",
        "tool_call_parser",
    }
)
_TRAINER = ("optim", "loss", "data.fake", "weight_broadcast", "scheduler", "model", "ckpt")
_OF_OVERLAYS = frozenset(
    {"output_dir", "slurm", "deployment", "run", "log", "max_steps", "wandb", "monitors"}
)
"""Keys that say how and where, and not what."""
_NAMES = {"orch": ORCHESTRATOR, "infer": INFERENCE, "train": TRAINER}
"""What file names begin with or contain: only asked where the keys do not tell."""


def generations(path: str, data: Mapping[str, Any]) -> Mapping[str, str]:
    """Generation → role of the file, for every generation that it may have been written for; oldest first."""
    if _is_vf_rl(data):
        return {}
    if any(key in data for key in _MERGED_TABLES):
        return dict.fromkeys(_of_merged(data), RL)
    table = data.get("data")
    if isinstance(table, Mapping) and any(key in table for key in _SFT_DATA):
        return dict.fromkeys(_of_sft(data), SFT)
    part = _part(path, data)
    return {} if part is None else {part[0]: part[1]}


def not_alone(data: Mapping[str, Any]) -> str:
    """What a file is that no generation takes by itself, in words; empty where nothing tells."""
    if _is_vf_rl(data):
        return "is for vf-rl of verifiers, which was removed in July 2026 and for which there is no layout"
    if data and data.keys() <= _OF_OVERLAYS:
        return (
            f"has only {', '.join(data)}: an overlay, as in `rl @ base.toml @ overlay.toml`; "
            "write its tables into a copy of the base, and give that"
        )
    return ""


def _is_vf_rl(data: Mapping[str, Any]) -> bool:
    """It names the model by a text, and has the arguments of its two programs in tables of their own."""
    arguments = any(isinstance(value_at(data, f"{part}.args"), Mapping) for part in ("trainer", "inference"))
    return arguments and isinstance(data.get("model"), str)


def role_in(generation: str) -> Callable[[str, Mapping[str, Any]], str | None]:
    """What tells a file's role in this generation; `None` for a file of another."""
    return lambda path, data: generations(path, data).get(generation)


def is_of_summer(data: Mapping[str, Any]) -> bool:
    """An RL file from May 2026 on, by a key that came then."""
    return _first(data, _RL_SUMMER) is not None


def _of_merged(data: Mapping[str, Any]) -> tuple[str, ...]:
    if _first(data, _RL_TRANSITION):
        return (MERGED,)
    if _first(data, _RL_CURRENT):
        return (CURRENT,)
    if _first(data, _RL_MERGED) or isinstance(value_at(data, "orchestrator.train.env"), list):
        return (MERGED,)
    return (MERGED, CURRENT)


def _of_sft(data: Mapping[str, Any]) -> tuple[str, ...]:
    if _first(data, _SFT_CURRENT):
        return (CURRENT,)
    if _first(data, _SFT_MERGED) or (_first(data, ("data.pack_function",)) and "deployment" in data):
        return (MERGED,)
    if "val" in data or _first(data, _SFT_SUMMER):
        return (MERGED,) if _first(data, _ONE_FOLDER) else (MERGED, CURRENT)
    if _first(data, (*_ONE_FOLDER, "data.pack_function")):
        return (SPLIT, MERGED)
    return GENERATIONS


def _part(path: str, data: Mapping[str, Any]) -> tuple[str, str] | None:
    """A file for one of the three programs. Those of the later generations are made by rltui, or dumped."""
    if _first(data, _ORCHESTRATOR_CURRENT):
        return CURRENT, ORCHESTRATOR
    if _first(data, _ORCHESTRATOR_SPLIT):
        return SPLIT, ORCHESTRATOR
    if _first(data, _INFERENCE_CURRENT):
        return CURRENT, INFERENCE
    if _first(data, _INFERENCE_SPLIT):
        return SPLIT, INFERENCE
    named = _named(path)
    model = data.get("model")
    if set(data) <= {"model", "max_steps", "seed"} and isinstance(model, Mapping):
        could_be_inference = "max_steps" not in data and model.keys() <= _INFERENCE_MODEL
        if named in (TRAINER, INFERENCE):
            return SPLIT, named
        return SPLIT, INFERENCE if could_be_inference else TRAINER
    if _first(data, _TRAINER):
        return SPLIT, TRAINER
    return (SPLIT, named) if named is not None and not data else None


def _named(path: str) -> str | None:
    stem = PurePath(path).stem.lower()
    return next((role for word, role in _NAMES.items() if word in stem), None)


def _first(data: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((key for key in keys if value_at(data, key) is not None), None)
