"""Values of a config as its program would read them, before the check; env servers."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from rltui.base.kinds import is_integer
from rltui.base.toml.values import TomlValue
from rltui.core.config.data import value_at
from rltui.core.experiment.instances import instance_ids
from rltui.frameworks.inputs import ConfigFiles

ENGINE_ABOVE, ROUTER_METRICS_ABOVE = 100, 21_000
"""Distance of two ports from the router's: the engine behind it, unless the config names one, and the
router's own metrics.
"""
NCCL_PORT = 29501
"""Default port for broadcasting weights."""


def data_file(name: str) -> str:
    """Text of a file in this package's folder `data`."""
    return (resources.files(__package__) / "data" / name).read_text(encoding="utf-8")


def count(data: Mapping[str, Any], key: str, default: int) -> int:
    """A whole number from 0 on, the default for anything else."""
    value = value_at(data, key)
    return value if is_integer(value) and value >= 0 else default


def optional_count(data: Mapping[str, Any], key: str) -> int | None:
    """A whole number above 0, `None` for anything else."""
    return count(data, key, 0) or None


def text(data: Mapping[str, Any], *keys: str) -> str | None:
    """The first of the keys that holds text; the text `None` means nothing to prime-rl."""
    values = (value_at(data, key) for key in keys)
    return next((value for value in values if isinstance(value, str) and value and value != "None"), None)


def texts(table: TomlValue) -> dict[str, str]:
    """The entries of a table of environment variables."""
    if not isinstance(table, Mapping):
        return {}
    return {str(key): value for key, value in table.items() if isinstance(value, str)}


def rows(data: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    """The tables of an array of tables."""
    value = value_at(data, key)
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []


def numbers(data: Mapping[str, Any], key: str) -> tuple[int, ...] | None:
    """A list of whole numbers, `None` for anything else."""
    value = value_at(data, key)
    if not isinstance(value, list) or not value or not all(type(item) is int for item in value):
        return None
    return tuple(value)


def is_table(data: Mapping[str, Any], key: str) -> bool:
    """Whether a table exists, even an empty one."""
    return isinstance(value_at(data, key), Mapping)


def first_count_of(*keys: str) -> Callable[[ConfigFiles], int | None]:
    """Finds the first whole number above 0 of one of `keys`, whichever file holds it."""

    def first_count(files: ConfigFiles) -> int | None:
        numbers_ = (optional_count(file.data, key) for key in keys for file in files.values())
        return next((number for number in numbers_ if number is not None), None)

    return first_count


SPLITS = ("train", "eval")
"""Order in which their sources get ports."""


@dataclass(frozen=True, slots=True)
class EnvSource:
    """One `[[orchestrator.train.source]]` or `[[orchestrator.eval.source]]`, or `[[eval.source]]` of SFT."""

    table: str
    """Name of the knob that holds the sources of its split."""
    split: str
    index: int
    """Index among the sources of its split."""
    name: str
    """Name in prime-rl: `name`, else the id of the taskset, with that of the environment before it."""
    component: str
    """Id of the component that serves it in the shipped layout; empty if its server is somebody else's."""


def instances(files: ConfigFiles) -> Mapping[str, tuple[str, ...]]:
    """Instances for `each = "env_servers.train"` and `each = "env_servers.eval"`."""
    own = [source for source in sources(files) if source.component]
    return {
        f"env_servers.{split}": tuple(source.name for source in own if source.split == split)
        for split in SPLITS
    }


def servers_of(files: ConfigFiles) -> Mapping[str, tuple[str, ...]]:
    """Name of a knob → server of its source, which answers to that name."""
    return {
        f"{source.table}.{source.index}.name": (source.component,)
        for source in sources(files)
        if source.component
    }


def sources(files: ConfigFiles) -> tuple[EnvSource, ...]:
    """All sources of an RL config, those of training first; of SFT, those of its evaluations."""
    if "sft" in files:
        return tuple(_of_split("sft.eval.source", "eval", rows(files["sft"].data, "eval.source")))
    data = files["rl"].data if "rl" in files else {}
    return tuple(
        source
        for split in SPLITS
        for table in (f"orchestrator.{split}.source",)
        for source in _of_split(table, split, rows(data, table))
    )


def _of_split(table: str, split: str, tables: Sequence[Mapping[str, Any]]) -> Iterator[EnvSource]:
    own = [source_name(row) for row in tables if not _is_external(row)]
    ids = iter(instance_ids(f"env-{split}", own))
    for index, row in enumerate(tables):
        yield EnvSource(table, split, index, source_name(row), "" if _is_external(row) else next(ids))


def _is_external(row: Mapping[str, Any]) -> bool:
    """The launcher starts no server for a source with an address of its own."""
    return text(row, "serve.address") is not None


def source_name(row: Mapping[str, Any]) -> str:
    """Name of a source in prime-rl, empty if nothing tells."""
    if (name := text(row, "name")) is not None:
        return name
    if isinstance(taskset := value_at(row, "env.taskset"), str):
        return taskset
    ids = [id_ for key in ("env.id", "env.taskset.id") if (id_ := text(row, key)) is not None]
    return "+".join(ids)


@cache
def known_renderers() -> Mapping[str, frozenset[str]]:
    """`names` of renderers, and `models` that have a known one."""
    return {
        key: frozenset(names.split()) for key, names in tomllib.loads(data_file("renderers.toml")).items()
    }
