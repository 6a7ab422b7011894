"""What the programs of an RL file must agree on, beyond single knobs: tables that are there or not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from rltui.core.config_report import Problem
from rltui.core.knobs import TomlValue, shown
from rltui.frameworks.base import ConfigFile
from rltui.frameworks.config_data import value_at
from rltui.frameworks.prime_rl.current.shape import NONE

_PROTECTED = frozenset(
    {
        "CUDA_VISIBLE_DEVICES", "PRL_RUN_ID", "PRL_RUN_NAME", "WANDB_RUN_ID", "WANDB_SHARED_MODE",
        "WANDB_SHARED_LABEL", "WANDB_SHARED_PRIMARY", "WANDB_SHARED_FINISHER",
    }
)  # fmt: skip
_ENVIRONMENTS = (
    "env_vars", "trainer.env_vars", "orchestrator.env_vars", "inference.env_vars",
    "inference.deployment.prefill_env_vars", "inference.deployment.decode_env_vars",
)  # fmt: skip
_STEP_FOLDER = re.compile(r"step_\d+")
Found = Iterator[tuple[str, str]]


def part_problems(file: ConfigFile, namespace: str = "") -> Iterator[Problem]:
    """For RL files and, as far as they have the tables, SFT files."""
    prefix = f"{namespace}." if namespace else ""
    is_rl = not namespace
    for key, message in (*_common(file.data), *(_of_rl(file.data) if is_rl else ())):
        yield Problem(key=prefix + key, message=f"{prefix}{key} {message}", file=file.path)


def _common(data: Mapping[str, Any]) -> Found:
    for key in _ENVIRONMENTS:
        yield from _environment(key, value_at(data, key))
    for key in ("resume", "trainer.resume", "orchestrator.resume"):
        step, folder = value_at(data, f"{key}.step"), value_at(data, f"{key}.dir")
        if isinstance(folder, str) and folder != NONE:
            if step not in (None, NONE):
                yield f"{key}.step", f"({step}) and {key}.dir are both set, but the folder's name is the step"
            if not _STEP_FOLDER.fullmatch(PurePath(folder).name):
                yield f"{key}.dir", f"({folder}) must be a checkpoint's folder, named step_<number>"


def _environment(key: str, table: TomlValue) -> Found:
    if not isinstance(table, Mapping):
        return
    for name, value in table.items():
        if name in _PROTECTED:
            yield f"{key}.{name}", "is set by the launcher, and cannot be set here"
        elif not isinstance(value, str):
            yield f"{key}.{name}", f"must be text, not {shown(value)}: put it in quotes"


def _of_rl(data: Mapping[str, Any]) -> Found:
    yield from _both_or_none(data, "ckpt", "only one half of each checkpoint would be written")
    yield from _both_or_none(data, "monitors.wandb", "only one half of the metrics would be sent")
    yield from _equal(data, "monitors.wandb", "monitors.wandb.project", default="prime-rl")
    yield from _equal(data, "ckpt", "ckpt.interval", default=None)
    if value_at(data, "resume") in (None, NONE) and _resume(data, "trainer") != _resume(data, "orchestrator"):
        yield "trainer.resume", "and orchestrator.resume must be the same: use one [resume] at the top"
    if value_at(data, "monitors.wandb.offline") is True:
        yield "monitors.wandb.offline", "cannot be true: all processes share one run on the server"
    yield from _templates(data)
    for part in ("trainer", "orchestrator"):
        yield from _output_dir(data, part)


def _table(data: Mapping[str, Any], part: str, key: str) -> TomlValue:
    """The table of a program, which a shared one calls into being."""
    own = value_at(data, f"{part}.{key}")
    return value_at(data, key) if own is None else own


def _both_or_none(data: Mapping[str, Any], key: str, why: str) -> Found:
    there = {part: isinstance(_table(data, part, key), Mapping) for part in ("trainer", "orchestrator")}
    if there["trainer"] != there["orchestrator"]:
        one, other = ("trainer", "orchestrator") if there["trainer"] else ("orchestrator", "trainer")
        yield f"{one}.{key}", f"is there, but {other}.{key} is not, so {why}: use one [{key}] at the top"


def _equal(data: Mapping[str, Any], table: str, key: str, *, default: TomlValue) -> Found:
    if not all(isinstance(_table(data, part, table), Mapping) for part in ("trainer", "orchestrator")):
        return
    shared = value_at(data, key)
    found = []
    for part in ("trainer", "orchestrator"):
        own = value_at(data, f"{part}.{key}")
        value = shared if own is None else own
        found.append(default if value in (None, NONE) else value)
    if found[0] != found[1]:
        words = " and ".join("not set" if value is None else shown(value) for value in found)
        yield f"trainer.{key}", f"and orchestrator.{key} ({words}) must be the same: set {key} at the top"


def _resume(data: Mapping[str, Any], part: str) -> dict[str, Any] | None:
    table = value_at(data, f"{part}.resume")
    if not isinstance(table, Mapping):
        return None
    return {key: value for key, value in table.items() if value != NONE}


def _templates(data: Mapping[str, Any]) -> Found:
    shared, key = value_at(data, "tokenizer.chat_template"), "tokenizer.chat_template"

    def value(own: str, otherwise: TomlValue) -> TomlValue:
        found = value_at(data, own)
        return otherwise if found is None else found

    trainer = value(f"trainer.{key}", shared)
    if value(f"orchestrator.{key}", shared) != trainer:
        yield f"trainer.{key}", f"and orchestrator.{key} must be the same: set {key} at the top"
    if (
        isinstance(data.get("inference"), Mapping)
        and value("inference.vllm.chat_template", trainer) != trainer
    ):
        yield "inference.vllm.chat_template", f"must be that of the trainer: set {key} at the top"


def _output_dir(data: Mapping[str, Any], part: str) -> Found:
    own = value_at(data, f"{part}.output_dir")
    if not isinstance(own, str) or own == NONE:
        return
    run = next(
        (name for key in ("run.dir", "run.name") if isinstance(name := value_at(data, key), str)), None
    )
    top = value_at(data, "output_dir")
    if run is None or PurePath(own) != PurePath(top if isinstance(top, str) else "outputs") / run:
        yield f"{part}.output_dir", "follows from output_dir and run.name: remove it, and set those"
