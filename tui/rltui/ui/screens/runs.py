"""The runs screen: living ones first, then all others. Binds and forwards."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from rltui.core import hints
from rltui.core.queue import QueueEntry
from rltui.core.run_tree import TreeLine
from rltui.core.runs import RunRow
from rltui.errors import RltuiError, UsageError
from rltui.ui import verbs
from rltui.ui.actions import Footer, KeyContext, Scope, key_of
from rltui.ui.background import in_background
from rltui.ui.base_screen import SCREEN_KEYS, BaseScreen
from rltui.ui.commands.forks import ForkCommands
from rltui.ui.commands.run_annotations import RunAnnotationCommands
from rltui.ui.copying import CopyRequested
from rltui.ui.key_bindings import bind, keys, own
from rltui.ui.messages import waiting
from rltui.ui.run_reader import RunReader
from rltui.ui.screens.column_dialog import ColumnDialog
from rltui.ui.screens.dialogs import ChoiceMenu
from rltui.ui.screens.trash_dialog import runs_named
from rltui.ui.shared import AppState
from rltui.ui.styles import FAINT, STYLES
from rltui.ui.text import clean_line
from rltui.ui.widgets.bars import KeyBar
from rltui.ui.widgets.row_list import list_keys
from rltui.ui.widgets.run_details import detail_lines
from rltui.ui.widgets.run_filter_bar import RunFilterBar
from rltui.ui.widgets.run_table import RunTable
from rltui.views.run_list import (
    USUAL,
    RunListing,
    RunSelection,
    RunView,
    line_key,
    title_facts,
    waiting_entries,
)

_INTERVAL_S = 1.0
_AGES_EVERY = 5
"""Looks between two at the ages."""
_SAMPLES = 5
"""Rollouts in a report, of the best and of the worst."""


class RunsScreen(BaseScreen):
    """Lies on the overview, or at the bottom where no experiment is open."""

    CSS_PATH: ClassVar = ["runs.tcss"]
    BINDINGS = keys(
        KeyContext.RUNS, *SCREEN_KEYS, *list_keys("moved_list."),
        bind(verbs.OPEN,
             help="Open the run under the cursor, from its files where nothing of it lives; a sweep unfolds",
             footer=Footer.LAST_TO_GO),
        bind(verbs.EDIT, "annotations.tag", "tags", "Edit the tags", footer=Footer.YES),
        bind(verbs.UNDO, "annotations.undo",
             help="Take back the last change of tags, note, mark, archive or trash", footer=Footer.YES),
        bind(verbs.FILTER, "show_archived", "archived", "List the archived too, or no more",
             footer=Footer.FIRST_TO_GO),
        bind(verbs.SORT, "sort(1)", help="Sort by the next column", footer=Footer.YES),
        bind(verbs.SORT_BACK, "sort(-1)"),
        own("sort.reverse", "I", "reverse", "invert", "The other way round", Scope.LOOKING),
        own("sort.choose", "", "choose_order", "sort by", "Choose the column to sort by", Scope.LOOKING),
        bind(verbs.SEARCH, "filter", "filter",
             "Only some: a part of the name, tag:baseline, reward > 0.8 and lr < 1e-5", footer=Footer.YES),
        bind(verbs.GROUP,
             help="Forks below their parents, the runs of a sweep below its name; or all by themselves",
             footer=Footer.YES),
        own("columns", "vertical_line", "choose_columns", "columns",
            "Choose the columns, also config keys and metrics; they are kept", Scope.LOOKING,
            footer=Footer.YES),
        bind(verbs.COMPARE,
             help="The marked ones beside each other: keys that differ, metrics, curves, rollouts",
             footer=Footer.YES),
        bind(verbs.MARK, help="Mark the run under the cursor: what follows is done to all that are marked",
             footer=Footer.YES),
        bind(verbs.COPY, help="Copy the folder of what is under the cursor"),
        bind(verbs.WRITE, "export", "report",
             "Write a report into a new folder: Markdown, curves, configs, rollouts",
             footer=Footer.FIRST_TO_GO),
        own("best", "asterisk", "annotations.mark_best", "best", "Mark as the best, or no more",
            Scope.PICKING, footer=Footer.FIRST_TO_GO, changes=True),
        bind(verbs.HIDE, "annotations.archive", "archive", "Archive it: list it no more, or again",
             footer=Footer.YES, changes=True),
        bind(verbs.REMOVE, "annotations.trash", "trash", "Put it into the trash, folder and all: asks",
             footer=Footer.YES),
        bind(verbs.FORK, help="Start another run with its config, changed, or from a checkpoint"),
        bind(verbs.NOTE, "annotations.describe", help="Say something of the run", footer=Footer.YES,
             changes=True),
        bind(verbs.SCREEN_QUEUE, "show_screen('queue')", footer=Footer.YES),
        bind(verbs.CURSOR_LEFT, "fold(True)", help="Hide what stands below the line, or below its parent"),
        bind(verbs.CURSOR_RIGHT, "fold(False)", help="Show what stands below the line"),
        bind(verbs.BACK, help="End the filter, take the marks away; back"),
    )  # fmt: skip
    place = KeyContext.RUNS
    is_of_all_runs = True

    def __init__(self, home: AppState) -> None:
        super().__init__(home)
        self._clock = home.clock
        self._reader = RunReader(home.runs)
        self._selection = RunSelection()
        self._marked_keys: frozenset[str] = frozenset()
        self._listing = RunListing()
        self._title = Static(id="runs-title", markup=False)
        self._filter = RunFilterBar(lambda: self._reader.names, home.clock)
        self._head = Static(id="runs-head", markup=False)
        self._table = RunTable(self._head, id="runs-table")
        self._details = Static(id="runs-details", markup=False)
        self.forks = ForkCommands(self, home)
        self.annotations = RunAnnotationCommands(self, home.runs, lambda: self.chosen, self.look)

    def compose(self) -> ComposeResult:
        yield self._title
        yield KeyBar()
        yield self._filter
        yield self._head
        yield self._table
        yield self._details

    def on_mount(self) -> None:
        self._table.focus()

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_details)

    def on_screen_resume(self) -> None:
        in_background(self, self._follow, group="follow")

    def left(self) -> None:
        self.workers.cancel_group(self, "follow")

    @property
    def moved_list(self) -> RunTable:
        return self._table

    # values in

    async def _follow(self) -> None:
        """The index answers at once; then the folders are read; then changes are followed."""
        try:
            if not self._reader.rows:
                view = RunView.of(await asyncio.to_thread(self.home.runs.view_state, "runs"))
                self._selection = replace(self._selection, view=view, with_host=bool(self.home.runs.hosts))
            await self.look()
            async with waiting(self.app, "Bringing the index of runs up to date"):
                texts = await asyncio.to_thread(self.home.runs.catch_up)
            for text in texts:
                self.notify(clean_line(text), severity="warning", timeout=15, markup=False)
        except RltuiError as error:
            self.notify(clean_line(error.title), severity="error", timeout=15, markup=False)
        looks = 0
        while True:
            await self.look()
            await asyncio.sleep(_INTERVAL_S)
            looks += 1
            if looks % _AGES_EVERY == 0:
                self._table.show_time(self._clock())

    async def look(self) -> None:
        """Read index and queue again; shown where something is another than before."""
        if await self._reader.look():
            self._marked_keys &= self._reader.names.keys()
            await self._show_with_configs()

    async def _show_with_configs(self) -> None:
        """Configs are read where a column or the filter asks for them."""
        if self._selection.needs_configs:
            await self._reader.read_configs()
        self._show()

    def _show(self, key: str | None = None) -> None:
        """The list as the view wants it; the cursor goes to `key`, or stays on its row."""
        reader, selection, line = self._reader, self._selection, self._table.line
        lines = selection.lines(reader.rows, reader.configs, waiting_entries(reader.queue))
        self._listing = RunListing(
            lines,
            selection.columns,
            reader.configs,
            reader.names,
            selection.view,
            self._marked_keys,
            selection.folded,
        )
        key = key or (line_key(line) if line is not None else None)
        self._table.show_listing(self._listing, self._clock(), key)
        self._update_title()
        self._show_details()
        self.refresh_bindings()

    def _update_title(self) -> None:
        reader = self._reader
        name = f"{clean_line(host)}: Runs" if (host := self.home.runs.host) else "Runs"
        fragments: list[tuple[str, str]] = [(" rltui ", "bold $accent"), (name, "bold")]
        facts = title_facts(
            reader.rows, self._selection, self._listing.lines, reader.queue, archive_key=key_of("filter")
        )
        fragments += [(f" · {clean_line(fact.text)}", STYLES[fact.role or "faint"]) for fact in facts]
        fragments += (
            [(f" · {len(self._marked_keys)} marked", "bold $text-accent")] if self._marked_keys else []
        )
        fragments += [(f" · ⚠ {clean_line(reader.problem)}", "bold $text-warning")] if reader.problem else []
        self._title.update(Content.assemble(*fragments))

    def _show_details(self) -> None:
        width, height = self._details.content_size
        if width > 0:
            line, names = self._table.line, self._reader.names
            if line is None:
                self._details.update(Content.styled(self._nothing, FAINT))
                return
            lines = detail_lines(line, names, width, self._clock())
            self._details.update(Content("\n").join(lines[:height]))

    @property
    def _nothing(self) -> str:
        if self._reader.problem:
            return clean_line(self._reader.problem)
        if self._selection.filter is not None:
            return "No run matches. esc ends the filter."
        return f"No run yet. {hints.UP} starts one, {hints.DEMO} too; {hints.ADD} lists those of others."

    @on(RunTable.CursorMoved)
    def _look_at_line(self) -> None:
        self._show_details()
        self.refresh_bindings()

    # how it is looked at

    def _look_as(self, selection: RunSelection, key: str | None = None) -> None:
        self._selection = selection
        in_background(self, partial(self._look_again, key), group="view")

    def _keep_view(self, view: RunView) -> None:
        """Show it so from now on, also the next time."""
        self._look_as(replace(self._selection, view=view))
        in_background(self, self._write_view, group="keep-view")

    async def _write_view(self) -> None:
        try:
            await asyncio.to_thread(self.home.runs.save_view_state, "runs", asdict(self._selection.view))
        except RltuiError as error:
            self.notify(f"Not kept: {clean_line(error.title)}", severity="warning", markup=False)

    async def _look_again(self, key: str | None) -> None:
        await self._show_with_configs()
        if (row_filter := self._selection.filter) is not None:
            try:
                row_filter.check(self._reader.configs)
            except UsageError as error:
                self._filter.show_error(error)
        if key is not None:
            self._show(key)

    def action_filter(self) -> None:
        self._filter.open(self._selection.filter)

    @on(RunFilterBar.Changed)
    def _narrow_to(self, event: RunFilterBar.Changed) -> None:
        self._look_as(replace(self._selection, filter=event.filter))

    @on(RunFilterBar.Ready)
    def _leave_filter(self) -> None:
        self._table.focus()

    def action_sort(self, columns: int) -> None:
        """The next visible column sorts, or the one before; no column: the default order."""
        self._keep_view(self._selection.sorted_beside(columns))

    def action_choose_order(self) -> None:
        choices = {USUAL: ("the usual order", "living ones, then those that ended last")}
        choices |= {
            column.id: (clean_line(column.heading), clean_line(column.about))
            for column in self._selection.columns
        }
        self.app.push_screen(ChoiceMenu("Sort by", choices), self._sort_by)

    def _sort_by(self, choice: str | None) -> None:
        if choice is not None:
            self._keep_view(self._selection.sorted_by(choice))

    def action_reverse(self) -> None:
        self._keep_view(replace(self._selection.view, is_reversed=not self._selection.view.is_reversed))

    def action_choose_columns(self) -> None:
        self.app.push_screen(ColumnDialog(self._selection.view.columns), self._take_columns)

    def _take_columns(self, columns: tuple[str, ...] | None) -> None:
        if columns is not None:
            self._keep_view(replace(self._selection.view, columns=columns))

    def action_group(self) -> None:
        """Forks below their parents and sweeps below their names, or all by themselves."""
        self._keep_view(replace(self._selection.view, is_grouped=not self._selection.view.is_grouped))

    def action_fold(self, is_folded: bool) -> None:
        """Folds the lines below the cursor's; where there are none, those below its parent."""
        line, folded_ids = self._table.line, self._selection.folded
        if not isinstance(line, TreeLine) or not self._selection.view.is_grouped:
            return
        if is_folded and (not line.is_parent or line.key in folded_ids):
            line = self._listing.above(line)
        if line is not None and line.is_parent:
            keys = folded_ids | {line.key} if is_folded else folded_ids - {line.key}
            self._look_as(replace(self._selection, folded=keys), line.key)

    def action_show_archived(self) -> None:
        self._look_as(replace(self._selection, with_archived=not self._selection.with_archived))

    # which are meant

    @property
    def chosen(self) -> tuple[RunRow, ...]:
        """The marked ones; else the run under the cursor, or all of the sweep."""
        if self._marked_keys:
            by_id: dict[str, RunRow] = {row.id: row for row in self._reader.rows}
            marked_keys = [
                key for line in self._listing.lines if (key := line_key(line)) in self._marked_keys
            ]
            return tuple(by_id[id_] for id_ in dict.fromkeys((*marked_keys, *sorted(self._marked_keys))))
        line = self._table.line
        if not isinstance(line, TreeLine):
            return ()
        return line.members if line.row is None else (line.row,)

    def action_mark(self) -> None:
        """Mark it, or take its mark away; then on to the next. A heading: all of the sweep."""
        line = self._table.line
        if not isinstance(line, TreeLine):
            return
        ids = {line.row.id} if line.row is not None else {row.id for row in line.members}
        self._marked_keys = self._marked_keys - ids if ids <= self._marked_keys else self._marked_keys | ids
        self._show()
        self._table.move(1)

    # keys

    def action_open(self) -> None:
        """The run; of a heading, unfold or fold it; of what waits, the queue."""
        line = self._table.line
        if isinstance(line, QueueEntry):
            self.show_screen("queue", aim=line.id)
        elif line is not None and line.row is None:
            self.action_fold(line.key not in self._selection.folded)
        elif line is not None and line.row is not None:
            screen = "rollouts" if line.row.kind == "evaluation" else ""
            self.post_message(self.OpenRunRequested(line.row.id, screen=screen))

    def action_compare(self) -> None:
        if len(rows := self._compared) > 1:
            from rltui.ui.screens.compare import CompareScreen  # brings the charts

            self.show_instead(CompareScreen(self.home, [row.id for row in rows]))

    @property
    def _compared(self) -> tuple[RunRow, ...]:
        """The marked ones, with the one under the cursor where only one is marked; a single one with its
        parent. The oldest is first: the others are measured against it.
        """
        line, rows = self._table.line, self.chosen
        if len(rows) == 1:
            current = line.row if isinstance(line, TreeLine) else None
            other = current if self._marked_keys and current is not None and current not in rows else None
            parent = next((row for row in self._reader.rows if row.id == rows[0].parent), None)
            rows = tuple(row for row in (*rows, other or parent) if row is not None)
        return tuple(sorted(rows, key=lambda row: row.started_at or row.created_at))

    def copied(self) -> CopyRequested | None:
        if not (rows := self.chosen):
            return super().copied()
        return CopyRequested("\n".join(row.folder for row in rows), f"the folder of {runs_named(rows)}")

    def action_export(self) -> None:
        if rows := self.chosen:
            self.work(self._export(rows), changes=False)

    async def _export(self, rows: Sequence[RunRow]) -> None:
        from rltui.ui.charts.export import drawings  # brings numpy

        folders = []
        for row in rows:
            export = partial(self.home.runs.export, row.id, "", drawings, samples=_SAMPLES)
            try:
                async with waiting(self.app, f"Writing the report of {row.name}"):
                    folders.append(clean_line(await asyncio.to_thread(export)))
            except RltuiError as error:
                await self.show_error(error)
                break
        if folders:
            self.notify("Written: {}".format("\n".join(folders)), timeout=10, markup=False)

    def action_fork(self) -> None:
        if len(self.chosen) == 1:
            self.forks.fork(self.chosen[0])

    def action_back(self) -> None:
        """First the filter ends, then the marks go, then the screen."""
        if self._filter.is_open:
            self._filter.close()
            self._table.focus()
        elif self._marked_keys:
            self._marked_keys = frozenset()
            self._show()
        elif self.home.shared is not None:
            self.action_show_overview()

    def enabled(self, command: str, *arguments: object) -> bool:
        line = self._table.line
        match command:
            case "open":
                return line is not None
            case "mark":
                return isinstance(line, TreeLine)
            case "export":
                return bool(self.chosen)
            case "fork":
                return len(self.chosen) == 1
            case "compare":
                return len(self._compared) > 1
            case "filter" | "sort" | "choose_order" | "reverse" | "group":
                return bool(self._reader.rows)
            case "fold":
                return self._selection.view.is_grouped
            case _:
                return super().enabled(command, *arguments)
