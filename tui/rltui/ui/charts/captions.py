"""The texts around charts: title, values at the cursor, annotations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from textual.content import Content

from rltui.base.text import age, duration, format_measured, truncate
from rltui.base.times import clock_text
from rltui.core.metrics.annotations import AnnotationKind
from rltui.ui.charts.catalog import Chart
from rltui.ui.charts.model import LINE_COLOURS, ChartModel, PlacedAnnotation, has_line
from rltui.ui.charts.view import ChartView
from rltui.ui.styles import FAINT
from rltui.ui.text import clean_line
from rltui.views.event import ANNOTATIONS

_READING_WIDTH = 34


def title_facts(count: int, series: int | None, view: ChartView, pattern: str) -> list[str]:
    if not series:
        return ["Metrics"]
    facts = [f"Metrics · {count} charts of {series} series"]
    facts.append("by time" if view.by_time else "by step")
    if view.smoothing > 1:
        facts.append(f"mean of {view.smoothing}")
    if view.robust:
        facts.append("outliers cut")
    if view.window is not None:
        facts.append("part of the run")
    if pattern:
        facts.append(f"/{clean_line(pattern)}/")
    return facts


def legend(model: ChartModel) -> Content:
    names = [
        Content.styled(f"━ {clean_line(run.label)}", [*LINE_COLOURS.values()][index % len(LINE_COLOURS)])
        for index, run in enumerate(model.runs)
    ]
    return Content("  ").join(names)


def line_below(model: ChartModel, view: ChartView, cells: int, now: float) -> Content:
    """At the cursor: step, time and what happened there. Without one: how many annotations there are."""
    low, high = view.window or model.full_span(view)
    visible = [placed for placed in model.placed_annotations(view) if low <= placed.x <= high]
    if view.cursor is not None:
        reach = (high - low) / cells
        kinds = list(AnnotationKind)
        near = [placed for placed in visible if abs(placed.x - view.cursor) <= reach]
        near.sort(key=lambda placed: kinds.index(placed.annotation.kind))
        parts = [Content.styled(_moment_text(model, view, view.cursor, now), "bold")]
        parts += map(_annotation_text, near)
        return Content("  ").join(parts)
    counts = Counter(placed.annotation.kind for placed in visible)
    texts = [
        Content.assemble(
            (f"{ANNOTATIONS[kind].sign} ", _annotation_style(kind)),
            (f"{count} {ANNOTATIONS[kind].word if count == 1 else ANNOTATIONS[kind].plural}", FAINT),
        )
        for kind in AnnotationKind
        if (count := counts[kind])
    ]
    return Content.styled(" · ", FAINT).join(texts)


def annotation_lines(model: ChartModel, view: ChartView, rows: int) -> Content:
    """The annotations in sight with their text, those next to the cursor, or else the newest."""
    low, high = view.window or model.full_span(view)
    visible = [
        placed
        for placed in model.placed_annotations(view)
        if low <= placed.x <= high and has_line(placed.annotation)
    ]
    if (cursor := view.cursor) is not None:
        visible.sort(key=lambda placed: abs(placed.x - cursor))
        visible = sorted(visible[:rows], key=lambda placed: placed.x)
    lines = []
    for placed in visible[-rows:]:
        step, _ = model.moment(placed.x, view)
        label = "" if step is None else f"step {step:.0f}"
        time_text = clock_text(placed.annotation.at)
        lines.append(Content.assemble((f"{label:>10} {time_text} ", FAINT), _annotation_text(placed)))
    return Content("\n").join(lines)


def reading_lines(
    model: ChartModel, view: ChartView, charts: Sequence[Chart], chosen: Chart | None
) -> Content:
    lines = [Content.styled("At the cursor" if view.cursor is not None else "Newest", "bold underline")]
    for chart in charts:
        style = "bold" if chart is chosen else ""
        readings = model.frame(chart, view).readings
        title = clean_line(chart.title)
        if len(readings) != 1:
            lines.append(Content.styled(truncate(title, _READING_WIDTH), style))
        for reading in readings:
            label = f"  {clean_line(reading.label)}" if len(readings) > 1 else title
            text = format_measured(reading.value, chart.unit)
            room = max(4, _READING_WIDTH - len(text) - 1)
            colour = LINE_COLOURS[reading.style] if len(readings) > 1 else style
            lines.append(Content.assemble((truncate(label, room).ljust(room + 1), colour), (text, "bold")))
    return Content("\n").join(lines)


def _moment_text(model: ChartModel, view: ChartView, x: float, now: float) -> str:
    step, moment = model.moment(x, view)
    parts = [] if step is None else [f"step {step:.0f}"]
    if moment is not None:
        parts += [clock_text(moment), f"{age(max(0.0, now - moment))} ago"]
    if view.by_time:
        parts.insert(0, f"{duration(x)} in")
    return " · ".join(parts)


def _annotation_style(kind: AnnotationKind) -> str:
    return "bold $text-error" if ANNOTATIONS[kind].is_alarm else "bold $text-warning"


def _annotation_text(placed: PlacedAnnotation) -> Content:
    annotation = placed.annotation
    return Content.assemble(
        (f"{ANNOTATIONS[annotation.kind].sign} ", _annotation_style(annotation.kind)),
        clean_line(annotation.text),
    )
