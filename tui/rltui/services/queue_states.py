"""The states of the queue's entries, read without the models of the queue: lists of runs are measured."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rltui import paths
from rltui.core.run_state import Verdict
from rltui.core.runs import RunRow
from rltui.errors import RltuiError
from rltui.services.own_files import read_own
from rltui.services.runs.experiment_files import ExperimentRecord
from rltui.services.runs.run_metadata import read_metadata

_AT_WORK = ("starting", "running")
"""States in which an entry waits again after a restart of the machine."""


def queue_file() -> Path:
    return paths.queue_folder() / "queue.json"


def beside_queue(record: ExperimentRecord, verdict: Verdict) -> Verdict:
    """The verdict on a run of which nothing lives, with its entry of the queue."""
    try:
        metadata = read_metadata(record.control.path)
    except RltuiError:  # damaged: other places tell
        return verdict
    return _beside_entry(verdict, _entries().get(metadata.entry)) if metadata and metadata.entry else verdict


def rows_beside_queue(rows: Iterable[RunRow]) -> list[RunRow]:
    """Rows of the index, which knows nothing of the queue, with the states that the queue gives them."""
    queued = _entries()
    return [replace_state(row, queued[row.entry]) if row.entry in queued else row for row in rows]


def replace_state(row: RunRow, entry: dict[str, Any]) -> RunRow:
    if row.is_alive:
        return row
    state, reason = _beside_entry(Verdict(row.state, row.reason), entry)
    return replace(row, state=state, reason=reason)


def _beside_entry(verdict: Verdict, entry: dict[str, Any] | None) -> Verdict:
    return verdict if entry is None else verdict.in_queue(entry["state"], str(entry.get("why", "")))


def _entries() -> dict[str, dict[str, Any]]:
    """Entries by their ids; none where the queue cannot be read."""
    try:
        queue = json.loads(read_own(queue_file()))
        entries = {entry["id"]: {"state": "queued", **entry} for entry in queue["entries"]}
    except (OSError, ValueError, LookupError, TypeError):
        return {}
    if any(entry["state"] in _AT_WORK for entry in entries.values()):
        from rltui.services.processes import boot_identity  # takes 60 ms

        if queue.get("boot") != boot_identity():
            for entry in entries.values():
                entry["state"] = "queued" if entry["state"] in _AT_WORK else entry["state"]
    return entries
