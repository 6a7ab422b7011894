"""A chart as a drawing (SVG) and as a table (CSV), for a report. No terminal, no widget."""

from __future__ import annotations

import csv as tables
import io
import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from rltui.base.text import display_unit, format_number
from rltui.core.metrics.annotations import Annotation
from rltui.core.metrics.series import SeriesSource
from rltui.ui.charts.axes import value_ticks, x_ticks
from rltui.ui.charts.catalog import charts
from rltui.ui.charts.curves import Extents, Points
from rltui.ui.charts.model import ChartFrame, ChartModel, Run, has_line
from rltui.ui.charts.view import ChartView
from rltui.ui.text import clean_line
from rltui.views.report import ReportFile

_WIDTH, _HEIGHT = 900, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 20, 50, 50
_COLOURS = {
    "line-0": "#1a7f37", "line-1": "#0969da", "line-2": "#bc4c00", "line-3": "#8250df", "line-4": "#cf222e",
    "line-5": "#57606a", "raw": "#d0d7de", "faint": "#d0d7de",
}  # fmt: skip


def csv(lines: Sequence[tuple[str, Points]]) -> str:
    """A row per point: which line, its step (empty where it has none), its time and its value."""
    text = io.StringIO()
    writer = tables.writer(text, lineterminator="\n")
    writer.writerow(("series", "step", "time", "value"))
    for name, points in lines:
        for step, time, value in zip(
            points.steps.tolist(), points.times.tolist(), points.values.tolist(), strict=True
        ):
            writer.writerow(
                (clean_line(name), "" if math.isnan(step) else int(step), f"{time:.3f}", repr(value))
            )
    return text.getvalue()


def svg(frame: ChartFrame, experiment: str) -> str:
    """Draw the chart as it is displayed, as an SVG with a light background."""
    cells = _WIDTH - _LEFT - _RIGHT
    shapes, y_span = frame.shapes(cells)
    unit = display_unit(frame.chart.unit)
    title = f"{frame.chart.title}{f' ({unit})' if unit else ''} · {experiment}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(_LEFT, 24, title, anchor="start", size=16),
        *_axes(frame, y_span),
        *_annotations(frame),
        *(_path(shape, y_span, _COLOURS[style]) for shape, style in shapes),
        *_legend(frame),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def drawings(source: SeriesSource, experiment: str, annotations: tuple[Annotation, ...]) -> list[ReportFile]:
    """The curated charts of a run, by step where it has steps: a drawing for each that has a value."""
    model, curated = ChartModel([Run("", source)]), charts(source.keys())
    model.load(curated)
    model.annotations = annotations
    frames = [(chart, model.frame(chart, ChartView())) for chart in curated]
    frames = [
        (chart, frame if frame.polylines else model.frame(chart, ChartView(by_time=True)))
        for chart, frame in frames
    ]
    return [
        ReportFile(chart.title, f"curves/{chart.id}.svg", svg(frame, experiment))
        for chart, frame in frames
        if frame.polylines
    ]


def _y(value: float, span: tuple[float, float]) -> float:
    share = (value - span[0]) / (span[1] - span[0])
    return _TOP + (1 - min(max(share, 0.0), 1.0)) * (_HEIGHT - _TOP - _BOTTOM)


def _x(value: float, span: tuple[float, float]) -> float:
    return _LEFT + (value - span[0]) / (span[1] - span[0]) * (_WIDTH - _LEFT - _RIGHT)


def _path(shape: Extents, span: tuple[float, float], colour: str) -> str:
    """Through the lowest and the highest of each column; gaps break it."""
    commands, is_broken = [], True
    for column, (low, high) in enumerate(zip(shape.low.tolist(), shape.high.tolist(), strict=True)):
        if math.isnan(low):
            is_broken = True
            continue
        x = _LEFT + column + 0.5
        commands.append(f"{'M' if is_broken else 'L'}{x:g} {_y(low, span):.1f}")
        if high > low:
            commands.append(f"L{x:g} {_y(high, span):.1f}")
        is_broken = False
    return (
        f'<path d="{"".join(commands)}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        if commands
        else ""
    )


def _axes(frame: ChartFrame, y_span: tuple[float, float]) -> list[str]:
    unit = frame.chart.unit
    left, right, bottom = _LEFT, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts = [f'<path d="M{left} {_TOP}V{bottom}H{right}" fill="none" stroke="#57606a"/>']
    for tick, label in value_ticks(y_span, unit=unit, log=frame.log):
        if y_span[0] <= tick <= y_span[1]:
            y = _y(tick, y_span)
            parts.append(f'<path d="M{left} {y:.1f}H{right}" stroke="#eaeef2"/>')
            parts.append(_text(left - 8, y + 4, label, anchor="end"))
    for tick, label in x_ticks(frame.span, by_time=frame.by_time):
        if frame.span[0] <= tick <= frame.span[1]:
            parts.append(_text(_x(tick, frame.span), bottom + 20, label))
    parts.append(_text((left + right) / 2, bottom + 40, "time" if frame.by_time else "step"))
    return parts


def _annotations(frame: ChartFrame) -> list[str]:
    parts = []
    for placed in frame.annotations:
        if has_line(placed.annotation) and frame.span[0] <= placed.x <= frame.span[1]:
            x = _x(placed.x, frame.span)
            title = f"<title>{_safe(placed.annotation.text)}</title>"
            line = f'd="M{x:.1f} {_TOP}V{_HEIGHT - _BOTTOM}" stroke="#bc4c00" stroke-dasharray="3 3"'
            parts.append(f"<path {line}>{title}</path>")
            parts.append(_text(x, _TOP - 6, placed.annotation.kind.value, size=11))
    return parts


def _legend(frame: ChartFrame) -> list[str]:
    labelled = [reading for reading in frame.readings if reading.label]
    return [
        f'<text x="{_WIDTH - _RIGHT - 6}" y="{_TOP + 16 * (number + 1)}" text-anchor="end" '
        f'font-size="13" fill="{_COLOURS[reading.style]}">'
        f"{_safe(reading.label)} {format_number(reading.value, frame.chart.unit)}</text>"
        for number, reading in enumerate(labelled)
    ]


def _text(x: float, y: float, text: str, *, anchor: str = "middle", size: int = 13) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{_safe(text)}</text>'


def _safe(text: str) -> str:
    return escape(clean_line(text))
