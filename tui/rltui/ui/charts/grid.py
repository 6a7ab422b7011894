"""A grid of as many charts as fit, of a longer list; one is selected, and can take all the room."""

from __future__ import annotations

import math
from collections.abc import Callable

from textual.containers import Container

from rltui.ui.charts.catalog import Chart
from rltui.ui.charts.model import ChartFrame
from rltui.ui.charts.plot import Plot

_MIN_WIDTH = 38
_MIN_HEIGHT = 9
"""Rows of a plot with its border."""
_SHAPE = 4.5
"""Cells per row of a chart that looks well."""


def grid_shape(count: int, width: int, height: int) -> tuple[int, int]:
    """Columns and rows for `count` charts: as few as hold them all, in a good shape, or as many as fit."""
    max_columns, max_rows = max(1, width // _MIN_WIDTH), max(1, height // _MIN_HEIGHT)
    if count >= max_columns * max_rows:
        return max_columns, max_rows

    def badness(columns: int) -> float:
        rows = math.ceil(count / columns)
        empty = columns * rows - count
        shape = (width / columns) / max(1.0, height / rows)
        return abs(math.log(shape / _SHAPE)) + 0.15 * empty

    possible = [
        columns for columns in range(1, max_columns + 1) if math.ceil(max(count, 1) / columns) <= max_rows
    ]
    columns = min(possible, key=badness) if count else 1
    return columns, max(1, math.ceil(count / columns))


class ChartGrid(Container):
    """Plots for a window onto `charts`."""

    def __init__(self) -> None:
        super().__init__(id="metrics-grid")
        self.charts: tuple[Chart, ...] = ()
        self.zoomed = False
        self._index = 0
        """The chosen chart's."""
        self._first_row = 0
        self._shape = (1, 1)
        self._plots: list[Plot] = []

    # what is where

    @property
    def chosen(self) -> Chart | None:
        return self.charts[self._index] if self.charts else None

    @property
    def in_view(self) -> tuple[Chart, ...]:
        if self.zoomed:
            return self.charts[self._index : self._index + 1]
        columns, rows = self._shape
        start = self._first_row * columns
        return self.charts[start : start + columns * rows]

    @property
    def cells(self) -> int:
        return next((plot.cells for plot in self._plots if plot.display and plot.size), 60)

    def set_charts(self, charts: tuple[Chart, ...]) -> None:
        """Show these; the chosen one stays chosen where it is still there."""
        if charts == self.charts:
            return
        before = self.chosen.id if self.chosen is not None else ""
        self.charts = charts
        self._index = next((index for index, chart in enumerate(charts) if chart.id == before), 0)
        self.fit()

    def fit(self) -> None:
        width, height = self.size
        if not (width and height):
            return
        columns, rows = self._shape = grid_shape(len(self.charts), width, height)
        self.styles.grid_size_columns, self.styles.grid_size_rows = (1, 1) if self.zoomed else (columns, rows)
        self.set_class(self.zoomed, "-zoomed")
        count = min(columns * rows, len(self.charts))
        if count > len(self._plots):
            added = [Plot() for _ in range(count - len(self._plots))]
            self._plots += added
            self.mount(*added)
        for number, plot in enumerate(self._plots):
            _set_spare(plot, number >= count)
        self._scroll()

    def draw(self, frame: Callable[[Chart], ChartFrame]) -> None:
        """The plots are in the order of `in_view`; zoomed, only one is seen."""
        columns, rows = self._shape
        visible = self.in_view
        for number, plot in enumerate(self._plots[: columns * rows]):
            _set_spare(plot, number >= len(visible))
            if number < len(visible):
                plot.is_chosen = visible[number] is self.chosen
                plot.show(frame(visible[number]))

    # moving

    def move(self, columns: int, rows: int) -> None:
        across = 1 if self.zoomed else self._shape[0]
        index = self._index + columns + rows * across
        if 0 <= index < len(self.charts):
            self._index = index
        elif rows > 0 and not self.zoomed and self._index // across < (len(self.charts) - 1) // across:
            self._index = len(self.charts) - 1
        self._scroll()

    def zoom(self, zoomed: bool) -> None:
        self.zoomed = zoomed and bool(self.charts)
        self.fit()

    def choose(self, plot: Plot) -> None:
        visible, number = self.in_view, self._plots.index(plot)
        if number < len(visible):
            self._index = self.charts.index(visible[number])

    def _scroll(self) -> None:
        columns, rows = self._shape
        row = self._index // columns
        last_row = max(0, math.ceil(len(self.charts) / columns) - rows)
        self._first_row = min(max(self._first_row, row - rows + 1, 0), row, last_row)


def _set_spare(plot: Plot, is_spare: bool) -> None:
    """A spare one is not seen, and shows nothing old when it is needed again."""
    plot.set_class(is_spare, "-spare")
    if is_spare:
        plot.show(None)
