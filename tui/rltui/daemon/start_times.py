"""How long starts and stops took before, from the experiment's own journal."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from pydantic import ValidationError

from rltui.core.api import JournalEntry
from rltui.core.plan import Times, times_from
from rltui.services.logs.growing_file import JsonLines

NEWEST_ENTRIES = 500
"""Timed entries that are kept, of all components together."""


class StartTimes:
    """Reads what was appended to the journal since the last look."""

    def __init__(self, journal: Path) -> None:
        self._feed = JsonLines(journal)
        self._timed: deque[JournalEntry] = deque(maxlen=NEWEST_ENTRIES)

    def now(self) -> dict[str, Times]:
        """Medians by component."""
        for row in self._feed.read():
            if "took_s" not in (row.get("data") or {}):
                continue
            try:
                self._timed.append(JournalEntry.model_validate(row))
            except ValidationError:
                continue  # of another version
        return times_from(self._timed)
