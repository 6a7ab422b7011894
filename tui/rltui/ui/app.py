"""The application: connects an experiment to its screen."""

from __future__ import annotations

import asyncio
import base64
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rich.color import ColorSystem
from rich.console import RenderableType
from textual import events, on
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App, SuspendNotSupported
from textual.screen import Screen
from textual.theme import ThemeProvider

from rltui.client.protocol import Experiment, TakenDownError
from rltui.core.api import Alert
from rltui.core.config_report import KnobTable
from rltui.core.layout import Screen as ScreenLayout
from rltui.errors import RltuiError
from rltui.ui.palette import ActionCommands, Palette
from rltui.ui.screens.dialogs import LeaveDialog
from rltui.ui.screens.links import LinkMenu
from rltui.ui.screens.overview import Overview
from rltui.ui.terminal.driver import TerminalDriver
from rltui.ui.text import clean, clean_line
from rltui.ui.widgets.knob_table import unwritten
from rltui.ui.widgets.log_pane import LogPane

RECONNECT_S = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Pauses between attempts to reach the supervisor; the last one repeats."""

LOOK_AGAIN_S = 1.0
"""Between two looks whether somebody has started it again, after a `down`."""

RunInTerminal = Callable[[Sequence[str]], object]
"""Runs a command that takes the terminal over, and returns when it has ended."""


class RltuiApp(App[None], inherit_bindings=False):
    """Shows `experiment` until the person leaves. Leaving stops nothing."""

    TITLE = "rltui"
    NOTIFICATION_TIMEOUT = 4
    COMMANDS: ClassVar = {ActionCommands}
    CSS_PATH: ClassVar = [
        "widgets/bars.tcss",
        "widgets/panes.tcss",
        "widgets/gpu_panel.tcss",
        "widgets/knob_table.tcss",
        "screens/overview.tcss",
    ]

    def __init__(
        self,
        experiment: Experiment,
        *,
        layout_screen: ScreenLayout | None = None,
        component_ids: tuple[str, ...] = (),
        log_ids: tuple[str, ...] = (),
        ask_to_start: bool = True,
        run_in_terminal: RunInTerminal | None = None,
        bell: bool = True,
        osc9: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`component_ids` and `log_ids` let the first frame show the panes; else the first status does.

        `bell` and `osc9`: how the terminal draws attention to warnings and errors.
        """
        super().__init__(driver_class=TerminalDriver)
        self.experiment = experiment
        self._bell = bell
        self._osc9 = osc9
        self._run_in_terminal = run_in_terminal
        self._overview = Overview(
            experiment,
            experiment.screen if layout_screen is None else layout_screen,
            component_ids,
            log_ids,
            clock=clock,
            ask_to_start=ask_to_start,
        )

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Show what Textual has composed: by our driver on a terminal, by Textual's own elsewhere."""
        driver = self._driver
        if not (isinstance(driver, TerminalDriver) and isinstance(renderable, ChopsUpdate | LayoutUpdate)):
            super()._display(screen, renderable)
            return
        if self._running and not (self._closed or self._batch_count):
            colors = self.console._color_system or ColorSystem.TRUECOLOR  # noqa: SLF001 - as Textual asks
            driver.show(renderable, self.size, self.size.clamp_offset(self.cursor_position), colors)
        self.post_display_hook()

    async def on_event(self, event: events.Event) -> None:
        """Keys typed after the one that left find no screen any more."""
        if not (self._exit and isinstance(event, events.InputEvent)):
            await super().on_event(event)

    def get_default_screen(self) -> Screen[None]:
        """The one screen to live in."""
        return self._overview

    @on(Overview.Composed)
    def _listen(self) -> None:
        self.run_worker(self._follow_events(), name="events", group="events", exclusive=True)

    async def _follow_events(self) -> None:
        """Show what is pushed; when the supervisor is gone, say so and ask again, for ever."""
        failures = 0
        while True:
            connected, reason = False, "the supervisor is gone"
            is_news = is_down = False
            try:
                async for event in self.experiment.events():
                    if not connected:
                        connected, failures = True, 0
                        self._overview.shared.show_connection(None)
                    await self._overview.show(event)
                    if is_news and isinstance(event, Alert):
                        self._ring(event)
                    # The knobs, or an alert in their place, come last of what was there before we looked.
                    is_news = is_news or isinstance(event, KnobTable | Alert)
            except TakenDownError as error:
                is_down, reason = True, clean_line(error.title)
            except RltuiError as error:
                reason = clean_line(error.title)
            except (OSError, EOFError, ValueError) as error:  # hung up, cut off, or not understood
                reason = clean_line(str(error).partition("\n")[0]) or reason
            if is_down:
                again = "" if self.experiment.readonly else "; S starts it again"
                self._overview.shared.show_connection(f"{reason}{again}")
                await asyncio.sleep(LOOK_AGAIN_S)
                continue
            self._overview.shared.show_connection(f"{reason}: reconnecting… (components keep running)")
            await asyncio.sleep(RECONNECT_S[min(failures, len(RECONNECT_S) - 1)])
            failures += 1

    def _ring(self, alert: Alert) -> None:
        """Draw attention, of a person who looks at another window, to what just happened."""
        if alert.severity == "information":
            return
        if self._bell:
            self.bell()
        if self._osc9 and self._driver is not None:
            text = f"rltui {self.experiment.name}: {alert.title}"
            self._driver.write(desktop_notification(text, inside_tmux=self._inside_tmux))

    @on(Overview.AttachRequested)
    def _open_terminal(self, request: Overview.AttachRequested) -> None:
        """Hand the terminal to the component's raw pane until the person detaches."""
        try:
            command = self.experiment.attach_command(request.component_id)
        except RltuiError as error:
            self.notify(clean(str(error)), severity="error", markup=False)
            return
        if not self._lend_terminal(command):
            self.notify(f"Run this in another terminal:\n{' '.join(command)}", timeout=20, markup=False)

    @on(LogPane.PagerWanted)
    def _open_pager(self, wanted: LogPane.PagerWanted) -> None:
        """Hand the terminal to the person's pager."""
        try:
            command = self.experiment.pager_command(wanted.path)
        except RltuiError as error:
            self.notify(clean(str(error)), severity="error", markup=False)
            return
        if not self._lend_terminal(command):
            self.notify(f"Run this in another terminal:\n{' '.join(command)}", timeout=20, markup=False)

    @on(LogPane.LinesTaken)
    def _take_lines(self, taken: LogPane.LinesTaken) -> None:
        """To the clipboard; to a file as well where that may not have arrived, and says which."""
        what = f"{len(taken.lines):,} {'line' if len(taken.lines) == 1 else 'lines'}"
        text = "\n".join(taken.lines)
        copied = not taken.to_file and self._copy(text)
        if copied and not self._inside_tmux:
            self.notify(f"Copied {what}; W writes them to a file", markup=False)
            return
        try:
            path = clean_line(self.experiment.save(f"{taken.name}.log", f"{text}\n" if taken.lines else ""))
        except RltuiError as error:
            self.notify(clean(str(error)), severity="error", markup=False)
            return
        done = "Copied; in case tmux keeps it for itself, also" if copied else "Written"
        self.notify(f"{done} in {path} ({what})", timeout=10, markup=False)

    @on(LinkMenu.CopyWanted)
    def _copy_address(self, wanted: LinkMenu.CopyWanted) -> None:
        """To the clipboard, and to be read: it may not have arrived."""
        done = "Copied" if self._copy(wanted.url) else "Not copied"
        self.notify(f"{done}: {clean_line(wanted.url)}", timeout=10, markup=False)

    @property
    def _inside_tmux(self) -> bool:
        return "TMUX" in os.environ

    def _copy(self, text: str) -> bool:
        """To the clipboard of the computer that one sits at, unless it is too much."""
        sequence = clipboard_sequence(text, inside_tmux=self._inside_tmux)
        if sequence is None or self._driver is None:
            return False
        self._driver.write(sequence)
        return True

    def _lend_terminal(self, command: Sequence[str]) -> bool:
        """Step aside while the command runs; false where this terminal cannot be lent."""
        if self._run_in_terminal is None:
            return False
        try:
            with self.suspend():
                self._run_in_terminal(command)
        except SuspendNotSupported:
            return False
        return True

    def _refresh_notifications(self) -> None:
        """Not over a dialog, which must be read: what is still of interest is shown when it is closed."""
        if not any(screen.is_modal for screen in self.screen_stack[-1:]):
            super()._refresh_notifications()

    def action_command_palette(self) -> None:
        """Find an action by name."""
        if not isinstance(self.screen, Palette):
            self.push_screen(Palette())

    def search_themes(self) -> None:
        """Find colours by name."""
        self.push_screen(Palette(providers=[ThemeProvider], placeholder="Search for themes…"))

    def action_detach(self) -> None:
        """Leave; asks first where that loses edits that are not written."""
        lost = unwritten(self._overview.shared)
        if not lost:
            self._leave()
        elif not isinstance(self.screen, LeaveDialog):
            self.push_screen(LeaveDialog(lost), lambda leave: self._leave() if leave else None)

    def _leave(self) -> None:
        if self._exit:  # `q` twice in haste would be told as two errors
            return
        status = self._overview.status
        if status is not None and status.state == "stopped":
            self.exit(message="Detached: nothing of it runs. rltui opens it again.")
            return
        ends = "ends the observation" if self.experiment.observed else "stops it"
        self.exit(message=f"Detached: everything keeps running. rltui opens it again, rltui down {ends}.")

    def action_explain_interrupt(self) -> None:
        """A habit that must not cost a run."""
        stops = "" if self.experiment.observed else ", D stops everything"
        self.notify(f"Nothing was stopped. q detaches{stops}.", markup=False)


def desktop_notification(text: str, *, inside_tmux: bool) -> str:
    """What makes a terminal show `text` outside its window (OSC 9), without anything that could end it early.

    tmux passes it on where its option `allow-passthrough` is on. A terminal that does not know it ignores it.
    """
    sequence = f"\x1b]9;{clean_line(text)}\x07"
    if not inside_tmux:
        return sequence
    doubled = sequence.replace("\x1b", "\x1b\x1b")
    return f"\x1bPtmux;{doubled}\x1b\\"


_MOST_COPIED_BYTES = 74_000
"""Terminals ignore more than 100,000 characters of base64."""


def clipboard_sequence(text: str, *, inside_tmux: bool) -> str | None:
    """What puts `text` into the clipboard of the computer that one sits at (OSC 52); `None`: it is too much.

    Inside tmux both forms are sent: tmux takes the one where its option `set-clipboard` is on, and passes
    the other on where `allow-passthrough` is. Which of them it is cannot be learnt.
    """
    data = text.encode(errors="replace")
    if len(data) > _MOST_COPIED_BYTES:
        return None
    sequence = f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"
    if not inside_tmux:
        return sequence
    doubled = sequence.replace("\x1b", "\x1b\x1b")
    return f"{sequence}\x1bPtmux;{doubled}\x1b\\"
