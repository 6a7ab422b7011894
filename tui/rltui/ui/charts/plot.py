"""A chart on the canvas of textual-hires-canvas. Imports numpy.

Not the `PlotWidget` of textual-plot: that is seven widgets a chart and goes dot by dot through Python. A grid
of twelve took longer to open and to draw than a whole screen of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual_hires_canvas import Canvas

from rltui.base.text import display_unit, format_number, truncate
from rltui.core.metrics.annotations import AnnotationKind
from rltui.ui.charts.axes import value_ticks, x_ticks
from rltui.ui.charts.curves import Extents, bad_columns, braille
from rltui.ui.charts.model import LINE_COLOURS, ChartFrame, PlacedAnnotation, has_line
from rltui.ui.charts.view import Span
from rltui.ui.styles import FAINT
from rltui.ui.text import clean_line
from rltui.views.event import ANNOTATIONS

_LEFT = 7
"""Cells of the labels at the left and the axis."""
_CELLS_PER_TICK = 7
_CELLS_PER_CHECKPOINT = 5
"""Least number of cells per checkpoint; below it none is drawn: they would hide the axis."""
_MIN_SIZE = (16, 3)
"""Cells and rows below which nothing is drawn."""
_BLANK = 0x2800


class Plot(Canvas):
    """Shows a `ChartFrame`: lines, annotations, axes, and in its title the values of the lines."""

    DEFAULT_CSS = """
    Plot {
        width: 1fr;
        height: 1fr;
        border: round $border-blurred;
        border-title-color: $foreground;
        pointer: default;
        & > .plot--axis { color: $border-blurred; }
        & > .plot--tick, & > .plot--note { color: $text-muted; }
        & > .plot--raw { color: $border-blurred; }
        & > .plot--faint { color: $foreground 30%; }
        & > .plot--mark { color: $text-warning; }
        & > .plot--alarm { color: $text-error; }
        & > .plot--cursor { color: $foreground; }
    }
    """ + "".join(f"Plot > .plot--{name} {{ color: {colour}; }}\n" for name, colour in LINE_COLOURS.items())
    COMPONENT_CLASSES: ClassVar = {
        "plot--axis", "plot--tick", "plot--note", "plot--raw", "plot--faint", "plot--mark", "plot--alarm",
        "plot--cursor", *(f"plot--{name}" for name in LINE_COLOURS),
    }  # fmt: skip
    is_chosen: reactive[bool] = reactive(False, init=False)

    @dataclass
    class Chosen(Message):
        plot: Plot

    def __init__(self) -> None:
        super().__init__(1, 1)
        self._frame: ChartFrame | None = None
        self._styles_by_name: dict[str, str] = {}

    # values in

    def show(self, frame: ChartFrame | None) -> None:
        """Draw it, unless it is there already; `None`: nothing."""
        if frame is not self._frame:
            self._frame = frame
            self._draw()

    def on_click(self) -> None:
        self.post_message(self.Chosen(self))

    def on_resize(self) -> None:
        self._draw()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles_by_name.clear()
        if self.is_mounted:
            self._draw()

    def watch_is_chosen(self) -> None:
        self.set_class(self.is_chosen, "-chosen")

    # drawing

    @property
    def cells(self) -> int:
        """Width of what is drawn, without axis and labels."""
        return max(1, self.content_size.width - _LEFT)

    def render_line(self, y: int) -> Strip:
        """A blank of the canvas has no style, which Textual's filter for terminals without colours needs."""
        return super().render_line(y).apply_style(self.rich_style)

    def _style(self, name: str) -> str:
        if name not in self._styles_by_name:
            self._styles_by_name[name] = str(self.get_component_rich_style(f"plot--{name}"))
        return self._styles_by_name[name]

    def _text(self, x: int, y: int, text: str, style: str) -> None:
        for index, char in enumerate(text):
            self.set_pixel(x + index, y, char, self._style(style))

    def _draw(self) -> None:
        width, height = size = self.content_size
        frame = self._frame
        with self.batch_refresh():
            self.reset(size=size, refresh=False)
            if frame is None or width < _MIN_SIZE[0] or height < _MIN_SIZE[1]:
                self.border_title = ""
                return
            self.border_title = _title(frame, width)
            if frame.note:
                text = truncate(frame.note, width)
                self._text((width - len(text)) // 2, height // 2, text, "note")
                return
            cells, rows = width - _LEFT, height - 1
            shapes, y_span = frame.shapes(cells * 2)
            self._draw_annotations(frame, cells, rows)
            self._draw_lines(shapes, y_span, rows)
            self._draw_bad(frame, cells, rows)
            self._draw_axes(frame, y_span, cells, rows)

    def _draw_annotations(self, frame: ChartFrame, cells: int, rows: int) -> None:
        cursor = None if frame.cursor is None else _column(frame.cursor, frame.span, cells)
        if cursor is not None:
            for row in range(rows):
                self.set_pixel(_LEFT + cursor, row, "│", self._style("cursor"))
        for column, placed in _one_per_column(frame, cells).items():
            badge = ANNOTATIONS[placed.annotation.kind]
            style = self._style("alarm" if badge.is_alarm else "mark")
            if has_line(placed.annotation):
                for row in range(1, rows):
                    self.set_pixel(_LEFT + column, row, "┊", style)
                self.set_pixel(_LEFT + column, 0, badge.sign, style)

    def _draw_lines(self, shapes: list[tuple[Extents, str]], y_span: Span, rows: int) -> None:
        """One over the other: a cell has the dots of all, and the colour of the last."""
        if not shapes:
            return
        codes = np.zeros((rows, len(shapes[0][0].low) // 2), dtype=np.int64)
        owner = np.zeros_like(codes)
        for number, (shape, _) in enumerate(shapes):
            dots = braille(shape, y_span, rows)
            codes |= dots
            owner[dots > 0] = number
        styles = [self._style(style) for _, style in shapes]
        for y, x in np.argwhere(codes).tolist():
            self.set_pixel(_LEFT + x, y, chr(_BLANK + int(codes[y, x])), styles[owner[y, x]])

    def _draw_bad(self, frame: ChartFrame, cells: int, rows: int) -> None:
        columns = {
            column
            for polyline in frame.polylines
            if polyline.style.startswith("line")
            for column in bad_columns(polyline.x, polyline.y, frame.span, cells)
        }
        for column in columns:
            self.set_pixel(_LEFT + column, rows - 1, "×", self._style("alarm"))

    def _draw_axes(self, frame: ChartFrame, y_span: Span, cells: int, rows: int) -> None:
        unit = frame.chart.unit
        for row in range(rows):
            self.set_pixel(_LEFT - 1, row, "│", self._style("axis"))
        labelled_row = -2
        for tick, label in value_ticks(y_span, max(2, min(10, rows // 2)), unit=unit, log=frame.log):
            row = rows - 1 - round((tick - y_span[0]) / (y_span[1] - y_span[0]) * (rows - 1))
            if 0 <= row < rows and abs(row - labelled_row) >= 2:
                labelled_row = row
                self._text(0, row, label[: _LEFT - 1].rjust(_LEFT - 1), "tick")
                self.set_pixel(_LEFT - 1, row, "┤", self._style("axis"))
        free_x = 0
        for tick, label in x_ticks(
            frame.span, max(3, min(12, cells // _CELLS_PER_TICK)), by_time=frame.by_time
        ):
            if (column := _column(tick, frame.span, cells)) is None:
                continue
            x = min(max(_LEFT + column - len(label) // 2, 0), _LEFT + cells - len(label))
            if x >= free_x:
                self._text(x, rows, label, "tick")
                free_x = x + len(label) + 1
        ticks_below = [
            column
            for column, placed in _one_per_column(frame, cells).items()
            if not has_line(placed.annotation)
        ]
        for column in ticks_below if len(ticks_below) <= cells // _CELLS_PER_CHECKPOINT else ():
            if self.get_pixel(_LEFT + column, rows)[0] == " ":
                sign = ANNOTATIONS[AnnotationKind.CHECKPOINT].sign
                self.set_pixel(_LEFT + column, rows, sign, self._style("mark"))


def _column(x: float, span: Span, cells: int) -> int | None:
    """The cell that `x` is in; `None` where it is not seen."""
    if not span[0] <= x <= span[1]:
        return None
    return min(cells - 1, int((x - span[0]) / (span[1] - span[0]) * cells))


def _one_per_column(frame: ChartFrame, cells: int) -> dict[int, PlacedAnnotation]:
    """The annotation of each cell; of several, the one that most explains what is seen."""
    order = list(AnnotationKind)
    by_column: dict[int, PlacedAnnotation] = {}
    for placed in frame.annotations:
        column, rank = _column(placed.x, frame.span, cells), order.index(placed.annotation.kind)
        if column is not None and (
            column not in by_column or rank < order.index(by_column[column].annotation.kind)
        ):
            by_column[column] = placed
    return by_column


def _title(frame: ChartFrame, width: int) -> Content:
    """Name, what is read and its unit, as far as there is room."""
    chart = frame.chart
    title = Content.styled(truncate(clean_line(chart.title), width - 4), "bold")
    facts = [display_unit(chart.unit), "log" if frame.log else ""]
    parts = []
    for reading in frame.readings:
        label = f" {clean_line(reading.label)}" if reading.label else ""
        style = LINE_COLOURS[reading.style] if reading.label else "bold $accent"
        parts.append((f"{label} {format_number(reading.value, chart.unit)}", style))
    for text, style in (*parts, *((f" {fact}", FAINT) for fact in facts if fact)):
        if title.cell_length + len(text) > width - 4:
            break
        title += Content.styled(text, style)
    return title
