"""A component's pane: its state in the title, its log below."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.reactive import reactive
from textual.widgets import Static

from rltui.core.api import ComponentState, ComponentStatus
from rltui.core.log_source import LogSource
from rltui.errors import RltuiError
from rltui.ui.states import component_title
from rltui.ui.text import clean_line
from rltui.ui.widgets.log_pane import LogPane

OpenLog = Callable[[str], LogSource]


def placeholder(status: ComponentStatus) -> str:
    """What an empty pane says."""
    if status.state is ComponentState.WAITING:
        return clean_line(status.reason or "Waits for what it needs.")
    if status.log is None and status.state is ComponentState.FAILED:
        return f"Could not be started: {clean_line(status.reason or 'no reason known')}"
    if status.log is None:
        return "Not started yet. s starts it, S starts everything."
    return "No output yet."


def failure_text(status: ComponentStatus) -> str:
    """Why it failed, in full: the title has no room for it."""
    if status.state is not ComponentState.FAILED or not status.reason:
        return ""
    return f"✗ {clean_line(status.reason)}"


def is_over(status: ComponentStatus) -> bool:
    """A preparation that is done, or was never needed, has no more to show."""
    return status.prepares and status.state in (ComponentState.STOPPED, ComponentState.EXITED)


class ComponentPane(Vertical):
    """Shows one component. `status` and `selected` are all it needs."""

    status: reactive[ComponentStatus | None] = reactive(None, init=False)
    selected: reactive[bool] = reactive(False, init=False, toggle_class="-selected")

    def __init__(self, component_id: str, open_log: OpenLog, clock: Callable[[], float]) -> None:
        super().__init__(id=f"pane-{component_id}", classes="pane component")
        self.component_id = component_id
        self._open_log = open_log
        self._clock = clock
        self._log_path: str | None = None
        self._source: LogSource | None = None
        self._title = ""

    def compose(self) -> ComposeResult:
        """The log."""
        pane = LogPane()
        pane.border_title = self.component_id
        yield pane
        yield Static(classes="reason", markup=False)

    @property
    def log_pane(self) -> LogPane:
        """The log, which takes the focus."""
        return self.query_one(LogPane)

    def watch_status(self, status: ComponentStatus | None) -> None:
        """Follow the newest attempt's log."""
        self.update_title()
        if status is None:
            return
        for state in ComponentState:
            self.set_class(state is status.state, f"-{state.value}")
        self.set_class(is_over(status), "-over")
        self.query_one(".reason", Static).update(failure_text(status))
        if status.log is None or status.log != self._log_path:
            self._follow(status)
        else:
            self.log_pane.set_source(self._source, placeholder(status))

    def watch_selected(self) -> None:
        """Mark the title."""
        self.update_title()

    def update_title(self) -> None:
        """State and uptime; repaints only where the text is another one."""
        if self.status is None:
            return
        title = component_title(self.status, self._clock(), selected=self.selected)
        if title.markup != self._title:
            self._title = title.markup
            self.log_pane.show_title(title)

    def _follow(self, status: ComponentStatus) -> None:
        """Show the log of another attempt, and give back the one before."""
        before, self._source, self._log_path = self._source, None, status.log
        text = placeholder(status)
        if status.log is not None:
            try:
                self._source = self._open_log(status.log)
            except RltuiError as error:
                self._log_path, text = None, clean_line(error.title)
        self.log_pane.set_source(self._source, text)
        if before is not None:
            before.close()

    def on_unmount(self) -> None:
        """Give the log back."""
        if self._source is not None:
            self._source.close()

    @property
    def is_over(self) -> bool:
        """It has no more to show and gives its room to the others."""
        return self.has_class("-over")
