"""The GPUs of other machines: commands that are run again and again, or followed, and what they last said."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Sequence

from rltui.core.durations import duration
from rltui.core.gpu.report import GpuDevice, GpuReport, GpuSource
from rltui.core.layout import GpuSourceSpec
from rltui.errors import RltuiError
from rltui.services.gpu_source import ReportReader, devices_of
from rltui.services.outside import follow

REPEAT_S = 10.0
"""From the end of a command that prints one report to its next start."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 60.0
"""Before a command that failed is started again; each pause is twice the one before, until a report comes."""
SHORTEST_S, LONGEST_S = 0.5, 3600.0
"""What is believed of the interval that a report promises."""
STALE_INTERVALS = 3.0
SILENCE_S = 60.0
"""At least so long, and twice as long as it takes to look stale, a command may say nothing before it is ended
and started again: ssh does not notice that the other side is gone."""


class _Source:
    """One command. `run` never ends."""

    def __init__(self, spec: GpuSourceSpec, changed: Callable[[], None], problem: str | None) -> None:
        self.spec = spec
        self._changed = changed
        self._report: GpuReport | None = None
        self._reported_at: float | None = None
        self._problem = problem
        self._interval_s = REPEAT_S
        self._heard_at = -math.inf
        """When it was started or gave its newest report, on the monotonic clock."""
        self._heard = asyncio.Event()
        self._pause_s = FIRST_PAUSE_S

    @property
    def devices(self) -> tuple[GpuDevice, ...]:
        """As last reported; with the source's problem, where it has one, since they may be different now."""
        found = () if self._report is None else devices_of(self._report, self.spec.name)
        if self._problem is None:
            return found
        return tuple(device.model_copy(update={"problem": self._problem}) for device in found)

    @property
    def state(self) -> GpuSource:
        """For clients."""
        return GpuSource(name=self.spec.name, problem=self._problem, sampled_at=self._reported_at)

    async def run(self) -> None:
        """Start the command whenever it is not running and its pause is over."""
        while True:
            failure = await self._follow()
            if failure is None:
                await asyncio.sleep(REPEAT_S)
                continue
            self._tell(failure)
            pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, LONGEST_PAUSE_S)
            await asyncio.sleep(pause_s)

    async def _follow(self) -> str | None:
        """Run it once. Returns what went wrong."""
        reader = ReportReader()
        self._heard_at = started_at = time.monotonic()
        try:
            async with asyncio.timeout(None) as limit:
                watching = asyncio.create_task(self._watch_silence(reader, limit))
                try:
                    failure = await follow(self.spec.command, lambda data: self._take(data, reader))
                finally:
                    watching.cancel()
        except TimeoutError:
            return self._problem
        except RltuiError as error:
            return error.title
        except OSError as error:  # no descriptors left
            return f"cannot be run: {error.strerror}"
        self._take_reports(reader.end())
        if failure is None and self._heard_at == started_at:
            return reader.problem or "printed no report"
        return failure

    def _take(self, data: bytes, reader: ReportReader) -> None:
        if not self._take_reports(reader.feed(data)) and reader.problem is not None:
            self._tell(reader.problem)

    def _take_reports(self, reports: Sequence[GpuReport]) -> bool:
        """Only the newest counts. False where there is none."""
        if not reports:
            return False
        self._report = reports[-1]
        self._heard_at, self._reported_at = time.monotonic(), time.time()
        self._heard.set()
        self._interval_s = min(max(self._report.interval_s or REPEAT_S, SHORTEST_S), LONGEST_S)
        self._pause_s = FIRST_PAUSE_S
        self._problem = None if self._report.available else self._report.reason or "has no GPU"
        self._changed()
        return True

    async def _watch_silence(self, reader: ReportReader, limit: asyncio.Timeout) -> None:
        """Say so when it gives no report for too long, and later let `limit` end it."""
        while True:
            stale_s = STALE_INTERVALS * self._interval_s
            patience_s = max(SILENCE_S, 2 * stale_s)
            silent_s = time.monotonic() - self._heard_at
            if silent_s >= stale_s:
                self._tell(reader.problem or f"has said nothing for more than {duration(stale_s)}")
            if silent_s >= patience_s:
                limit.reschedule(asyncio.get_running_loop().time())
                return
            self._heard.clear()
            with contextlib.suppress(TimeoutError):  # it is silent
                async with asyncio.timeout((patience_s if silent_s >= stale_s else stale_s) - silent_s):
                    await self._heard.wait()

    def _tell(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self._changed()


class GpuSources:
    """All sources of a layout. Lives on one loop."""

    def __init__(
        self, specs: Sequence[GpuSourceSpec], changed: Callable[[], None], *, problem: str | None = None
    ) -> None:
        """`specs` have their placeholders filled in, where they are to be run. `changed` is called when
        `devices` or `sources` did. `problem`: why they are not run.
        """
        self._sources = [_Source(spec, changed, problem) for spec in specs]

    async def run(self) -> None:
        """For ever. Cancelled, it ends the commands, and returns when nothing of them is left."""
        async with asyncio.TaskGroup() as group:
            for source in self._sources:
                group.create_task(source.run(), name=f"gpu source {source.spec.name}")
            await asyncio.Event().wait()

    def devices(self) -> tuple[GpuDevice, ...]:
        """Of all sources, in the order of the layout; `host` names the source."""
        return tuple(device for source in self._sources for device in source.devices)

    def sources(self) -> tuple[GpuSource, ...]:
        """One for each command, in the order of the layout."""
        return tuple(source.state for source in self._sources)
