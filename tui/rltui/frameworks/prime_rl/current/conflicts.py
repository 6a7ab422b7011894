"""Values that are set twice: at the top of an RL file, and for one program. prime-rl refuses unequal ones."""

from __future__ import annotations

from collections.abc import Iterator

from rltui.core.config_report import Problem
from rltui.core.knobs import shown
from rltui.frameworks.base import ConfigFile
from rltui.frameworks.config_data import value_at

_WANDB = ("project", "entity", "name", "group", "tags", "offline")
_BOTH = ("trainer", "orchestrator")


def _at(key: str, *programs: str) -> tuple[str, ...]:
    return tuple(f"{program}.{key}" for program in programs)


SHARED: dict[str, tuple[str, ...]] = {
    "model.name": ("trainer.model.name", "inference.vllm.model", "orchestrator.model.name"),
    "model.vlm": _at("model.vlm", *_BOTH),
    "log.level": _at("log.level", *_BOTH, "inference"),
    "log.json_logging": _at("log.json_logging", *_BOTH, "inference"),
    "ckpt.output_dir": ("trainer.ckpt.output_dir",),
    **{f"ckpt.{key}": _at(f"ckpt.{key}", *_BOTH) for key in ("interval", "keep_last", "keep_interval")},
    **{f"monitors.wandb.{key}": _at(f"monitors.wandb.{key}", *_BOTH) for key in _WANDB},
    "monitors.file.path": _at("monitors.file.path", *_BOTH),
    "monitors.prime.name": ("orchestrator.monitors.prime.name",),
    "tokenizer.name": _at("tokenizer.name", *_BOTH),
    "tokenizer.trust_remote_code": _at("tokenizer.trust_remote_code", *_BOTH),
    "tokenizer.chat_template": (
        "trainer.tokenizer.chat_template", "orchestrator.tokenizer.chat_template",
        "inference.vllm.chat_template",
    ),
    "rollout_transport": _at("rollout_transport", *_BOTH),
    "max_steps": _at("max_steps", *_BOTH),
    "seq_len": ("trainer.model.seq_len", "orchestrator.seq_len"),
    "slurm": ("inference.slurm",),
}  # fmt: skip
"""Shared key → those that it fills where they are not set."""


def conflict_problems(file: ConfigFile) -> Iterator[Problem]:
    """Compared as they are written: `2048` and `"2048"` differ."""
    for shared, subs in SHARED.items():
        value = value_at(file.data, shared)
        for sub in subs if value is not None else ():
            own = value_at(file.data, sub)
            if own is not None and own != value:
                message = (
                    f"{shared} ({shown(value)}) and {sub} ({shown(own)}) are both set, to different values: "
                    f"remove one of them"
                )
                yield Problem(key=sub, message=message, file=file.path)
