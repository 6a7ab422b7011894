"""The runs screen: living ones first, then all others. Binds and forwards."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import ClassVar

from textual import on
from textual.content import Content
from textual.widgets import Static

from rltui.core import hints
from rltui.core.runs.queue import QueueEntry
from rltui.core.runs.row import RunRow
from rltui.core.runs.tree import TreeLine
from rltui.errors import RltuiError
from rltui.ui import verbs
from rltui.ui.actions import Footer, KeyContext, Scope, key_of
from rltui.ui.base_screen import SCREEN_KEYS
from rltui.ui.commands.description import DescriptionCommands
from rltui.ui.commands.forks import ForkCommands
from rltui.ui.commands.run_annotations import RunAnnotationCommands
from rltui.ui.commands.run_report import RunReportCommands
from rltui.ui.commands.run_view import RunViewCommands
from rltui.ui.copying import CopyRequested
from rltui.ui.dialogs.trash import runs_named
from rltui.ui.key_bindings import bind, keys, own
from rltui.ui.requests import OpenRunRequested
from rltui.ui.run_list import RunList
from rltui.ui.screens.resource_screen import STYLE_SHEET, ResourceScreen
from rltui.ui.state import AppState
from rltui.ui.styles import FAINT, STYLES
from rltui.ui.text import clean_line
from rltui.ui.widgets.row_list import RowList, list_keys
from rltui.ui.widgets.run_details import detail_lines
from rltui.ui.widgets.run_table import RunRows, RunTable
from rltui.views.run_list import Line, RunView, title_facts

_AGES_EVERY = 5
"""Looks between two at the ages."""


class RunsScreen(ResourceScreen):
    """Lies on the overview, or at the bottom where no experiment is open."""

    CSS_PATH: ClassVar = [STYLE_SHEET, "runs.tcss"]
    BINDINGS = keys(
        KeyContext.RUNS, *SCREEN_KEYS, *list_keys("moved_list."),
        bind(verbs.OPEN, "open", "Open the run, read-only if it is not running; unfold a sweep",
             footer=Footer.LAST_TO_GO),
        bind(verbs.EDIT, "annotations.tag", "Edit the tags of the run", footer=Footer.YES),
        bind(verbs.UNDO, "annotations.undo", "Undo the last change of tags, note, star, archive or trash",
             footer=Footer.YES),
        bind(verbs.FILTER, "view.show_archived", "Filter: show or hide archived runs",
             footer=Footer.FIRST_TO_GO),
        bind(verbs.SORT, "view.sort(1)", footer=Footer.YES),
        bind(verbs.SORT_BACK, "view.sort(-1)"),
        own("sort.reverse", "", "view.reverse", "reverse", "Reverse the order", Scope.LOOKING),
        own("sort.choose", "", "view.choose_order", "sort by", "Choose the column to sort by", Scope.LOOKING),
        bind(verbs.SEARCH, "view.filter", "Search: part of a name, tag:baseline, reward > 0.8 and lr < 1e-5",
             footer=Footer.YES),
        bind(verbs.GROUP, "view.group", "Fold forks under their parents and runs under their sweep",
             footer=Footer.YES),
        own("columns", "vertical_line", "view.choose_columns", "columns",
            "Choose the columns, also config keys and metrics", Scope.LOOKING, footer=Footer.YES),
        bind(verbs.COMPARE, "compare", "Compare the marked runs: config, metrics, curves, rollouts",
             footer=Footer.YES),
        bind(verbs.MARK, "mark", "Mark or unmark the run; keys act on all marked runs", footer=Footer.YES),
        bind(verbs.COPY, "copy", "Copy the folder of the run"),
        bind(verbs.DESCRIBE, "describe", "Describe the run: command, folder, components, attempts"),
        own("run.rename", "", "annotations.rename", "rename", "Rename the run", Scope.PICKING, changes=True),
        bind(verbs.WRITE, "report.write", "Write a report with curves, configs and rollouts",
             footer=Footer.FIRST_TO_GO),
        own("star", "asterisk", "annotations.mark_best", "star", "Star the run, or unstar it", Scope.PICKING,
            footer=Footer.FIRST_TO_GO, changes=True),
        own("archive", "H", "annotations.archive", "archive", "Archive the run, or unarchive it",
            Scope.PICKING, footer=Footer.YES, changes=True),
        bind(verbs.REMOVE, "annotations.trash", "Remove: move the run to the trash; asks first",
             footer=Footer.YES),
        bind(verbs.FORK),
        bind(verbs.NOTE, "annotations.describe", footer=Footer.YES, changes=True),
        bind(verbs.SCREEN_QUEUE, "show_screen('queue')", footer=Footer.YES),
        bind(verbs.CURSOR_LEFT, "view.fold(True)"),
        bind(verbs.CURSOR_RIGHT, "view.fold(False)"),
        bind(verbs.BACK),
    )  # fmt: skip
    place = KeyContext.RUNS
    is_of_all_runs = True

    part = "runs"
    interval_s = 1.0

    def __init__(self, app_state: AppState) -> None:
        super().__init__(app_state)
        self.runs = RunList(app_state.runs)
        self._looks = 0
        self._table = RunTable()
        self._head = Static(id="runs-head", markup=False)
        self.above = (self._head,)
        self.forks = ForkCommands(self, app_state)
        self.descriptions = DescriptionCommands(self, app_state.clock)
        self.annotations = RunAnnotationCommands(self, app_state.runs, lambda: self.chosen, self.look)
        self.report = RunReportCommands(self, app_state.runs, lambda: self.chosen)
        self.view = RunViewCommands(self, self.runs, lambda: self.line, self.rows.move, self._show_at)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_details)

    # values in

    async def begin(self) -> None:
        """The index answers at once; then the folders are read."""
        runs = self.app_state.runs
        try:
            if not self.runs.rows:
                view = RunView.of(await asyncio.to_thread(runs.view_state, "runs"))
                self.runs.selection = replace(self.runs.selection, view=view, with_host=bool(runs.hosts))
            await self.look()
            async with self.waiting("Updating the run list"):
                texts = await asyncio.to_thread(runs.catch_up)
            for text in texts:
                self.notify(clean_line(text), severity="warning", timeout=15, markup=False)
        except RltuiError as error:
            self.notify(clean_line(error.title), severity="error", timeout=15, markup=False)

    async def look(self) -> None:
        """Read index and queue again; shown where something is another than before, or ages have grown."""
        self._looks += 1
        if await self.runs.look():
            self.show()
        elif self._looks % _AGES_EVERY == 0:
            self.rows.reload()

    def make_rows(self, width: int, selected: str | None) -> RunRows:
        layout = self._table.layout(self.runs.listing, width)
        self._head.display = bool(layout.keys)
        self._head.update(layout.head, layout=False)
        return RunRows(layout, selected, self.app_state.clock())

    def _show_at(self, key: str) -> None:
        self.aim = key
        self.show()

    def update_title(self) -> None:
        runs = self.runs
        name = f"{clean_line(host)}: Runs" if (host := self.app_state.runs.host) else "Runs"
        fragments: list[tuple[str, str]] = [(" rltui ", "bold $accent"), (name, "bold")]
        facts = title_facts(
            runs.rows, runs.selection, runs.listing.lines, runs.queue, archive_key=key_of("filter")
        )
        fragments += [(f" · {clean_line(fact.text)}", STYLES[fact.role or "faint"]) for fact in facts]
        fragments += [(f" · {len(runs.marked)} marked", "bold $text-accent")] if runs.marked else []
        fragments += [(f" · ⚠ {clean_line(runs.problem)}", "bold $text-warning")] if runs.problem else []
        self.title_line.update(Content.assemble(*fragments))
        self._show_details()

    @on(RowList.Moved)
    def _show_details(self) -> None:
        width, height = self.notes.content_size
        if width > 0 and self.line is None:
            self.notes.update(Content.styled(self._nothing, FAINT))
        elif width > 0:
            lines = detail_lines(self.line, self.runs.names, width, self.app_state.clock())
            self.notes.update(Content("\n").join(lines[:height]))

    @property
    def _nothing(self) -> str:
        if self.runs.problem:
            return clean_line(self.runs.problem)
        if self.runs.selection.filter is not None:
            return "No run matches. esc ends the filter."
        starts = f"{key_of('open')} starts the demo, 5 minutes on this CPU." if self._may_start_demo else ""
        return f"No runs yet. {starts}\nYour own: {hints.UP}\nRuns of others: {hints.ADD}"

    @property
    def _may_start_demo(self) -> bool:
        """True where there is nothing to choose from."""
        runs = self.runs
        is_empty = not runs.rows and not runs.problem and runs.selection.filter is None
        return is_empty and not self.app_state.runs.readonly

    @property
    def line(self) -> Line | None:
        return self.runs.line(self.rows.key)

    @property
    def chosen(self) -> tuple[RunRow, ...]:
        return self.runs.chosen(self.rows.key)

    # keys

    async def _start_demo(self) -> None:
        async with self.waiting("Starting the demo"):
            run_id = await asyncio.to_thread(self.app_state.runs.start_demo)
        await self.look()
        self.post_message(OpenRunRequested(run_id))

    def action_mark(self) -> None:
        self.runs.mark(self.rows.key)
        self.show()
        self.rows.move(1)

    def action_open(self) -> None:
        """The run; of a heading, unfold or fold it; of what waits, the queue; without any run, the demo."""
        line = self.line
        if line is None and self._may_start_demo:
            self.work(self._start_demo())
        elif isinstance(line, QueueEntry):
            self.show_screen("queue", aim=line.id)
        elif line is not None and line.row is None:
            self.view.fold(line.key not in self.runs.selection.folded)
        elif line is not None and line.row is not None:
            screen = "rollouts" if line.row.kind == "evaluation" else ""
            self.post_message(OpenRunRequested(line.row.id, screen=screen))

    def action_compare(self) -> None:
        if len(rows := self.runs.compared(self.rows.key)) > 1:
            from rltui.ui.screens.compare import CompareScreen  # brings the charts

            self.show_instead(CompareScreen(self.app_state, [row.id for row in rows]))

    def copied(self) -> CopyRequested | None:
        if not (rows := self.chosen):
            return super().copied()
        return CopyRequested("\n".join(row.folder for row in rows), f"the folder of {runs_named(rows)}")

    def action_describe(self) -> None:
        if len(self.chosen) == 1:
            self.descriptions.describe(partial(self.app_state.runs.open, self.chosen[0].id))

    def action_fork(self) -> None:
        if len(self.chosen) == 1:
            self.forks.fork(self.chosen[0])

    def action_back(self) -> None:
        if self.runs.selection.filter is not None:
            self.view.search_for("")
        elif self.runs.marked:
            self.runs.unmark()
            self.show()
        elif self.app_state.current is not None:
            self.action_show_overview()

    def enabled(self, command: str, *arguments: object) -> bool:
        match command:
            case "open":
                return self.line is not None or self._may_start_demo
            case "mark":
                return isinstance(self.line, TreeLine)
            case "fork" | "describe":
                return len(self.chosen) == 1
            case "compare":
                return len(self.runs.compared(self.rows.key)) > 1
            case _:
                return super().enabled(command, *arguments)
