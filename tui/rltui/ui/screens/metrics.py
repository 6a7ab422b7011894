"""The metrics screen: charts of the run, in a grid or one at a time. Binds and forwards. Imports numpy."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.widgets import Input, Static

from rltui.core.marks import marks
from rltui.core.series import SeriesKey
from rltui.errors import RltuiError
from rltui.ui import verbs
from rltui.ui.actions import Footer, InPalette, KeyContext, Scope
from rltui.ui.background import in_background
from rltui.ui.base_screen import EXPERIMENT_KEYS, BaseScreen
from rltui.ui.charts import export
from rltui.ui.charts.board import ChartModel, Run
from rltui.ui.charts.catalog import Chart, charts
from rltui.ui.charts.grid import ChartGrid
from rltui.ui.charts.plot import Plot
from rltui.ui.charts.view import View
from rltui.ui.charts.words import event_lines, legend, line_below, reading_lines, title_facts
from rltui.ui.key_bindings import bind, keys, own
from rltui.ui.messages import waiting
from rltui.ui.shared import AppState, ExperimentState
from rltui.ui.text import clean, clean_line
from rltui.ui.widgets.bars import KeyBar

_INTERVAL_S = 2.0
"""Between two looks at the files."""
_PAUSE_PER_WORK = 60.0
"""The next look waits so many times as long as the last one took, so that all takes 2 % of a core at most."""
_LONGEST_PAUSE_S = 15.0
_OF_A_CHART = ("toggle_zoom", "cursor", "mark", "scale", "pan", "reset", "switch", "pin", "save")
"""Actions that do something only where there is a chart."""
_PAN = 0.25
"""Of what is seen."""


class MetricsScreen(BaseScreen):
    """Lies on the overview. Made once: it stays when it is left, and reads nothing then."""

    place = KeyContext.METRICS

    AUTO_FOCUS = ""
    CSS_PATH: ClassVar = ["metrics.tcss"]
    BINDINGS = keys(
        KeyContext.METRICS, *EXPERIMENT_KEYS,
        bind(verbs.OPEN, "toggle_zoom", "zoom", "One chart in full, and back to all", footer=Footer.YES),
        bind(verbs.FILTER, "switch('marks')", "marks", "Marks of what happened, or none",
             footer=Footer.FIRST_TO_GO),
        bind(verbs.SEARCH, help="Any series, by a regular expression for titles and names",
             footer=Footer.YES),
        bind(verbs.WRITE, "save", "save", "Save the chosen chart as SVG and CSV", footer=Footer.YES),
        bind(verbs.PIN, help="Keep the chosen chart first, or no more", footer=Footer.YES),
        bind(verbs.ZOOM, "toggle_zoom", help="One chart in full, and back to all", palette=InPalette.NO),
        bind(verbs.CURSOR_DOWN, "move(0, 1)", help="The chart below; zoomed, the next one"),
        bind(verbs.CURSOR_UP, "move(0, -1)", help="The chart above; zoomed, the one before"),
        bind(verbs.CURSOR_NEXT, "move(0, 1)"),
        bind(verbs.CURSOR_PREVIOUS, "move(0, -1)"),
        bind(verbs.CURSOR_LEFT, "move(-1, 0)", help="The chart at the left; zoomed, read further back"),
        bind(verbs.CURSOR_RIGHT, "move(1, 0)", help="The chart at the right; zoomed, read further on"),
        bind(verbs.EARLIER, "mark(-1)", "marks",
             "Read at the mark before: edit, restart, crash, checkpoint, alert, note", footer=Footer.YES),
        bind(verbs.LATER, "mark(1)", "next mark", "Read at the next mark"),
        bind(verbs.ALL, "reset", help="The whole run, read at its end", footer=Footer.FIRST_TO_GO),
        bind(verbs.SCALE_CLOSER, "scale(0.5)",
             help="See less of the run, around the cursor or up to the end", footer=Footer.FIRST_TO_GO),
        bind(verbs.SCALE_WIDER, "scale(2)", help="See more of the run", footer=Footer.FIRST_TO_GO),
        own("read.back", "comma", "cursor(-1)", "read", "Read all series at a step: further back",
            Scope.CHARTS, footer=Footer.YES, palette=InPalette.NO),
        own("read.on", "full_stop", "cursor(1)", "read", "Read all series at a step: further on",
            Scope.CHARTS, palette=InPalette.NO),
        own("pan.back", "shift+left", "pan(-1)", "pan back", "What came before", Scope.CHARTS,
            palette=InPalette.NO),
        own("pan.on", "shift+right", "pan(1)", "pan on", "What came after", Scope.CHARTS,
            palette=InPalette.NO),
        own("chart.smooth", "M", "switch('smoothing')", "smooth",
            "Means of the last 5, 20 or 100 points, and the points themselves", Scope.CHARTS,
            footer=Footer.YES),
        own("chart.axis", "at", "switch('by_time')", "step/time", "By step or by time", Scope.CHARTS,
            footer=Footer.YES),
        own("chart.log", "circumflex_accent", "switch('log')", "log",
            "The chosen chart's scale: linear or logarithmic", Scope.CHARTS, footer=Footer.YES),
        own("chart.outliers", "percent_sign", "switch('robust')", "outliers",
            "Cut outliers off, and show them", Scope.CHARTS, footer=Footer.FIRST_TO_GO),
        bind(verbs.BACK, label="overview", help="End the filter, then the zoom; back to the overview",
             footer=Footer.YES),
    )  # fmt: skip
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012 - as Textual declares it

    def __init__(self, home: AppState, shared: ExperimentState | None = None) -> None:
        super().__init__(home, shared)
        self.shared.watch("connection", self._show_words)
        self._board: ChartModel | None = None
        self._view = View()
        self._pins: tuple[str, ...] = ()
        self._words = ""
        self._problem = ""
        self._go_to: float | None = None
        """A moment that the cursor is to go to, once what was then is read."""
        self._wake = asyncio.Event()
        self._loaded: tuple[Chart, ...] = ()
        self._found: tuple[tuple[SeriesKey, ...], tuple[str, ...], str] | None = None
        """What the charts were last looked for in."""
        self._title = Static(id="metrics-title", markup=False)
        self._filter = Input(
            placeholder="regular expression: titles and names", id="metrics-filter", compact=True
        )
        self._filter.cursor_blink = False
        self._grid = ChartGrid()
        self._readings = Static(id="metrics-readings", markup=False)
        self._events = Static(id="metrics-events", markup=False)
        self._line = Static(id="metrics-line", markup=False)

    def compose(self) -> ComposeResult:
        yield self._title
        yield KeyBar()
        yield self._filter
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

    def go_to(self, at: float, component: str | None) -> None:
        del component
        self._go_to = at
        self._wake.set()

    def opened(self) -> Sequence[Run]:
        """Whose series are shown, over each other; the first is the one whose marks are. In a thread."""
        return [Run("", self.experiment.open_series())]

    # values in

    async def _follow(self) -> None:
        if self._board is None:
            self._show_words()
            try:
                async with waiting(self.app, "Opening the metrics"):
                    self._pins = await asyncio.to_thread(self.experiment.pins)
                    self._board = ChartModel(await asyncio.to_thread(self.opened))
            except RltuiError as error:
                self._problem = clean_line(error.title)
        while True:
            self._wake.clear()
            began = time.process_time()
            if self._board is not None:
                await self._catch_up(self._board)
            work = (time.process_time() - began) * _PAUSE_PER_WORK
            with suppress(TimeoutError):
                async with asyncio.timeout(min(max(_INTERVAL_S, work), _LONGEST_PAUSE_S)):
                    await self._wake.wait()

    async def _catch_up(self, board: ChartModel) -> None:
        """Read what is new of what is seen, and draw it."""
        async with waiting(self.app, "Reading the metrics"):
            is_new = await asyncio.to_thread(board.look)
        is_new = self._find(board) or is_new
        seen = self._grid.charts if self._grid.zoomed and self.has_class("-wide") else self._grid.shown
        if is_new or seen != self._loaded:
            await asyncio.to_thread(board.load, seen)
            self._loaded = seen
            is_new = True
        with suppress(RltuiError):  # the charts are worth seeing without marks
            found = marks(await self.experiment.journal())
            is_new, board.marks = is_new or found != board.marks, found
        if self._go_to is not None and (x := board.place_of(self._go_to, self._view)) is not None:
            self._view, self._go_to = self._view.reading(x, board.whole(self._view)), None
            is_new = True
        if is_new:
            self._draw()

    def _find(self, board: ChartModel) -> bool:
        """Which charts there are. Returns whether that is another question than the last one."""
        state = (board.keys, self._pins, self._words)
        if state == self._found:
            return False
        self._found = state
        try:
            self._grid.take(charts(board.keys, pins=self._pins, words=self._words))
            self._problem = ""
        except re.error as error:
            self._problem = f"no regular expression: {error}"
        self.refresh_bindings()
        return True

    def _rearrange(self) -> None:
        self._grid.fit()
        self._draw()
        self._wake.set()

    def _draw(self) -> None:
        if (board := self._board) is not None:
            with self.app.batch_update():
                self._grid.draw(lambda chart: board.picture(chart, self._view))
        self._show_words()

    def _show_words(self) -> None:
        if not self.is_open:
            return
        board, view = self._board, self._view
        count, series = len(self._grid.charts), len(board.keys) if board is not None else None
        facts = title_facts(count, series, view, self._words)
        names = (legend(board),) if board is not None and len(board.runs) > 1 else ()
        self._title.update(self.shared.heading(*names, *facts, problem=self._problem))
        if board is None:
            return
        now, cells = self.shared.clock(), self._grid.cells
        self._line.update(line_below(board, view, cells, now) if count else self._nothing())
        if self._grid.zoomed:
            self._events.update(event_lines(board, view, max(1, min(6, self.size.height // 6))))
            self._readings.update(reading_lines(board, view, self._loaded, self._grid.chosen))

    def _nothing(self) -> str:
        return "Nothing matches: esc shows all again." if self._words else "No value was measured yet."

    def _look(self, view: View) -> None:
        if view != self._view:
            self._view = view
            self._draw()

    # keys

    def action_move(self, columns: int, rows: int) -> None:
        """Among the charts; zoomed, left and right move the cursor."""
        if self._grid.zoomed and columns:
            self.action_cursor(columns)
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

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a person types, only what ends that; and what there is something to do for."""
        if self.focused is self._filter and action != "back":
            return False
        if action in _OF_A_CHART:
            return self._grid.chosen is not None and super().check_action(action, parameters)
        return super().check_action(action, parameters)

    def action_back(self) -> None:
        """First the filter ends, then the zoom, then the screen."""
        if self._filter.has_class("-shown"):
            self._filter.remove_class("-shown")
            self._filter.value = ""
            self.set_focus(None)
        elif self._grid.zoomed:
            self._set_zoom(False)
        else:
            self.action_show_overview()

    def action_cursor(self, cells: int) -> None:
        """Along the axis, a cell at a time, at least a step."""
        if (board := self._board) is None:
            return
        whole = board.whole(self._view)
        low, high = self._view.window or whole
        per_cell = (high - low) / self._grid.cells
        if not self._view.by_time:
            per_cell = max(1.0, round(per_cell))
        at = high if self._view.cursor is None else self._view.cursor + cells * per_cell
        self._look(self._view.reading(at, whole))

    def action_mark(self, direction: int) -> None:
        if (board := self._board) is None:
            return
        at = self._view.cursor
        low, high = board.whole(self._view)
        places = [each.x for each in board.placed_marks(self._view) if low <= each.x <= high]
        if direction > 0:
            found = [x for x in places if at is not None and x > at]
        else:
            found = [x for x in reversed(places) if at is None or x < at]
        if found:
            self._look(self._view.reading(found[0], (low, high)))

    def action_pan(self, direction: int) -> None:
        if (board := self._board) is not None:
            self._look(self._view.panned(direction * _PAN, board.whole(self._view)))

    def action_scale(self, factor: float) -> None:
        if (board := self._board) is not None:
            self._look(self._view.scaled(factor, board.whole(self._view)))

    def action_reset(self) -> None:
        self._look(replace(self._view, window=None, cursor=None))

    def action_switch(self, what: str) -> None:
        if (chart := self._grid.chosen) is not None:
            self._look(self._view.switched(what, chart.id))

    def action_search(self) -> None:
        self._filter.add_class("-shown")
        self._filter.focus()

    @on(Input.Changed, "#metrics-filter")
    def _searched(self, event: Input.Changed) -> None:
        self._words = event.value
        self._wake.set()

    @on(Input.Submitted, "#metrics-filter")
    def _found_it(self) -> None:
        self.set_focus(None)

    def action_pin(self) -> None:
        """First in the grid, also the next time; or no more."""
        if (chart := self._grid.chosen) is not None:
            others = tuple(pin for pin in self._pins if pin != chart.id)
            self._pins = others if chart.id in self._pins else (*others, chart.id)
            self._wake.set()
            self.work(self._keep_pins(), changes=False)

    async def _keep_pins(self) -> None:
        try:
            await asyncio.to_thread(self.experiment.keep_pins, self._pins)
        except RltuiError as error:
            self.notify(clean(str(error)), severity="warning", markup=False)

    def action_save(self) -> None:
        if self._board is not None and (chart := self._grid.chosen) is not None:
            self.work(self._save(self._board, chart), changes=False)

    async def _save(self, board: ChartModel, chart: Chart) -> None:
        documents = {
            f"{chart.id}.svg": export.svg(board.picture(chart, self._view), self.experiment.name),
            f"{chart.id}.csv": export.csv(board.lines_of(chart)),
        }
        try:
            async with waiting(self.app, "Saving the chart"):
                paths = [
                    await asyncio.to_thread(self.experiment.save, name, text)
                    for name, text in documents.items()
                ]
        except RltuiError as error:
            self.notify(clean(str(error)), severity="error", markup=False)
            return
        self.notify(clean("Saved\n" + "\n".join(paths)), timeout=15, markup=False)
