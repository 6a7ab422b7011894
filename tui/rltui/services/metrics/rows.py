"""The metric rows of a run: of its metrics file, and of what its components print."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from rltui.base.kinds import is_integer
from rltui.core.logs.lines import decode_line, plain_text
from rltui.core.metrics.names import without_cancelled_evals
from rltui.core.metrics.progress import LARGEST_STEP
from rltui.core.metrics.seats import with_means_of_seats, without_seat
from rltui.core.metrics.series import writer_of
from rltui.frameworks.base import Framework
from rltui.frameworks.progress import ProgressSide
from rltui.services.logs.growing_file import AppendedLines, json_value, lines_with

BACKLOG_BYTES = 64 << 20
"""Older content of a log is skipped by who does not need the whole run."""
FILE_BYTES = 1 << 20
"""Limit of one read of a metrics file, which bounds the memory for a long run."""
LOG_BYTES = 8 << 20
"""Limit of one read of a log."""
LINE_BYTES = 64 << 10
"""Length of the part of a log line that is parsed."""
_ROW_BYTES = 16 << 20
"""Limit of a row in a metrics file."""
_ID_BYTES = 64
"""Length of the beginning of the first line that identifies a file."""
_DROPPED_MARK = b"non-finite value(s)"
_DROPPED = re.compile(r"Dropping (\d{1,6}) non-finite value\(s\) from (.*)")
_NAME = re.compile(r"[A-Za-z_][\w.@:-]*(?:/[\w.@:-]+)+")
_STEP = re.compile(r"\bstep (\d{1,12})\b", re.IGNORECASE)
_DROPPED_COUNT = "non_finite_values"
"""Name of the values that were dropped, if the program does not say which."""


@dataclass(slots=True)
class RowFile:
    """A file of the run that is read."""

    path: Path
    origin: str
    """The name in the store, made from path and beginning of the file."""
    start: int
    """Offset from which on it is read."""
    lines: AppendedLines


class MetricRow(NamedTuple):
    kind: Literal["file", "printed", "earlier", "gap", "dropped"]
    """From the metrics file; from the output of a component, or of an earlier attempt of one; printed values
    that are not finite, of names that the metrics file has; or names whose values a program says it dropped.
    """
    values: Mapping[str, Any]
    """The values that the row has, its step among them if there is one."""
    step: int | None
    """Step as the framework numbers it; for printed values without one, the newest of their source."""
    source: str
    file: RowFile
    end: int
    """Offset after the row in its file."""
    line: str = ""
    """Line that it was printed in."""

    @property
    def is_gap(self) -> bool:
        """True for values that the metrics file omits since they are not finite."""
        return self.kind in ("gap", "dropped")


@dataclass(frozen=True, slots=True)
class MetricSources:
    """The files that have the metrics of a run."""

    paths: Sequence[Path]
    """Candidates for the metrics file: the first that exists is read."""
    framework: Framework
    logs: Callable[[], Mapping[str, Path]] = dict
    """Component → its current output, which is read if the framework prints metrics."""
    earlier_logs: Callable[[], Sequence[tuple[str, Path]]] = tuple
    """Component and output of previous attempts, oldest first."""


class Recorded(Protocol):
    """The interface of `SeriesWriter` that says how far a source has been read."""

    def cursor(self, origin: str) -> int: ...
    def origins(self) -> Sequence[str]: ...
    def names_of(self, origin: str) -> frozenset[str]: ...


class MetricRows:
    """Reads each row of a run once. Blocking, for one thread at a time.

    Values of the metrics file take precedence over printed ones, which are rounded. What a launcher repeats
    of the output of its children, which have logs of their own, does not count.
    """

    def __init__(
        self,
        sources: MetricSources,
        *,
        recorded: Recorded | None = None,
        backlog_bytes: int | None = BACKLOG_BYTES,
    ) -> None:
        """Logs are read no further back than `backlog_bytes`."""
        self._sources, self._progress = sources, sources.framework.progress
        self._backlog_bytes = backlog_bytes
        self._recorded = recorded
        self._cursors = (
            {} if recorded is None else {name: recorded.cursor(name) for name in recorded.origins()}
        )
        """Origin → offset up to which it has been read."""
        self._file: RowFile | None = None
        self._current: dict[str, RowFile] = {}
        """Component → its log."""
        self._ended: list[tuple[str, RowFile, Literal["printed", "earlier"]]] | None = None
        """Logs of attempts that have ended, to be read to their end, the oldest first; `None` at first."""
        self._names_in_file: set[str] = set()
        self._owners: dict[str, str] = {}
        """Source → the component whose log contains it."""
        self._steps: dict[str, int] = {}
        """Source → its newest step."""
        self.restarted = False
        """The last `read` found another metrics file: what was read before is void."""
        self.is_behind = False
        """There is more of the metrics file, or of ended attempts, to read at once."""

    @property
    def has_more(self) -> bool:
        """True if there is more to read at once, as of the last `read`."""
        return self.is_behind or any(log.lines.has_more for log in self._current.values())

    def read(self) -> list[MetricRow]:
        """The next rows, those of the file first: a piece of the file or, behind its end, of each log."""
        self.restarted = self.is_behind = False
        rows = [*self._file_rows()]
        if self._progress.log_marks and not self.is_behind:
            rows += self._log_rows()
        return rows

    def begin_anew(self) -> None:
        """The run starts from the beginning: nothing that was read counts."""
        self._names_in_file.clear()
        self._owners.clear()
        self._steps.clear()

    def rewind(self, last: int) -> None:
        """The run continues after step `last`, as the framework numbers it."""
        self._steps = {source: min(step, last) for source, step in self._steps.items()}

    def _open(self, name: str, path: Path, most_bytes: int, line_bytes: int) -> RowFile | None:
        """`None` while its first line is not complete: that identifies it."""
        try:
            with path.open("rb") as file:
                start = file.read(_ID_BYTES)
        except OSError:
            return None
        line, end, _ = start.partition(b"\n")
        if not end and len(start) < _ID_BYTES:
            return None
        origin = f"{name} {zlib.crc32(line):08x}"
        offset = self._cursors.setdefault(origin, 0)
        backlog_bytes = None if name.startswith("file ") else self._backlog_bytes
        lines = AppendedLines(
            path,
            offset=offset,
            most_bytes=most_bytes,
            line_bytes=line_bytes,
            backlog_bytes=backlog_bytes,
        )
        return RowFile(path, origin, offset, lines)

    # --- the metrics file ---------------------------------------------------------------------------------

    def _file_rows(self) -> Iterator[MetricRow]:
        path = next((path for path in self._sources.paths if path.exists()), None)
        if path is None:  # what is recorded stays until another comes
            if self._file is not None and self._recorded is None:
                self._restart()
                self._file, self.is_behind = None, False
            return
        if self._file is None or self._file.path != path:
            known = [origin for origin in self._cursors if origin.startswith(f"file {path.name} ")]
            self._file = self._open(f"file {path.name}", path, FILE_BYTES, _ROW_BYTES)
            if self._file is None:
                return
            if known and self._file.origin not in known:
                self._restart()  # it was replaced while nobody looked
                return
            if self._recorded is not None:
                self._names_in_file.update(self._recorded.names_of(self._file.origin))
        file = self._file
        data = file.lines.read()
        if file.lines.restarted:
            self._restart()
            self._file = None
            return
        self.is_behind = file.lines.has_more
        end = self._cursors[file.origin] = file.lines.position
        end -= len(data)
        for line in data.splitlines(keepends=True):
            end += len(line)
            row = json_value(line)
            if isinstance(row, dict):
                row = with_means_of_seats(without_cancelled_evals(row))
                self._names_in_file.update(row)
                source, step = writer_of(row), _step(row)
                if step is not None:
                    self._steps[source] = step
                yield MetricRow("file", row, step, source, file, end)

    def _restart(self) -> None:
        self.restarted = self.is_behind = True
        self._cursors.clear()
        self.begin_anew()

    # --- logs ---------------------------------------------------------------------------------------------

    def _log_rows(self) -> Iterator[MetricRow]:
        if self._ended is None:
            self._ended = []
            for component, path in self._sources.earlier_logs():
                if (log := self._open_log(component, path)) is not None:
                    self._ended.append((component, log, "earlier"))
        ended, present = self._ended, self._sources.logs()
        for component in [*self._current]:
            if self._current[component].path != present.get(component):
                ended.append((component, self._current.pop(component), "printed"))
        if ended:
            component, log, kind = ended[0]
            yield from self._printed_rows(component, log, kind)
            if not log.lines.has_more:
                log.lines.close()
                del ended[0]
            self.is_behind = True
            return
        for component, path in present.items():
            new_log = self._current.get(component) or self._open_log(component, path)
            if new_log is not None:
                self._current[component] = new_log
                yield from self._printed_rows(component, new_log, "printed")

    def _open_log(self, component: str, path: Path) -> RowFile | None:
        return self._open(f"log {component} {path.parent.name}/{path.name}", path, LOG_BYTES, LINE_BYTES)

    def _printed_rows(
        self, component: str, log: RowFile, kind: Literal["printed", "earlier"]
    ) -> Iterator[MetricRow]:
        """Rows of one piece of a log."""
        lines = marked_lines(log.lines, self._progress)
        if log.lines.restarted and (same_log := self._open_log(component, log.path)) is not None:
            log.origin, log.start = same_log.origin, 0
        for end, text in lines:
            if dropped := _DROPPED.search(text):
                yield self._dropped_row(component, log, end, text, dropped)
                continue
            try:
                row = self._progress.log_row(component, text)
            except ValueError:  # a number with more digits than Python reads
                continue
            if row is None:
                continue
            source = writer_of(row) or component
            step = _step(row) if "step" in row else self._steps.get(source)
            if not self._is_own(component, source, step):
                continue
            if step is not None:
                self._steps[source] = step
            in_file = {
                name: value
                for name, value in row.items()
                if name in self._names_in_file or without_seat(name) in self._names_in_file
            }
            new = {name: value for name, value in row.items() if name == "step" or name not in in_file}
            if new.keys() - {"step"}:
                yield MetricRow(kind, new, step, source, log, end, text)
            gaps = {name: value for name, value in in_file.items() if _is_gap(value)}
            if gaps:
                yield MetricRow("gap", gaps, step, source, log, end, text)
        self._cursors[log.origin] = log.lines.position

    def _is_own(self, component: str, source: str, step: int | None) -> bool:
        """Whether a row is no repetition of what a child prints into a log of its own."""
        if self._owners.setdefault(source, component) == component:
            return True
        if step is None or step <= self._steps.get(source, -1):
            return False
        self._owners[source] = component
        return True

    def _dropped_row(
        self, component: str, log: RowFile, end: int, line: str, dropped: re.Match[str]
    ) -> MetricRow:
        """Values that a program left out of its metrics since they are not finite."""
        values = dict.fromkeys(_NAME.findall(dropped[2]), math.nan)
        source = writer_of(values) or component
        step = int(match[1]) if (match := _STEP.search(dropped[2])) else None
        if step is None and source in self._steps:
            step = self._steps[source] + 1
        return MetricRow(
            "dropped", values or {_DROPPED_COUNT: float(dropped[1])}, step, source, log, end, line
        )


def marked_lines(lines: AppendedLines, progress: ProgressSide) -> list[tuple[int, str]]:
    """The next lines of a log that may contain metrics, with the offset after each; of one piece."""
    data = lines.read()
    start = lines.position - len(data)
    marks = (*(mark.encode() for mark in progress.log_marks), _DROPPED_MARK)
    is_folded = not progress.log_redraws
    return [
        (start + end, plain_text(decode_line(line[:LINE_BYTES].rstrip(b"\r\n"), folded=is_folded)))
        for end, line in lines_with(data, marks)
    ]


def _is_gap(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _step(row: Mapping[str, Any]) -> int | None:
    step = row.get("step")
    return step if is_integer(step) and 0 <= step <= LARGEST_STEP else None
