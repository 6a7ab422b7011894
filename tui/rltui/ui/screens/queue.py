"""The queue screen: runs that wait and why, that run, that have ended. Binds and forwards."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from rltui.core import hints
from rltui.core.queue import QueueAction, QueueEntry, RunQueue
from rltui.core.runs import RunRow
from rltui.core.states import ENTRY_STATES, PENDING
from rltui.core.text import shortened
from rltui.errors import RltuiError
from rltui.ui.actions import KeyContext, bindings
from rltui.ui.messages import waiting
from rltui.ui.screens.report_screen import FollowingScreen
from rltui.ui.shared import AppState
from rltui.ui.text import clean_line
from rltui.ui.widgets.bars import KeyBar
from rltui.ui.widgets.gpu_words import FAINT, hanging
from rltui.ui.widgets.row_list import Row, RowList, cells_line, fitting_columns
from rltui.views.queue_entry import QUEUE_HEAD, entry_badge, queue_cells, queue_notices, queue_order

_INTERVAL_S = 1.0
"""Between two looks at its file."""
_CURSOR = "▸ "
_WHY = QUEUE_HEAD.index("why")
_FIRST_TO_GO = tuple(map(QUEUE_HEAD.index, ("reward", "what", "step")))
"""Where there is no room for all; the row under the cursor says what its reason is in full."""
_LEAST_WHY = 24
"""Cells that are worth it: with fewer, others give way first."""
_STYLES = {"running": "$text-success", "failed": "$text-error", "done": FAINT, "stopped": FAINT}
_EMPTY = f"nothing is queued: {hints.QUEUE_ADD}, {hints.SWEEP}"


class QueueScreen(FollowingScreen):
    """Lies where the runs screen lies."""

    BINDINGS = bindings(KeyContext.QUEUE)
    CSS_PATH: ClassVar = ["queue.tcss"]
    place = KeyContext.QUEUE
    is_of_all_runs = True

    def __init__(self, home: AppState) -> None:
        super().__init__(home)
        self._queue: RunQueue | None = None
        self._runs: Mapping[str, RunRow] = {}
        """By folder."""
        self._problem = ""
        self._title = Static(id="queue-title", markup=False)
        self.rows = RowList(self._make_rows, id="queue-rows")
        self._notes = Static(id="queue-notes", markup=False)

    def compose(self) -> ComposeResult:
        yield self._title
        yield KeyBar()
        yield self.rows
        yield self._notes

    async def follow(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(_INTERVAL_S)

    async def _look(self) -> None:
        try:
            self._queue = await asyncio.to_thread(self.home.runs.queue)
            rows = await asyncio.to_thread(self.home.runs.rows)
            self._runs, self._problem = {row.folder: row for row in rows}, ""
        except RltuiError as error:
            self._problem = error.title
        self._show()

    def _show(self) -> None:
        entries = () if self._queue is None else self._queue.entries
        pending = sum(entry_badge(each) is PENDING for each in entries)
        counts = [
            f"{count} {word}"
            for word, count in (
                ("run", sum(ENTRY_STATES[each.state].holds_devices for each in entries) - pending),
                ("pending", pending),
                ("wait", sum(each.state == "waiting" for each in entries)),
                ("failed", sum(each.state == "failed" for each in entries)),
            )
            if count
        ]
        paused = " · ‖ paused" if self._queue is not None and self._queue.paused else ""
        trouble = f" · ⚠ {clean_line(self._problem)}" if self._problem else ""
        self._title.update(f" rltui · Queue{paused}{''.join(f' · {each}' for each in counts)}{trouble}")
        notes = [] if self._queue is None else queue_notices(self._queue)
        self._notes.update("\n".join(map(clean_line, notes)))
        self._notes.display = bool(notes)
        self.rows.reload()
        self.refresh_bindings()

    def _make_rows(self, width: int, selected: str | None) -> tuple[Row, ...]:
        if self._queue is None:
            return (Row(None, (Content.styled("reading…", FAINT),)),)
        if not self._queue.entries:
            return (Row(None, tuple(hanging(_EMPTY, width, FAINT))),)
        now, shown = self.home.clock(), queue_order(self._queue)
        cells = [tuple(map(clean_line, queue_cells(each, self._run_of(each), now))) for each in shown]
        room = width - len(_CURSOR)
        least = [(*row[:_WHY], row[_WHY][:_LEAST_WHY]) for row in cells]
        columns = fitting_columns([QUEUE_HEAD, *least], room, _FIRST_TO_GO)
        head = Content.styled(shortened(f"  {cells_line(QUEUE_HEAD, columns)}", width), FAINT)
        rows = [Row(None, (head,))]
        for each, row in zip(shown, cells, strict=True):
            mark = _CURSOR if each.id == selected else "  "
            line = Content.styled(
                shortened(f"{mark}{cells_line(row, columns)}", width), _STYLES.get(each.state, "")
            )
            below = _details(each, width - 4) if each.id == selected else []
            rows.append(Row(each.id, (line, *(Content("    ") + more for more in below))))
        return tuple(rows)

    def _run_of(self, entry: QueueEntry) -> RunRow | None:
        return None if entry.state == "waiting" else self._runs.get(entry.folder)

    # --- keys ---------------------------------------------------------------------------------------------

    @property
    def _entry(self) -> QueueEntry | None:
        return None if self._queue is None or self.rows.key is None else self._queue.entry(self.rows.key)

    def action_open_queued(self) -> None:
        """In place of the experiment that is open."""
        if self._entry is not None and (row := self._run_of(self._entry)) is not None:
            self.post_message(self.OpenRunRequested(row.id))

    def action_change(self, action: QueueAction, place: str = "") -> None:
        """Change the queue, or the entry under the cursor."""
        if action in ("pause", "resume"):
            self.work(self._change(action))
        elif self._entry is not None:
            self.work(self._change(action, self._entry.id, place))

    async def _change(self, action: QueueAction, entry: str = "", place: str = "") -> None:
        try:
            async with waiting(self.app, "Changing the queue"):
                await asyncio.to_thread(self.home.runs.change_queue, action, entry, place=place)
        except RltuiError as error:
            await self.show_error(error)
        await self._look()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        entry = self._entry
        possible = True
        match action, *parameters:
            case "change", "pause" | "resume" as change:
                is_paused = self._queue is not None and bool(self._queue.paused)
                possible = is_paused is (change == "resume")
            case "open_queued", *_:
                possible = entry is not None and self._run_of(entry) is not None
            case "change", "move", _:
                possible = entry is not None and entry.state == "waiting"
            case "change", "retry":
                possible = entry is not None and ENTRY_STATES[entry.state].can_be_retried
            case "change", "remove":
                possible = entry is not None and (entry.state == "waiting" or not entry.is_open)
        return possible and super().check_action(action, parameters)


def _details(entry: QueueEntry, width: int) -> list[Content]:
    behind = ["--", *entry.overrides] if entry.overrides else []
    told = [entry.why, f"rltui up {shlex.join([*entry.words, *behind])}"]
    asked = []
    if entry.gpus:
        asked.append(f"{entry.gpus} GPU{'s' if entry.gpus > 1 else ''}")
    if entry.devices:
        asked.append(f"on GPU {entry.devices}")
    if entry.retries:
        failed = f", {entry.failures} failed" if entry.failures else ""
        asked.append(f"{entry.retries + 1} tries{failed}")
    if entry.priority:
        asked.append(f"priority {entry.priority}")
    asked += [f"stops if {rule}" for rule in entry.stop_if]
    told += [" · ".join(asked), entry.folder]
    return [line for text in told if text for line in hanging(clean_line(text), width, FAINT)]
