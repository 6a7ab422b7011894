"""The list of the runs screen: what is read, and how a person looks at it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, Static

from rltui.core import hints
from rltui.core.queue import QueueEntry, RunQueue
from rltui.core.run_columns import RunColumn, RunView, columns_of, sorted_by, usual_order
from rltui.core.run_filter import RunFilter, parse_filter
from rltui.core.run_tree import TreeLine, run_tree
from rltui.core.runs import RunRow
from rltui.errors import RltuiError, UsageError
from rltui.ui.actions import key_of
from rltui.ui.background import in_background
from rltui.ui.base_screen import BaseScreen
from rltui.ui.messages import waiting
from rltui.ui.screens.column_dialog import ColumnDialog
from rltui.ui.screens.dialogs import ChoiceMenu
from rltui.ui.shared import AppState
from rltui.ui.styles import FAINT
from rltui.ui.text import clean, clean_line
from rltui.ui.widgets.bars import KeyBar
from rltui.ui.widgets.row_list import CursorKeys
from rltui.ui.widgets.run_details import detail_lines
from rltui.ui.widgets.run_table import Line, RunListing, RunTable, line_key

_INTERVAL_S = 1.0
_AGES_EVERY = 5
"""Looks between two at the ages."""
_USUAL = "usual"


@dataclass(frozen=True, slots=True)
class RunSelection:
    """How a person looks at the list: as it is kept, and what counts for now. Pure."""

    view: RunView = RunView()
    with_archived: bool = False
    filter: RunFilter | None = None
    folded: frozenset[str] = frozenset()
    with_host: bool = False
    """The runs are of several machines."""

    @property
    def columns(self) -> tuple[RunColumn, ...]:
        name, *others = self.view.columns
        return columns_of((name, *(("host",) if self.with_host else ()), *others))

    @property
    def needs_configs(self) -> bool:
        sort = columns_of([self.view.sort] if self.view.sort else [])
        filtered = self.filter is not None and self.filter.needs_config
        return filtered or any(column.of_config for column in (*self.columns, *sort))

    def lines(
        self, rows: Sequence[RunRow], configs: Mapping[str, Any], queue: Sequence[QueueEntry] = ()
    ) -> list[Line]:
        """Living runs, or trees with such; what waits in the queue; the others."""
        view = self.view
        shown = [row for row in rows if self._admits(row, configs.get(row.id, {}))]
        if view.sort:
            column = columns_of([view.sort])[0]
            shown = sorted_by(shown, column, configs, is_reversed=view.is_reversed)
        else:
            shown = usual_order(shown)[:: -1 if view.is_reversed else 1]
        shown.sort(key=lambda row: not row.is_running)
        if view.is_grouped:
            lines = run_tree(shown, self.folded)
            living = _living_lines(lines)
        else:
            lines = [TreeLine(row.id, row, (), is_parent=False) for row in shown]
            living = sum(row.is_running for row in shown)
        waiting = queue if self.filter is None else ()
        return [*lines[:living], *waiting, *lines[living:]]

    def _admits(self, row: RunRow, config: Mapping[str, Any]) -> bool:
        if row.trashed_at is not None or (row.archived_at is not None and not self.with_archived):
            return False
        return self.filter is None or self.filter.matches(row, config)


def _living_lines(tree: Sequence[TreeLine]) -> int:
    """So many lines there are up to the end of the last tree in which something runs."""
    end, is_living = 0, False
    for at, line in enumerate(tree, start=1):
        rows = line.members if line.row is None else (line.row, *line.members)
        is_living = any(row.is_running for row in rows) or (is_living and bool(line.branch))
        if is_living:
            end = at
    return end


@dataclass
class _ReadRuns:
    rows: tuple[RunRow, ...] = ()
    names: dict[str, str] = field(default_factory=dict)
    configs: dict[str, Any] = field(default_factory=dict)
    of_rows: dict[str, RunRow] = field(default_factory=dict)
    """The row that each config was read with."""
    queue: RunQueue = RunQueue()

    @property
    def waiting(self) -> list[QueueEntry]:
        """What the queue has not started yet, next first."""
        entries = [each for each in self.queue.entries if each.state in ("waiting", "starting")]
        return sorted(entries, key=lambda each: -each.priority)


class RunListScreen(CursorKeys, BaseScreen):
    """Shows all runs, as far as the filter admits them, and keeps up with them."""

    is_of_all_runs = True

    def __init__(self, home: AppState) -> None:
        super().__init__(home)
        self._clock = home.clock
        self._known = _ReadRuns()
        self._selection = RunSelection()
        self._marked: frozenset[str] = frozenset()
        self._lines: list[Line] = []
        self._problem = "reading…"
        self._title = Static(id="runs-title", markup=False)
        self._filter = Input(
            placeholder="a part of the name, tag:baseline, reward > 0.8 and lr < 1e-5",
            id="runs-filter",
            compact=True,
        )
        self._filter.cursor_blink = False
        self._filter_before: RunFilter | None = None
        """What counted when the typing began."""
        self._trouble = Static(id="runs-trouble", markup=False)
        self._head = Static(id="runs-head", markup=False)
        self._table = RunTable(self._head, id="runs-table")
        self._details = Static(id="runs-details", markup=False)

    def compose(self) -> ComposeResult:
        yield self._title
        yield KeyBar()
        yield self._filter
        yield self._trouble
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
        """What the index has at once; then what the folders say; then what changes."""
        try:
            if not self._known.rows:
                view = RunView.of(await asyncio.to_thread(self.home.runs.kept, "runs"))
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
        known, before = self._known, self._problem
        self._problem = self.home.runs.trouble
        try:
            rows = await asyncio.to_thread(self.home.runs.rows)
        except RltuiError as error:
            rows, self._problem = known.rows, error.title
        try:
            queue = await asyncio.to_thread(self.home.runs.queue)
        except RltuiError as error:
            queue, self._problem = known.queue, self._problem or error.title
        if rows is known.rows and queue == known.queue and self._problem == before:
            return
        if rows is not known.rows:
            known.rows, known.names = rows, {row.id: row.name for row in rows}
            self._marked &= known.names.keys()
        known.queue = queue
        await self._show_with_configs()

    async def _show_with_configs(self) -> None:
        """Configs are read where a column or the filter asks for them, and where a run has changed."""
        known = self._known
        old = [row for row in known.rows if known.of_rows.get(row.id) is not row]
        if old and self._selection.needs_configs:
            try:
                found = await asyncio.to_thread(self.home.runs.configs, [row.id for row in old])
            except RltuiError as error:
                self._problem = error.title
            else:
                known.configs.update(found)
                known.of_rows.update({row.id: row for row in old})
        self._show()

    def _show(self, key: str | None = None) -> None:
        """The list as the view wants it; the cursor goes to `key`, or stays on its row."""
        known, selection, line = self._known, self._selection, self._table.line
        self._lines = selection.lines(known.rows, known.configs, known.waiting)
        listing = RunListing(
            self._lines,
            selection.columns,
            known.configs,
            known.names,
            selection.view,
            self._marked,
            selection.folded,
        )
        key = key or (line_key(line) if line is not None else None)
        self._table.show_listing(listing, self._clock(), key)
        self._update_title()
        self._show_details()
        self.refresh_bindings()

    def _update_title(self) -> None:
        rows, selection = self._known.rows, self._selection
        view, is_all = selection.view, selection.with_archived
        living = sum(row.is_running for row in rows)
        listed = [row for row in rows if row.trashed_at is None]
        archived = sum(row.archived_at is not None for row in listed)
        title = f"{clean_line(host)}: Runs" if (host := self.home.runs.host) else "Runs"
        parts: list[tuple[str, str]] = [(" rltui ", "bold $accent"), (title, "bold")]
        parts += [(f" · {living} running", "$text-success")] if living else []
        if waiting := len(self._known.waiting):
            paused = ", paused" if self._known.queue.paused else ""
            parts.append((f" · {waiting} queued{paused}", "$text-warning"))
        if selection.filter is not None:
            shown = sum(isinstance(line, TreeLine) and line.row is not None for line in self._lines)
            parts.append(
                (f" · {shown:,} of {len(listed) - archived:,}: {clean_line(selection.filter.text)}", "bold")
            )
        else:
            parts.append((f" · {len(listed) - archived:,} in all", FAINT))
        more = "" if is_all else f" ({key_of('filter')})"
        parts += [(f" · {archived:,} archived{more}", FAINT)] if archived else []
        order = f"by {view.sort}" if view.sort else ""
        order = f"{order} reversed".strip() if view.is_reversed else order
        parts += [(f" · {order}", FAINT)] if order else []
        parts += [(f" · {len(self._marked)} marked", "bold $text-accent")] if self._marked else []
        parts += [(f" · ⚠ {clean_line(self._problem)}", "bold $text-warning")] if self._problem else []
        self._title.update(Content.assemble(*parts))

    def _show_details(self) -> None:
        width, height = self._details.content_size
        if width > 0:
            line, names = self._table.line, self._known.names
            if line is None:
                self._details.update(Content.styled(self._nothing, FAINT))
                return
            lines = detail_lines(line, names, width, self._clock())
            self._details.update(Content("\n").join(lines[:height]))

    @property
    def _nothing(self) -> str:
        if self._problem:
            return clean_line(self._problem)
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
            await asyncio.to_thread(self.home.runs.keep, "runs", asdict(self._selection.view))
        except RltuiError as error:
            self.notify(f"Not kept: {clean_line(error.title)}", severity="warning", markup=False)

    async def _look_again(self, key: str | None) -> None:
        await self._show_with_configs()
        if (asked := self._selection.filter) is not None:
            try:
                asked.check(self._known.configs)
            except UsageError as error:
                self._tell(error)
        if key is not None:
            self._show(key)

    def action_filter(self) -> None:
        if not self._filter.has_focus:
            self._filter_before = self._selection.filter
        self._filter.add_class("-shown")
        self._filter.focus()

    @on(Input.Changed, "#runs-filter")
    def _filtered(self, event: Input.Changed) -> None:
        """It counts while it is typed. Where it cannot be understood, the one before the typing does."""
        ids = {name: id_ for id_, name in self._known.names.items()}
        try:
            wanted = parse_filter(event.value, now=self._clock(), ids=ids) if event.value.strip() else None
        except UsageError as error:
            self._tell(error)
            wanted = self._filter_before
        else:
            self._tell(None)
        self._look_as(replace(self._selection, filter=wanted))

    def _tell(self, error: UsageError | None) -> None:
        lines = [] if error is None else [error.title, *error.details, error.hint]
        self._trouble.update(Content("\n".join(clean(line) for line in lines if line)))
        self._trouble.set_class(bool(lines), "-shown")

    @on(Input.Submitted, "#runs-filter")
    def _filter_ready(self) -> None:
        self._table.focus()

    def action_sort(self, columns: int) -> None:
        """By the next column that is shown, or the one before; by none, in the usual order."""
        known = [_USUAL, *(column.id for column in self._selection.columns)]
        sort = self._selection.view.sort or _USUAL
        self._sort_by(known[([*known, sort].index(sort) + columns) % len(known)])

    def action_choose_order(self) -> None:
        choices = {_USUAL: ("the usual order", "living ones, then those that ended last")}
        choices |= {
            column.id: (clean_line(column.heading), clean_line(column.about))
            for column in self._selection.columns
        }
        self.app.push_screen(ChoiceMenu("Sort by", choices), self._sort_by)

    def _sort_by(self, choice: str | None) -> None:
        if choice is not None:
            sort = "" if choice == _USUAL else choice
            self._keep_view(replace(self._selection.view, sort=sort, is_reversed=False))

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

    def action_fold(self, wanted: bool) -> None:
        """What stands below the line; where nothing does, below the line above it."""
        line, folded = self._table.line, self._selection.folded
        if not isinstance(line, TreeLine) or not self._selection.view.is_grouped:
            return
        if wanted and (not line.is_parent or line.key in folded):
            line = self._above(line)
        if line is not None and line.is_parent:
            keys = folded | {line.key} if wanted else folded - {line.key}
            self._look_as(replace(self._selection, folded=keys), line.key)

    def _above(self, line: TreeLine) -> TreeLine | None:
        """The parent of a line, or the heading of its sweep."""
        lines = [each for each in self._lines if isinstance(each, TreeLine)]
        at = lines.index(line)
        depth = len(line.branch)
        return next((each for each in lines[:at][::-1] if len(each.branch) < depth), None)

    def action_show_archived(self) -> None:
        self._look_as(replace(self._selection, with_archived=not self._selection.with_archived))
