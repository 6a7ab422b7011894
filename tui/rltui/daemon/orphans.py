"""Processes that outlived their attempt: found, listed, ended by the layout's policy or on request."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence

from rltui.core.api import Alert, Orphan
from rltui.core.gpu.report import GpuReport
from rltui.daemon.component import ComponentRunner
from rltui.daemon.telling import Teller
from rltui.services.orphans import described, end, find_leftovers, leftovers_text
from rltui.services.processes import Leftover
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.strangers import strangers

ROUNDS = 3
"""Of ending what is found: a program that forks has new processes by then."""
POLL_S = 1.0
"""Between two looks at orphans that are known."""


class OrphanWatch:
    """Keeps `orphans` true. Processes of other experiments and other people are never among them."""

    def __init__(
        self,
        record: ExperimentRecord,
        control: ControlFolder,
        runners: Mapping[str, ComponentRunner],
        teller: Teller,
        *,
        gpus: Callable[[], GpuReport],
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called when `orphans` did."""
        self._record = record
        self._control = control
        self._runners = runners
        self._teller = teller
        self._gpus = gpus
        self._changed = changed
        self._wanted = asyncio.Event()
        self._searching = asyncio.Lock()
        self._asked = self._answered = 0
        self._found = asyncio.Event()
        self._undying: set[tuple[int, int]] = set()
        """Those that were killed in vain, by pid and start: once is enough."""
        self.orphans: tuple[Orphan, ...] = ()

    def of(self, component: str) -> tuple[Orphan, ...]:
        """Those of one component."""
        return tuple(orphan for orphan in self.orphans if orphan.component == component)

    def strangers(self) -> tuple[Orphan, ...]:
        """Other processes on the GPUs that a person may end by pid, by the newest reading.

        Raises:
            ConfigError: the record of some experiment is damaged.
        """
        return strangers(self._gpus(), self.orphans)

    def look(self) -> None:
        """Search soon: an attempt has ended."""
        self._asked += 1
        self._wanted.set()

    async def settled(self) -> None:
        """Return when every search that was asked for has been made, and its findings dealt with."""
        while self._answered < self._asked:
            await self._found.wait()

    async def watch(self) -> None:
        """Search when asked to, and while orphans are known."""
        while True:
            with contextlib.suppress(TimeoutError):  # time for another look
                async with asyncio.timeout(POLL_S if self.orphans else None):
                    await self._wanted.wait()
            self._wanted.clear()
            await self.search()

    async def search(self) -> None:
        """Search now, and end those that the layout does not want kept."""
        asked = self._asked
        async with self._searching:
            found = await self._find()
            for _ in range(ROUNDS):
                ended_by_policy = [orphan for orphan in found if self._is_unwanted(orphan)]
                if not ended_by_policy:
                    break
                left = await end(ended_by_policy, self._teller.journal, "by the layout")
                self._undying |= {(orphan.pid, orphan.start) for orphan in left}
                found = await self._find()
            self._take_over(found)
        self._answered = max(self._answered, asked)
        self._found.set()
        self._found = asyncio.Event()

    async def free(self, orphans: Sequence[Orphan]) -> tuple[Orphan, ...]:
        """End these, and return the ones that still live: another user's, or stuck in the kernel."""
        async with self._searching:
            left = await end(orphans, self._teller.journal, "on request")
            self._take_over(await self._find())
        return left

    def _take_over(self, found: tuple[Orphan, ...]) -> None:
        """Ages are kept true in silence; all else is news."""
        before, self.orphans = self.orphans, found
        if [_ageless(orphan) for orphan in found] == [_ageless(orphan) for orphan in before]:
            return
        known = {(orphan.pid, orphan.start) for orphan in before}
        fresh = [orphan for orphan in found if (orphan.pid, orphan.start) not in known]
        if fresh:
            self._teller.alert(
                Alert(
                    kind="orphan",
                    severity="warning",
                    title="processes outlived their component",
                    text=leftovers_text(fresh),
                    component=fresh[0].component,
                )
            )
        self._changed()

    def _is_unwanted(self, orphan: Orphan) -> bool:
        runner = self._runners.get(orphan.component or "")
        is_new = (orphan.pid, orphan.start) not in self._undying
        return is_new and runner is not None and runner.spec.stop.leftovers == "end"

    async def _find(self) -> tuple[Orphan, ...]:
        mains = [
            runner.record.main
            for runner in self._runners.values()
            if runner.life.alive and runner.record is not None and runner.record.main is not None
        ]
        found = await asyncio.to_thread(
            find_leftovers, self._record, self._control, tuple(self._runners), mains
        )
        strays = [leftover for leftover in found if not self._is_of_living_attempt(leftover)]
        return await asyncio.to_thread(described, strays, self._gpus())

    def _is_of_living_attempt(self, leftover: Leftover) -> bool:
        """Also one whose shim has not written its record yet."""
        runner = self._runners.get(leftover.component or "")
        return runner is not None and runner.life.busy and leftover.attempt == runner.attempt


def _ageless(orphan: Orphan) -> Orphan:
    return orphan.model_copy(update={"age_s": None})
