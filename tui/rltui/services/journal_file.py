"""Read a journal, finished or growing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltui.services.own_files import open_own

if TYPE_CHECKING:
    from rltui.core.api import JournalEntry

_LATEST = 1e11
"""Seconds since 1970 that still are a date."""


def read_entries(path: Path) -> Iterator[dict[str, Any]]:
    """Yield all whole entries, oldest first, as JSON has them. What is no whole entry is passed over."""
    try:
        descriptor = open_own(path, os.O_RDONLY)
    except OSError:  # none, or not the user's own
        return
    with os.fdopen(descriptor, "rb") as file:
        for line in file:
            if (entry := _entry(line)) is not None:
                yield entry


def read_journal(path: Path) -> list[JournalEntry]:
    """As `read_entries`, as values; lines that are no such value are passed over too."""
    from pydantic import ValidationError  # takes 60 ms, which `rltui events` need not pay

    from rltui.core.api import JournalEntry

    entries = []
    for entry in read_entries(path):
        try:
            entries.append(JournalEntry.model_validate(entry))
        except ValidationError:
            continue
    return entries


def _entry(line: bytes) -> dict[str, Any] | None:
    """With all that every entry has, of the kind it should be."""
    try:
        entry = json.loads(line)
        whole = 0 <= entry["at"] < _LATEST and isinstance(entry["kind"] + entry["text"], str)
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return entry if whole else None
