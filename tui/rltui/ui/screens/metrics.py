"""The metrics screen: charts of the run, in a grid or one at a time. Binds and forwards. Imports numpy."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.widgets import Static

from rltui.base.text import count_text
from rltui.core.experiment.dashboard import DashboardPlace
from rltui.core.metrics.annotations import annotations_of
from rltui.core.metrics.series import SeriesKey
from rltui.errors import RltuiError
from rltui.ui import verbs
from rltui.ui.actions import Footer, InPalette, KeyContext, Scope
from rltui.ui.background import Pace, in_background
from rltui.ui.base_screen import EXPERIMENT_KEYS, BaseScreen
from rltui.ui.charts.captions import annotation_lines, legend, line_below, reading_lines, title_facts
from rltui.ui.charts.catalog import Chart, charts
from rltui.ui.charts.grid import ChartGrid
from rltui.ui.charts.model import ChartModel, Run
from rltui.ui.charts.plot import Plot
from rltui.ui.commands.charts import ChartCommands
from rltui.ui.commands.dashboard import DashboardCommands
from rltui.ui.dialogs.search_line import SearchLine
from rltui.ui.key_bindings import bind, keys, own
from rltui.ui.state import AppState, ExperimentState
from rltui.ui.text import clean_line
from rltui.ui.widgets.bars import KeyBar, TitleLine

_PACE = Pace(interval_s=2.0, pause_per_work=60.0, longest_s=15.0)
"""Looks at the files: 2 % of a core at most."""


class MetricsScreen(BaseScreen):
    place = KeyContext.METRICS

    AUTO_FOCUS = ""
    CSS_PATH: ClassVar = ["metrics.tcss"]
    BINDINGS = keys(
        KeyContext.METRICS, *EXPERIMENT_KEYS,
        bind(verbs.OPEN, "toggle_zoom", "Zoom the chart to the whole screen, and back", label="zoom",
             footer=Footer.YES),
        own("chart.marks", "", "charts.switch('marks')", "marks", "Toggle the marks of events on the charts",
            Scope.CHARTS),
        bind(verbs.SEARCH, "search", "Search titles and series by a regular expression",
             footer=Footer.YES),
        bind(verbs.WRITE, "charts.save", "Write the chosen chart, as SVG and CSV", footer=Footer.YES),
        bind(verbs.PIN, "charts.pin", "Pin the chosen chart to the top, or unpin it", footer=Footer.YES),
        bind(verbs.DASHBOARD, "dashboard.show", "Show the metrics in the web dashboard of the framework"),
        bind(verbs.ZOOM, "toggle_zoom", palette=InPalette.NO),
        bind(verbs.CURSOR_DOWN, "move(0, 1)"),
        bind(verbs.CURSOR_UP, "move(0, -1)"),
        bind(verbs.CURSOR_NEXT, "move(0, 1)"),
        bind(verbs.CURSOR_PREVIOUS, "move(0, -1)"),
        bind(verbs.CURSOR_LEFT, "move(-1, 0)"),
        bind(verbs.CURSOR_RIGHT, "move(1, 0)"),
        bind(verbs.EARLIER, "charts.mark(-1)", "Go to the earlier edit, restart, crash, checkpoint or note",
             footer=Footer.YES),
        bind(verbs.LATER, "charts.mark(1)", "Go to the later edit, restart, crash, checkpoint or note"),
        bind(verbs.ALL, "charts.reset", "Show the whole run", footer=Footer.FIRST_TO_GO),
        bind(verbs.SCALE_CLOSER, "charts.scale(0.5)", "Show less time, around the cursor or up to the end",
             footer=Footer.YES),
        bind(verbs.SCALE_WIDER, "charts.scale(2)", footer=Footer.YES),
        own("read.back", "comma", "charts.cursor(-1)", "read", "Read the values at an earlier step",
            Scope.CHARTS, footer=Footer.YES, palette=InPalette.NO),
        own("read.on", "full_stop", "charts.cursor(1)", "read", "Read the values at a later step",
            Scope.CHARTS, palette=InPalette.NO),
        own("pan.back", "shift+left", "charts.pan(-1)", "pan back", "Pan the charts to earlier steps",
            Scope.CHARTS, palette=InPalette.NO),
        own("pan.on", "shift+right", "charts.pan(1)", "pan forward", "Pan the charts to later steps",
            Scope.CHARTS, palette=InPalette.NO),
        own("chart.smooth", "M", "charts.switch('smoothing')", "smooth",
            "Smooth the charts: mean of 5, 20 or 100 points, or off", Scope.CHARTS, footer=Footer.YES),
        own("chart.axis", "", "charts.switch('by_time')", "time axis", "Draw the charts by time, or by step",
            Scope.CHARTS),
        own("chart.log", "", "charts.switch('log')", "log scale",
            "Toggle the logarithmic scale of the chosen chart", Scope.CHARTS),
        own("chart.outliers", "", "charts.switch('robust')", "outliers", "Cut off outliers, or show them",
            Scope.CHARTS),
        bind(verbs.BACK, footer=Footer.YES),
    )  # fmt: skip
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012 - as Textual declares it

    def __init__(
        self, app_state: AppState, state: ExperimentState | None = None, runs: Sequence[Run] = ()
    ) -> None:
        """`runs`: their series are drawn over each other, with marks of the first; none: this run's alone."""
        super().__init__(app_state, state)
        self._runs = runs
        self.state.watch("connection", self._show_captions)
        self._pattern = ""
        self._problem = ""
        self._sought_step: int | None = None
        """A step that the cursor is to go to, once its values are read."""
        self._sought_time: float | None = None
        """A moment that the cursor is to go to, once what was then is read."""
        self._wake = asyncio.Event()
        self._visible_charts: tuple[Chart, ...] = ()
        self._selected_by: tuple[tuple[SeriesKey, ...], tuple[str, ...], str] | None = None
        """Series, pins and pattern by which the charts were selected last."""
        self._title = TitleLine(id="metrics-title")
        self._grid = ChartGrid()
        self.charts = ChartCommands(self, self.experiment, self._grid, draw=self._draw, select=self._wake.set)
        self.dashboard = DashboardCommands(self, self.state, self.commands, self._place)
        self._readings = Static(id="metrics-readings", markup=False)
        self._events = Static(id="metrics-events", markup=False)
        self._line = Static(id="metrics-line", markup=False)

    def compose(self) -> ComposeResult:
        yield self._title
        yield KeyBar()
        with Container(id="metrics-body"):
            yield self._grid
            yield self._readings
        yield self._events
        yield self._line

    def on_screen_resume(self) -> None:
        in_background(self, self._follow, group="series")

    def left(self) -> None:
        self.workers.cancel_group(self, "series")

    def on_resize(self) -> None:
        self.call_after_refresh(self._rearrange)

    def go_to(self, moment: float, component: str | None) -> None:
        del component
        self._sought_time = moment
        self._wake.set()

    def show_step(self, step: int) -> None:
        self._sought_step = step
        self._wake.set()

    # values in

    async def _follow(self) -> None:
        if self.charts.model is None:
            self._show_captions()
            try:
                async with self.waiting("Opening the metrics"):
                    self.charts.pins = await asyncio.to_thread(self.experiment.pins)
                    series = self._runs or [Run("", await asyncio.to_thread(self.experiment.open_series))]
                    self.charts.model = ChartModel(series)
            except RltuiError as error:
                self._problem = clean_line(error.title)
                return
        await _PACE.follow(partial(self._catch_up, self.charts.model), self._wake)

    async def _catch_up(self, model: ChartModel) -> None:
        async with self.waiting("Reading the metrics"):
            is_new = await asyncio.to_thread(model.poll)
        is_new = self._select_charts(model) or is_new
        visible = self._grid.charts if self._grid.zoomed and self.has_class("-wide") else self._grid.in_view
        if is_new or visible != self._visible_charts:
            await asyncio.to_thread(model.load, visible)
            self._visible_charts = visible
            is_new = True
        with suppress(RltuiError):  # the charts are worth seeing without annotations
            annotations = annotations_of(await self.experiment.journal())
            is_new, model.annotations = is_new or annotations != model.annotations, annotations
        if self._sought_time is not None and self.charts.go_to(self._sought_time):
            self._sought_time = None
            is_new = True
        if self._sought_step is not None and model.keys:
            if not self.charts.go_to_step(self._sought_step):
                text = f"no step {self._sought_step} in the metrics of this run"
                self.notify(text, severity="warning", markup=False)
            self._sought_step, is_new = None, True
        if is_new:
            self._draw()

    def _select_charts(self, model: ChartModel) -> bool:
        """Select the charts by series, pins and pattern; returns whether these have changed."""
        state = (model.keys, self.charts.pins, self._pattern)
        if state == self._selected_by:
            return False
        self._selected_by = state
        try:
            self._grid.set_charts(charts(model.keys, pins=self.charts.pins, pattern=self._pattern))
            self._problem = ""
        except re.error as error:
            self._problem = f"invalid regular expression: {error}"
        self.refresh_bindings()
        return True

    def _rearrange(self) -> None:
        self._grid.fit()
        self._draw()
        self._wake.set()

    def _draw(self) -> None:
        if (model := self.charts.model) is not None:
            with self.app.batch_update():
                self._grid.draw(lambda chart: model.frame(chart, self.charts.view))
        self._show_captions()

    def _show_captions(self) -> None:
        if not self.is_open:
            return
        model, view = self.charts.model, self.charts.view
        count, series = len(self._grid.charts), len(model.keys) if model is not None else None
        facts = title_facts(count, series, view, self._pattern)
        names = (legend(model),) if model is not None and len(model.runs) > 1 else ()
        self._title.update(self.state.heading(*names, *facts, problem=self._problem))
        if model is None:
            return
        now, cells = self.state.clock(), self._grid.cells
        self._line.update(line_below(model, view, cells, now) if count else self._nothing())
        if self._grid.zoomed:
            self._events.update(annotation_lines(model, view, max(1, min(6, self.size.height // 6))))
            self._readings.update(reading_lines(model, view, self._visible_charts, self._grid.chosen))

    def _nothing(self) -> str:
        return (
            "No match. esc shows all charts."
            if self._pattern
            else "No metrics yet; they appear with the first training step."
        )

    # keys

    async def _place(self) -> DashboardPlace:
        return DashboardPlace(tab="metrics", step=self.charts.step)

    def action_move(self, columns: int, rows: int) -> None:
        if self._grid.zoomed and columns:
            self.charts.cursor(columns)
            return
        self._grid.move(columns, rows)
        self._draw()
        self._wake.set()

    @on(Plot.Chosen)
    def _choose(self, event: Plot.Chosen) -> None:
        self._grid.choose(event.plot)
        self._draw()

    def action_toggle_zoom(self) -> None:
        self._set_zoom(not self._grid.zoomed)

    def _set_zoom(self, zoomed: bool) -> None:
        self._grid.zoom(zoomed)
        self.set_class(self._grid.zoomed, "-zoomed")
        self.call_after_refresh(self._rearrange)

    def enabled(self, command: str, *arguments: object) -> bool:
        """Commands on a chart need one."""
        if command == "toggle_zoom":
            return self._grid.chosen is not None
        return super().enabled(command, *arguments)

    def action_back(self) -> None:
        if self._pattern:
            self._search_for("")
        elif self._grid.zoomed:
            self._set_zoom(False)
        else:
            self.action_show_overview()

    def action_search(self) -> None:
        self.app.push_screen(
            SearchLine(
                self._pattern,
                "regular expression, for titles and series",
                show=self._search_for,
                status=lambda: self._problem or count_text(len(self._grid.charts), "chart"),
                move=partial(self.action_move, 0),
            )
        )

    def _search_for(self, pattern: str) -> None:
        self._pattern = pattern
        self._wake.set()
