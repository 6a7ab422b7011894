"""The data behind the charts: runs, their series as arrays, and what each chart shows of them. No widgets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from rltui.core.logs.source import LogChange
from rltui.core.metrics.annotations import Annotation, AnnotationKind
from rltui.core.metrics.names import find
from rltui.core.metrics.series import NO_STEP, Rewind, Series, SeriesKey, SeriesSource
from rltui.ui.actions import key_of
from rltui.ui.charts.catalog import Chart
from rltui.ui.charts.curves import Extents, Floats, Points, extents, logarithms, smooth, value_span, widen
from rltui.ui.charts.view import ChartView, Span

_CLOCK_CONCEPTS = ("reward", "loss", "step_time", "entropy", "lr")
"""Concepts whose points tell the time of a step; the first that a run has counts."""


LINE_COLOURS = {
    "line-0": "$text-success",
    "line-1": "$text-primary",
    "line-2": "$text-warning",
    "line-3": "$text-error",
    "line-4": "$foreground",
    "line-5": "$text-secondary",
}
"""Style of a line → its colour, by the theme."""
_LINES = tuple(LINE_COLOURS)


@dataclass(frozen=True, slots=True)
class Run:
    label: str
    """Name of the run in labels; empty if it is the only one."""
    source: SeriesSource


@dataclass(frozen=True, slots=True)
class Polyline:
    """A line in the coordinates of the chart."""

    x: Floats
    y: Floats
    style: str
    """`line-0` …; `raw` beside a mean, `faint` for a branch that was abandoned."""


@dataclass(frozen=True, slots=True)
class LineReading:
    """The value of one line at the cursor, or its last one."""

    label: str
    style: str
    value: float


@dataclass(frozen=True, slots=True)
class PlacedAnnotation:
    x: float
    annotation: Annotation


@dataclass(frozen=True, slots=True)
class ChartFrame:
    chart: Chart
    polylines: tuple[Polyline, ...] = ()
    readings: tuple[LineReading, ...] = ()
    span: Span = (0.0, 1.0)
    by_time: bool = False
    log: bool = False
    robust: bool = False
    cursor: float | None = None
    annotations: tuple[PlacedAnnotation, ...] = ()
    note: str = ""
    """Why there is nothing to see."""

    def shapes(self, columns: int) -> tuple[list[tuple[Extents, str]], Span]:
        """Each line in so many columns, with its style, and the values from bottom to top: those of branches
        that were abandoned count only where there are no others.
        """
        shapes = [
            (extents(line.x, logarithms(line.y) if self.log else line.y, self.span, columns), line.style)
            for line in self.polylines
        ]
        main = [shape for shape, style in shapes if style != "faint"]
        span = value_span(main, robust=self.robust)
        span = span or value_span([shape for shape, _ in shapes], robust=self.robust)
        return shapes, widen(span or (0.0, 1.0))


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
        """Polylines of the steps that a rewind left behind."""

    @property
    def lines(self) -> tuple[Points, ...]:
        return self.line, *self.branches

    def update(self, source: SeriesSource, key: SeriesKey) -> None:
        """Read what is new. Steps that go on ascending are added; all else is worked out again."""
        new = source.read(key, len(self._series))
        rewinds = source.rewinds()
        if not len(new) and rewinds == self._rewinds:
            return
        self._series.extend(new)
        added = _points(new)
        steps = np.concatenate((self.line.steps[-1:], added.steps))
        if rewinds == self._rewinds and (np.all(np.diff(steps) > 0) or np.all(np.isnan(steps))):
            self.line = Points(
                np.concatenate((self.line.steps, added.steps)),
                np.maximum.accumulate(np.concatenate((self.line.times, added.times))),
                np.concatenate((self.line.values, added.values)),
            )
            return
        self._rewinds = rewinds
        line, branches = self._series.lines(rewinds)
        self.line, self.branches = _points(line), tuple(map(_points, branches))


@dataclass(slots=True)
class _RunTracks:
    """Tracks that were read of one run."""

    tracks: dict[SeriesKey, _Track] = field(default_factory=dict)
    clock: Points = _NOTHING
    """Points with steps, by which a time has a step and a step a time."""
    start: float = 0.0
    """Time of the first point that was read."""

    @classmethod
    def with_clock(cls, tracks: dict[SeriesKey, _Track], key: SeriesKey | None) -> Self:
        """`key`: of the series that the clock is made of."""
        clock = _NOTHING
        if key is not None:
            line = tracks[key].line
            has_step = ~np.isnan(line.steps)
            clock = Points(line.steps[has_step], line.times[has_step], line.values[has_step])
        lines = (points for track in tracks.values() for points in track.lines if len(points))
        return cls(tracks, clock, min((float(points.times[0]) for points in lines), default=0.0))

    def x(self, points: Points, view: ChartView) -> Floats:
        """Places of points on the axis, ascending; none where they have no steps and no clock gives any."""
        if view.by_time:
            return points.times - self.start
        missing = np.isnan(points.steps)
        if not missing.any():
            return points.steps
        if not len(self.clock):
            return np.empty(0)
        by_clock = np.interp(points.times, self.clock.times, self.clock.steps)
        return np.maximum.accumulate(np.where(missing, by_clock, points.steps))

    def step_at(self, time: float) -> float | None:
        return float(np.interp(time, self.clock.times, self.clock.steps)) if len(self.clock) else None

    def time_at(self, step: float) -> float | None:
        return float(np.interp(step, self.clock.steps, self.clock.times)) if len(self.clock) else None


class ChartModel:
    """Reads the series that the charts of some runs show, and makes frames of them.

    `load` blocks, and belongs in a thread, one call at a time; the rest is for the event loop.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = tuple(runs)
        self.annotations: tuple[Annotation, ...] = ()
        """Annotations of the first run."""
        self._tracks = [_RunTracks() for _ in runs]

    @property
    def keys(self) -> tuple[SeriesKey, ...]:
        """All series of all runs, sorted."""
        if len(self.runs) == 1:
            return self.runs[0].source.keys()
        return tuple(sorted(set().union(*(run.source.keys() for run in self.runs))))

    def poll(self) -> bool:
        """Returns whether there are new values."""
        changes = [run.source.poll() for run in self.runs]
        for index, change in enumerate(changes):
            if change is LogChange.RESET:
                self._tracks[index] = _RunTracks()
        return any(change is not LogChange.NONE for change in changes)

    def load(self, charts: Iterable[Chart]) -> None:
        """Read what these charts need, up to the last `poll`; what was read for others is forgotten."""
        needed = {key for chart in charts for key in chart.keys}
        for index, run in enumerate(self.runs):
            keys = run.source.keys()
            clock_keys = (find(concept, keys) for concept in _CLOCK_CONCEPTS)
            clock = next((key for key in clock_keys if key is not None), None)
            before = self._tracks[index].tracks
            tracks: dict[SeriesKey, _Track] = {}
            present = needed & set(keys) | ({clock} if clock is not None else set())
            run.source.prepare(present)
            for key in present:
                tracks[key] = before.get(key) or _Track()
                tracks[key].update(run.source, key)
            self._tracks[index] = _RunTracks.with_clock(tracks, clock)

    # what charts show

    def full_span(self, view: ChartView) -> Span:
        """The axis from the first to the last point of what was read."""
        ends = [
            (x[0], x[-1])
            for run in self._tracks
            for track in run.tracks.values()
            for points in track.lines
            if len(x := run.x(points, view))
        ]
        if not ends:
            return (0.0, 1.0)
        low, high = float(min(end[0] for end in ends)), float(max(end[1] for end in ends))
        return (low, high) if high > low else (low - 0.5, high + 0.5)

    def frame(self, chart: Chart, view: ChartView) -> ChartFrame:
        log = chart.log != (chart.id in view.log)
        faint: list[Polyline] = []
        polylines: list[Polyline] = []
        readings: list[LineReading] = []
        is_timeless = False
        for index, (run, run_tracks) in enumerate(zip(self.runs, self._tracks, strict=True)):
            for number, key in enumerate(chart.keys):
                if (track := run_tracks.tracks.get(key)) is None:
                    continue
                style = _LINES[(index if len(self.runs) > 1 else number) % len(_LINES)]
                faint += [
                    Polyline(run_tracks.x(branch, view), branch.values, "faint") for branch in track.branches
                ]
                x, values = run_tracks.x(track.line, view), track.line.values
                is_timeless = is_timeless or bool(len(values) and not len(x))
                if not len(x):
                    continue
                if view.smoothing > 1:
                    faint.append(Polyline(x, values, "raw"))
                    values = smooth(values, view.smoothing)
                polylines.append(Polyline(x, values, style))
                names = (run.label, chart.labels[number] if chart.labels else "")
                label = " · ".join(filter(None, names))
                readings.append(LineReading(label, style, _read_at(x, values, view.cursor)))
        span = view.window or self.full_span(view)
        note = (
            ""
            if polylines
            else f"has no steps: {key_of('chart.axis')} shows it by time"
            if is_timeless
            else "no values yet"
        )
        return ChartFrame(
            chart, (*faint, *polylines), tuple(readings), span, view.by_time, log, view.robust, view.cursor,
            self.placed_annotations(view), note,
        )  # fmt: skip

    def placed_annotations(self, view: ChartView) -> tuple[PlacedAnnotation, ...]:
        """Annotations of the first run that have a place on the axis, in order."""
        placed = []
        for annotation in self.annotations if view.annotations else ():
            step = annotation.step if annotation.line_step is None else annotation.line_step
            x = self.x_of(annotation.at, view) if view.by_time or step is None else float(step)
            if x is not None and (view.by_time or not annotation.is_abandoned):
                placed.append(PlacedAnnotation(x, annotation))
        return tuple(sorted(placed, key=lambda placed: placed.x))

    def x_of(self, time: float, view: ChartView) -> float | None:
        """Position on the axis of a moment (seconds since the epoch) of the first run; `None` if it has
        none.
        """
        run = self._tracks[0]
        if view.by_time:
            return time - run.start if run.start else None
        return run.step_at(time)

    def moment(self, x: float, view: ChartView) -> tuple[float | None, float | None]:
        """Step and time (seconds since the epoch) of a place on the axis, in the first run."""
        run = self._tracks[0]
        if view.by_time:
            return run.step_at(run.start + x), run.start + x
        return x, run.time_at(x)

    def lines_of(self, chart: Chart) -> list[tuple[str, Points]]:
        """The lines of a chart as they were measured, with a name each, for an export."""
        lines = []
        for run, run_tracks in zip(self.runs, self._tracks, strict=True):
            for key in chart.keys:
                if (track := run_tracks.tracks.get(key)) is not None:
                    names = (run.label, key.source, key.name)
                    lines.append((" ".join(filter(None, names)), track.line))
        return lines


def _read_at(x: Floats, values: Floats, cursor: float | None) -> float:
    """The value nearest to the cursor, or the last one."""
    if cursor is None:
        return float(values[-1])
    right = int(np.searchsorted(x, cursor))
    beside = (index for index in (right - 1, right) if 0 <= index < len(x))
    nearest = min(beside, key=lambda index: abs(x[index] - cursor))
    return float(values[nearest])


def has_line(annotation: Annotation) -> bool:
    """Whether a line across a chart stands for it; for a checkpoint, of which there are many, a tick does."""
    return annotation.kind is not AnnotationKind.CHECKPOINT
