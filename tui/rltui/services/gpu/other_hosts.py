"""The GPUs of other machines: commands that print reports, run again and again or followed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from rltui.core.gpu.report import GpuDevice, GpuReport, GpuSource
from rltui.core.lines import decode_line, plain_text
from rltui.core.text import duration
from rltui.errors import RltuiError
from rltui.services.subprocesses import follow

LONGEST_DOCUMENT_BYTES = 4 << 20
"""A thousand times what a box with eight GPUs needs."""
_MOST_DEVICES = 256
MOST_PROCESSES = 1000
"""Of one device."""
_LONGEST_TEXT = 500
"""Of any text in a report, in characters."""
_LARGEST_INTEGER = 1 << 56
"""More bytes than any machine has; beyond it, floats are not exact and `int(float)` may fail."""


class ReportReader:
    """Finds reports in a stream: a document per line, or one that is spread over several lines.

    Other lines, such as a greeting of the login shell, are left out. `problem` says, in words, what is wrong
    with what came last; a report that is understood clears it.
    """

    def __init__(self) -> None:
        self.problem: str | None = None
        self._line = bytearray()
        self._is_cut = False
        """The present line is too long: what is left of it is dropped."""
        self._document: list[str] = []
        """The lines so far of a document that is not complete."""
        self._document_size = 0

    def feed(self, data: bytes) -> list[GpuReport]:
        """The reports that this piece of output completes, oldest first."""
        *whole, rest = data.split(b"\n")
        reports: list[GpuReport] = []
        for piece in whole:
            self._add(piece)
            reports += self._take(decode_line(bytes(self._line)))
            self._line.clear()
            self._is_cut = False
        self._add(rest)
        return reports

    def end(self) -> list[GpuReport]:
        """What a last line without an end completes."""
        found = [*self._take(decode_line(bytes(self._line))), *self._finish()]
        self._line.clear()
        return found

    def _add(self, piece: bytes) -> None:
        if self._is_cut or len(self._line) + len(piece) > LONGEST_DOCUMENT_BYTES:
            self._is_cut = True
            self._line.clear()
            self.problem = f"prints lines of more than {LONGEST_DOCUMENT_BYTES >> 20} MiB"
            return
        self._line += piece

    def _take(self, line: str) -> Iterator[GpuReport]:
        if line.startswith("{"):
            yield from self._finish()  # the one before was never completed
            self._document, self._document_size = [line], len(line)
            if line.rstrip().endswith("}"):
                yield from self._finish()
        elif self._document:
            self._document.append(line)
            self._document_size += len(line)
            if line.startswith("}") or self._document_size > LONGEST_DOCUMENT_BYTES:
                yield from self._finish()
        elif words := plain_text(line).strip():
            self.problem = f"prints no report: {words[:_LONGEST_TEXT]}"

    def _finish(self) -> Iterator[GpuReport]:
        document, self._document = "\n".join(self._document), []
        if document and (report := self._parsed(document)) is not None:
            yield report

    def _parsed(self, text: str) -> GpuReport | None:
        try:
            report = parse_report(text)
        except ValueError as error:
            self.problem = f"prints a report that cannot be understood: {error}"
            return None
        self.problem = None
        return report


def parse_report(text: str) -> GpuReport:
    """The report in a JSON document.

    Raises:
        ValueError: if it is none; says why in one line.
    """
    try:
        document = json.loads(text, parse_int=_integer, parse_float=_number, parse_constant=_number)
        return GpuReport.model_validate(_bounded(document))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(plain_text(f"{where}: {first['msg']}" if where else first["msg"])) from None
    except RecursionError:
        raise ValueError("too deeply nested") from None


def devices_of(report: GpuReport, host: str) -> tuple[GpuDevice, ...]:
    """Its devices as those of `host`. What their processes are is what that machine says."""
    return tuple(_of_host(device, host) for device in report.devices[:_MOST_DEVICES])


def _of_host(device: GpuDevice, host: str) -> GpuDevice:
    # without what would make them look like processes of this machine
    processes = tuple(
        process.model_copy(update={"start": None}) for process in device.processes[:MOST_PROCESSES]
    )
    return device.model_copy(
        update={
            "host": f"{host}/{device.host}" if device.host else host,
            "utilization": _fraction(device.utilization),
            "memory_utilization": _fraction(device.memory_utilization),
            "processes": processes,
            "recent": tuple(min(percent, 100) for percent in device.recent[-60:]),
        }
    )


def _fraction(value: float | None) -> float | None:
    return None if value is None else min(max(value, 0.0), 1.0)


def _integer(text: str) -> int:
    value = int(text) if len(text) < 20 else _LARGEST_INTEGER
    if not 0 <= value < _LARGEST_INTEGER:
        raise ValueError(f"{text[:30]} is no figure of a GPU")
    return value


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or abs(value) >= _LARGEST_INTEGER:
        raise ValueError(f"{text[:30]} is no figure of a GPU")
    return value


def _bounded(value: object) -> object:
    """`value` with every text printable and short."""
    match value:
        case str():
            return plain_text(value[: 2 * _LONGEST_TEXT])[:_LONGEST_TEXT]
        case list():
            return [_bounded(item) for item in value]
        case dict():
            return {name: _bounded(item) for name, item in value.items()}
    return value


REPEAT_S = 10.0
"""From the end of a command that prints one report to its next start."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 60.0
"""Before a command that failed is started again; each pause is twice the one before, until a report comes."""
_SHORTEST_S, _LONGEST_S = 0.5, 3600.0
"""What is believed of the interval that a report promises."""
_STALE_INTERVALS = 3.0
SILENCE_S = 60.0
"""At least so long, and twice as long as it takes to look stale, a command may say nothing before it is ended
and started again: ssh does not notice that the other side is gone."""


@dataclass(frozen=True, slots=True)
class GpuCommand:
    """What reads the GPUs of another machine: a `[[gpu_source]]` of the layout, a node, a pod, a job."""

    name: str
    command: tuple[str, ...]
    """Prints a report, once or again and again."""
    stdin: bytes = b""


class _Source:
    """One command. `run` never ends."""

    def __init__(self, spec: GpuCommand, changed: Callable[[], None], problem: str | None) -> None:
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
                    failure = await follow(
                        self.spec.command, lambda data: self._take(data, reader), stdin=self.spec.stdin
                    )
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
        self._interval_s = min(max(self._report.interval_s or REPEAT_S, _SHORTEST_S), _LONGEST_S)
        self._pause_s = FIRST_PAUSE_S
        self._problem = None if self._report.available else self._report.reason or "has no GPU"
        self._changed()
        return True

    async def _watch_silence(self, reader: ReportReader, limit: asyncio.Timeout) -> None:
        """Say so when it gives no report for too long, and later let `limit` end it."""
        while True:
            stale_s = _STALE_INTERVALS * self._interval_s
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
    """Several sources, which may come and go. Lives on one loop."""

    def __init__(
        self, specs: Sequence[GpuCommand], changed: Callable[[], None], *, problem: str | None = None
    ) -> None:
        """`specs` have their placeholders filled in, where they are to be run. `changed` is called when
        `devices` or `sources` did. `problem`: why they are not run.
        """
        self._changed, self._problem = changed, problem
        self._sources = [_Source(spec, changed, problem) for spec in specs]
        self._came_or_went = asyncio.Event()

    def become(self, specs: Sequence[GpuCommand]) -> None:
        """From now on it is these. What was among them goes on, what is not any more is ended."""
        known = {source.spec: source for source in self._sources}
        sources = [known.get(spec) or _Source(spec, self._changed, self._problem) for spec in specs]
        if sources != self._sources:
            self._sources = sources
            self._came_or_went.set()
            self._changed()

    async def run(self) -> None:
        """For ever. Cancelled, it ends the commands, and returns when nothing of them is left."""
        running: dict[_Source, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                self._came_or_went.clear()
                for source in running.keys() - set(self._sources):
                    running.pop(source).cancel()
                for source in self._sources:
                    if source not in running:
                        name = f"gpu source {source.spec.name}"
                        running[source] = group.create_task(source.run(), name=name)
                await self._came_or_went.wait()

    def devices(self) -> tuple[GpuDevice, ...]:
        """Of all sources, in their order; `host` names the source."""
        return tuple(device for source in self._sources for device in source.devices)

    def sources(self) -> tuple[GpuSource, ...]:
        """One for each command, in their order."""
        return tuple(source.state for source in self._sources)
