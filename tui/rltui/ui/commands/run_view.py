"""Commands on how runs are listed: order, columns and groups, which are kept, and what is left out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial

from rltui.base.text import count_text
from rltui.core.runs.tree import TreeLine
from rltui.errors import RltuiError, UsageError
from rltui.ui.background import in_background
from rltui.ui.base_screen import BaseScreen
from rltui.ui.dialogs.base import ChoiceMenu
from rltui.ui.dialogs.columns import ColumnDialog
from rltui.ui.dialogs.search_line import SearchLine
from rltui.ui.run_list import RunList
from rltui.ui.text import clean_line
from rltui.views.run_filter import parse_filter
from rltui.views.run_list import USUAL, Line, RunSelection, RunView, line_key


class RunViewCommands:
    def __init__(
        self,
        screen: BaseScreen,
        runs: RunList,
        cursor: Callable[[], Line | None],
        move: Callable[[int], None],
        on_change: Callable[[str], None],
    ) -> None:
        """`move`: the cursor by so many lines.

        `on_change` shows the list anew, with the cursor on the line of that key; empty: where it is.
        """
        self._screen = screen
        self._runs = runs
        self._query, self._query_problem = "", ""
        self._cursor = cursor
        self._move = move
        self._on_change = on_change

    def allows(self, command: str, *arguments: object) -> bool:
        del arguments
        match command:
            case "fold":
                return self._runs.selection.view.is_grouped
            case "choose_columns" | "show_archived" | "filter":
                return True
            case _:
                return bool(self._runs.rows)

    def select(self, selection: RunSelection, key: str = "") -> None:
        self._runs.selection = selection
        in_background(self._screen, partial(self._select, selection, key), group="view")

    async def _select(self, selection: RunSelection, key: str) -> None:
        await self._runs.select(selection)
        self._on_change(key)
        if selection.filter is not None:
            try:
                selection.filter.check(self._runs.configs)
            except UsageError as error:
                self._query_problem = error.title

    def _keep(self, view: RunView) -> None:
        """Show it so from now on, also the next time."""
        self.select(replace(self._runs.selection, view=view))
        in_background(self._screen, self._write, group="keep-view")

    async def _write(self) -> None:
        try:
            runs, view = self._screen.app_state.runs, self._runs.selection.view
            await asyncio.to_thread(runs.save_view_state, "runs", asdict(view))
        except RltuiError as error:
            text = f"View not saved: {clean_line(error.title)}"
            self._screen.notify(text, severity="warning", markup=False)

    def filter(self) -> None:
        key = line_key(line) if (line := self._cursor()) is not None else ""
        self._screen.app.push_screen(
            SearchLine(
                self._query if self._runs.selection.filter is not None else "",
                "part of a name, tag:baseline, reward > 0.8 and lr < 1e-5",
                show=self.search_for,
                status=lambda: self._query_problem or count_text(len(self._runs.listing.lines), "run"),
                move=self._move,
                go_back=lambda: self.select(self._runs.selection, key),
            )
        )

    def search_for(self, text: str) -> None:
        """List what a filter admits; one that cannot be understood changes nothing, and says why."""
        self._query, self._query_problem = text, ""
        try:
            now = self._screen.app_state.clock()
            filter_ = parse_filter(text, now=now) if text.strip() else None
        except UsageError as error:
            self._query_problem = error.title
            return
        self.select(replace(self._runs.selection, filter=filter_))

    def sort(self, columns: int) -> None:
        """The next visible column sorts, or the one before; no column: the default order."""
        self._keep(self._runs.selection.sorted_by_adjacent(columns))

    def choose_order(self) -> None:
        selection = self._runs.selection
        choices = {USUAL: ("default order", "running first, then the most recently ended")}
        choices |= {
            column.id: (clean_line(column.heading), clean_line(column.about)) for column in selection.columns
        }

        def sort(choice: str | None) -> None:
            if choice is not None:
                self._keep(self._runs.selection.sorted_by(choice))

        self._screen.app.push_screen(ChoiceMenu("Sort by", choices), sort)

    def reverse(self) -> None:
        view = self._runs.selection.view
        self._keep(replace(view, is_reversed=not view.is_reversed))

    def choose_columns(self) -> None:
        def take(columns: tuple[str, ...] | None) -> None:
            if columns is not None:
                self._keep(replace(self._runs.selection.view, columns=columns))

        self._screen.app.push_screen(ColumnDialog(self._runs.selection.view.columns), take)

    def group(self) -> None:
        view = self._runs.selection.view
        self._keep(replace(view, is_grouped=not view.is_grouped))

    def fold(self, is_folded: bool) -> None:
        """Folds the lines below the cursor's; where there are none, those below its parent."""
        line, selection = self._cursor(), self._runs.selection
        if not isinstance(line, TreeLine) or not selection.view.is_grouped:
            return
        if is_folded and (not line.is_parent or line.key in selection.folded):
            line = self._runs.listing.above(line)
        if line is not None and line.is_parent:
            keys = selection.folded | {line.key} if is_folded else selection.folded - {line.key}
            self.select(replace(selection, folded=keys), line.key)

    def show_archived(self) -> None:
        selection = self._runs.selection
        self.select(replace(selection, with_archived=not selection.with_archived))
