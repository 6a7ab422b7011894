"""The journal: all events of an experiment, appended line by line, never rewritten."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltui.core.experiment.events import note_text
from rltui.errors import RltuiError
from rltui.services.actor import actor
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.logs.growing_file import JsonLines
from rltui.services.own_files import append_line, open_own
from rltui.services.redaction import without_secrets

if TYPE_CHECKING:
    # msgspec takes 20 ms, which `rltui events` need not pay
    from rltui.core.experiment.actor import Actor
    from rltui.core.experiment.journal import JournalEntry

_LATEST_TIME = 1e11
"""Largest number of seconds since 1970 that counts as a date."""

_NEWEST_BYTES = 1 << 16


def read_entries(path: Path) -> Iterator[dict[str, Any]]:
    """All complete entries as JSON objects, oldest first. Other lines are skipped."""
    try:
        descriptor = open_own(path, os.O_RDONLY)
    except OSError:  # none, or not the user's own
        return
    with os.fdopen(descriptor, "rb") as file:
        for line in file:
            if (entry := _entry(line)) is not None:
                yield entry


def starter_of(record: ExperimentRecord) -> Actor | None:
    """Who started it first; `None`: an earlier version did not say."""
    from rltui.base.values import InvalidValueError
    from rltui.core.experiment.actor import Actor

    for entry in read_entries(record.control.journal_file):
        if entry.get("by") is not None:
            with suppress(InvalidValueError):  # of another version
                return Actor.from_plain(entry["by"])
    return None


def newest_entries(path: Path) -> list[dict[str, Any]]:
    """The entries at the end of the journal, oldest first, at little cost."""
    with suppress(OSError), os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
        start = max(0, file.seek(0, os.SEEK_END) - _NEWEST_BYTES)
        file.seek(start)
        lines = file.read().splitlines()[1 if start else 0 :]
        return [entry for line in lines if (entry := _entry(line)) is not None]
    return []


def read_journal(path: Path) -> list[JournalEntry]:
    """Other lines than entries are skipped."""
    return list(JournalFeed(path).read())


class JournalFeed:
    """A journal that others append to, read as far as it has grown. From any thread."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._rows = JsonLines(path)
        self._entries: list[JournalEntry] = []

    def read(self) -> tuple[JournalEntry, ...]:
        """All complete entries up to now, oldest first. Only appended lines are read."""
        from rltui.base.values import InvalidValueError
        from rltui.core.experiment.journal import JournalEntry

        with self._lock:
            new = []
            for row in self._rows.read():
                with suppress(InvalidValueError):  # of another version, or somebody else's line
                    new.append(JournalEntry.from_plain(row))
            if self._rows.restarted:
                self._entries.clear()
            self._entries += (entry for entry in new if 0 <= entry.at < _LATEST_TIME)
            return tuple(self._entries)


def _entry(line: bytes) -> dict[str, Any] | None:
    """`None` unless it has all required fields of the right types."""
    try:
        entry = json.loads(line)
        is_complete = 0 <= entry["at"] < _LATEST_TIME and isinstance(entry["kind"] + entry["text"], str)
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return entry if is_complete else None


logger = logging.getLogger(__name__)


class Journal:
    """Appends to `path`: for a supervisor, and through `journal_of` for who acts where none lives, or beside
    it. A line is complete or absent: one that a full disk or a killed writer cut short is removed.

    A full disk stops nothing: the entry still reaches the listeners, and the log says so.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], float] = time.time,
        listener: Callable[[JournalEntry], None] = lambda _: None,
        author: Callable[[], Actor | None] = actor,
    ) -> None:
        """`author`: who does what is recorded, unless the entry says it."""
        self._path = path
        self._clock = clock
        self._listener = listener
        self.author = author
        self._lock = threading.Lock()
        self.step: Callable[[], int | None] = lambda: None
        """Function that returns the number of completed steps, for the entries; set by the reader of its
        metrics.
        """

    def add(
        self,
        kind: str,
        text: str,
        *,
        component: str | None = None,
        attempt: int | None = None,
        by: Actor | None = None,
        **data: object,
    ) -> JournalEntry:
        """Record an event that happened now. From any thread; the listener is called there.

        `data` may contain a `step` of its own.
        """
        entry = self._entry(kind, text, component=component, attempt=attempt, by=by, data=data)
        try:
            self._write(entry)
        except OSError as error:
            logger.error("cannot write the journal %s: %s", self._path, error.strerror)
        self._listener(entry)
        return entry

    def note(self, text: str) -> JournalEntry:
        """Record a person's note. As `add`, but it is stored or refused.

        Raises:
            UsageError: if it is empty or too long.
            RltuiError: if it cannot be written.
        """
        entry = self._entry("note", note_text(text), data={})
        try:
            self._write(entry)
        except OSError as error:
            title = f"the note was not saved: cannot write {self._path}: {error.strerror}"
            raise RltuiError(
                title, hint="free disk space or fix the folder's permissions, then add the note again"
            ) from error
        self._listener(entry)
        return entry

    def _entry(
        self,
        kind: str,
        text: str,
        *,
        by: Actor | None = None,
        **facts: Any,  # noqa: ANN401 - those of `of`
    ) -> JournalEntry:
        from rltui.core.experiment.journal import JournalEntry

        facts |= {"at": self._clock(), "step": self.step(), "by": by or self.author()}
        return JournalEntry.of(kind, without_secrets(text), **facts)

    def _write(self, entry: JournalEntry) -> None:
        with self._lock:
            append_line(self._path, entry.to_json())


def journal_of(record: ExperimentRecord) -> Journal:
    """The journal of an experiment, for whoever writes an entry and is not its supervisor."""
    return Journal(record.control.journal_file)
