"""A component's pane: its state in the title, its log below, and why it does not run below that."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from rltui.core.api import ComponentState, ComponentStatus
from rltui.ui.states import component_title, told_below, told_of_memory
from rltui.ui.widgets.followed_source import OpenLog
from rltui.ui.widgets.reader_pane import ReaderPane


def placeholder(status: ComponentStatus, *, readonly: bool = False) -> str:
    """What an empty pane says, with the keys that help, unless this client may only look."""
    if status.state is ComponentState.WAITING:
        text, keys = "Starts by itself as soon as it can.", "x gives up."
    elif status.state is ComponentState.BACKOFF:
        text, keys = "Starts again by itself.", "s starts it now, x gives up."
    elif status.log is None and status.state is ComponentState.FAILED:
        text, keys = "Could not be started: the reason is below.", "s tries again."
    elif status.log is None:
        text, keys = "Not started yet.", "s starts it, S starts everything."
    else:
        text, keys = "No output yet.", ""
    return text if readonly or not keys else f"{text} {keys}"


def is_over(status: ComponentStatus) -> bool:
    """A preparation that is done, or was never needed, has no more to show."""
    return status.prepares and status.state in (ComponentState.STOPPED, ComponentState.EXITED)


class ComponentPane(ReaderPane):
    """Shows one component. `status` and `selected` are all it needs."""

    status: reactive[ComponentStatus | None] = reactive(None, init=False)

    def __init__(
        self, component_id: str, open_log: OpenLog, clock: Callable[[], float], *, readonly: bool = False
    ) -> None:
        super().__init__(component_id, open_log, clock, id_prefix="pane", classes="component")
        self._readonly = readonly
        self._told = ""

    def compose(self) -> ComposeResult:
        """The log, and why the component does not run."""
        yield from super().compose()
        yield Static(classes="reason", markup=False)

    def watch_status(self, status: ComponentStatus | None) -> None:
        """Follow the newest attempt's log."""
        self.update_title()
        if status is None:
            return
        for state in ComponentState:
            self.set_class(state is status.state, f"-{state.value}")
        self.set_class(is_over(status), "-over")
        self._followed.show(self.log_pane, status.log, placeholder(status, readonly=self._readonly))

    def update_title(self) -> None:
        """State and uptime; repaints only where the text is another one."""
        if self.status is None:
            return
        title, is_told = component_title(
            self.status, self._clock(), selected=self.selected, width=self._title_width
        )
        self._show_title(title)
        self._tell_below(
            told_of_memory(self.status, readonly=self._readonly)
            or told_below(self.status, reason_is_told=is_told)
        )

    def _tell_below(self, words: Content) -> None:
        if words.markup != self._told:
            self._told = words.markup
            self.query_one(".reason", Static).update(words)
            self.set_class(bool(words), "-told")

    @property
    def is_over(self) -> bool:
        """It has no more to show and gives its room to the others."""
        return self.has_class("-over")
