"""The comparison screen: a table of runs, their curves over each other, their rollouts side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from rltui.core.runs.compare import Comparison
from rltui.ui import verbs
from rltui.ui.actions import Footer, KeyContext
from rltui.ui.base_screen import SCREEN_KEYS
from rltui.ui.charts.model import Run
from rltui.ui.found_prompts import in_other_runs
from rltui.ui.key_bindings import bind, keys
from rltui.ui.screens.metrics import MetricsScreen
from rltui.ui.screens.resource_screen import ResourceScreen
from rltui.ui.screens.rollouts import RolloutScreen
from rltui.ui.state import AppState, ExperimentState
from rltui.ui.text import clean_line
from rltui.ui.widgets.compare_table import compare_table
from rltui.ui.widgets.row_list import Row, list_keys

_OF_THESE = ("metrics", "rollouts")
"""Screens that are shown of the runs that are compared."""


class CompareScreen(ResourceScreen):
    """It stands in place of the runs screen and leads back to it."""

    BINDINGS = keys(
        KeyContext.COMPARE, *SCREEN_KEYS, *list_keys("moved_list."),
        bind(verbs.OPEN, "curves", "Open the curves of these runs in one chart", label="curves",
             footer=Footer.YES),
        bind(verbs.FILTER, "toggle_all_keys", "Filter: config keys that differ, or all", footer=Footer.YES),
        bind(verbs.COPY),
        bind(verbs.SCREEN_ROLLOUTS, "show_screen('rollouts')",
             "Rollouts of the same prompts in all these runs", footer=Footer.YES),
        bind(verbs.CURSOR_LEFT, "shift(-1)"),
        bind(verbs.CURSOR_RIGHT, "shift(1)"),
        bind(verbs.BACK, footer=Footer.YES),
    )  # fmt: skip
    place = KeyContext.COMPARE
    is_of_all_runs = True

    part = "compare"
    interval_s = 3.0

    def __init__(self, app_state: AppState, ids: Sequence[str]) -> None:
        """`ids`: of two runs or more; the first is what the others are measured against."""
        super().__init__(app_state)
        self._ids = tuple(ids)
        self._comparison: Comparison | None = None
        self._first = 0
        self._all_keys = False
        self._head = Static(id="compare-head", markup=False)
        self.above = (self._head,)
        self.notes.display = False

    @property
    def reading(self) -> str:
        return f"Reading {len(self._ids)} runs"

    async def ask(self) -> None:
        self._comparison = await asyncio.to_thread(self.app_state.runs.compare, self._ids)
        self.problem = ""

    @property
    def can_change(self) -> bool:
        return self._comparison is None or any(run.is_alive for run in self._comparison.runs)

    def update_title(self) -> None:
        texts = [f"{len(self._ids)} runs"]
        if self._comparison is None:
            texts = [] if self.problem else ["reading…"]
        else:
            count = len(self._comparison.differing)
            texts.append(f"{count} {'key differs' if count == 1 else 'keys differ'}")
        if self.problem:
            texts.append(f"⚠ {clean_line(self.problem)}")
        facts = "".join(f" · {text}" for text in texts)
        title = (" rltui", "bold $accent"), " ", ("Compare", "bold"), facts
        self.title_line.update(Content.assemble(*title))

    def make_rows(self, width: int, selected: str | None) -> tuple[Row, ...]:
        if self._comparison is None:
            return ()
        table = compare_table(self._comparison, width, selected, first=self._first, all_keys=self._all_keys)
        self._head.update(table.head)
        return table.rows

    # keys

    def action_shift(self, runs: int) -> None:
        first = min(max(0, self._first + runs), len(self._ids) - 1)
        if first != self._first:
            self._first = first
            self.show()

    def action_toggle_all_keys(self) -> None:
        self._all_keys = not self._all_keys
        self.show()

    def action_curves(self) -> None:
        self.work(self._open_comparison(curves=True), changes=False)

    async def _open_comparison(self, *, curves: bool) -> None:
        if self._comparison is None:
            return
        runs, rows = self.app_state.runs, self._comparison.runs
        names = [clean_line(run.name) for run in rows]
        async with self.waiting(f"Opening {len(rows)} runs", cancels=True):
            state = ExperimentState(await asyncio.to_thread(runs.open, rows[0].id), self.app_state)
            screen: MetricsScreen | RolloutScreen
            if curves:
                series = [await asyncio.to_thread(runs.open_series, run.id) for run in rows]
                screen = MetricsScreen(self.app_state, state, [*map(Run, names, series)])
            else:
                rollouts = [await asyncio.to_thread(runs.open_rollouts, run.id) for run in rows[1:]]
                screen = RolloutScreen(
                    self.app_state,
                    state,
                    subject=f"compared with {', '.join(names[1:])}",
                    prompts=in_other_runs([*zip(names[1:], rollouts, strict=True)]),
                )
        await self.app.push_screen(screen)

    def action_show_screen(self, name: str) -> None:
        """Metrics and rollouts are of these runs, rollouts of the first: comparing there finds its prompt in
        the others. All else is of the run that is open.
        """
        if name not in _OF_THESE:
            super().action_show_screen(name)
        else:
            self.work(self._open_comparison(curves=name == "metrics"), changes=False)

    def action_back(self) -> None:
        self.show_screen("runs")

    def enabled(self, command: str, *arguments: object) -> bool:
        match command:
            case "curves" | "toggle_all_keys":
                return self._comparison is not None
            case "show_screen" if arguments[0] in _OF_THESE:
                return self._comparison is not None
            case "shift":
                return self._comparison is not None and len(self._ids) > 1
            case _:
                return super().enabled(command, *arguments)
