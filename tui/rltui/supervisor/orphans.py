"""The processes that outlived their component: searched for, reported, ended where the layout says so."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from rltui.base.tasks import Signal
from rltui.core.experiment.api import Alert, Orphan
from rltui.services.gpu.sampling import GpuReadings
from rltui.services.processes import Leftover
from rltui.services.processes.orphans import described, end, find_leftovers, foreign_processes, leftovers_text
from rltui.supervisor.component import ComponentRunner
from rltui.supervisor.config import Setup
from rltui.supervisor.events import EventBus

_SEARCH_ROUNDS = 3
"""Most rounds of ending orphans and searching again: a program that forks has new processes by then."""
_POLL_S = 1.0
"""Pause between two searches while orphans are known."""


class OrphanWatch:
    """Keeps `orphans` true. Processes of other experiments and other people are never among them."""

    def __init__(
        self,
        setup: Setup,
        runners: Mapping[str, ComponentRunner],
        events: EventBus,
        readings: GpuReadings,
        changes: Signal,
    ) -> None:
        """`changes` is notified when `orphans` changes."""
        self._setup = setup
        self._runners = runners
        self._events = events
        self._readings = readings
        self._changes = changes
        self._search_requested = asyncio.Event()
        self._search_lock = asyncio.Lock()
        self._requested_searches = self._completed_searches = 0
        self._search_done = Signal()
        self._unkillable: set[tuple[int, int]] = set()
        """Orphans that were killed in vain, by pid and start: they are not tried again."""
        self.orphans: tuple[Orphan, ...] = ()

    def of(self, component: str) -> tuple[Orphan, ...]:
        return tuple(orphan for orphan in self.orphans if orphan.component == component)

    def foreign(self) -> tuple[Orphan, ...]:
        """Other processes on the GPUs that a person may end by pid, by the newest reading.

        Raises:
            ConfigError: if the record of some experiment is damaged.
        """
        return foreign_processes(self._readings.newest, self.orphans)

    def request_search(self) -> None:
        """Have `watch` search soon, as an attempt has ended."""
        self._requested_searches += 1
        self._search_requested.set()

    async def wait_for_searches(self) -> None:
        """Return when every requested search has been made, and its orphans dealt with."""
        while self._completed_searches < self._requested_searches:
            await self._search_done.wait()

    async def watch(self) -> None:
        """Search when requested, and again and again while orphans are known."""
        while True:
            with contextlib.suppress(TimeoutError):  # time for the next search
                async with asyncio.timeout(_POLL_S if self.orphans else None):
                    await self._search_requested.wait()
            self._search_requested.clear()
            await self.search()

    async def search(self) -> None:
        """Search now, and end the orphans that the layout does not want kept."""
        requested = self._requested_searches
        async with self._search_lock:
            orphans = await self._find()
            for _ in range(_SEARCH_ROUNDS):
                unwanted = [
                    orphan
                    for orphan in orphans
                    if (orphan.pid, orphan.start) not in self._unkillable
                    and (runner := self._runners.get(orphan.component or "")) is not None
                    and runner.spec.stop.leftovers == "end"
                ]
                if not unwanted:
                    break
                survivors = await end(unwanted, self._events.journal, "by the layout")
                self._unkillable |= {(orphan.pid, orphan.start) for orphan in survivors}
                orphans = await self._find()
            self._update(orphans)
        self._completed_searches = max(self._completed_searches, requested)
        self._search_done.notify()

    async def free(self, orphans: Sequence[Orphan]) -> tuple[Orphan, ...]:
        """End these, and return the ones that still live: another user's, or stuck in the kernel."""
        async with self._search_lock:
            survivors = await end(orphans, self._events.journal, "on request")
            self._update(await self._find())
        return survivors

    def _update(self, orphans: tuple[Orphan, ...]) -> None:
        """Replace `orphans`. Only a change other than of ages is published."""
        previous, self.orphans = self.orphans, orphans
        if [_without_age(orphan) for orphan in orphans] == [_without_age(orphan) for orphan in previous]:
            return
        previous_ids = {(orphan.pid, orphan.start) for orphan in previous}
        new_orphans = [orphan for orphan in orphans if (orphan.pid, orphan.start) not in previous_ids]
        if new_orphans:
            self._events.alert(
                Alert(
                    kind="orphan",
                    severity="warning",
                    title="processes outlived their component",
                    text=leftovers_text(new_orphans),
                    component=new_orphans[0].component,
                )
            )
        self._events.changed("status")
        self._changes.notify()

    async def _find(self) -> tuple[Orphan, ...]:
        main_processes = [
            runner.record.main
            for runner in self._runners.values()
            if runner.lifecycle.alive and runner.record is not None and runner.record.main is not None
        ]
        leftovers = await asyncio.to_thread(
            find_leftovers, self._setup.record, self._setup.control, tuple(self._runners), main_processes
        )
        orphans = [leftover for leftover in leftovers if not self._is_of_living_attempt(leftover)]
        return await asyncio.to_thread(described, orphans, self._readings.newest)

    def _is_of_living_attempt(self, leftover: Leftover) -> bool:
        """True also where the shim has not written its record yet."""
        runner = self._runners.get(leftover.component or "")
        return runner is not None and runner.lifecycle.busy and leftover.attempt == runner.attempt


def _without_age(orphan: Orphan) -> Orphan:
    return orphan.replace(age_s=None)
