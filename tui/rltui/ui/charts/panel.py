"""The charts that matter most, as a panel of the overview. Imports numpy."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

from textual.containers import Container
from textual.content import Content

from rltui.base.text import truncate
from rltui.core.metrics.annotations import annotations_of
from rltui.errors import RltuiError
from rltui.ui.background import Pace, in_background, is_in_front
from rltui.ui.charts.catalog import Chart, charts
from rltui.ui.charts.model import ChartModel, Run
from rltui.ui.charts.plot import Plot
from rltui.ui.charts.view import ChartView
from rltui.ui.panels.geometry import EMPTY
from rltui.ui.state import ExperimentState
from rltui.ui.text import clean_line

_IMPORTANT = ("reward", "loss", "entropy", "tokens_per_s")
_MAX_CHARTS = 4
_ROWS = 7
"""Height of a chart at least, with its title and its axis."""
_WIDE_CELLS = 96
"""From here on two stand side by side."""
_NOTHING = "no metrics yet"
_PACE = Pace(interval_s=3.0, pause_per_work=100.0, longest_s=30.0)
"""Looks at the files: 1 % of a core at most."""


class ChartPanel(Container, can_focus=True):
    """Shows pinned charts and those of reward, loss, entropy and throughput, while it can be seen."""

    BORDER_TITLE = "[bold]Charts[/bold]"
    DEFAULT_CSS = """
    ChartPanel {
        layout: grid;
        & > Plot { border: none; border-top: solid $border-blurred; }
    }
    """

    def __init__(self, state: ExperimentState, *, classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self._state = state
        self._model: ChartModel | None = None
        self._pins: tuple[str, ...] = ()
        self._charts: tuple[Chart, ...] = ()
        self._plots = [Plot() for _ in range(_MAX_CHARTS)]
        self._wake = asyncio.Event()
        self.border_subtitle = _NOTHING
        self.add_class(EMPTY)

    def compose(self) -> list[Plot]:
        return self._plots

    def on_mount(self) -> None:
        self._arrange_plots()
        in_background(self, self._follow, group="charts", exclusive=False)

    def on_resize(self) -> None:
        self._arrange_plots()
        self._wake.set()

    def on_show(self) -> None:
        self._wake.set()

    async def _follow(self) -> None:
        experiment = self._state.experiment
        try:
            self._pins = await asyncio.to_thread(experiment.pins)
            self._model = ChartModel([Run("", await asyncio.to_thread(experiment.open_series))])
        except RltuiError as error:
            self.border_title = Content(f"Charts · {truncate(clean_line(error.title), 60)}")
            return
        await _PACE.follow(partial(self._catch_up, self._model), self._wake)

    async def _catch_up(self, model: ChartModel) -> None:
        if not (is_in_front(self) and self.size.height and self.region):
            return
        is_new = await asyncio.to_thread(model.poll)
        by_id = {chart.id: chart for chart in charts(model.keys, pins=self._pins)}
        first = [by_id[id_] for id_ in dict.fromkeys((*self._pins, *_IMPORTANT)) if id_ in by_id]
        visible = tuple((first or list(by_id.values()))[: self._room])
        if not is_new and visible == self._charts:
            return
        self._charts = visible
        self.border_subtitle = "" if visible else _NOTHING
        if self.has_class(EMPTY) == bool(visible):
            self.toggle_class(EMPTY)
            self.refresh(layout=True)  # it has a use for more room, or for less
        await asyncio.to_thread(model.load, visible)
        with suppress(RltuiError):  # the charts are worth seeing without annotations
            model.annotations = annotations_of(await self._state.experiment.journal())
        self._arrange_plots()
        with self.app.batch_update():
            for plot, chart in zip(self._plots, visible, strict=False):
                plot.show(model.frame(chart, ChartView()))

    @property
    def _columns(self) -> int:
        return 2 if self.size.width >= _WIDE_CELLS else 1

    @property
    def _room(self) -> int:
        return max(1, min(_MAX_CHARTS, self._columns * (self.size.height // _ROWS)))

    def _arrange_plots(self) -> None:
        count = min(len(self._charts), self._room)
        columns = max(1, min(self._columns, count))
        self.styles.grid_size_columns = columns
        self.styles.grid_size_rows = max(1, -(-count // columns))
        for number, plot in enumerate(self._plots):
            plot.display = number < count
