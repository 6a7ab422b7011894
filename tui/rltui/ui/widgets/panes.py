"""The panes that are read: a log under a title that changes with time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from rltui.core.experiment.api import ComponentStatus, FollowedLog
from rltui.core.experiment.states import STALLED, ComponentState
from rltui.core.logs.source import LogSource
from rltui.errors import RltuiError
from rltui.ui.actions import key_of
from rltui.ui.background import in_background
from rltui.ui.logs.view import LogView
from rltui.ui.messages import waiting
from rltui.ui.state import ExperimentState
from rltui.ui.styles import CURSOR, FAINT, STYLES, styled
from rltui.ui.text import clean_line
from rltui.views.component import badge_of, component_notes, component_title, log_title
from rltui.views.gpu.advice import failure_text
from rltui.views.table import Cell

_TITLE_MARGIN = 6
"""Cells of a pane's top edge that its title cannot have: corners, and a blank and a line on each side."""


class ReaderPane(Vertical):
    """Keeps one log open under a title that changes with time. A subclass says which log and title."""

    selected: reactive[bool] = reactive(False, init=False, toggle_class="-selected")
    is_idle = False
    """It expects no output: where others live, it needs no room."""
    is_quiet = False
    """A healthy server: a few rows are enough, unless it is selected."""
    has_failed = False
    may_always_fold = False
    """It may fold even where no other pane lives."""
    rows: Callable[[int], int] | None = None
    """The function of the same name in `PanelState`."""

    def __init__(self, reader_id: str, state: ExperimentState, *, id_prefix: str, classes: str) -> None:
        super().__init__(id=f"{id_prefix}-{reader_id}", classes=f"pane {classes}")
        self.reader_id = reader_id
        """Id of the component or log file that is shown."""
        self._state = state
        self._path: str | None = None
        self._source: LogSource | None = None
        self._newest: tuple[str | None, str] = (None, "")
        """Path and placeholder of the log that there is now."""
        self._attempt: int | None = None
        """Number of the earlier attempt that is shown in place of it."""
        self._attempt_lock = asyncio.Lock()
        """Makes each key go on from the attempt that the one before has come to."""
        self._saved_state: Mapping[str, Any] = {}
        self._title = ""
        self.log_pane = LogView(classes="frame")
        """The child that takes the focus."""
        self.log_pane.border_title = reader_id

    def compose(self) -> ComposeResult:
        yield self.log_pane

    def show_log(self, path: str | None, placeholder: str) -> None:
        """Show the log at `path`, or `placeholder` while it has no lines. One that cannot be opened says why.

        That one is tried again the next time.
        """
        self._newest = (path, placeholder)
        if self._attempt is None:
            self._open(path, placeholder)

    @on(LogView.SearchRequested)
    def _prompt_search(self, message: LogView.SearchRequested) -> None:
        message.stop()
        self.log_pane.prompt_search()

    @on(LogView.AttemptRequested)
    def _step_attempt(self, message: LogView.AttemptRequested) -> None:
        message.stop()
        in_background(self, partial(self._show_attempt, message.step), group="attempt", exclusive=False)

    async def _show_attempt(self, step: int) -> None:
        """Show the log of an earlier attempt, or the newest one, which is followed."""
        async with self._attempt_lock:
            try:
                async with waiting(self.app, "Reading the attempts"):
                    logs = await asyncio.to_thread(self._state.experiment.logs)
            except RltuiError as error:
                self.notify(clean_line(error.title), severity="error", markup=False)
                return
            entries = [log for log in logs if log.component == self.reader_id and log.attempt is not None]
            attempts, newest = [log.attempt for log in entries], len(entries) - 1
            index = (attempts.index(self._attempt) if self._attempt in attempts else newest) + step
            if not 0 <= index < len(entries):
                direction = "earlier" if step < 0 else "later"
                self.notify(f"{self.reader_id} has no {direction} attempt", markup=False)
            elif index == newest:
                self._attempt, self.log_pane.model.note = None, ""
                self._open(*self._newest)
            else:
                self._attempt = entries[index].attempt
                self.log_pane.model.note = f"attempt {self._attempt}, {key_of('later')} later"
                self._open(entries[index].path, "No output.")

    @property
    def view_state(self) -> Mapping[str, Any]:
        """The person's view of the log, plain JSON; empty: the default view."""
        return self.log_pane.model.view_state or self._saved_state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Bring a `view_state` back, as soon as the log is open."""
        self._saved_state = state
        self._restore_state()

    def _restore_state(self) -> None:
        if self._saved_state and self._source is not None:
            state, self._saved_state = self._saved_state, {}
            self.log_pane.restore(state)

    def _open(self, path: str | None, placeholder: str) -> None:
        if path is not None and path == self._path:
            self.log_pane.set_source(self._source, placeholder)
            return
        previous, self._source, self._path = self._source, None, path
        search = None
        if path is not None:
            try:
                self._source = self._state.experiment.open_log(path)
                search = partial(self._state.experiment.search_log, path, with_text=False)
            except RltuiError as error:
                self._path, placeholder = None, clean_line(error.title)
        self.log_pane.log_path, self.log_pane.log_name = self._path, self.reader_id
        self.log_pane.set_source(self._source, placeholder, search=search)
        if previous is not None:
            previous.close()
        self._restore_state()

    def _has_room_for(self, title: str) -> bool:
        width = max(0, self.size.width - _TITLE_MARGIN) - self.selected * cell_len(CURSOR)
        return cell_len(clean_line(title)) <= width

    def update_title(self) -> None:
        """Repaints only where the text differs."""
        raise NotImplementedError

    def _show_title(self, cells: Iterable[Cell]) -> None:
        title = styled(cells, prefix=CURSOR if self.selected else "")
        if title.markup != self._title:
            self._title = title.markup
            self.log_pane.show_title(title)

    def watch_selected(self) -> None:
        self.update_title()

    def on_resize(self) -> None:
        self.update_title()

    def on_unmount(self) -> None:
        if self._source is not None:
            self._source.close()


def _component_placeholder(status: ComponentStatus, *, with_keys: bool) -> str:
    """The text of an empty pane. `with_keys`: it names those that help."""
    start, start_all, stop = map(key_of, ("component.start", "component.start-all", "component.stop"))
    if status.host is not None and status.host.phase == "pending" and status.host.reason:
        text, keys = f"Pending: {clean_line(status.host.reason)}.", f"{stop} cancels."
    elif status.state is ComponentState.WAITING:
        text, keys = "Starts automatically when it can.", f"{stop} cancels."
    elif status.state is ComponentState.BACKOFF:
        text, keys = "Restarts automatically.", f"{start} starts it now, {stop} cancels."
    elif status.log is None and status.state is ComponentState.FAILED:
        text, keys = "Could not start; the reason is below.", f"{start} tries again."
    elif status.log is None:
        text, keys = "Not started yet.", f"{start} starts it, {start_all} starts everything."
    else:
        text, keys = "No output yet.", ""
    return f"{text} {keys}".strip() if with_keys else text


class ComponentPane(ReaderPane):
    status: reactive[ComponentStatus | None] = reactive(None, init=False)

    def __init__(self, component_id: str, state: ExperimentState) -> None:
        super().__init__(component_id, state, id_prefix="pane", classes="component")
        self._memory_markup = ""

    def compose(self) -> ComposeResult:
        yield from super().compose()
        yield Static(classes="reason", markup=False)

    def watch_status(self, status: ComponentStatus | None) -> None:
        self.update_title()
        if status is None:
            return
        for state in ComponentState:
            self.set_class(state is status.state, f"-{state.value}")
        self.may_always_fold = status.prepares
        self.has_failed = status.state is ComponentState.FAILED
        self.is_quiet = (
            status.kind == "service"
            and status.state is ComponentState.READY
            and not (status.stalled or status.concerns)
        )
        self.is_idle = (
            status.state is ComponentState.STOPPED
            or (status.state is ComponentState.EXITED and (status.prepares or status.manual))
            or (status.state is ComponentState.WAITING and status.log is None and not self._memory_markup)
        )
        self._show_newest(status)

    def watch_selected(self) -> None:
        super().watch_selected()
        if self.status is not None:
            self._show_newest(self.status)

    def _show_newest(self, status: ComponentStatus) -> None:
        """The keys that an empty pane names work on the selected one."""
        with_keys = self.selected and not self._state.experiment.readonly
        self.show_log(status.log, _component_placeholder(status, with_keys=with_keys))

    def update_title(self) -> None:
        if self.status is None:
            return
        title, is_told = component_title(self.status, self._state.clock(), self._has_room_for)
        self._show_title(title)
        memory_text = memory_notes(self.status, readonly=self._state.experiment.readonly)
        notes = component_notes(self.status, has_reason=is_told)
        memory_text = memory_text or Content("\n").join(styled([cell]) for cell in notes)
        if memory_text.markup != self._memory_markup:
            self._memory_markup = memory_text.markup
            self.query_one(".reason", Static).update(memory_text)
            self.set_class(bool(memory_text), "-told")

    @property
    def about(self) -> str:
        """`trainer · ready`."""
        if self.status is None:
            return self.reader_id
        return f"{self.reader_id} · {STALLED.word if self.status.stalled else badge_of(self.status).word}"

    @property
    def is_over(self) -> bool:
        """A manual component that does not run has nothing to show."""
        return self.status is not None and self.status.manual and self.is_idle


def memory_notes(status: ComponentStatus, *, readonly: bool = False) -> Content:
    """The memory that ran out, with sizes and the first remedy with its key; empty where none ran out.

    It stands in place of the reason, which has the same figures and general advice.
    """
    if status.out_of_memory is None:
        return Content("")
    badge = badge_of(status)
    lines = [Content.styled(f"{badge.sign} {failure_text(status.out_of_memory)}", STYLES[badge.role])]
    if status.remedies:
        first, *other_remedies = (clean_line(remedy.title) for remedy in status.remedies)
        key = "" if readonly else f" {key_of('component.fix')}"
        more = f" · or {len(other_remedies)} more" if other_remedies else ""
        lines.append(Content.assemble((f"→{key} ", "bold"), (first, ""), (more, FAINT)))
    return Content("\n").join(lines)


def rows_of_a_line(width: int) -> int:
    """Room for one line in a frame: that there is nothing yet."""
    del width
    return 3


class LogFilePane(ReaderPane):
    log_file: reactive[FollowedLog | None] = reactive(None, init=False)

    def __init__(self, log_id: str, state: ExperimentState) -> None:
        super().__init__(log_id, state, id_prefix="log", classes="log-file")
        self.rows = rows_of_a_line

    def watch_log_file(self, log: FollowedLog | None) -> None:
        if log is None:
            return
        self.rows, placeholder = None, "No output yet."
        self.is_idle = log.path is None
        if log.path is None:
            more = f" or {len(log.wanted) - 1} others" if len(log.wanted) > 1 else ""
            self.rows, placeholder = rows_of_a_line, f"Waiting for {log.wanted[0]}{more}."
        self.show_log(log.path, clean_line(placeholder))
        self.update_title()

    def update_title(self) -> None:
        if self.log_file is None:
            return
        self._show_title(log_title(self.log_file, self._state.clock(), self._has_room_for))
