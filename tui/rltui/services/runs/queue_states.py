"""The states of the queue's entries, read without the models of the queue: lists of runs are measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rltui import paths
from rltui.core.experiment.states import ENTRY_STATES, Reason
from rltui.core.runs.row import RunRow
from rltui.core.runs.state import Verdict
from rltui.errors import RltuiError
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.own_files import read_own
from rltui.services.runs.metadata import read_metadata


def beside_queue(record: ExperimentRecord, verdict: Verdict) -> Verdict:
    """The verdict on a run of which nothing lives, with its entry of the queue."""
    if not paths.queue_file().exists():
        return verdict
    try:
        metadata = read_metadata(record.control.path)
    except RltuiError:  # damaged: other places tell
        return verdict
    return (
        beside_entry(verdict, saved_entries().get(metadata.entry)) if metadata and metadata.entry else verdict
    )


def status_beside_queue(record: ExperimentRecord, status: dict[str, Any]) -> dict[str, Any]:
    """The status of a run of which nothing lives, as JSON has it, with its entry of the queue."""
    verdict = Verdict(status["state"], Reason.parse(status["reason"]))
    return {**status, **beside_queue(record, verdict).as_json()}


def row_beside_entry(row: RunRow, entry: Mapping[str, Any] | None) -> RunRow:
    """A row of the index, which knows nothing of the queue, with the state that its entry gives it."""
    if entry is None or row.is_alive:
        return row
    state, reason = beside_entry(Verdict(row.state, row.reason), entry)
    return replace(row, state=state, reason=reason)


def beside_entry(verdict: Verdict, entry: Mapping[str, Any] | None) -> Verdict:
    """The verdict on a run of which nothing lives, with one of `saved_entries`."""
    return verdict if entry is None else verdict.in_queue(entry["state"], str(entry.get("why", "")))


def saved_entries() -> dict[str, dict[str, Any]]:
    """Entries by their ids; none where the queue cannot be read."""
    try:
        queue = json.loads(read_own(paths.queue_file()))
        entries = {entry["id"]: {"state": "queued", **entry} for entry in queue["entries"]}
        if any(ENTRY_STATES[entry["state"]].holds_devices for entry in entries.values()):
            from rltui.services.processes import boot_identity  # takes 60 ms

            boot = boot_identity()
            if queue.get("boot") != boot:
                from rltui.core.runs.queue import (
                    RunQueue,  # msgspec: once a restart of the machine changes states
                )

                queue = RunQueue.from_plain(queue).since_boot(boot).to_plain()
                entries = {entry["id"]: entry for entry in queue["entries"]}
    except (OSError, ValueError, LookupError, TypeError):
        return {}
    return entries
