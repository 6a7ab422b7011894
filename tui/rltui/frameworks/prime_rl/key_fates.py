"""What has become of each key of a config file that is written for a later release, and the report of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rltui.base.toml.values import TomlValue, same_value
from rltui.core.config.knobs import display
from rltui.core.config.report import KeyChange
from rltui.frameworks.prime_rl.changes import Change
from rltui.frameworks.prime_rl.key_path import Path, dotted


@dataclass
class KeyFate:
    """A key of the file, and what has become of it so far."""

    old: Path | None
    """`None` for one that was added."""
    new: Path | None
    value: TomlValue
    was: TomlValue
    changes: list[Change] = field(default_factory=list)
    merged_with: Path | None = None
    used: frozenset[str] = frozenset()
    """Changes of the present step that have been applied to it."""

    @property
    def place(self) -> Path:
        assert self.new is not None
        return self.new


def reported(fates: Sequence[KeyFate], tables: Mapping[Path, Path]) -> tuple[KeyChange, ...]:
    """In words, once for each table that has moved or gone as a whole. `tables`: where each is now."""
    changes: dict[tuple[str | None, str | None], KeyChange] = {}
    for key in fates:
        if (change := _reported(key, fates, tables)) is not None:
            changes.setdefault((change.key, change.to), change)
    return tuple(changes.values())


def _reported(key: KeyFate, fates: Sequence[KeyFate], tables: Mapping[Path, Path]) -> KeyChange | None:
    """Describe it; `None` where nothing has become of it."""
    told = _reasons(key)
    if key.old is None:
        if key.new is None or not key.changes:
            return None
        return KeyChange(kind="set", to=dotted(key.new), value=display(key.value), **told)
    old = dotted(key.old)
    if key.new is None and key.merged_with is not None:
        return KeyChange(kind="merged", key=old, to=dotted(key.merged_with), **told)
    if key.new is None:
        if (table := _gone_table(key, fates)) is not None:
            return KeyChange(kind="dropped", key=dotted(table), **told)
        return KeyChange(kind="dropped", key=old, value=display(key.was, key=old), **told)
    if not same_value(key.value, key.was):
        value = f"{display(key.was, key=old)} → {display(key.value, key=old)}"
        return KeyChange(kind="changed", key=old, to=dotted(key.new), value=value, **told)
    if key.old == key.new:
        return None
    for depth in range(1, len(key.old) + 1):
        before, rest = key.old[:depth], key.old[depth:]
        now = tables.get(before, before)
        if now != before and key.new == (*now, *rest):
            return KeyChange(kind="moved", key=dotted(before), to=dotted(now), **told)
    return KeyChange(kind="moved", key=old, to=dotted(key.new), **told)


def _reasons(key: KeyFate) -> dict[str, str]:
    reasons = [change for change in key.changes if change.why]
    if key.new is None:  # whatever it was called before
        reasons = reasons[-1:]
    last = reasons[-1] if reasons else Change()
    return {
        "why": "; ".join(dict.fromkeys(change.why for change in reasons)),
        "todo": "; ".join(dict.fromkeys(change.todo for change in reasons if change.todo)),
        "date": last.date,
        "commit": last.commit,
    }


def _gone_table(key: KeyFate, fates: Sequence[KeyFate]) -> Path | None:
    """The outermost table with this key of which nothing is left, for the same reason."""
    assert key.old is not None
    for depth in range(1, len(key.old)):
        table = key.old[:depth]
        inside = [other for other in fates if other.old is not None and other.old[:depth] == table]
        if len(inside) > 1 and all(other.new is None and other.changes == key.changes for other in inside):
            return table
    return None
