"""The application: connects the experiment that is open to its screens, and opens another in its place."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from textual import events, on
from textual.app import SuspendNotSupported
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget

from rltui.base.text import to_encoding
from rltui.client.experiment import Experiment, ShutDownError
from rltui.client.runs import Runs
from rltui.core import hints
from rltui.core.config.report import KnobTable
from rltui.core.experiment.api import Alert
from rltui.errors import LinkDownError, RltuiError
from rltui.ui.actions import NO_KEY, key_of, remap, with_keys
from rltui.ui.background import in_background
from rltui.ui.base_screen import BaseScreen
from rltui.ui.commands.components import AttachRequested
from rltui.ui.copying import CopyRequested, copy, is_inside_tmux, passed_through
from rltui.ui.dialogs.base import LeaveDialog, show_error
from rltui.ui.logs.view import LogView
from rltui.ui.requests import OpenRunRequested
from rltui.ui.screens import SCREENS
from rltui.ui.screens.overview import Overview
from rltui.ui.state import AppState, ExperimentState
from rltui.ui.terminal.abilities import Abilities
from rltui.ui.text import clean, clean_line
from rltui.ui.themed_app import ThemedApp
from rltui.ui.themes import FOLLOWING
from rltui.ui.widgets.knob_table import unwritten

RECONNECT_S = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Pauses between attempts to reach the supervisor; the last one repeats."""

LOOK_AGAIN_S = 1.0
"""The interval between two checks for a new supervisor, after a `down`."""

_LONGEST_KEY_S = 1.0
"""The next key does not wait longer for the effects of one."""

_GREETING_S = 30.0

_UPDATE_CHECK_S = 10.0

RunInTerminal = Callable[[Sequence[str]], object]
"""Runs a command that takes the terminal over, and returns when it has ended."""


@dataclass
class _KeyPassed(Message):
    """Goes the way of a key behind it, from what has the focus up to the app."""

    key: events.Key | events.Paste
    top: Screen[Any] | None
    """The screen on top when it was sent; `None`: sent with the key, whose effects are to come."""


class Code(Protocol):
    """The code that this process runs (`LoadedCode`)."""

    @property
    def is_replaced(self) -> bool: ...

    def is_update_complete(self) -> bool: ...


class _UpdatedError(Exception):
    """An update of rltui ended the app. Shown as text, as Textual does with what has `__rich__`."""

    def __init__(self, command: str) -> None:
        super().__init__(
            f"rltui was updated while this screen was open; nothing was stopped. {command} opens it again."
        )

    def __rich__(self) -> str:
        return str(self)


class RltuiApp(ThemedApp, inherit_bindings=False):
    """Shows `experiment`, or without one all runs, until the person leaves. Leaving stops nothing."""

    TITLE = "rltui"
    CSS_PATH: ClassVar = [
        "widgets/bars.tcss",
        "widgets/panes.tcss",
        "widgets/gpu_panel.tcss",
        "widgets/knob_table.tcss",
        "screens/overview.tcss",
    ]

    def __init__(
        self,
        experiment: Experiment | None,
        *,
        runs: Runs,
        ask_to_start: bool = True,
        run_in_terminal: RunInTerminal | None = None,
        tour: bool = False,
        bell: bool = True,
        osc9: bool = False,
        clock: Callable[[], float] = time.time,
        keys: Mapping[str, str] = MappingProxyType({}),
        trouble: str = "",
        greeting: str = "",
        abilities: Abilities | None = None,
        theme: str = FOLLOWING,
        code: Code | None = None,
    ) -> None:
        """`tour`: who has not seen it yet is shown around. `bell` and `osc9`: how the terminal draws
        attention to warnings and errors. `keys`: those that differ from the table, by the ids of the actions.
        `trouble` with the settings, and a `greeting` with keys as `with_keys` reads them, are shown at the
        start. `abilities` and `theme`: as for `ThemedApp`. `code`: what this process runs; an update is told.
        """
        super().__init__(AppState(runs, clock), abilities, theme)
        remap(keys)
        self.set_keymap({id_: names or NO_KEY for id_, names in keys.items()})
        self._trouble, self._greeting = trouble, greeting
        self._bell, self._osc9 = bell, osc9
        self._code = code
        self._typed_keys: deque[events.Key | events.Paste] = deque()
        """The first has been taken and has its effects now."""
        self._typing_clock: asyncio.TimerHandle | None = None
        self._run_in_terminal = run_in_terminal
        self._app_state.wants_tour = tour and "tour" not in self._app_state.ui_state.values
        self._ask_to_start = ask_to_start
        self._overview = None if experiment is None else self._new_overview(experiment)

    def on_mount(self) -> None:
        if self._greeting:
            self.notify(with_keys(self._greeting), timeout=_GREETING_S, markup=False)
        if self._trouble:
            self.notify(clean(self._trouble), severity="error", timeout=30, markup=False)
        if self._code is not None:
            self._update_check = self.set_interval(_UPDATE_CHECK_S, self._notify_of_update, name="update")

    def _notify_of_update(self) -> None:
        if self._code is not None and self._code.is_update_complete():
            self._update_check.stop()
            opens = f"{key_of('detach')} detaches, and {self._opening_command} opens the new version"
            text = f"rltui was updated: {opens}."
            self.notify(text, severity="warning", timeout=_GREETING_S, markup=False)

    def _handle_exception(self, error: Exception) -> None:
        """After an update, what a screen imports only now may be gone: no fault of it, so no traceback."""
        if self._code is not None and self._code.is_replaced:
            error = _UpdatedError(self._opening_command)
        super()._handle_exception(error)

    @property
    def _opening_command(self) -> str:
        """The command that opens this screen again."""
        if self._overview is None:
            return "rltui"
        return hints.OPEN(host=self._host, opened=clean_line(self._experiment.name))

    @property
    def _host(self) -> str | None:
        """The machine of the run that is open, where it is another one."""
        return clean_line(self._experiment.host) or None

    def _new_overview(self, experiment: Experiment) -> Overview:
        self._app_state.current = ExperimentState(experiment, self._app_state)
        return Overview(self._app_state, ask_to_start=self._ask_to_start)

    # keys, one after the other

    async def on_event(self, event: events.Event) -> None:
        """A key waits until all before it have had their effects: Textual would give it to what has the focus
        now, and it is meant for what they open. Those typed after the one that left find no screen any more.
        """
        if self._is_leaving and isinstance(event, events.InputEvent | events.Paste):
            return
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            self._typed_keys.append(event)
            if len(self._typed_keys) == 1:
                await self._take_key(event)
        else:
            await super().on_event(event)

    @property
    def _is_leaving(self) -> bool:
        return self._exit or not self.screen_stack

    async def _take_key(self, key: events.Key | events.Paste) -> None:
        target = self.focused or self.screen
        await super().on_event(key)
        self._send_behind(key, target, None)

    def _send_behind(self, key: events.Key | events.Paste, target: Widget, top: Screen[Any] | None) -> None:
        """The key comes back behind its message, or by the clock, where a widget on the way is gone."""
        passed_key = _KeyPassed(key, top)
        if not target.post_message(passed_key):
            self.post_message(passed_key)
        if self._typing_clock is not None:
            self._typing_clock.cancel()
        late = _KeyPassed(key, self.screen)
        self._typing_clock = asyncio.get_running_loop().call_later(_LONGEST_KEY_S, self.post_message, late)

    @on(_KeyPassed)
    async def _go_on_typing(self, passed_key: _KeyPassed) -> None:
        """The next key is sent once the same screen has been on top for a whole round."""
        if self._is_leaving:
            self._typed_keys.clear()
        elif self._typed_keys and passed_key.key is self._typed_keys[0]:
            if passed_key.top is not self.screen:
                self._send_behind(passed_key.key, self.focused or self.screen, self.screen)
                return
            self._typed_keys.popleft()
            if self._typed_keys:
                await self._take_key(self._typed_keys[0])
                return
        if self._typing_clock is not None:
            self._typing_clock.cancel()

    def get_default_screen(self) -> Screen[None]:
        screen: Screen[None] | None = self._overview
        if screen is None:
            from rltui.ui.screens.runs import RunsScreen  # an experiment's first frame need not wait for it

            screen = RunsScreen(self._app_state)
            self.install_screen(screen, "runs")
            self._load_screen_css(screen)
        screen._push_result_callback(screen, None)  # noqa: SLF001 - else Textual cannot take it away again
        return screen

    @property
    def _experiment(self) -> Experiment:
        assert self._overview is not None, "no experiment is open"
        return self._overview.experiment

    # from one experiment to another

    @on(OpenRunRequested)
    def _look_at(self, request: OpenRunRequested) -> None:
        """The last one that was requested counts."""
        in_background(self, partial(self._open_run, request), group="open")

    async def _open_run(self, request: OpenRunRequested) -> None:
        """Show another run in place of the open one, which goes on; asks first where edits of that one are
        lost.
        """
        runs, previous = self._app_state.runs, self._overview
        try:
            if previous is not None:
                is_same = request.id == await asyncio.to_thread(lambda: previous.experiment.run_id)
                if is_same and not request.again:
                    self._come_back(previous, request.screen)
                    return
                unsaved = unwritten(previous.state)
                if unsaved and not await self.push_screen_wait(LeaveDialog(unsaved)):
                    return
            async with self.messages.waiting("Opening the run", cancels=not request.again):
                experiment = await asyncio.to_thread(runs.open, request.id, again=request.again)
        except RltuiError as error:
            await show_error(self, error)
            return
        if not isinstance(self.screen, BaseScreen):  # a dialog has opened meanwhile, and must be answered
            self.notify(
                f"{clean_line(experiment.name)} was not opened; answer this dialog first", markup=False
            )
            return
        overview = self._new_overview(experiment)
        self._replace(overview)
        self._come_back(overview, request.screen)

    def _come_back(self, overview: Overview, name: str) -> None:
        self._leave_top()
        if name:
            overview.show_screen(name)

    def _leave_top(self) -> None:
        """Only the screen at the bottom stays."""
        if len(self.screen_stack) > 1 and isinstance(self.screen, BaseScreen):
            self.screen.left()
            self.pop_screen()

    def _replace(self, overview: Overview) -> None:
        """The screens of the experiment that was open go, and nothing of it is asked any more."""
        self.workers.cancel_group(self, "events")
        if self._overview is not None:
            self._overview.view_state.note()
        self._leave_top()
        self._overview = overview
        self.switch_screen(overview)
        for name in SCREENS.keys() - {"runs"}:
            if self.is_screen_installed(name):
                screen = self.get_screen(name)
                self.uninstall_screen(name)
                screen.remove()

    @on(Overview.Composed)
    def _listen(self) -> None:
        if self._overview is not None:
            follow = partial(self._follow_events, self._overview)
            in_background(self, follow, group="events")

    async def _follow_events(self, overview: Overview) -> None:
        """Show what is pushed; when the supervisor is gone, say so and ask again, for ever."""
        failures = 0
        while True:
            connected, reason = False, "the supervisor is gone"
            is_news = is_down = False
            try:
                async for event in overview.experiment.events():
                    if not connected:
                        connected, failures = True, 0
                        overview.state.show_connection(None)
                    await overview.show(event)
                    if isinstance(event, Alert):
                        self.messages.say(event.text, event.severity, alert=event)
                        if is_news:
                            self._ring(event, overview.experiment.name)
                    # The knobs, or an alert in their place, come last of what was there before we looked.
                    is_news = is_news or isinstance(event, KnobTable | Alert)
            except ShutDownError as error:
                is_down, reason = True, clean_line(error.title)
            except LinkDownError as error:  # it comes back by itself, and is asked as often as ages are told
                overview.state.show_connection(clean_line(error.title))
                await asyncio.sleep(LOOK_AGAIN_S)
                continue
            except RltuiError as error:
                reason = clean_line(error.title)
            except (OSError, EOFError, ValueError) as error:  # hung up, cut off, or not understood
                reason = clean_line(str(error).partition("\n")[0]) or reason
            if is_down:
                is_reopened = (
                    ""
                    if overview.experiment.readonly
                    else f"; {key_of('component.start-all')} starts it again"
                )
                overview.state.show_connection(f"{reason}{is_reopened}")
                await asyncio.sleep(LOOK_AGAIN_S)
                continue
            overview.state.show_connection(f"{reason}: reconnecting… (components keep running)")
            await asyncio.sleep(RECONNECT_S[min(failures, len(RECONNECT_S) - 1)])
            failures += 1

    def _ring(self, alert: Alert, name: str) -> None:
        """Draw attention, of a person who looks at another window, to what just happened."""
        if alert.severity == "information":
            return
        if self._bell:
            self.bell()
        if self._osc9 and self._driver is not None:
            text = to_encoding(
                f"rltui {name}: {alert.title}", "ascii" if self.abilities.is_ascii else "utf-8"
            )
            self._driver.write(desktop_notification(text, inside_tmux=is_inside_tmux()))

    @on(CopyRequested)
    async def _copy(self, request: CopyRequested) -> None:
        write = None if self._driver is None else self._driver.write
        try:
            self.notify(await copy(request, self._app_state, write), markup=False)
        except RltuiError as error:
            self.notify(clean(str(error)), severity="error", markup=False)

    def copy_to_clipboard(self, text: str) -> None:
        """Textual calls this for its own selection, in dialogs; it is copied like everything else."""
        if text:
            self.post_message(CopyRequested(text))

    @on(AttachRequested)
    def _open_terminal(self, request: AttachRequested) -> None:
        """Hand the terminal to the component's raw pane until the person detaches."""
        self._lend_terminal(self._experiment.attach_command, request.component_id)

    @on(LogView.PagerRequested)
    def _open_pager(self, request: LogView.PagerRequested) -> None:
        self._lend_terminal(self._experiment.pager_command, request.path)

    def _lend_terminal(self, command_for: Callable[[str], Sequence[str]], subject: str) -> None:
        """Step aside while the command for `subject` runs; give a hint where this terminal cannot be lent."""
        try:
            command = command_for(subject)
        except RltuiError as error:
            self.notify(clean(str(error)), severity="error", markup=False)
            return
        if not self._is_lent(command):
            self.notify(f"Run this in another terminal:\n{' '.join(command)}", timeout=20, markup=False)

    def _is_lent(self, command: Sequence[str]) -> bool:
        if self._run_in_terminal is None:
            return False
        try:
            with self.suspend():
                self._run_in_terminal(command)
        except SuspendNotSupported:
            return False
        return True

    def action_command_palette(self, text: str = "") -> None:
        """Find anything by a few letters. `text`: what its line begins with."""
        if isinstance(self.screen, BaseScreen):
            from rltui.ui.palette.screen import open_palette  # the first frame need not wait for it

            open_palette(self.screen, text)

    def action_detach(self) -> None:
        """Leave; asks first where that loses edits that are not written."""
        unsaved = () if self._overview is None else unwritten(self._overview.state)
        if not unsaved:
            self._leave()
        elif not isinstance(self.screen, LeaveDialog):
            self.push_screen(LeaveDialog(unsaved), lambda leave: self._leave() if leave else None)

    def _leave(self) -> None:
        if self._exit:  # `q` twice in haste would be told as two errors
            return
        if self._overview is None:
            self.exit()
            return
        self._overview.view_state.note()
        status, name, opens = self._overview.status, clean_line(self._experiment.name), self._opening_command
        if status is not None and not status.alive:
            self.exit(message=f"Detached; nothing is running. {opens} opens it again.")
            return
        ends = "stops observing" if self._experiment.observed else "stops it"
        down = hints.DOWN(host=self._host, name=name)
        self.exit(message=f"Detached: everything keeps running. {opens} opens it again, {down} {ends}.")

    def action_explain_interrupt(self) -> None:
        """A habit that must not cost a run: it copies what is selected, else it says how to leave."""
        if isinstance(self.focused, LogView) and self.focused.has_selection:
            self.focused.action_copy()
            return
        if text := self.screen.get_selected_text():
            self.copy_to_clipboard(text)
            return
        can_stop = self.screen is self._overview and not self._experiment.readonly
        stops = f", {key_of('component.stop-all')} stops everything" if can_stop else ""
        self.notify(f"Nothing was stopped. {key_of('detach')} detaches{stops}.", markup=False)


def desktop_notification(text: str, *, inside_tmux: bool) -> str:
    """The sequence that makes a terminal show `text` outside its window (OSC 9); `text` cannot end it early.

    tmux passes it on where its option `allow-passthrough` is on. A terminal that does not know it ignores it.
    """
    sequence = f"\x1b]9;{clean_line(text)}\x07"
    return passed_through(sequence) if inside_tmux else sequence
