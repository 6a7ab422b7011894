"""The statuses of experiments as documents, asked of their supervisors or read from their files. Imports
little: `rltui status` is measured beside the start of Python.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rltui.base.text import truncate
from rltui.client import launch
from rltui.client.transports.unix import CONNECT_TIMEOUT_S
from rltui.core.experiment.cursor import Cursor, cursor_of
from rltui.core.experiment.events import author_name
from rltui.core.experiment.states import Reason
from rltui.core.runs.state import FOLDER_DAMAGED, NO_ANSWER, Verdict
from rltui.errors import RltuiError
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.registry import BrokenExperiment
from rltui.views.experiment import badge_of

_AT_ONCE = 8
"""Experiments that are asked for their status."""
_MOST_STATES, _BRIEF_CHARS = 10, 100
"""Components that a brief status names; of more it counts the states. Characters of a text in it."""
_LIST_TIMEOUT_S = 1.0
"""Timeout of one supervisor in a list of several."""


def rows_of(records: Sequence[ExperimentRecord | BrokenExperiment]) -> list[dict[str, Any]]:
    """Read their statuses, in that order, several at once: a supervisor has other things to do."""
    rows: list[dict[str, Any] | Exception] = [{}] * len(records)
    todo = iter([*enumerate(records)])

    def read_rows() -> None:
        for index, record in todo:
            try:
                rows[index] = {**row_of(record), "created_at": getattr(record, "created_at", None)}
            except Exception as error:  # noqa: BLE001 - it is raised below, where somebody hears it
                rows[index] = error

    threads = [
        threading.Thread(target=read_rows, daemon=True) for _ in range(min(_AT_ONCE, len(records)) - 1)
    ]
    for thread in threads:
        thread.start()
    read_rows()
    for thread in threads:
        thread.join()
    for row in rows:
        if isinstance(row, Exception):
            raise row
    return [row for row in rows if isinstance(row, dict)]


def row_of(
    record: ExperimentRecord | BrokenExperiment, *, timeout_s: float = _LIST_TIMEOUT_S
) -> dict[str, Any]:
    """The status of one; where that cannot be had, why: the others are listed all the same."""
    if isinstance(record, BrokenExperiment):
        return problem_row(
            record.name, record.output_dir, Verdict("lost", _damage(record.problem)), record.problem
        )
    try:
        return read_status(record, timeout_s=timeout_s)
    except RltuiError as error:
        if launch.has_supervisor(record):
            verdict = Verdict("stalled", Reason(NO_ANSWER, error.title))
        else:
            verdict = _verdict_of_files(record) or Verdict("lost", _damage(error))
        return problem_row(record.name, record.output_dir, verdict, error)


def brief(record: ExperimentRecord, status: Mapping[str, Any]) -> dict[str, Any]:
    """Shorten a status to at most 1 kB, for programs that ask often. `status`: the row of the run."""
    from rltui.services.experiment.journal import newest_entries  # logging takes 15 ms

    entries = newest_entries(record.control.journal_file)
    states = {component["id"]: component["state"] for component in status["components"]}
    concerns = status.get("progress", {}).get("concerns", ()) if status["alive"] else ()
    document = {
        "run": status["experiment"],
        "state": status["state"],
        "reason": status["reason"]["code"],
        "step": status["step"],
        "max_steps": status["max_steps"],
        "reward": None if status["reward"] is None else round(status["reward"], 4),
        "components": states if len(states) <= _MOST_STATES else Counter(states.values()),
        "concerns": [concern.get("id") or concern["word"] for concern in concerns][:_MOST_STATES],
        "actor": next((author_name(entry) for entry in reversed(entries) if author_name(entry)), None),
        "cursor": str(cursor_of(entries[-1]) if entries else Cursor("events")),
    }
    if under_way := status.get("transaction"):
        document["in_progress"] = truncate(under_way, _BRIEF_CHARS)
    if problem := status.get("problem"):
        document["problem"] = truncate(problem["title"], _BRIEF_CHARS)
    return document


def _verdict_of_files(record: ExperimentRecord) -> Verdict | None:
    """The verdict on a run whose supervisor cannot be started; `None` if its files cannot be read either."""
    from rltui.client.reader import ExperimentReader  # pydantic takes 60 ms

    try:
        status = ExperimentReader(record).status()
    except RltuiError:
        return None
    return Verdict(status.state, status.reason)


def _damage(problem: RltuiError) -> Reason:
    return Reason(FOLDER_DAMAGED, problem.title)


def problem_row(name: str, output_dir: str | None, verdict: Verdict, problem: RltuiError) -> dict[str, Any]:
    """The keys of a status that are known, and `problem`."""
    row = {"experiment": name, **verdict.as_json(), "output_dir": output_dir}
    row |= {"alive": not badge_of(verdict.state).has_ended}
    row |= {"problem": problem.to_plain()}
    unknown = dict.fromkeys(("framework", "step", "max_steps", "reward"))
    return {**row, **unknown, "components": []}


def read_status(record: ExperimentRecord, *, timeout_s: float = CONNECT_TIMEOUT_S) -> dict[str, Any]:
    """Read the status from the supervisor, or from the files where nothing of the experiment is alive."""
    wire = launch.wire_or_status(record, timeout_s=timeout_s)
    if isinstance(wire, dict):
        return wire
    if wire is None:
        from rltui.client.reader import ExperimentReader  # pydantic takes 60 ms

        return ExperimentReader(record).status_document()
    with wire:
        return wire.call("status", timeout_s=2 * timeout_s)
