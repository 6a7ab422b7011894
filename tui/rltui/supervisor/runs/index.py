"""The row of a living run in the index of all runs: its supervisor keeps it up to date."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.base.tasks import tick
from rltui.core.runs.row import RunMetadata, RunRow
from rltui.core.runs.state import Verdict
from rltui.errors import RltuiError
from rltui.services.own_files import file_fingerprint
from rltui.services.processes import age_s, read_process_id
from rltui.services.runs.metadata import FILE_NAME, make_metadata, new_metadata, read_metadata
from rltui.supervisor.supervisor import Supervisor

if TYPE_CHECKING:
    from rltui.services.runs.index import RunIndex
    from rltui.services.runs.row import RunReader

logger = logging.getLogger(__name__)

_INTERVAL_S = 2.0
_TIMEOUT_S = 1.0
"""Longest wait for others who write to the index. A row that cannot be written is tried at the next poll."""
_TRIES = 3
"""Most times that one poll reads the row, where others write it meanwhile."""
_MINUTE_S = 60.0


class IndexFeed:
    """Polls whether the row has changed, and writes it. An error of the index never disturbs the run."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._control: Path = supervisor.runtime.setup.control.path
        self._lock = threading.Lock()
        self._reader: RunReader | None = None
        self._index: RunIndex | None = None
        self._metadata: RunMetadata | None = None
        self._row_inputs: object = None
        """The state that the row was made of."""
        self._saved_row: RunRow | None = None
        """The row in the index, as far as this process knows."""
        self._read_at = 0.0
        """Monotonic time at which the row was last read."""
        self._index_stamp = -1
        self._problem = ""

    async def watch(self) -> None:
        while True:
            await self.poll()
            await tick(_INTERVAL_S)

    async def close(self) -> None:
        """Write the row as it is now that nobody watches the run any more. Never fails."""
        try:
            await self.poll(is_last=True)
        except Exception:  # nothing that ends here waits for it
            logger.exception("the index of runs does not tell how this run ended")
        if self._index is not None:
            self._index.close()

    async def poll(self, *, is_last: bool = False) -> None:
        status = self._supervisor.status()
        state = Verdict(status.state, status.reason) if status.alive else None
        attempts = tuple((part.id, part.attempt, part.state) for part in status.components)
        problem = ""
        try:
            await asyncio.to_thread(self._update, (state, attempts), is_last)
        except RltuiError as error:
            problem = f"this run is missing from the index: {error.title}"
        if problem and problem != self._problem:
            logger.warning("%s", problem)
        elif self._problem and not problem:
            logger.info("the index of runs tells of this run again")
        self._problem = problem

    # --- in a thread --------------------------------------------------------------------------------------

    def _update(self, state: tuple[Verdict | None, object], is_last: bool) -> None:
        with self._lock:  # a poll may go on in its thread though its task was ended
            for _ in range(_TRIES):
                if self._try_update(state, is_last):
                    return

    def _try_update(self, state: tuple[Verdict | None, object], is_last: bool) -> bool:
        """Write the row where it has changed. False where somebody else wrote one while it was read: another
        try reads what they wrote, such as a tag.
        """
        from rltui.services.runs.index import RunIndex  # sqlite: not before the supervisor is up
        from rltui.services.runs.row import RunReader

        if self._reader is None:
            self._reader = RunReader(self._supervisor.runtime.setup.record)
        if self._index is None:
            self._index = RunIndex(timeout_s=_TIMEOUT_S)
        since = self._index.revision()
        has_grown = self._reader.summary.poll()
        inputs = (_without_text(state[0]), state[1], file_fingerprint(self._control / FILE_NAME), is_last)
        is_due = state[0] is not None and time.monotonic() - self._read_at >= _MINUTE_S
        is_overwritten = self._is_lost(self._index, since)
        if inputs == self._row_inputs and not has_grown and not is_due and not is_overwritten:
            return True
        self._read_at = time.monotonic()
        if inputs != self._row_inputs:
            self._reader.read_config()
            self._metadata = self._read_own_metadata()
        row = self._row(self._reader, self._index, None if is_last else state[0])
        if (
            self._saved_row is None
            or _without_times(row) != _without_times(self._saved_row)
            or is_overwritten
        ):
            if not self._index.put([(row, self._reader.config)], unless_since=since):
                return False
            self._index_stamp = self._index.revision()
            self._saved_row = row
        self._row_inputs = inputs
        return True

    def _row(self, reader: RunReader, index: RunIndex, state: Verdict | None) -> RunRow:
        """`state`: according to the supervisor; `None`: nothing of the run lives."""
        metadata = self._metadata
        assert metadata is not None
        row = reader.row(
            metadata, parent=index.config(metadata.parent), before=self._saved_row, reported=state
        )
        process = read_process_id(os.getpid())
        started_at = time.time() - age_s(process) if process is not None else 0.0
        return replace(row, supervisor=(os.getpid(), started_at)) if state is not None else row

    def _is_lost(self, index: RunIndex, stamp: int) -> bool:
        """True if somebody else has written another row, or all are gone. `stamp`: of the index now."""
        if stamp == self._index_stamp:
            return False
        row = index.row(self._saved_row.id) if self._saved_row is not None else None
        if row is not None and self._saved_row is not None and row.is_alive == self._saved_row.is_alive:
            self._index_stamp = stamp
            return False
        return True

    def _read_own_metadata(self) -> RunMetadata:
        """The metadata of the run; made here where an older rltui made none."""
        if (metadata := read_metadata(self._control)) is not None:
            return metadata
        return make_metadata(self._control, new_metadata(self._supervisor.runtime.setup.record.created_at))


def _without_text(state: Verdict | None) -> Verdict | None:
    """The verdict without the text of its reason, which may have figures that change all the time."""
    return None if state is None else state._replace(reason=replace(state.reason, text=""))


def _without_times(row: RunRow) -> RunRow:
    """The row without durations below a minute, and without the text of its reason."""
    if not row.is_alive:
        return row
    minutes = row.seconds // _MINUTE_S
    reason = replace(row.reason, text="")
    return replace(row, reason=reason, seconds=minutes, gpu_seconds=0.0, ended_at=None, supervisor=None)
