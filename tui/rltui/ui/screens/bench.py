"""The bench screen: the ledger of one bench at a time, at first of the newest."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual.content import Content

from rltui.ui import verbs
from rltui.ui.actions import Footer, KeyContext
from rltui.ui.base_screen import SCREEN_KEYS
from rltui.ui.key_bindings import bind, keys
from rltui.ui.requests import OpenRunRequested
from rltui.ui.screens.resource_screen import ResourceScreen
from rltui.ui.state import AppState
from rltui.ui.styles import STYLES
from rltui.ui.text import clean_line
from rltui.ui.widgets.resource_table import ResourceTable
from rltui.ui.widgets.row_list import READING, Row, list_keys, note_row
from rltui.views.bench import LEDGER, bench_hint, bench_notices, trial_details

if TYPE_CHECKING:
    from rltui.core.runs.bench import Bench, BenchTrial

_TABLE = ResourceTable(
    LEDGER,
    LEDGER.columns,
    style=lambda trial: STYLES["faint"] if trial.state in ("waiting", "void") else "",
    last_least=24,
)


class BenchScreen(ResourceScreen):
    BINDINGS = keys(
        KeyContext.BENCH, *SCREEN_KEYS, *list_keys("moved_list."),
        bind(verbs.OPEN, "open_trial", "Open the first run of the trial", footer=Footer.YES),
        bind(verbs.EARLIER, "turn(1)", "Go to the earlier bench", footer=Footer.YES),
        bind(verbs.LATER, "turn(-1)", "Go to the later bench", footer=Footer.YES),
        bind(verbs.COPY),
        bind(verbs.SEARCH, "search", "Search the rows", footer=Footer.FIRST_TO_GO),
        bind(verbs.BACK, footer=Footer.YES),
    )  # fmt: skip
    place = KeyContext.BENCH
    is_of_all_runs = True

    part = "bench"
    reading = "Reading the benches"
    interval_s = 2.0

    def __init__(self, app_state: AppState) -> None:
        super().__init__(app_state)
        self._benches: tuple[Bench, ...] | None = None
        self._shown = 0
        """Place of the bench that is shown, the newest is 0."""

    async def ask(self) -> None:
        self._benches = await asyncio.to_thread(self.app_state.runs.benches)
        self.problem = ""

    @property
    def _bench(self) -> Bench | None:
        return self._benches[min(self._shown, len(self._benches) - 1)] if self._benches else None

    def update_title(self) -> None:
        bench = self._bench
        facts = [] if bench is None else bench_notices(bench)
        title = [f" · {clean_line(fact)}" for fact in facts[:1]]
        title += [f" · ⚠ {clean_line(self.problem)}"] if self.problem else []
        self.title_line.update(
            Content.assemble((" rltui ", "bold $accent"), ("Bench", "bold"), "".join(title))
        )
        self.notes.update("\n".join(map(clean_line, facts[1:])))
        self.notes.display = bool(facts[1:])

    def make_rows(self, width: int, selected: str | None) -> tuple[Row, ...]:
        if self._benches is None:
            return READING
        if self._bench is None:
            return (note_row(bench_hint(), width),)
        return _TABLE.rows(self._bench.trials, width, selected, self.app_state.clock(), trial_details)

    # --- keys ---------------------------------------------------------------------------------------------

    @property
    def _trial(self) -> BenchTrial | None:
        bench, key = self._bench, self.rows.key
        return None if bench is None or key is None else bench.trials[int(key)]

    def action_open_trial(self) -> None:
        """The run takes the place of the experiment that is open."""
        if self._trial is not None and self._trial.runs:
            self.post_message(OpenRunRequested(self._trial.runs[0].run))

    def action_turn(self, step: int) -> None:
        self._shown += step
        self.show()

    def action_back(self) -> None:
        if not self.end_search():
            self.show_screen("queue")

    def enabled(self, command: str, *arguments: object) -> bool:
        match command, *arguments:
            case "open_trial", *_:
                return self._trial is not None and bool(self._trial.runs and self._trial.runs[0].run)
            case "turn", int(step):
                return 0 <= self._shown + step < len(self._benches or ())
            case _:
                return super().enabled(command, *arguments)
