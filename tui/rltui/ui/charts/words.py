"""What stands around the charts: title, what is read at the cursor, marks with their text."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from textual.content import Content

from rltui.core.marks import AnnotationKind
from rltui.core.text import duration, figure, shortened, shown_unit
from rltui.ui.charts.board import ChartModel, PlacedMark, is_loud
from rltui.ui.charts.catalog import Chart
from rltui.ui.charts.plot import LINE_COLOURS, MARK_SIGNS
from rltui.ui.charts.view import View
from rltui.ui.styles import FAINT
from rltui.ui.text import age, clean_line

_ALARMS = (AnnotationKind.CRASH, AnnotationKind.ALERT)
_MARK_WORDS = {
    AnnotationKind.CRASH: ("crash", "crashes"),
    AnnotationKind.ALERT: ("alert", "alerts"),
    AnnotationKind.EDIT: ("edit", "edits"),
    AnnotationKind.NOTE: ("note", "notes"),
    AnnotationKind.RESUME: ("resume", "resumes"),
    AnnotationKind.RESTART: ("restart", "restarts"),
    AnnotationKind.CHECKPOINT: ("checkpoint", "checkpoints"),
    AnnotationKind.EVAL: ("evaluation", "evaluations"),
}
_READING_WIDTH = 34


def title_facts(count: int, series: int | None, view: View, words: str) -> list[str]:
    facts = ["Metrics" if series is None else f"Metrics · {count} charts of {series} series"]
    facts.append("by time" if view.by_time else "by step")
    if view.smoothing > 1:
        facts.append(f"mean of {view.smoothing}")
    if view.robust:
        facts.append("outliers cut")
    if view.window is not None:
        facts.append("a part of the run")
    if words:
        facts.append(f"/{clean_line(words)}/")
    return facts


def legend(board: ChartModel) -> Content:
    names = [
        Content.styled(f"━ {clean_line(run.label)}", LINE_COLOURS[f"line-{at % len(LINE_COLOURS)}"])
        for at, run in enumerate(board.runs)
    ]
    return Content("  ").join(names)


def line_below(board: ChartModel, view: View, cells: int, now: float) -> Content:
    """At the cursor: step, time and what happened there. Without one: which marks there are."""
    low, high = view.window or board.whole(view)
    placed = [each for each in board.placed_marks(view) if low <= each.x <= high]
    if view.cursor is not None:
        reach = (high - low) / cells
        near = [each for each in placed if abs(each.x - view.cursor) <= reach]
        parts = [Content.styled(_moment_text(board, view, view.cursor, now), "bold")]
        parts += [
            _mark_text(each)
            for each in sorted(near, key=lambda each: list(AnnotationKind).index(each.mark.kind))
        ]
        return Content("  ").join(parts)
    counts = Counter(each.mark.kind for each in placed)
    texts = [
        Content.assemble(
            (f"{MARK_SIGNS[kind]} ", _mark_style(kind)),
            (f"{counts[kind]} {_MARK_WORDS[kind][counts[kind] != 1]}", FAINT),
        )
        for kind in AnnotationKind
        if counts[kind]
    ]
    return Content.styled(" · ", FAINT).join(texts)


def event_lines(board: ChartModel, view: View, rows: int) -> Content:
    """The marks in sight with their text, those next to the cursor, or else the newest."""
    low, high = view.window or board.whole(view)
    placed = [each for each in board.placed_marks(view) if low <= each.x <= high and is_loud(each.mark)]
    if view.cursor is not None:
        cursor = view.cursor
        placed = sorted(sorted(placed, key=lambda each: abs(each.x - cursor))[:rows], key=lambda each: each.x)
    lines = []
    for each in placed[-rows:]:
        step, _ = board.moment(each.x, view)
        where = "" if step is None else f"step {step:.0f}"
        lines.append(Content.assemble((f"{where:>10} {_clock(each.mark.at)} ", FAINT), _mark_text(each)))
    return Content("\n").join(lines)


def reading_lines(board: ChartModel, view: View, charts: Sequence[Chart], chosen: Chart | None) -> Content:
    """What every series says at the cursor, or in the end."""
    lines = [Content.styled("At the cursor" if view.cursor is not None else "Newest", "bold underline")]
    for chart in charts:
        unit = shown_unit(chart.unit)
        style = "bold" if chart is chosen else ""
        readings = board.picture(chart, view).readings
        title = clean_line(chart.title)
        if len(readings) != 1:
            lines.append(Content.styled(shortened(title, _READING_WIDTH), style))
        for reading in readings:
            label = f"  {clean_line(reading.label)}" if len(readings) > 1 else title
            text = f"{figure(reading.value, chart.unit)} {unit}".rstrip()
            room = max(4, _READING_WIDTH - len(text) - 1)
            colour = LINE_COLOURS[reading.style] if len(readings) > 1 else style
            lines.append(Content.assemble((shortened(label, room).ljust(room + 1), colour), (text, "bold")))
    return Content("\n").join(lines)


def _moment_text(board: ChartModel, view: View, x: float, now: float) -> str:
    step, at = board.moment(x, view)
    parts = [] if step is None else [f"step {step:.0f}"]
    if at is not None:
        parts += [_clock(at), f"{age(max(0.0, now - at))} ago"]
    if view.by_time:
        parts.insert(0, f"{duration(x)} in")
    return " · ".join(parts)


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def _mark_style(kind: AnnotationKind) -> str:
    return "bold $text-error" if kind in _ALARMS else "bold $text-warning"


def _mark_text(placed: PlacedMark) -> Content:
    mark = placed.mark
    return Content.assemble((f"{MARK_SIGNS[mark.kind]} ", _mark_style(mark.kind)), clean_line(mark.text))
