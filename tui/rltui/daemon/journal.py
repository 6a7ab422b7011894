"""The journal: everything that happened to an experiment, appended line by line, never rewritten."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from rltui.core.api import JournalEntry

logger = logging.getLogger(__name__)


class Journal:
    """Appends to `path`. One `write` per entry, so that a line is whole or absent.

    A disk that is full does not stop anything: the entry still reaches the listeners, and the log says so.
    """

    def __init__(
        self, path: Path, *, clock: Callable[[], float], listener: Callable[[JournalEntry], None]
    ) -> None:
        self._path = path
        self._clock = clock
        self._listener = listener

    def add(
        self,
        kind: str,
        text: str,
        *,
        component: str | None = None,
        attempt: int | None = None,
        **data: object,
    ) -> JournalEntry:
        """Record an event that happened now."""
        entry = JournalEntry(
            at=self._clock(), kind=kind, text=text, component=component, attempt=attempt, data=data
        )
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                os.write(descriptor, entry.model_dump_json().encode() + b"\n")
            finally:
                os.close(descriptor)
        except OSError as error:
            logger.error("cannot write the journal %s: %s", self._path, error.strerror)
        self._listener(entry)
        return entry
