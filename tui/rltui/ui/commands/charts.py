"""Commands on charts: which part of the run is seen, how, and read where; pins, pictures and tables."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from rltui.client.experiment import Experiment
from rltui.errors import RltuiError
from rltui.ui.charts import export
from rltui.ui.charts.catalog import Chart
from rltui.ui.charts.grid import ChartGrid
from rltui.ui.charts.model import ChartModel
from rltui.ui.charts.view import ChartView, Span
from rltui.ui.commands.frontend import Frontend
from rltui.ui.text import clean

_PAN = 0.25
"""The unit is the visible range."""


class ChartCommands:
    def __init__(
        self,
        frontend: Frontend,
        experiment: Experiment,
        grid: ChartGrid,
        *,
        draw: Callable[[], None],
        select: Callable[[], None],
    ) -> None:
        """`draw` shows the charts in the present view; `select` says which they are, by the pins."""
        self._frontend = frontend
        self._experiment = experiment
        self._grid = grid
        self._draw, self._select = draw, select
        self.model: ChartModel | None = None
        """`None` until it has been read."""
        self.view = ChartView()
        self.pins: tuple[str, ...] = ()
        """Ids of the charts that come first."""

    def allows(self, command: str, *arguments: object) -> bool:
        del command, arguments
        return self._grid.chosen is not None

    def _change(self, change: Callable[[ChartView, Span], ChartView]) -> None:
        """`change` gets the view, and the span of all there is."""
        if self.model is None:
            return
        view = change(self.view, self.model.full_span(self.view))
        if view != self.view:
            self.view = view
            self._draw()

    def go_to(self, moment: float) -> bool:
        """Read at a moment in seconds since the epoch, to be drawn; whether that is known already."""
        if self.model is None or (x := self.model.x_of(moment, self.view)) is None:
            return False
        self.view = self.view.read_at(x, self.model.full_span(self.view))
        return True

    def go_to_step(self, step: int) -> bool:
        """Read at a step; whether the run has it."""
        if self.model is None:
            return False
        by_step = replace(self.view, by_time=False)
        first, last = self.model.full_span(by_step)
        _, moment = self.model.moment(float(step), by_step)
        return first <= step <= last and moment is not None and self.go_to(moment)

    @property
    def step(self) -> int | None:
        """The step that is read at; `None` at the end of the run."""
        if self.model is None or self.view.cursor is None:
            return None
        step, _ = self.model.moment(self.view.cursor, self.view)
        return None if step is None else max(0, round(step))

    def cursor(self, cells: int) -> None:
        self._change(lambda view, span: view.move_cursor(cells, self._grid.cells, span))

    def mark(self, direction: int) -> None:
        """Read at the next annotation, or at the one before."""
        if self.model is not None:
            positions = [placed.x for placed in self.model.placed_annotations(self.view)]
            self._change(lambda view, span: view.read_adjacent(direction, positions, span))

    def pan(self, direction: int) -> None:
        self._change(lambda view, span: view.pan(direction * _PAN, span))

    def scale(self, factor: float) -> None:
        self._change(lambda view, span: view.scale(factor, span))

    def reset(self) -> None:
        self._change(lambda view, _: replace(view, window=None, cursor=None))

    def switch(self, option: str) -> None:
        """`option`: as `ChartView.toggle`, of the chosen chart."""
        if (chart := self._grid.chosen) is not None:
            self._change(lambda view, _: view.toggle(option, chart.id))

    def pin(self) -> None:
        """First in the grid, also the next time; or no more."""
        if (chart := self._grid.chosen) is not None:
            other_pins = tuple(pin for pin in self.pins if pin != chart.id)
            self.pins = other_pins if chart.id in self.pins else (*other_pins, chart.id)
            self._select()
            self._frontend.work(self._keep_pins(), changes=False)

    async def _keep_pins(self) -> None:
        try:
            await asyncio.to_thread(self._experiment.save_pins, self.pins)
        except RltuiError as error:
            self._frontend.notify(clean(str(error)), severity="warning", markup=False)

    def save(self) -> None:
        if self.model is not None and (chart := self._grid.chosen) is not None:
            self._frontend.work(self._save(self.model, chart), changes=False)

    async def _save(self, model: ChartModel, chart: Chart) -> None:
        documents = {
            f"{chart.id}.svg": export.svg(model.frame(chart, self.view), self._experiment.name),
            f"{chart.id}.csv": export.csv(model.lines_of(chart)),
        }
        try:
            async with self._frontend.waiting("Saving the chart"):
                paths = [
                    await asyncio.to_thread(self._experiment.save, name, text)
                    for name, text in documents.items()
                ]
        except RltuiError as error:
            self._frontend.notify(clean(str(error)), severity="error", markup=False)
            return
        self._frontend.notify(clean("Saved\n" + "\n".join(paths)), timeout=15, markup=False)
