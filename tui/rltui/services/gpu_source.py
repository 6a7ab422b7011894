"""What a GPU source prints, understood: reports of another machine, whatever else comes with them.

Nothing it prints can do harm: lines have a bound, figures that no machine can have are refused, text is made
printable.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

from pydantic import ValidationError

from rltui.core.gpu.report import GpuDevice, GpuProcess, GpuReport
from rltui.core.lines import decode_line, plain_text

LONGEST_DOCUMENT_BYTES = 4 << 20
"""A thousand times what a box with eight GPUs needs."""
MOST_DEVICES = 256
MOST_PROCESSES = 1000
"""Of one device."""
LONGEST_TEXT = 500
"""Of any text in a report, in characters."""
LARGEST_INTEGER = 1 << 56
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
            self.problem = f"prints no report: {words[:LONGEST_TEXT]}"

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
    return tuple(_of_host(device, host) for device in report.devices[:MOST_DEVICES])


def _of_host(device: GpuDevice, host: str) -> GpuDevice:
    processes = tuple(_elsewhere(process) for process in device.processes[:MOST_PROCESSES])
    return device.model_copy(
        update={
            "host": f"{host}/{device.host}" if device.host else host,
            "utilization": _fraction(device.utilization),
            "memory_utilization": _fraction(device.memory_utilization),
            "processes": processes,
            "recent": tuple(min(percent, 100) for percent in device.recent[-60:]),
        }
    )


def _elsewhere(process: GpuProcess) -> GpuProcess:
    """Without what would make it look like a process of this machine."""
    return process.model_copy(update={"start": None})


def _fraction(value: float | None) -> float | None:
    return None if value is None else min(max(value, 0.0), 1.0)


def _integer(text: str) -> int:
    value = int(text) if len(text) < 20 else LARGEST_INTEGER
    if not 0 <= value < LARGEST_INTEGER:
        raise ValueError(f"{text[:30]} is no figure of a GPU")
    return value


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or abs(value) >= LARGEST_INTEGER:
        raise ValueError(f"{text[:30]} is no figure of a GPU")
    return value


def _bounded(value: object) -> object:
    """`value` with every text printable and short."""
    match value:
        case str():
            return plain_text(value[: 2 * LONGEST_TEXT])[:LONGEST_TEXT]
        case list():
            return [_bounded(item) for item in value]
        case dict():
            return {name: _bounded(item) for name, item in value.items()}
    return value
