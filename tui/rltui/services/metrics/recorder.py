"""Copies rows from the files of a run into its store: new ones since the last poll, or all if the store is
lost.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from rltui.base.kinds import is_number
from rltui.base.times import stamp_text
from rltui.core.metrics.progress import numbers
from rltui.core.metrics.series import OWN_SOURCE, Rewind
from rltui.errors import RltuiError
from rltui.frameworks.progress import ProgressSide
from rltui.services.experiment.files import ControlFolder
from rltui.services.logs.growing_file import AppendedLines
from rltui.services.metrics.rows import (
    LINE_BYTES,
    LOG_BYTES,
    MetricRow,
    MetricRows,
    MetricSources,
    RowFile,
    marked_lines,
)
from rltui.services.metrics.store import SeriesWriter, lock_of
from rltui.services.own_files import FileLock
from rltui.services.runs.folder import ARCHIVED_SERIES

logger = logging.getLogger(__name__)

_LATEST_TIME = 1e11
"""Largest number of seconds since 1970 that counts as a date."""
_STEP_TIME = "step_time"
"""Name of the series of the time from one completed step to the next."""


class _Dates:
    """Dates for the lines of a log, most of which say HH:MM:SS alone, in the order of the file."""

    def __init__(self, log: RowFile, progress: ProgressSide) -> None:
        """The last line of now was written when the file was."""
        backlog = AppendedLines(log.path, offset=log.start, most_bytes=LOG_BYTES, line_bytes=LINE_BYTES)
        clocks: list[tuple[int, int]] = []
        while backlog.has_more:
            lines = marked_lines(backlog, progress)
            clocks += [(end, clock) for end, line in lines if (clock := _clock_of(line)) is not None]
        backlog.close()
        self._end, clock = clocks[-1] if clocks else (0, 0)
        self._midnights = [
            end for (_, earlier), (end, later) in pairwise(clocks) if later < earlier - _BACK_S
        ]
        """Offsets after the first lines of each day but the first."""
        self._last_midnight = _at_clock(clock, log.path.stat().st_mtime) - clock if clocks else 0.0
        self._newest: float | None = None

    def of(self, line: str, end: int, now: float) -> float:
        """Seconds since the epoch of the line before the offset `end`, which is read `now`."""
        if timestamp := _ISO.search(line[:_HEAD_CHARS]):
            with contextlib.suppress(ValueError):  # a month that is none: then the time alone counts
                return datetime.fromisoformat(timestamp[0]).timestamp()
        if (clock := _clock_of(line)) is None:
            return now if self._newest is None else self._newest
        days_later = len(self._midnights) - bisect_right(self._midnights, end)
        is_old = end <= self._end
        self._newest = self._last_midnight - days_later * _DAY_S + clock if is_old else _at_clock(clock, now)
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


@dataclass(frozen=True, slots=True)
class _Open:
    """The store while it is locked, and the rows that it does not have."""

    writer: SeriesWriter
    rows: MetricRows


class RunRecorder:
    """Keeps the store of one run up to date. `poll` blocks and belongs to one thread; the other methods do
    not block.
    """

    def __init__(
        self,
        control: ControlFolder,
        sources: MetricSources,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._control, self._sources = control, sources
        self._progress = sources.framework.progress
        self._clock = clock
        self._queue: deque[Callable[[_Open], None]] = deque()
        self._lock = FileLock(lock_of(control.series))
        self._open: _Open | None = None
        self._dates: dict[str, _Dates] = {}
        """Origin of a log → dates of its lines."""
        self._completed: tuple[int, float] | None = None
        """The newest step that the trainer completed, and when."""
        self.problem: str | None = None
        """Reason why nothing is written."""

    # --- from any thread ----------------------------------------------------------------------------------

    def sample(self, values: Mapping[str, float], source: str, step: int | None = None) -> None:
        """Record values that were measured just now. `step`: of the run, if known."""
        now = self._clock()
        self._queue.append(lambda open_: open_.writer.add(source, values, at=now, step=step))

    def resumed(self, step: int | None) -> None:
        """Record that the run continues from the checkpoint `step`, or starts from the beginning."""
        if step is None:
            self._queue.append(self._begin_anew)
        else:
            rewind = Rewind(step - 1 + self._sources.framework.run.locations.first_step, self._clock())
            self._queue.append(lambda open_: self._rewind(open_, rewind))

    # --- in its own ---------------------------------------------------------------------------------------

    def poll(self) -> bool:
        """Process new rows, up to a certain amount. Returns whether there are more to process at once.

        Nothing is read while the disk is full, or while another process writes the store: it is read later.
        """
        if self._open is None or self._open.writer.is_lost():  # somebody removed it: it is filled again
            self._open = self._opened()
        if self._open is None:
            return False
        rows, writer = self._open.rows, self._open.writer
        while self._queue:
            self._queue.popleft()(self._open)
        is_behind = False
        if not writer.is_full:
            new_rows = rows.read()
            if rows.restarted:
                self._begin_anew(self._open)
            for row in new_rows:
                self._add(writer, row)
            is_behind = rows.has_more
        is_written = writer.flush()
        self.problem = writer.problem
        return is_written and is_behind

    def catch_up(self) -> None:
        while self.poll():
            pass

    def close(self) -> None:
        """Let another process write the store."""
        self._open = None
        self._lock.release()

    def _opened(self) -> _Open | None:
        """Lock the store. Only one process writes it, which may be a reader if no supervisor runs."""
        try:
            self._control.make()
            if not self._lock.acquire():
                return None
            writer = SeriesWriter(self._control.series)
        except (OSError, RltuiError) as error:
            self.problem = getattr(error, "strerror", None) or str(error)
            return None
        self._dates.clear()
        return _Open(writer, MetricRows(self._sources, recorded=writer, backlog_bytes=None))

    def _rewind(self, open_: _Open, rewind: Rewind) -> None:
        open_.writer.rewind(*rewind)
        open_.rows.rewind(rewind.step)
        self._completed = None

    def _begin_anew(self, open_: _Open) -> None:
        """Start another run: the store moves to the archive of restarts."""
        time_text = stamp_text(self._clock())
        candidates = (
            self._control.archive / time_text / name for name in (ARCHIVED_SERIES, *map(str, range(2, 1000)))
        )
        archive = next(path for path in candidates if not path.exists())
        try:
            open_.writer.begin_anew(archive)
        except OSError as error:
            logger.error("cannot move %s aside: %s", self._control.series, error.strerror)
        open_.rows.begin_anew()
        self._completed = None

    def _add(self, writer: SeriesWriter, row: MetricRow) -> None:
        at, origin = self._time_of(row), row.file.origin
        if values := numbers(row.values):
            writer.add(row.source, values, at=at, step=row.step, origin=origin, cursor=row.end)
        is_completed = row.kind != "dropped" and self._progress.names.trainer_step in row.values
        if row.step is None or not is_completed:
            return
        step, earlier = row.step, self._completed
        if earlier is not None and step > earlier[0] and at > earlier[1]:
            period = {_STEP_TIME: (at - earlier[1]) / (step - earlier[0])}
            writer.add(OWN_SOURCE, period, at=at, step=step, origin=origin, cursor=row.end)
        self._completed = step, at

    def _time_of(self, row: MetricRow) -> float:
        now = self._clock()
        if row.kind == "file":
            at = row.values.get("time")
            return float(at) if is_number(at) and 0 < at < _LATEST_TIME else now
        if row.file.origin not in self._dates:
            self._dates[row.file.origin] = _Dates(row.file, self._progress)
        return self._dates[row.file.origin].of(row.line, row.end, now)
