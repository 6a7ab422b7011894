"""The env servers of a config: one process for each source of training and of evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rltui.core.config_data import value_at
from rltui.core.layout import instance_ids
from rltui.frameworks.base import ConfigFiles
from rltui.frameworks.prime_rl.config_values import data_of, rows, text

SPLITS = ("train", "eval")
"""In this order their sources get ports."""


@dataclass(frozen=True, slots=True)
class EnvSource:
    """One `[[orchestrator.train.source]]` or `[[orchestrator.eval.source]]`."""

    split: str
    index: int
    """Among those of its split."""
    name: str
    """As prime-rl calls it: `name`, else the id of the taskset, with that of the environment before it."""
    component: str
    """Id of the component that serves it in the shipped layout; empty where its server is somebody else's."""


def instances(files: ConfigFiles) -> Mapping[str, tuple[str, ...]]:
    """For `each = "env_servers.train"` and `each = "env_servers.eval"`."""
    own = [source for source in sources(files) if source.component]
    return {
        f"env_servers.{split}": tuple(source.name for source in own if source.split == split)
        for split in SPLITS
    }


def servers_of(files: ConfigFiles) -> Mapping[str, tuple[str, ...]]:
    """By the name of a knob, the server that a source has: it answers to that name."""
    return {
        f"orchestrator.{each.split}.source.{each.index}.name": (each.component,)
        for each in sources(files)
        if each.component
    }


def sources(files: ConfigFiles) -> tuple[EnvSource, ...]:
    """All sources of an RL config, those of training first."""
    data = data_of(files, "rl")
    return tuple(
        source for split in SPLITS for source in _of_split(split, rows(data, f"orchestrator.{split}.source"))
    )


def _of_split(split: str, tables: Sequence[Mapping[str, Any]]) -> Iterator[EnvSource]:
    own = [source_name(row) for row in tables if not _is_external(row)]
    ids = iter(instance_ids(f"env-{split}", own))
    for index, row in enumerate(tables):
        yield EnvSource(split, index, source_name(row), "" if _is_external(row) else next(ids))


def _is_external(row: Mapping[str, Any]) -> bool:
    """With an address of its own the launcher starts no server for it."""
    return text(row, "serve.address") is not None


def source_name(row: Mapping[str, Any]) -> str:
    """What prime-rl calls a source, empty where nothing in it tells."""
    if (name := text(row, "name")) is not None:
        return name
    if isinstance(taskset := value_at(row, "env.taskset"), str):
        return taskset
    ids = [found for key in ("env.id", "env.taskset.id") if (found := text(row, key)) is not None]
    return "+".join(ids)
