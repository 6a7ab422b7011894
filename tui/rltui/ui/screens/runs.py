"""The runs screen: living ones first, then all others. Binds and forwards."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from rltui.core.queue import QueueEntry
from rltui.core.run_tree import TreeLine
from rltui.core.runs import RunRow
from rltui.errors import RltuiError
from rltui.ui import verbs
from rltui.ui.actions import Footer, KeyContext, Scope
from rltui.ui.base_screen import SCREEN_KEYS
from rltui.ui.commands.forks import ForkCommands
from rltui.ui.commands.run_annotations import RunAnnotationCommands
from rltui.ui.copying import CopyRequested
from rltui.ui.key_bindings import bind, keys, own
from rltui.ui.messages import waiting
from rltui.ui.screens.run_list import RunListScreen
from rltui.ui.screens.trash_dialog import runs_named
from rltui.ui.shared import AppState
from rltui.ui.text import clean_line
from rltui.ui.widgets.row_list import LIST_KEYS
from rltui.ui.widgets.run_table import line_key

_SAMPLES = 5
"""Rollouts in a report, of the best and of the worst."""


class RunsScreen(RunListScreen):
    """Lies on the overview, or at the bottom where no experiment is open."""

    CSS_PATH: ClassVar = ["runs.tcss"]
    BINDINGS = keys(
        KeyContext.RUNS, *SCREEN_KEYS, *LIST_KEYS,
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

    def __init__(self, home: AppState) -> None:
        super().__init__(home)
        self.forks = ForkCommands(self, home)
        self.annotations = RunAnnotationCommands(self, home.runs, lambda: self.chosen, self.look)

    # which are meant

    @property
    def chosen(self) -> tuple[RunRow, ...]:
        """The marked ones; else the run under the cursor, or all of the sweep."""
        if self._marked:
            by_id: dict[str, RunRow] = {row.id: row for row in self._known.rows}
            shown = [key for line in self._lines if (key := line_key(line)) in self._marked]
            return tuple(by_id[id_] for id_ in dict.fromkeys((*shown, *sorted(self._marked))))
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
        self._marked = self._marked - ids if ids <= self._marked else self._marked | ids
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
            here = line.row if isinstance(line, TreeLine) else None
            other = here if self._marked and here is not None and here not in rows else None
            parent = next((row for row in self._known.rows if row.id == rows[0].parent), None)
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
        if self._filter.has_class("-shown"):
            self._filter.value = ""
            self._filter.remove_class("-shown")
            self._table.focus()
        elif self._marked:
            self._marked = frozenset()
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
                return bool(self._known.rows)
            case "fold":
                return self._selection.view.is_grouped
            case _:
                return super().enabled(command, *arguments)
