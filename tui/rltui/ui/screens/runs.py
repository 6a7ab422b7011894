"""The runs screen: living ones first, what waits in the queue, then all others. Binds and forwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from rltui.client.protocol import Runs
from rltui.core.queue import QueueEntry
from rltui.core.run_columns import DEFAULT_COLUMNS, RunColumn, columns_of, sorted_by, usual_order
from rltui.core.run_filter import RunFilter, parse_filter
from rltui.core.run_tree import TreeLine, run_tree
from rltui.core.runs import RunRow
from rltui.errors import RltuiError, UsageError
from rltui.ui.actions import Place, bindings
from rltui.ui.screens.column_dialog import ColumnDialog
from rltui.ui.screens.dialogs import ChoiceMenu
from rltui.ui.screens.run_keeping import KeepActions
from rltui.ui.text import clean_line
from rltui.ui.widgets.bars import KeyBar
from rltui.ui.widgets.gpu_words import FAINT
from rltui.ui.widgets.row_list import CursorKeys
from rltui.ui.widgets.run_details import detail_lines
from rltui.ui.widgets.run_table import Line, RunListing, RunTable, line_key

_INTERVAL_S = 1.0
_AGES_EVERY = 5
"""Looks between two at the ages."""
_USUAL = "usual"
_GROUP = "runs-request"


@dataclass(frozen=True, slots=True)
class RunView:
    """How a person looks at the list. Pure."""

    columns: tuple[str, ...] = DEFAULT_COLUMNS
    sort: str = ""
    """Id of a column; empty: the usual order."""
    is_reversed: bool = False
    is_grouped: bool = False
    with_archived: bool = False
    filter: RunFilter | None = None
    folded: frozenset[str] = frozenset()

    @property
    def needed(self) -> tuple[RunColumn, ...]:
        """Columns whose values it takes."""
        asked = self.filter.columns if self.filter is not None else ()
        return (*columns_of((*self.columns, *([self.sort] if self.sort else []))), *asked)

    def lines(
        self, rows: Sequence[RunRow], configs: dict[str, Any], queue: Sequence[QueueEntry]
    ) -> list[Line]:
        """Living runs, or trees with such; what waits; the others."""
        shown = [row for row in rows if self._admits(row, configs.get(row.id, {}))]
        if self.sort:
            column = columns_of([self.sort])[0]
            shown = sorted_by(shown, column, configs, is_reversed=self.is_reversed)
        else:
            shown = usual_order(shown)
            if self.is_reversed:
                shown.reverse()
        shown.sort(key=lambda row: not row.is_running)
        waiting = [entry for entry in queue if entry.state in ("waiting", "starting")]
        if self.filter is not None:
            waiting = []
        if not self.is_grouped:
            living = sum(row.is_running for row in shown)
            lines: list[Line] = [TreeLine(row.id, row, (), is_parent=False) for row in shown]
            return [*lines[:living], *waiting, *lines[living:]]
        tree = run_tree(shown, self.folded)
        return [*_living_part(tree), *waiting, *tree[len(_living_part(tree)) :]]

    def _admits(self, row: RunRow, config: dict[str, Any]) -> bool:
        if row.trashed_at is not None or (row.archived_at is not None and not self.with_archived):
            return False
        return self.filter is None or self.filter.matches(row, config)


def _living_part(tree: Sequence[TreeLine]) -> Sequence[TreeLine]:
    """Up to the end of the last tree in which something runs."""
    end = is_living = 0
    for at, line in enumerate(tree):
        if not line.branch:
            is_living = 0
        if (line.row is not None and line.row.is_running) or any(row.is_running for row in line.members):
            is_living = 1
        if is_living:
            end = at + 1
    return tree[:end]


@dataclass
class _Known:
    """What was read last."""

    rows: tuple[RunRow, ...] = ()
    names: dict[str, str] = field(default_factory=dict)
    configs: dict[str, Any] = field(default_factory=dict)
    of_rows: dict[str, RunRow] = field(default_factory=dict)
    """The row that each config was read with."""
    queue: tuple[QueueEntry, ...] = ()


class RunScreen(CursorKeys, KeepActions):
    """The list and what is to be done with those in it."""

    CSS_PATH: ClassVar = ["runs.tcss"]
    BINDINGS = bindings(Place.RUNS)
    VERTICAL_BREAKPOINTS = [(0, "-short"), (36, "-tall")]  # noqa: RUF012 - as Textual declares it

    @dataclass
    class OpenWanted(Message):
        """A person wants to look at a run."""

        id: str

    def __init__(self, runs: Runs, clock: Callable[[], float]) -> None:
        super().__init__()
        self.runs = runs
        self._clock = clock
        self._known = _Known()
        self._view = RunView()
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
        self._trouble = Static(id="runs-trouble", markup=False)
        self._head = Static(id="runs-head", markup=False)
        self._table = RunTable(self._head, id="runs-table")
        self._details = Static(id="runs-details", markup=False)

    def compose(self) -> ComposeResult:
        """Title, filter, table, details, keys."""
        yield self._title
        yield KeyBar()
        yield self._filter
        yield self._trouble
        yield self._head
        yield self._table
        yield self._details

    def on_mount(self) -> None:
        """The table has the keys."""
        self._table.focus()

    def on_resize(self) -> None:
        """The details are cut at another place."""
        self.call_after_refresh(self._show_details)

    def on_screen_resume(self) -> None:
        """Catch up."""
        self.run_worker(self._follow(), name="follow", group="follow", exclusive=True)

    def on_screen_suspend(self) -> None:
        """Nothing is asked any more."""
        self.workers.cancel_group(self, "follow")

    # values in

    async def _follow(self) -> None:
        """What the index has at once; then what the folders say; then what changes."""
        await self.look()
        try:
            for text in await asyncio.to_thread(self.runs.catch_up):
                self.notify(clean_line(text), severity="warning", timeout=15, markup=False)
        except RltuiError as error:
            self._problem = error.title
        looks = 0
        while True:
            await self.look()
            await asyncio.sleep(_INTERVAL_S)
            looks += 1
            if looks % _AGES_EVERY == 0:
                self._table.show_time(self._clock())

    async def look(self) -> None:
        """Read the index again; shown where something is another than before."""
        known, before = self._known, self._problem
        try:
            rows = await asyncio.to_thread(self.runs.rows)
            self._problem = ""
        except RltuiError as error:
            rows, self._problem = known.rows, error.title
        if rows is not known.rows:
            known.rows, known.names = rows, {row.id: row.name for row in rows}
            self._marked &= known.names.keys()
        elif self._problem == before:
            return
        await self._show_with_configs()

    async def _show_with_configs(self) -> None:
        """Configs are read where a column or the filter asks for them, and where a run has changed."""
        known = self._known
        if any(column.of_config for column in self._view.needed):
            old = [row for row in known.rows if known.of_rows.get(row.id) is not row]
            try:
                found = await asyncio.to_thread(self.runs.configs, [row.id for row in old]) if old else {}
            except RltuiError as error:
                self._problem = error.title
            else:
                known.configs.update(found)
                known.of_rows.update({row.id: row for row in old})
        self._show()

    def _show(self, key: str | None = None) -> None:
        """The list as the view wants it; the cursor goes to `key`, or stays on its row."""
        known, view, line = self._known, self._view, self._table.line
        self._lines = view.lines(known.rows, known.configs, known.queue)
        listing = RunListing(
            self._lines,
            columns_of(view.columns),
            known.configs,
            known.names,
            view.sort,
            view.is_reversed,
            self._marked,
            view.folded,
        )
        key = key or (line_key(line) if line is not None else None)
        self._table.show_listing(listing, self._clock(), key)
        self._update_title()
        self._show_details()
        self.refresh_bindings()

    def _update_title(self) -> None:
        rows, view = self._known.rows, self._view
        living = sum(row.is_running for row in rows)
        listed = [row for row in rows if row.trashed_at is None]
        archived = sum(row.archived_at is not None for row in listed)
        parts: list[tuple[str, str]] = [(" rltui ", "bold $accent"), ("Runs", "bold")]
        parts += [(f" · {living} running", "$text-success")] if living else []
        parts += [(f" · {len(self._known.queue)} waiting", "$text-warning")] if self._known.queue else []
        if view.filter is not None:
            shown = sum(isinstance(line, TreeLine) and line.row is not None for line in self._lines)
            parts.append(
                (f" · {shown:,} of {len(listed) - archived:,}: {clean_line(view.filter.text)}", "bold")
            )
        else:
            parts.append((f" · {len(listed) - archived:,} in all", FAINT))
        parts += (
            [(f" · {archived:,} archived{'' if view.with_archived else ' (A)'}", FAINT)] if archived else []
        )
        parts += [(f" · by {view.sort}{' reversed' if view.is_reversed else ''}", FAINT)] if view.sort else []
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
        """Why there is no line."""
        if self._problem:
            return clean_line(self._problem)
        if self._view.filter is not None:
            return "No run matches. esc ends the filter."
        return "No run yet. rltui rl.toml starts one, rltui demo too; rltui add DIR lists those of others."

    @on(RunTable.CursorMoved)
    def _look_at_line(self) -> None:
        self._show_details()
        self.refresh_bindings()

    # how it is looked at

    def _look_as(self, view: RunView, key: str | None = None) -> None:
        """Show it so from now on."""
        self._view = view
        self.run_worker(self._look_again(key), name="view", group="view", exclusive=True)

    async def _look_again(self, key: str | None) -> None:
        await self._show_with_configs()
        if key is not None:
            self._show(key)

    def action_filter(self) -> None:
        """Type which are meant."""
        self._filter.add_class("-shown")
        self._filter.focus()

    @on(Input.Changed, "#runs-filter")
    def _filtered(self, event: Input.Changed) -> None:
        trouble, wanted = "", self._view.filter
        if not event.value.strip():
            wanted = None
        else:
            try:
                wanted = parse_filter(
                    event.value, now=self._clock(), ids={v: k for k, v in self._known.names.items()}
                )
            except UsageError as error:
                trouble = "\n".join(filter(None, (error.title, *error.details, error.hint)))
        self._trouble.update(Content(trouble))
        self._trouble.set_class(bool(trouble), "-shown")
        if wanted is not self._view.filter:
            self._look_as(replace(self._view, filter=wanted))

    @on(Input.Submitted, "#runs-filter")
    def _filter_ready(self) -> None:
        self._table.focus()

    def action_sort(self) -> None:
        """By one of the columns that are shown."""
        choices = {_USUAL: ("the usual order", "living ones, then those that ended last")}
        choices |= {
            column.id: (clean_line(column.heading), clean_line(column.about))
            for column in columns_of(self._view.columns)
        }
        self.app.push_screen(ChoiceMenu("Sort by", choices), self._sort_by)

    def _sort_by(self, choice: str | None) -> None:
        if choice is not None:
            sort = "" if choice == _USUAL else choice
            self._look_as(replace(self._view, sort=sort, is_reversed=False))

    def action_reverse(self) -> None:
        """The other way round."""
        self._look_as(replace(self._view, is_reversed=not self._view.is_reversed))

    def action_choose_columns(self) -> None:
        """Which, and in what order; they are kept."""
        self.app.push_screen(ColumnDialog(self._view.columns), self._take_columns)

    def _take_columns(self, columns: tuple[str, ...] | None) -> None:
        if columns is not None:
            self._look_as(replace(self._view, columns=columns))

    def action_group(self) -> None:
        """Forks below their parents and sweeps below their names, or all by themselves."""
        self._look_as(replace(self._view, is_grouped=not self._view.is_grouped))

    def action_fold(self, wanted: bool) -> None:
        """What stands below the line; where nothing does, below the line above it."""
        line, folded = self._table.line, self._view.folded
        if not isinstance(line, TreeLine) or not self._view.is_grouped:
            return
        if wanted and (not line.is_parent or line.key in folded):
            line = self._above(line)
        if line is not None and line.is_parent:
            keys = folded | {line.key} if wanted else folded - {line.key}
            self._look_as(replace(self._view, folded=keys), line.key)

    def _above(self, line: TreeLine) -> TreeLine | None:
        """The parent of a line, or the heading of its sweep."""
        lines = [each for each in self._lines if isinstance(each, TreeLine)]
        at = lines.index(line)
        depth = len(line.branch)
        return next((each for each in lines[:at][::-1] if len(each.branch) < depth), None)

    def action_show_archived(self) -> None:
        """Or show them no more."""
        self._look_as(replace(self._view, with_archived=not self._view.with_archived))

    # which are meant

    @property
    def chosen(self) -> tuple[RunRow, ...]:
        """The marked ones; else the run under the cursor, or all of the sweep."""
        if self._marked:
            return tuple(row for row in self._known.rows if row.id in self._marked)
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

    @property
    def moved_list(self) -> RunTable:
        """The only one."""
        return self._table

    def action_open(self) -> None:
        """The run; of a heading, unfold or fold it."""
        line = self._table.line
        if isinstance(line, TreeLine) and line.row is None:
            self.action_fold(line.key not in self._view.folded)
        elif isinstance(line, TreeLine) and line.row is not None:
            self.post_message(self.OpenWanted(line.row.id))

    def action_back(self) -> None:
        """First the filter ends, then the marks go, then the screen."""
        if self._filter.has_class("-shown"):
            self._filter.value = ""
            self._filter.remove_class("-shown")
            self._table.focus()
        elif self._marked:
            self._marked = frozenset()
            self._show()
        elif self.is_active and len(self.app.screen_stack) > 1:
            self.app.pop_screen()

    def busy_with(self, coroutine: Coroutine[None, None, None]) -> None:
        """One at a time, so that a second key does not cut off an answer."""
        if any(worker.group == _GROUP and not worker.is_finished for worker in self.workers):
            coroutine.close()
            self.notify("Still busy with the last request", markup=False)
        else:
            self.run_worker(coroutine, name=_GROUP, group=_GROUP)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what there is something to do for."""
        line = self._table.line
        match action:
            case "open":
                possible = isinstance(line, TreeLine)
            case "mark":
                possible = isinstance(line, TreeLine)
            case "tag" | "mark_best" | "archive" | "trash":
                possible = bool(self.chosen) and not self.runs.readonly
            case "describe":
                possible = len(self.chosen) == 1 and not self.runs.readonly
            case "undo":
                possible = self.can_undo
            case "filter" | "sort" | "reverse" | "group":
                possible = bool(self._known.rows)
            case "fold":
                possible = self._view.is_grouped
            case _:
                possible = True
        return possible and super().check_action(action, parameters)
