"""Copies rows from the files of a run into its store: new ones since the last poll, or all if the store is
lost.
"""

from __future__ import annotations

import contextlib
import logging
import math
import re
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from rltui.core.kinds import is_integer, is_number
from rltui.core.log_lines import decode_line, plain_text
from rltui.core.metrics import LARGEST_STEP, numbers
from rltui.core.series import OWN_SOURCE, writer_of
from rltui.core.times import stamp_text
from rltui.errors import RltuiError
from rltui.frameworks.base import Framework
from rltui.services.logs.growing_file import AppendedLines, json_value, lines_with
from rltui.services.metrics.store import SeriesWriter, lock_of
from rltui.services.own_files import FileLock
from rltui.services.runs.experiment_files import ControlFolder
from rltui.services.runs.run_folder import ARCHIVED_SERIES

logger = logging.getLogger(__name__)

_CHUNK_BYTES = 1 << 20
"""Limit of one read of a file, which bounds the memory of a catch-up."""
_LINE_BYTES = 64 * 1024
"""Length of the part of a log line that is parsed."""
_ROW_BYTES = 16 << 20
"""Limit of a row in a metrics file."""
_ID_BYTES = 64
"""Length of the beginning of the first line that identifies a file."""
_LATEST_TIME = 1e11
"""Largest number of seconds since 1970 that counts as a date."""
_DROPPED_MARK = b"non-finite value(s)"
_DROPPED = re.compile(r"Dropping (\d{1,6}) non-finite value\(s\) from (.*)")
_NAME = re.compile(r"[A-Za-z_][\w.@:-]*(?:/[\w.@:-]+)+")
_STEP = re.compile(r"\bstep (\d{1,12})\b", re.IGNORECASE)
_STEP_TIME = "step_time"
"""Name of the series of the time from one completed step to the next."""
_DROPPED_COUNT = "non_finite_values"
"""Name of the series of dropped values, if the program does not say which."""


@dataclass(slots=True)
class _RecordedFile:
    """A file of the run that is read into the store."""

    path: Path
    origin: str
    """The file's name in the store, made from its path and its beginning."""
    lines: AppendedLines
    dates: _Dates | None = None
    """Dates of its lines if it is a log."""

    def read(self) -> Iterator[tuple[int, bytes]]:
        """The next lines, each with the offset after it."""
        data = self.lines.read()
        position = self.lines.position - len(data)
        for line in data.splitlines(keepends=True):
            position += len(line)
            yield position, line


def _identity(path: Path) -> str | None:
    """Checksum of the beginning of the file; `None` while that is incomplete."""
    try:
        with path.open("rb") as file:
            start = file.read(_ID_BYTES)
    except OSError:
        return None
    line, end, _ = start.partition(b"\n")
    return f"{zlib.crc32(line):08x}" if end or len(start) == _ID_BYTES else None


class _Dates:
    """Dates for the lines of a log, most of which say HH:MM:SS alone, in the order of the file."""

    def __init__(self, backlog: Iterable[str] = (), written_at: float = 0.0) -> None:
        """`backlog`: the first lines, of which the last was written at about `written_at`."""
        clocks = [clock for line in backlog if (clock := _clock_of(line)) is not None]
        self._days_left = sum(later < earlier - _BACK_S for earlier, later in pairwise(clocks))
        self._backlog_left = len(clocks)
        self._midnight = _at_clock(clocks[-1], written_at) - clocks[-1] if clocks else 0.0
        """Midnight before the last line of the backlog."""
        self._newest: float | None = None
        self._clock: int | None = None

    def of(self, line: str, now: float) -> float:
        """Seconds since the epoch. `now`: time at which a line after the backlog is read."""
        if timestamp := _ISO.search(line[:_HEAD_CHARS]):
            with contextlib.suppress(ValueError):  # a month that is none: then the time alone counts
                return datetime.fromisoformat(timestamp[0]).timestamp()
        if (clock := _clock_of(line)) is None:
            return now if self._newest is None else self._newest
        if self._backlog_left:
            self._backlog_left -= 1
            if self._clock is not None and clock < self._clock - _BACK_S:
                self._days_left -= 1
            self._newest = self._midnight - self._days_left * _DAY_S + clock
        else:
            self._newest = _at_clock(clock, now)
        self._clock = clock
        return self._newest


_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?(?:Z|[+-]\d\d:\d\d)?")
_CLOCK = re.compile(r"(?<!\d)([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?!\d)")
_HEAD_CHARS = 120
_DAY_S = 86400.0
_BACK_S = 3600
"""A clock that falls by more has passed midnight; by less, lines of two programs are mixed."""
_AHEAD_S = 60.0
"""A line may be ahead of its file's modification time by this much."""


def _clock_of(line: str) -> int | None:
    """Seconds since midnight, of the time in a line."""
    match = _CLOCK.search(line[:_HEAD_CHARS])
    return int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3]) if match else None


def _at_clock(seconds: int, latest: float) -> float:
    """The last time, up to about `latest`, at which the clock showed so many seconds since midnight."""
    day = datetime.fromtimestamp(latest).astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    moment = day.timestamp() + seconds
    return moment if moment <= latest + _AHEAD_S else moment - _DAY_S


class RunRecorder:
    """Keeps the store of one run up to date. `poll` blocks and belongs to one thread; the other methods do
    not block.

    Values of a metrics file take precedence over printed ones, which are rounded.
    """

    def __init__(
        self,
        control: ControlFolder,
        framework: Framework,
        paths: Sequence[Path],
        *,
        logs: Callable[[], Mapping[str, Path]] = dict,
        earlier_logs: Callable[[], Sequence[tuple[str, Path]]] = tuple,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`paths`, `logs` and `earlier_logs` as `RunMetrics`; logs are read if the framework prints
        metrics.
        """
        self._control = control
        self._framework = framework
        self._paths = paths
        self._logs, self._earlier_logs = logs, earlier_logs
        self._clock = clock
        self._queue: deque[Callable[[], None]] = deque()
        self._lock = FileLock(lock_of(control.series))
        self._writer: SeriesWriter | None = None
        self._problem: str | None = None
        self._file: _RecordedFile | None = None
        self._printed: dict[str, _RecordedFile] = {}
        self._earlier: list[tuple[str, _RecordedFile]] = []
        self._is_begun = False
        """True once the logs of earlier attempts were looked for."""
        self._names_in_file: set[str] = set()
        """Names in the metrics file."""
        self._owners: dict[str, str] = {}
        """Source → the component whose log contains it: a launcher repeats the output of its children."""
        self._steps: dict[str, int] = {}
        """Source → its newest step."""
        self._completed: tuple[int, float] | None = None
        """The newest step that the trainer completed, and when."""

    # --- from any thread ----------------------------------------------------------------------------------

    def sample(self, values: Mapping[str, float], source: str, step: int | None = None) -> None:
        """Record values that were measured just now. `step`: of the run, if known."""
        now = self._clock()
        self._queue.append(lambda: self._active_writer().add(source, values, at=now, step=step))

    def resumed(self, step: int | None) -> None:
        """Record that the run continues from the checkpoint `step`, or starts from the beginning."""
        now = self._clock()
        if step is None:
            self._queue.append(self._begin_anew)
        else:
            last = step - 1 + self._framework.run.locations.first_step
            self._queue.append(lambda: self._rewind(last, now))

    # --- in its own ---------------------------------------------------------------------------------------

    @property
    def problem(self) -> str | None:
        return self._problem

    def poll(self) -> bool:
        """Process new rows, up to a certain amount. Returns whether there are more to process at once.

        Nothing is read while the disk is full, or while another process writes the store: it is read later.
        """
        if self._writer is None and not self._open():
            return False
        writer = self._active_writer()
        if writer.is_lost():
            # somebody removed the store: fill another from the files
            self._file, self._printed, self._earlier, self._is_begun = None, {}, [], False
            self._owners.clear()
            self._writer = SeriesWriter(self._control.series)
            writer = self._writer
        while self._queue:
            self._queue.popleft()()
        is_behind = False
        if not writer.is_full:
            is_behind = self._poll_file() or self._poll_logs()
        is_written = writer.flush()
        self._problem = writer.problem
        return is_written and is_behind

    def catch_up(self) -> None:
        while self.poll():
            pass

    def close(self) -> None:
        """Let another process write the store."""
        self._writer = None
        self._lock.release()

    def _open(self) -> bool:
        """Lock the store. Only one process writes it, which may be a reader if no supervisor runs."""
        try:
            self._control.make()
            if not self._lock.acquire():
                return False
            self._writer = SeriesWriter(self._control.series)
        except (OSError, RltuiError) as error:
            self._problem = getattr(error, "strerror", None) or str(error)
            return False
        return True

    def _active_writer(self) -> SeriesWriter:
        assert self._writer is not None
        return self._writer

    def _rewind(self, last: int, moment: float) -> None:
        self._active_writer().rewind(last, moment)
        self._completed = None
        self._steps = {source: min(step, last) for source, step in self._steps.items()}

    def _begin_anew(self) -> None:
        """Start another run: the store moves to the archive of restarts."""
        time_text = stamp_text(self._clock())
        candidates = (
            self._control.archive / time_text / name for name in (ARCHIVED_SERIES, *map(str, range(2, 1000)))
        )
        archive = next(path for path in candidates if not path.exists())
        try:
            self._active_writer().begin_anew(archive)
        except OSError as error:
            logger.error("cannot move %s aside: %s", self._control.series, error.strerror)
        self._names_in_file.clear()
        self._owners.clear()
        self._steps.clear()
        self._completed = None

    # --- the metrics file ---------------------------------------------------------------------------------

    def _poll_file(self) -> bool:
        path = next((path for path in self._paths if path.exists()), None)
        if path is None:
            return False
        if self._file is None or self._file.path != path:
            self._file = self._open_file(path)
            if self._file is None:
                return False
        file = self._file
        lines = [*file.read()]
        if file.lines.restarted:
            self._begin_anew()
            self._file = None
            return True
        for position, line in lines:
            row = json_value(line)
            if isinstance(row, dict):
                self._names_in_file.update(row)
                moment = _number(row.get("time"))
                self._add(row, writer_of(row), moment or self._clock(), file.origin, position)
        return file.lines.has_more

    def _open_file(self, path: Path) -> _RecordedFile | None:
        identity = _identity(path)
        if identity is None:
            return None
        origin = f"file {path.name} {identity}"
        writer = self._active_writer()
        known = [name for name in writer.origins() if name.startswith(f"file {path.name} ")]
        if known and origin not in known:
            self._begin_anew()  # it was replaced while nobody looked
        cursor = writer.cursor(origin)
        self._names_in_file = {*writer.names_of(origin)}
        lines = AppendedLines(path, offset=cursor, most_bytes=_CHUNK_BYTES, line_bytes=_ROW_BYTES)
        return _RecordedFile(path, origin, lines)

    # --- logs ---------------------------------------------------------------------------------------------

    def _poll_logs(self) -> bool:
        if not self._framework.progress.log_marks:
            return False
        if not self._is_begun:
            self._is_begun = True
            for component, path in self._earlier_logs():
                if (log := self._open_log(component, path)) is not None:
                    self._earlier.append((component, log))
        present = self._logs()
        for component in [*self._printed]:
            if self._printed[component].path != present.get(component):
                self._earlier.append((component, self._printed.pop(component)))
        if self._earlier:
            component, log = self._earlier[0]
            if not self._read_log(component, log):
                log.lines.close()
                del self._earlier[0]
            return True
        is_behind = False
        for component, path in present.items():
            if component not in self._printed:
                new_log = self._open_log(component, path)
                if new_log is None:
                    continue
                self._printed[component] = new_log
            is_behind |= self._read_log(component, self._printed[component])
        return is_behind

    def _open_log(self, component: str, path: Path) -> _RecordedFile | None:
        identity = _identity(path)
        if identity is None:
            return None
        origin = f"log {component} {path.parent.name}/{path.name} {identity}"
        cursor = self._active_writer().cursor(origin)
        backlog = AppendedLines(path, offset=cursor, most_bytes=_CHUNK_BYTES, line_bytes=_LINE_BYTES)
        backlog_lines = (_plain_line(line, self._framework) for _, line in self._marked_lines(backlog))
        dates = _Dates(backlog_lines, path.stat().st_mtime)
        backlog.close()
        lines = AppendedLines(path, offset=cursor, most_bytes=_CHUNK_BYTES, line_bytes=_LINE_BYTES)
        return _RecordedFile(path, origin, lines, dates)

    def _marked_lines(self, lines: AppendedLines, *, to_end: bool = True) -> Iterator[tuple[int, bytes]]:
        """Lines that may contain metrics, each with the offset after it."""
        patterns = (*(pattern.encode() for pattern in self._framework.progress.log_marks), _DROPPED_MARK)
        while data := lines.read():
            start = lines.position - len(data)
            for end, line in lines_with(data, patterns):
                yield start + end, line
            if not to_end:
                return

    def _read_log(self, component: str, log: _RecordedFile) -> bool:
        """Process one piece. Returns whether there is more."""
        assert log.dates is not None
        now = self._clock()
        for position, line in self._marked_lines(log.lines, to_end=False):
            if log.lines.restarted:
                break
            text = _plain_line(line, self._framework)
            moment = log.dates.of(text, now)
            if dropped := _DROPPED.search(text):
                self._add_dropped(component, int(dropped[1]), dropped[2], moment, (log.origin, position))
                continue
            try:
                row = self._framework.progress.log_row(component, text)
            except ValueError:  # a number with more digits than Python reads
                continue
            if row is not None:
                self._add_printed(component, row, moment, log.origin, position)
        if log.lines.restarted:  # another file, or it begins anew
            self._printed = {name: other for name, other in self._printed.items() if other is not log}
            return True
        return log.lines.has_more

    def _add_printed(
        self, component: str, row: Mapping[str, Any], moment: float, origin: str, position: int
    ) -> None:
        source = writer_of(row) or component
        step = _step(row) if "step" in row else self._steps.get(source)
        owner = self._owners.setdefault(source, component)
        if owner != component:
            if step is None or step <= self._steps.get(source, -1):
                return  # a launcher repeats what its children print into logs of their own
            self._owners[source] = component
        new = {
            name: value
            for name, value in row.items()
            if name not in self._names_in_file or (isinstance(value, float) and not math.isfinite(value))
        }
        self._add({**new, "step": step}, source, moment, origin, position)

    def _add_dropped(
        self, component: str, count: int, text: str, moment: float, origin: tuple[str, int]
    ) -> None:
        """Record values that a program left out of its metrics since they are not finite."""
        names = dict.fromkeys(_NAME.findall(text), math.nan)
        source = writer_of(names) or component
        step_match = _STEP.search(text)
        step = (
            int(step_match[1]) if step_match else self._steps[source] + 1 if source in self._steps else None
        )
        values = names or {_DROPPED_COUNT: float(count)}
        self._active_writer().add(source, values, at=moment, step=step, origin=origin[0], cursor=origin[1])

    def _add(self, row: Mapping[str, Any], source: str, moment: float, origin: str, position: int) -> None:
        step = _step(row)
        if values := numbers(row):
            self._active_writer().add(source, values, at=moment, step=step, origin=origin, cursor=position)
        if step is None:
            return
        self._steps[source] = step
        if self._framework.progress.names.trainer_step in row:
            if (period := self._period(step, moment)) is not None:
                self._active_writer().add(
                    OWN_SOURCE, {_STEP_TIME: period}, at=moment, step=step, origin=origin, cursor=position
                )
            self._completed = step, moment

    def _period(self, step: int, moment: float) -> float | None:
        """Seconds of a step including waits, since the previous one was completed; `None` after a rewind."""
        if self._completed is None:
            return None
        before, completed_at = self._completed
        return (moment - completed_at) / (step - before) if step > before and moment > completed_at else None


def _plain_line(line: bytes, framework: Framework) -> str:
    is_folded = not framework.progress.log_redraws
    return plain_text(decode_line(line[:_LINE_BYTES].rstrip(b"\r\n"), folded=is_folded))


def _step(row: Mapping[str, Any]) -> int | None:
    step = row.get("step")
    if not is_integer(step):
        return None
    return step if 0 <= step <= LARGEST_STEP else None


def _number(value: object) -> float | None:
    """A valid time; `None` for anything else."""
    return float(value) if is_number(value) and 0 < value < _LATEST_TIME else None
