"""The edits of an experiment in its journal: which one `undo` takes back, and `redo` makes again.

Every edit of the files is one record, an undo and a redo too: those name the record that they take back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Literal

from msgspec import field

from rltui.base.text import join_some, truncate
from rltui.base.toml.values import TomlValue, format_value
from rltui.base.values import InvalidValueError, Value
from rltui.core.experiment.journal import JournalEntry

_NAMED_KEYS = 3
"""Number of changed keys in the description of an edit."""
_VALUE_WIDTH = 40
"""Longest value in that description, in characters."""


class FileEdit(Value):
    path: str
    before: str
    """SHA-256 of the content."""
    after: str
    keys: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    """Dotted key → value before and after, as TOML; `None` if it was absent."""


class EditRecord(Value, omit_defaults=True):
    """The data of a journal entry of the kind `edit`."""

    number: int
    """Counted from 1."""
    action: Literal["set", "write", "undo", "redo"]
    words: str
    """The change in words. An undo or redo has those of the edit that it takes back."""
    files: tuple[FileEdit, ...]
    takes_back: int | None = None
    """Number of the record whose opposite this is."""
    by: str = ""
    """Author and time in words, of its entry; empty if unknown."""
    is_birth: bool = False
    """True for the record of a new run's command line: there is no earlier state to go back to."""


class EditLog:
    """The undo and redo stacks after some records, which are to be added oldest first."""

    def __init__(self) -> None:
        self._undo: list[EditRecord] = []
        self._redo: list[EditRecord] = []
        self._last = 0
        self._promoted_at: int | None = None

    @property
    def next_number(self) -> int:
        return self._last + 1

    @property
    def in_force(self) -> tuple[EditRecord, ...]:
        """Records that nothing took back, oldest first."""
        return tuple(self._undo)

    @property
    def undoable(self) -> EditRecord | None:
        return self._undo[-1] if self._undo else None

    @property
    def redoable(self) -> EditRecord | None:
        return self._redo[-1] if self._redo else None

    @property
    def is_promotion_newest(self) -> bool:
        """The config was promoted after the record that the next undo takes back, and still is."""
        newest = self.undoable.number if self.undoable is not None else 0
        return self._promoted_at is not None and newest <= self._promoted_at

    def promote(self, *, undoes: bool) -> None:
        """Note that the changes were written into the user's files, or with `undoes` taken back there."""
        self._promoted_at = None if undoes else self._last

    def add(self, record: EditRecord) -> None:
        """Add the newest record. One that takes back something else than expected is an edit like any
        other.
        """
        self._last = max(self._last, record.number)
        if record.is_birth:
            return
        if record.action == "undo" and self._undo and self._undo[-1].number == record.takes_back:
            self._undo.pop()
            self._redo.append(record)
        elif record.action == "redo" and self._redo and self._redo[-1].number == record.takes_back:
            self._redo.pop()
            self._undo.append(record)
        else:
            self._undo.append(record)
            self._redo.clear()


def edited_keys(entries: Iterable[JournalEntry]) -> set[str]:
    """Dotted keys that edits among some events are about, also those that were taken back."""
    keys = set()
    for entry in entries:
        if entry.kind == "edit":
            with suppress(InvalidValueError):  # another version wrote it
                keys |= {key for file in EditRecord.from_plain(entry.data).files for key in file.keys}
    return keys


def describe(
    changes: Mapping[str, tuple[Any, Any]], old_values: Mapping[str, Any] = MappingProxyType({})
) -> str:
    """`orchestrator.batch_size 128 → 256, seed removed and 2 more`; `comments only` if no key changes.

    `old_values`: also of keys that were not set, which had their default.
    """
    texts = [_key_text(key, before, after, old_values.get(key)) for key, (before, after) in changes.items()]
    return join_some(texts, _NAMED_KEYS) or "comments only"


def _key_text(key: str, before: TomlValue, after: TomlValue, default: TomlValue) -> str:
    if after is None:
        return f"{key} {_value_text(before)} removed"
    if before is None and default is None:
        return f"{key} = {_value_text(after)}"
    old = f"{_value_text(default)} (the default)" if before is None else _value_text(before)
    return f"{key} {old} → {_value_text(after)}"


def _value_text(value: TomlValue) -> str:
    return truncate(format_value(value), _VALUE_WIDTH)
