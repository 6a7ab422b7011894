"""Read a journal, finished or growing."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from rltui.core.api import JournalEntry


def read_journal(path: Path) -> list[JournalEntry]:
    """All whole entries, oldest first. Lines that a crash cut short are passed over."""
    entries = []
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    for line in lines:
        try:
            entries.append(JournalEntry.model_validate_json(line))
        except ValidationError:
            continue
    return entries
