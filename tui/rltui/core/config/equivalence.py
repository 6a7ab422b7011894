"""Whether a config means the same after it was written for another release: every value, before and after."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rltui.base.toml.values import TomlValue, format_key, split_key
from rltui.core.config.data import deep_leaves
from rltui.core.config.knobs import display
from rltui.core.config.report import Equivalence, ValueDifference


@dataclass(frozen=True, slots=True)
class Moved:
    """A value is expected under a name, and may be another one there."""

    old: str
    new: str | None
    """`None`: it is gone."""
    was: TomlValue
    value: TomlValue


@dataclass(frozen=True, slots=True)
class Resolved:
    """All values of a config, as a release reads them."""

    values: Mapping[str, Any]
    """Tables as in the file."""
    by: str
    """Who read them, in words."""
    is_own: bool
    """The release's own models did."""
    unknown: frozenset[str] = frozenset()
    """Dotted keys of the files that it may not read, nor what is below them."""


def equivalence(
    before: Resolved, after: Resolved, moved: Iterable[Moved], said: Collection[str]
) -> Equivalence:
    """Compare. `said`: dotted keys that the files set."""
    leaves, equal = deep_leaves(after.values), 0
    different: list[ValueDifference] = []
    gone: list[ValueDifference] = []
    unproven: list[str] = []
    for item in moved:
        is_set = item.old in said
        value = _at(leaves, item.new) if item.new is not None else _ABSENT
        if item.was is None and value in (None, _ABSENT):
            continue
        found = ValueDifference(key=item.old, to=item.new, before=_text(item.was, item.old), is_set=is_set)
        if item.new is not None and _is_below(item.new, after.unknown):
            unproven.append(item.new)
        elif value is not _ABSENT and _is_same(item.value, value):
            equal += 1
        elif value is not _ABSENT:
            different.append(found.replace(after=_text(value, item.new or "")))
        elif item.new is not None and is_set and not after.is_own:
            unproven.append(item.new)
        elif is_set:
            gone.append(found)
    return Equivalence(
        before=before.by,
        after=after.by,
        is_proven=before.is_own and after.is_own,
        equal=equal,
        different=tuple(different),
        gone=tuple(gone),
        unproven=tuple(dict.fromkeys(unproven)),
    )


_ABSENT = object()


def _at(leaves: Mapping[str, Any], key: str) -> object:
    """The value of a key; `None` also where a table around it is off."""
    if key in leaves:
        return leaves[key]
    if any(other.startswith(f"{key}.") for other in leaves):
        return {}
    path = split_key(key)
    above = (format_key(path[:depth]) for depth in range(len(path) - 1, 0, -1))
    return next((leaves[table] for table in above if table in leaves and leaves[table] is None), _ABSENT)


def _is_below(key: str, tables: Collection[str]) -> bool:
    return any(f"{key}.".startswith(f"{table}.") for table in tables)


def _text(value: object, key: str) -> str:
    return "none" if value is None else display(value, key=key)


def _is_same(one: object, other: object) -> bool:
    """Equal as numbers, but a flag is none."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
