"""Checks for every framework with a knob table: unknown keys, types, bounds; and the shape of a rule."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rltui.core.api import Problem
from rltui.core.knobs import Knob, shown
from rltui.core.suggest import did_you_mean
from rltui.frameworks.base import ConfigFile, ConfigFiles
from rltui.frameworks.config_data import leaves, value_at


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition over several knobs."""

    key: str
    """Name of the knob that is blamed."""
    needs: tuple[str, ...]
    """Names of all knobs it looks at; it is not asked while one of them has a wrong type or bound."""
    fault: Callable[[Mapping[str, Any]], str | None]
    """Given every knob's effective value: what is wrong, with both knobs and the nearest valid values."""
    severity: Literal["error", "warning", "hint"] = "error"


def value_problems(knobs: Iterable[Knob], files: ConfigFiles) -> Iterator[Problem]:
    """Knobs with a wrong type or out of bounds."""
    for knob in knobs:
        file = files.get(knob.file)
        value = value_at(file.data, knob.key) if file is not None else None
        if file is not None and value is not None and (fault := knob.fault(value)):
            yield Problem(key=knob.name, message=fault, file=file.path)


def rule_problems(
    rules: Iterable[Rule], values: Mapping[str, Any], *, faulty: Collection[str], path: str
) -> Iterator[Problem]:
    """Rules that do not hold, leaving out those that look at a `faulty` knob."""
    for rule in rules:
        if faulty and not set(faulty).isdisjoint(rule.needs):
            continue
        if message := rule.fault(values):
            yield Problem(severity=rule.severity, key=rule.key, message=message, file=path)


def unknown_keys(file: ConfigFile, known: Collection[str], *, namespace: str, what: str) -> Iterator[Problem]:
    """Keys that are neither known, nor a table above a known one, nor below a known one."""
    prefix = f"{namespace}." if namespace else ""
    tables = {key.rpartition(".")[0] for key in known}
    for key, value in leaves(file.data):
        parents = [key[:at] for at, character in enumerate(key) if character == "."]
        if key in known:
            continue
        if holder := next((parent for parent in parents if parent in known), None):
            yield Problem(
                key=prefix + holder,
                message=f"{prefix}{holder} must be one value, not a table",
                file=file.path,
            )
        elif any(table == key or table.startswith(f"{key}.") for table in tables):
            if not isinstance(value, Mapping):
                message = f"{prefix}{key} must be a table, not {shown(value)}"
                yield Problem(key=prefix + key, message=message, file=file.path)
        else:
            hint = _elsewhere(key, known) or did_you_mean(key, known)
            message = f"unknown key {prefix}{key}" + (f": {hint}" if hint else f": {what} does not know it")
            yield Problem(key=prefix + key, message=message, file=file.path)


def _elsewhere(key: str, known: Collection[str]) -> str:
    """A known key that lacks only outer tables, or one of the same last name: set in the wrong table."""
    top, leaf = key.partition(".")[0], key.rpartition(".")[2]
    found = [name for name in known if name.endswith(f".{key}")]
    if not found and any(name.partition(".")[0] == top for name in known):
        found = [name for name in known if name.rpartition(".")[2] == leaf]
    return f"did you mean {' or '.join(sorted(found))}?" if found else ""
