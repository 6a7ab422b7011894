"""The list of runs of this machine as it is told to another one: all of them, and then what changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator

from rltui.client.local_runs import LocalRuns
from rltui.client.transports.frames import chunks
from rltui.core.questions import remote_method
from rltui.core.queue import RunQueue
from rltui.core.runs import RunMetadata, RunRow

_POLL_S = 1.0
_ROWS_AT_ONCE = 100
"""Rows of the index in one item."""


def _with_checked_metadata(row: Any) -> Any:  # noqa: ANN401 - JSON of another machine
    RunMetadata.parse(row)
    return row


@dataclass(frozen=True, slots=True)
class RunUpdate:
    """What has changed in the list of runs."""

    rows: tuple[Annotated[RunRow, BeforeValidator(_with_checked_metadata)], ...]
    gone: tuple[str, ...]
    """Ids."""
    queue: RunQueue | None
    """`None`: as before."""
    is_whole: bool
    """Nothing of this change is still to come."""


class RunFeed:
    """The index of runs and the queue, for another machine."""

    def __init__(self, runs: LocalRuns) -> None:
        self._runs = runs

    @remote_method
    async def rows(self) -> AsyncIterator[RunUpdate]:
        """All of them, the newest first, and then what changes; the queue with it."""
        rows: tuple[RunRow, ...] | None = None
        known: dict[str, RunRow] = {}
        queue: RunQueue | None = None
        while True:
            now = await asyncio.to_thread(self._runs.rows)
            queued = await asyncio.to_thread(self._runs.queue)
            if now is not rows or queued != queue:
                changed = [row for row in now if known.get(row.id) is not row]
                changed.sort(key=lambda row: row.started_at or row.created_at, reverse=True)
                gone = tuple(sorted(known.keys() - {row.id for row in now}))
                news = queued if queued != queue else None
                rows, queue, known = now, queued, {row.id: row for row in now}
                chunk_list = [*chunks(changed, _ROWS_AT_ONCE)]
                for number, chunk in enumerate(chunk_list, 1):
                    yield RunUpdate(tuple(chunk), gone, news, is_whole=number == len(chunk_list))
                    gone, news = (), None
            await asyncio.sleep(_POLL_S)
