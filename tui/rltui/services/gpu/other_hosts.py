"""The GPUs of other machines: commands that print reports, run repeatedly or continuously."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rltui.base.text import duration
from rltui.base.values import InvalidValueError, from_plain
from rltui.core.gpu.report import GpuDevice, GpuReport, GpuSource
from rltui.core.logs.lines import decode_line, plain_text
from rltui.errors import RltuiError
from rltui.services.processes.subprocesses import follow
from rltui.services.redaction import without_secrets

LONGEST_DOCUMENT_BYTES = 4 << 20
"""A thousand times the size of a report of eight GPUs."""
_MOST_DEVICES = 256
MOST_PROCESSES = 1000
"""Limit of processes per device."""
_LONGEST_TEXT = 500
"""Limit of any string in a report, in characters."""
_LARGEST_INTEGER = 1 << 56
"""More bytes than any machine has; beyond it, floats are not exact and `int(float)` may fail."""


class ReportReader:
    """Finds reports in a stream: a document per line, or one over several lines.

    Other lines, such as a greeting of the login shell, are skipped. `problem` describes what is wrong with
    the latest output; a valid report clears it.
    """

    def __init__(self) -> None:
        self.problem: str | None = None
        self._line = bytearray()
        self._is_cut = False
        """True if the present line is too long: the rest of it is dropped."""
        self._document: list[str] = []
        """The lines so far of an incomplete document."""
        self._document_size = 0

    def feed(self, data: bytes) -> list[GpuReport]:
        """The reports that this piece of output completes, oldest first."""
        *complete, unfinished = data.split(b"\n")
        reports: list[GpuReport] = []
        for piece in complete:
            self._add(piece)
            reports += self._add_line(decode_line(bytes(self._line)))
            self._line.clear()
            self._is_cut = False
        self._add(unfinished)
        return reports

    def end(self) -> list[GpuReport]:
        """The reports that a last line without newline completes."""
        reports = [*self._add_line(decode_line(bytes(self._line))), *self._finish()]
        self._line.clear()
        return reports

    def _add(self, piece: bytes) -> None:
        if self._is_cut or len(self._line) + len(piece) > LONGEST_DOCUMENT_BYTES:
            self._is_cut = True
            self._line.clear()
            self.problem = f"prints lines of more than {LONGEST_DOCUMENT_BYTES >> 20} MiB"
            return
        self._line += piece

    def _add_line(self, line: str) -> Iterator[GpuReport]:
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
        elif text := without_secrets(plain_text(line)).strip():
            self.problem = f"prints no report: {text[:_LONGEST_TEXT]}"

    def _finish(self) -> Iterator[GpuReport]:
        document, self._document = "\n".join(self._document), []
        if document and (report := self._parse(document)) is not None:
            yield report

    def _parse(self, text: str) -> GpuReport | None:
        try:
            report = parse_report(text)
        except ValueError as error:
            self.problem = f"prints an invalid report: {error}"
            return None
        self.problem = None
        return report


def parse_report(text: str) -> GpuReport:
    """Parse the report in a JSON document.

    Raises:
        ValueError: if it is none; says why in one line.
    """
    try:
        document = json.loads(text, parse_int=_integer, parse_float=_number, parse_constant=_number)
        return from_plain(GpuReport, _bounded(document), is_lax=True)
    except InvalidValueError as error:
        raise ValueError(plain_text(str(error))) from None
    except RecursionError:
        raise ValueError("too deeply nested") from None


def devices_of(report: GpuReport, host: str) -> tuple[GpuDevice, ...]:
    """The report's devices as those of `host`. The owners of processes are as that machine reports them."""
    return tuple(_device_of_host(device, host) for device in report.devices[:_MOST_DEVICES])


def _device_of_host(device: GpuDevice, host: str) -> GpuDevice:
    # without what would make them look like processes of this machine
    processes = tuple(
        process.replace(start=None, command=without_secrets(process.command))
        for process in device.processes[:MOST_PROCESSES]
    )
    return device.replace(
        host=f"{host}/{device.host}" if device.host else host,
        utilization=_fraction(device.utilization),
        memory_utilization=_fraction(device.memory_utilization),
        processes=processes,
        recent=tuple(min(percent, 100) for percent in device.recent[-60:]),
    )


def _fraction(value: float | None) -> float | None:
    return None if value is None else min(max(value, 0.0), 1.0)


def _integer(text: str) -> int:
    value = int(text) if len(text) < 20 else _LARGEST_INTEGER
    if not 0 <= value < _LARGEST_INTEGER:
        raise ValueError(f"{text[:30]} is not a GPU value")
    return value


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or abs(value) >= _LARGEST_INTEGER:
        raise ValueError(f"{text[:30]} is not a GPU value")
    return value


def _bounded(value: object) -> object:
    """`value` with every string printable and short."""
    match value:
        case str():
            return plain_text(value[: 2 * _LONGEST_TEXT])[:_LONGEST_TEXT]
        case list():
            return [_bounded(item) for item in value]
        case dict():
            return {name: _bounded(item) for name, item in value.items()}
    return value


REPEAT_S = 10.0
"""Pause between the end of a command that prints one report and its next start."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 60.0
"""Pauses before a failed command is started again; each is twice the one before, until a report comes."""
_SHORTEST_S, _LONGEST_S = 0.5, 3600.0
"""Bounds for the interval that a report announces."""
_STALE_INTERVALS = 3.0
SILENCE_S = 60.0
"""A command without output for this long, and for twice the time until it looks stale, is killed and started
again: ssh does not notice that the other side is gone.
"""


@dataclass(frozen=True, slots=True)
class GpuCommand:
    """A command that reads the GPUs of another machine: a `[[gpu_source]]` of the layout, a node, a pod, a
    job.
    """

    name: str
    command: tuple[str, ...]
    """Arguments of a program that prints one report or many."""
    stdin: bytes = b""


class _Source:
    """One command and its newest report. `run` never returns."""

    def __init__(self, spec: GpuCommand, changed: Callable[[], None], problem: str | None) -> None:
        self.spec = spec
        self._changed = changed
        self._report: GpuReport | None = None
        self._reported_at: float | None = None
        self._problem = problem
        self._interval_s = REPEAT_S
        self._last_report_at = -math.inf
        """Monotonic time of its start or of its newest report."""
        self._report_arrived = asyncio.Event()
        self._pause_s = FIRST_PAUSE_S

    @property
    def devices(self) -> tuple[GpuDevice, ...]:
        """The devices as last reported; with the source's problem, if it has one, since they may have
        changed.
        """
        devices = () if self._report is None else devices_of(self._report, self.spec.name)
        if self._problem is None:
            return devices
        return tuple(device.replace(problem=self._problem) for device in devices)

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
            self._set_problem(failure)
            pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, LONGEST_PAUSE_S)
            await asyncio.sleep(pause_s)

    async def _follow(self) -> str | None:
        """Run it once. Returns an error message, or `None` if it succeeded."""
        reader = ReportReader()
        self._last_report_at = started_at = time.monotonic()
        try:
            async with asyncio.timeout(None) as limit:
                watching = asyncio.create_task(self._watch_silence(reader, limit))
                try:
                    failure = await follow(
                        self.spec.command, lambda data: self._on_output(data, reader), stdin=self.spec.stdin
                    )
                finally:
                    watching.cancel()
        except TimeoutError:
            return self._problem
        except RltuiError as error:
            return error.title
        except OSError as error:  # no descriptors left
            return f"cannot be run: {error.strerror}"
        self._accept_reports(reader.end())
        if failure is None and self._last_report_at == started_at:
            return reader.problem or "printed no report"
        return failure

    def _on_output(self, data: bytes, reader: ReportReader) -> None:
        if not self._accept_reports(reader.feed(data)) and reader.problem is not None:
            self._set_problem(reader.problem)

    def _accept_reports(self, reports: Sequence[GpuReport]) -> bool:
        """Use the newest report. Returns False if there is none."""
        if not reports:
            return False
        self._report = reports[-1]
        self._last_report_at, self._reported_at = time.monotonic(), time.time()
        self._report_arrived.set()
        self._interval_s = min(max(self._report.interval_s or REPEAT_S, _SHORTEST_S), _LONGEST_S)
        self._pause_s = FIRST_PAUSE_S
        self._problem = None if self._report.available else self._report.reason or "has no GPU"
        self._changed()
        return True

    async def _watch_silence(self, reader: ReportReader, limit: asyncio.Timeout) -> None:
        """Set the problem when no report comes for too long, and later end it through `limit`."""
        while True:
            stale_s = _STALE_INTERVALS * self._interval_s
            timeout_s = max(SILENCE_S, 2 * stale_s)
            silent_s = time.monotonic() - self._last_report_at
            if silent_s >= stale_s:
                self._set_problem(reader.problem or f"no report for more than {duration(stale_s)}")
            if silent_s >= timeout_s:
                limit.reschedule(asyncio.get_running_loop().time())
                return
            self._report_arrived.clear()
            with contextlib.suppress(TimeoutError):  # it is silent
                async with asyncio.timeout((timeout_s if silent_s >= stale_s else stale_s) - silent_s):
                    await self._report_arrived.wait()

    def _set_problem(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self._changed()


class GpuSources:
    """Several sources, which may be added and removed. Lives on one loop."""

    def __init__(
        self, specs: Sequence[GpuCommand], changed: Callable[[], None], *, problem: str | None = None
    ) -> None:
        """`specs` have their placeholders filled in, if they are to be run. `changed` is called when
        `devices` or `sources` change. `problem`: the reason why they are not run.
        """
        self._changed, self._problem = changed, problem
        self._sources = [_Source(spec, changed, problem) for spec in specs]
        self._sources_changed = asyncio.Event()

    def become(self, specs: Sequence[GpuCommand]) -> None:
        """Replace the sources. Those among the new specs continue, the others are stopped."""
        current = {source.spec: source for source in self._sources}
        sources = [current.get(spec) or _Source(spec, self._changed, self._problem) for spec in specs]
        if sources != self._sources:
            self._sources = sources
            self._sources_changed.set()
            self._changed()

    async def run(self) -> None:
        """Run forever. If cancelled, it stops the commands and returns when all have ended."""
        running: dict[_Source, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                self._sources_changed.clear()
                for source in running.keys() - set(self._sources):
                    running.pop(source).cancel()
                for source in self._sources:
                    if source not in running:
                        name = f"gpu source {source.spec.name}"
                        running[source] = group.create_task(source.run(), name=name)
                await self._sources_changed.wait()

    def devices(self) -> tuple[GpuDevice, ...]:
        """The devices of all sources, in their order; `host` names the source."""
        return tuple(device for source in self._sources for device in source.devices)

    def sources(self) -> tuple[GpuSource, ...]:
        """The state of each command, in their order."""
        return tuple(source.state for source in self._sources)
