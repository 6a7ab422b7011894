"""Values of a config as its program would take them, where the check has not looked yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rltui.core.config_data import value_at
from rltui.core.toml.values import TomlValue
from rltui.frameworks.base import ConfigFiles

ENGINE_ABOVE, ROUTER_METRICS_ABOVE = 100, 21_000
"""So far above the router's port listen the engine behind it, unless the config says where, and the router's
own metrics."""
NCCL_PORT = 29501
"""Where weights are broadcast, unless the config says."""


def data_of(files: ConfigFiles, role: str) -> Mapping[str, Any]:
    """What the file of that role holds, nothing where there is none."""
    return files[role].data if role in files else {}


def count(data: Mapping[str, Any], key: str, default: int) -> int:
    """A whole number from 0 on, the default for anything else."""
    value = value_at(data, key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


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
    """Whether a table stands there, if only an empty one."""
    return isinstance(value_at(data, key), Mapping)


def max_steps(files: ConfigFiles) -> int | None:
    """Steps of the run: the shared value, or that of a part."""
    keys = ("max_steps", "trainer.max_steps", "orchestrator.max_steps")
    found = (optional_count(file.data, key) for key in keys for file in files.values())
    return next((steps for steps in found if steps is not None), None)
