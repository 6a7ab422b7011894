"""Rows of the index with what changes without a word to it: the queue, and supervisors that do not answer."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from rltui.core.run_state import no_answer
from rltui.core.runs import RunRow
from rltui.services.queue_states import rows_beside_queue


def current_rows(rows: Iterable[RunRow]) -> list[RunRow]:
    return [_as_supervised(row) for row in rows_beside_queue(rows)]


def stopped_supervisors(rows: Iterable[RunRow]) -> frozenset[int]:
    """Pids of supervisors of these runs that were stopped, by SIGSTOP or ctrl+z."""
    return frozenset(pid for row in rows if (pid := _stopped_supervisor(row)) is not None)


def _as_supervised(row: RunRow) -> RunRow:
    pid = _stopped_supervisor(row)
    return row if pid is None else replace(row, state="stalled", reason=no_answer(pid))


def _stopped_supervisor(row: RunRow) -> int | None:
    if not row.is_alive or row.supervisor is None or row.host not in ("", os.uname().nodename):
        return None
    from rltui.services.processes import is_stopped, read_process_id  # takes 60 ms: only where one lives

    pid, _ = row.supervisor
    process = read_process_id(pid)
    return pid if process is not None and is_stopped(process) else None
