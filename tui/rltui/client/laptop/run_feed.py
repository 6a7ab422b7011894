"""The list of runs of this machine as it is told to another one: all of them, and then what changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass

from rltui.base.questions import remote_method
from rltui.client.local_runs import LocalRuns
from rltui.client.transports.frames import chunks
from rltui.core.runs.queue import RunQueue
from rltui.core.runs.row import RunMetadata, RunRow

_POLL_S = 1.0
_ROWS_AT_ONCE = 100
"""Rows of the index in one item."""


@dataclass(frozen=True, slots=True)
class RunUpdate:
    rows: tuple[RunRow, ...]
    gone: tuple[str, ...]
    """Ids of the removed runs."""
    queue: RunQueue | None
    """`None` if the queue is unchanged."""
    is_whole: bool
    """True if this is the last item of this change."""

    def __post_init__(self) -> None:
        for row in self.rows:  # another machine tells them
            RunMetadata.parse({**asdict(row.metadata), "tags": [*row.tags]})


class RunFeed:
    """The index of runs and the queue, for another machine."""

    def __init__(self, runs: LocalRuns) -> None:
        self._runs = runs

    @remote_method
    async def rows(self) -> AsyncIterator[RunUpdate]:
        """Stream all rows, the newest first, and then the changed ones; the queue with it."""
        rows: tuple[RunRow, ...] | None = None
        sent_rows: dict[str, RunRow] = {}
        queue: RunQueue | None = None
        while True:
            now = await asyncio.to_thread(self._runs.rows)
            current_queue = await asyncio.to_thread(self._runs.queue)
            if now is not rows or current_queue != queue:
                changed_rows = [row for row in now if sent_rows.get(row.id) is not row]
                changed_rows.sort(key=lambda row: row.started_at or row.created_at, reverse=True)
                removed_ids = tuple(sorted(sent_rows.keys() - {row.id for row in now}))
                new_queue = current_queue if current_queue != queue else None
                rows, queue, sent_rows = now, current_queue, {row.id: row for row in now}
                chunk_list = [*chunks(changed_rows, _ROWS_AT_ONCE)]
                for number, chunk in enumerate(chunk_list, 1):
                    yield RunUpdate(tuple(chunk), removed_ids, new_queue, is_whole=number == len(chunk_list))
                    removed_ids, new_queue = (), None
            await asyncio.sleep(_POLL_S)
