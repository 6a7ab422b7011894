"""The data behind the charts: runs, their series as arrays, and what each chart shows of them. No widgets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from rltui.core.lines import LogChange
from rltui.core.marks import Annotation, AnnotationKind
from rltui.core.metric_names import find
from rltui.core.series import NO_STEP, Rewind, Series, SeriesKey, SeriesSource
from rltui.ui.actions import key_of
from rltui.ui.charts.catalog import Chart
from rltui.ui.charts.curves import Floats, Points, smoothed
from rltui.ui.charts.view import Span, View

_CLOCK_CONCEPTS = ("reward", "loss", "step_time", "entropy", "lr")
"""Whose points tell at what time a step was; the first that a run has."""


@dataclass(frozen=True, slots=True)
class Run:
    """One of the runs that are laid over each other."""

    label: str
    """Empty where there is only one."""
    source: SeriesSource


@dataclass(frozen=True, slots=True)
class Polyline:
    x: Floats
    y: Floats
    style: str
    """`line-0` …; `raw` beside a mean, `faint` for a branch that was abandoned."""


@dataclass(frozen=True, slots=True)
class LineReading:
    label: str
    style: str
    value: float


@dataclass(frozen=True, slots=True)
class PlacedMark:
    x: float
    mark: Annotation


@dataclass(frozen=True, slots=True)
class ChartFrame:
    chart: Chart
    strokes: tuple[Polyline, ...] = ()
    readings: tuple[LineReading, ...] = ()
    span: Span = (0.0, 1.0)
    by_time: bool = False
    log: bool = False
    robust: bool = False
    cursor: float | None = None
    marks: tuple[PlacedMark, ...] = ()
    note: str = ""
    """Why there is nothing to see."""


_NOTHING = Points(np.empty(0), np.empty(0), np.empty(0))


def _points(series: Series) -> Points:
    steps = np.array(series.steps, dtype=np.float64)
    steps[steps == NO_STEP] = np.nan
    return Points(steps, np.maximum.accumulate(np.array(series.times)), np.array(series.values))


class _Track:
    """One series of one run, kept up to date."""

    def __init__(self) -> None:
        self._series = Series()
        self._rewinds: Sequence[Rewind] = ()
        self.line = _NOTHING
        self.branches: tuple[Points, ...] = ()

    def update(self, source: SeriesSource, key: SeriesKey) -> None:
        """Read what is new. Steps that go on ascending are added; all else is worked out again."""
        new = source.read(key, len(self._series))
        rewinds = source.rewinds()
        if not len(new) and rewinds == self._rewinds:
            return
        self._series.extend(new)
        added = _points(new)
        known, steps = self.line.steps[-1:], added.steps
        ascending = np.all(np.diff(np.concatenate((known, steps))) > 0)
        if rewinds == self._rewinds and (ascending or np.all(np.isnan(np.concatenate((known, steps))))):
            self.line = Points(
                np.concatenate((self.line.steps, steps)),
                np.maximum.accumulate(np.concatenate((self.line.times, added.times))),
                np.concatenate((self.line.values, added.values)),
            )
            return
        self._rewinds = rewinds
        line, branches = self._series.lines(rewinds)
        self.line, self.branches = _points(line), tuple(map(_points, branches))


@dataclass(slots=True)
class _RunTracks:
    tracks: dict[SeriesKey, _Track] = field(default_factory=dict)
    clock: Points = _NOTHING
    """Points with steps, by which a time has a step and a step a time."""
    start: float = 0.0
    """Time of the first point that was read."""


class ChartModel:
    """Reads the series of `runs` that are looked at, and makes the pictures.

    `load` blocks, and belongs in a thread, one call at a time; the rest is for the event loop.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = tuple(runs)
        self.marks: tuple[Annotation, ...] = ()
        """Of the first run."""
        self._read = [_RunTracks() for _ in runs]

    @property
    def keys(self) -> tuple[SeriesKey, ...]:
        """All series of all runs, sorted."""
        if len(self.runs) == 1:
            return self.runs[0].source.keys()
        return tuple(sorted(set().union(*(run.source.keys() for run in self.runs))))

    def look(self) -> bool:
        """Whether there is anything new."""
        changes = [run.source.look() for run in self.runs]
        for at, change in enumerate(changes):
            if change is LogChange.RESET:
                self._read[at] = _RunTracks()
        return any(change is not LogChange.NONE for change in changes)

    def load(self, charts: Iterable[Chart]) -> None:
        """Read what these charts need, up to the last `look`; what was read for others is forgotten."""
        wanted = {key for chart in charts for key in chart.keys}
        for at, run in enumerate(self.runs):
            keys = run.source.keys()
            found = (find(concept, keys) for concept in _CLOCK_CONCEPTS)
            clock = next((key for key in found if key is not None), None)
            before = self._read[at].tracks
            tracks: dict[SeriesKey, _Track] = {}
            present = wanted & set(keys) | ({clock} if clock is not None else set())
            run.source.prepare(present)
            for key in present:
                tracks[key] = before.get(key) or _Track()
                tracks[key].update(run.source, key)
            self._read[at] = _with_clock(tracks, clock)

    # what is shown

    def whole(self, view: View) -> Span:
        """The axis from the first to the last point of what was read."""
        ends = [
            (x[0], x[-1])
            for run in self._read
            for track in run.tracks.values()
            for points in (track.line, *track.branches)
            if len(x := _axis(points, run, view))
        ]
        if not ends:
            return (0.0, 1.0)
        low, high = float(min(end[0] for end in ends)), float(max(end[1] for end in ends))
        return (low, high) if high > low else (low - 0.5, high + 0.5)

    def picture(self, chart: Chart, view: View) -> ChartFrame:
        log = chart.log != (chart.id in view.log)
        faint: list[Polyline] = []
        strokes: list[Polyline] = []
        readings: list[LineReading] = []
        is_timeless = False
        for run, (at, read) in zip(self.runs, enumerate(self._read), strict=True):
            for number, key in enumerate(chart.keys):
                if (track := read.tracks.get(key)) is None:
                    continue
                style = f"line-{(at if len(self.runs) > 1 else number) % 6}"
                faint += [
                    Polyline(_axis(branch, read, view), branch.values, "faint") for branch in track.branches
                ]
                x, values = _axis(track.line, read, view), track.line.values
                is_timeless = is_timeless or bool(len(values) and not len(x))
                if not len(x):
                    continue
                if view.smoothing > 1:
                    faint.append(Polyline(x, values, "raw"))
                    values = smoothed(values, view.smoothing)
                strokes.append(Polyline(x, values, style))
                parts = (run.label, chart.labels[number] if chart.labels else "")
                label = " · ".join(part for part in parts if part)
                readings.append(LineReading(label, style, _read_at(x, values, view.cursor)))
        span = view.window or self.whole(view)
        note = (
            ""
            if strokes
            else f"has no steps: {key_of('chart.axis')} shows it by time"
            if is_timeless
            else "no value yet"
        )
        return ChartFrame(
            chart, (*faint, *strokes), tuple(readings), span, view.by_time, log, view.robust, view.cursor,
            self.placed_marks(view), note,
        )  # fmt: skip

    def placed_marks(self, view: View) -> tuple[PlacedMark, ...]:
        """Those of the first run that have a place on the axis, in order."""
        placed = []
        for mark in self.marks if view.marks else ():
            step = mark.step if mark.line_step is None else mark.line_step
            x = self.place_of(mark.at, view) if view.by_time or step is None else float(step)
            if x is not None and (view.by_time or not mark.is_abandoned):
                placed.append(PlacedMark(x, mark))
        return tuple(sorted(placed, key=lambda each: each.x))

    def place_of(self, at: float, view: View) -> float | None:
        """Where the moment `at` of the first run lies on the axis."""
        read = self._read[0]
        if view.by_time:
            return at - read.start if read.start else None
        clock = read.clock
        return float(np.interp(at, clock.times, clock.steps)) if len(clock) else None

    def moment(self, x: float, view: View) -> tuple[float | None, float | None]:
        """Step and time (seconds since the epoch) of a place on the axis, in the first run."""
        read = self._read[0]
        clock = read.clock
        if view.by_time:
            at = read.start + x
            return (float(np.interp(at, clock.times, clock.steps)) if len(clock) else None), at
        return x, (float(np.interp(x, clock.steps, clock.times)) if len(clock) else None)

    def lines_of(self, chart: Chart) -> list[tuple[str, Points]]:
        """The lines of a chart as they were measured, with a name each, for an export."""
        found = []
        for run, read in zip(self.runs, self._read, strict=True):
            for key in chart.keys:
                if (track := read.tracks.get(key)) is not None:
                    parts = (run.label, key.source, key.name)
                    found.append((" ".join(part for part in parts if part), track.line))
        return found


def _with_clock(tracks: dict[SeriesKey, _Track], key: SeriesKey | None) -> _RunTracks:
    clock = _NOTHING
    if key is not None:
        line = tracks[key].line
        there = ~np.isnan(line.steps)
        clock = Points(line.steps[there], line.times[there], line.values[there])
    firsts = [
        float(points.times[0])
        for track in tracks.values()
        for points in (track.line, *track.branches)
        if len(points)
    ]
    return _RunTracks(tracks, clock, min(firsts, default=0.0))


def _axis(points: Points, run: _RunTracks, view: View) -> Floats:
    """Places of points on the axis, ascending; none where they have no steps and no clock gives them any."""
    if view.by_time:
        return points.times - run.start
    missing = np.isnan(points.steps)
    if not missing.any():
        return points.steps
    if not len(run.clock):
        return np.empty(0)
    by_clock = np.interp(points.times, run.clock.times, run.clock.steps)
    return np.maximum.accumulate(np.where(missing, by_clock, points.steps))


def _read_at(x: Floats, values: Floats, cursor: float | None) -> float:
    """The value nearest to the cursor, or the last one."""
    if cursor is None:
        return float(values[-1])
    right = int(np.searchsorted(x, cursor))
    nearest = min(
        (each for each in (right - 1, right) if 0 <= each < len(x)), key=lambda each: abs(x[each] - cursor)
    )
    return float(values[nearest])


def is_loud(mark: Annotation) -> bool:
    """It has a line across a chart; a checkpoint, of which there are many, has a tick below."""
    return mark.kind is not AnnotationKind.CHECKPOINT
