"""The base of the main screens, which a key leads to from any other: of one experiment, or of all runs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import cached_property, partial
from pkgutil import resolve_name
from typing import ClassVar

from textual import on
from textual.events import Key
from textual.screen import Screen, ScreenResultType
from textual.widgets import Input

from rltui.client.experiment import Experiment
from rltui.core.metrics.series import time_of_step
from rltui.errors import RltuiError
from rltui.ui import verbs
from rltui.ui.actions import Footer, InPalette, KeyContext, Scope
from rltui.ui.background import in_background
from rltui.ui.commands.experiment import ExperimentCommands
from rltui.ui.copying import Copyable, CopyRequested
from rltui.ui.dialogs.base import NoteDialog, show_error
from rltui.ui.key_bindings import bind, own
from rltui.ui.messages import MessageLine, NotifyingApp, NotifyingScreen, waiting
from rltui.ui.requests import READONLY_TEXT, readonly_text
from rltui.ui.screen_keys import ScreenKeys
from rltui.ui.screens import SCREENS
from rltui.ui.state import AppState, ExperimentState

_WORK = "request"
"""Group of the worker that carries out what a key asks for."""
SEARCH_AIM = "/"
"""Has the log screen ask what to search for; with words behind it, search for them."""


SCREEN_KEYS = (
    own("help", "question_mark", "show_help", "help", "Show the keys that work here", Scope.GLOBAL,
        footer=Footer.LAST_TO_GO),
    own("palette", "colon,ctrl+p", "app.command_palette", "command",
        "Find an action, knob or run by a few letters", Scope.GLOBAL, footer=Footer.LAST_TO_GO,
        palette=InPalette.NO),
    own("screen.overview", "1", "show_overview", "overview", "Overview: all panes", Scope.SCREENS),
    own("screen.logs", "2", "show_screen('logs')", "logs", "Logs: merged by time, or one in full width",
        Scope.SCREENS),
    own("screen.gpus", "3", "show_screen('gpus')", "GPUs", "GPUs: devices, processes, memory over time",
        Scope.SCREENS),
    own("screen.metrics", "4", "show_screen('metrics')", "metrics", "Metrics: charts of the whole run",
        Scope.SCREENS),
    bind(verbs.SCREEN_ROLLOUTS, "show_screen('rollouts')"),
    own("screen.config", "6", "show_screen('config')", "config",
        "Config: every key with its meaning and default", Scope.SCREENS),
    own("screen.runs", "7", "show_screen('runs')", "runs", "Runs: list, compare and open runs",
        Scope.SCREENS),
    own("screen.events", "8", "show_screen('events')", "events", "Events: starts, crashes, edits, alerts",
        Scope.SCREENS),
    own("screen.checkpoints", "9", "show_screen('checkpoints')", "checkpoints",
        "Checkpoints: restart from one, or fork", Scope.SCREENS),
    own("screen.evals", "V", "show_screen('evals')", "evaluations",
        "Evaluations: base model, SFT, checkpoints, runs", Scope.SCREENS),
    bind(verbs.SCREEN_QUEUE, "show_screen('queue')"),
    own("screen.bench", "at", "show_screen('bench')", "bench", "Bench: changes tried, scores, verdicts",
        Scope.SCREENS),
    bind(verbs.MESSAGES, "show_messages"),
    own("agents.pause", "Z", "pause_agents", "pause agents",
        "Pause agents: they only look, on all runs; again: resume", Scope.GLOBAL, changes=True),
    own("theme", "", "app.command_palette('*')", "theme", "Choose a colour theme", Scope.GLOBAL),
    own("detach", "q", "app.detach", "detach", "Detach; everything keeps running", Scope.GLOBAL,
        footer=Footer.LAST_TO_GO),
    own("interrupt", "ctrl+c", "app.explain_interrupt", "interrupt", "Show how to detach; stops nothing",
        Scope.GLOBAL, palette=InPalette.NO),
)  # fmt: skip
EXPERIMENT_KEYS = (
    *SCREEN_KEYS,
    bind(verbs.STEP, "ask_step"),
    bind(verbs.NOTE, "commands.note", "Add a note to the events and the charts"),
    own("logs.search-all", "ctrl+f", "search_all", "search all",
        "Search the logs of all components and attempts", Scope.LOGS),
    own("links", "", "commands.open_links", "links", "Open or copy a link of the run: W&B, a dashboard",
        Scope.GLOBAL),
    own("tour", "", "show_tour", "tour", "Replay the tour", Scope.GLOBAL),
)  # fmt: skip


class BaseScreen(NotifyingScreen[None]):
    """Carries out one request at a time, leads to the other screens and shows the help.

    A client that may only look is told why a key does nothing.
    """

    VERTICAL_BREAKPOINTS = [(0, "-short"), (36, "-tall")]  # noqa: RUF012 - as Textual declares it
    place: ClassVar[KeyContext]
    is_of_all_runs: ClassVar[bool] = False
    """It shows all runs, whatever experiment is open; else it shows one experiment."""

    def __init__(self, app_state: AppState, state: ExperimentState | None = None) -> None:
        """`state`: the experiment to show, where it is another one than the one that is open.

        Then it stands beside others on the comparison, and leads only back to it.
        """
        super().__init__()
        self.app_state = app_state
        """It outlives the experiment that is open."""
        self._keys = ScreenKeys(self, is_compared=state is not None)
        self._state = None if self.is_of_all_runs else state or app_state.current
        self.aim = ""
        """Key of the row that the cursor is to go to, once it is there."""

    @property
    def state(self) -> ExperimentState:
        assert self._state is not None, "no experiment is open, and no key leads there"
        return self._state

    @property
    def experiment(self) -> Experiment:
        return self.state.experiment

    @cached_property
    def commands(self) -> ExperimentCommands:
        return ExperimentCommands(self, self.state)

    @property
    def pane_place(self) -> KeyContext | None:
        """Context of the pane that has the keys, where it has some of its own."""
        context = getattr(self.focused, "place", None)
        return context if isinstance(context, KeyContext) else None

    def keep(self) -> None:
        """Have the next app know what this one does."""
        in_background(self.app, self.app_state.ui_state.write, group="keep", exclusive=False)

    @property
    def is_open(self) -> bool:
        """It is seen, be it below a dialog."""
        return self.is_mounted and self in self.app.screen_stack

    # what may be changed

    @property
    def readonly_text(self) -> str:
        """The reason why nothing can be changed; empty where changes are possible."""
        if self._state is not None:
            return readonly_text(self.experiment, all_readonly=self.app_state.runs.readonly)
        return READONLY_TEXT if self.app_state.runs.readonly else ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse actions that change something on a read-only screen, and actions that make no sense now."""
        return self._keys.allows(action, parameters)

    def enabled(self, command: str, *arguments: object) -> bool:
        """`command` is an action of this screen, or `part.method` of an object that the screen holds.

        An object with a method `allows` has been asked before.
        """
        if self.app_state.current is None and command in ("show_screen", "show_overview"):  # none is open
            return (command, *arguments) in {("show_screen", name) for name in ("runs", "queue", "bench")}
        return True

    # what a command does on a screen

    def work(self, coroutine: Coroutine[None, None, None], *, changes: bool = True) -> None:
        if changes and self.readonly_text:
            coroutine.close()
            self._keys.say_readonly()
        elif any(worker.group == _WORK and not worker.is_finished for worker in self.workers):
            coroutine.close()
            self.notify("Still busy with the last request", markup=False)
        else:
            in_background(self, partial(self._carry_out, coroutine), group=_WORK)

    async def _carry_out(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except RltuiError as error:
            await self.show_error(error)

    async def prompt(self, dialog: Screen[ScreenResultType]) -> ScreenResultType | None:
        return await self.app.push_screen_wait(dialog)

    def waiting(self, label: str, *, cancels: bool = False) -> AbstractAsyncContextManager[None]:
        return waiting(self.app, label, cancels=cancels)

    def suspend(self) -> AbstractContextManager[None]:
        return self.app.suspend()

    async def show_error(self, error: RltuiError) -> None:
        await show_error(self.app, error)

    def on_key(self, event: Key) -> None:
        if isinstance(self.focused, Input):
            return
        active = self.active_bindings.get(event.key)
        if active is None or not active.enabled:  # else the pane that has the keys does something with it
            self._keys.explain(event.key, is_bound=event.key in super().active_bindings)

    # from one main screen to another

    @property
    def place_aim(self) -> str:
        """The aim with which it opens again as it is now; empty: as it always opens."""
        return ""

    def show_screen(
        self,
        name: str,
        *,
        aim: str = "",
        moment: float | None = None,
        component: str | None = None,
        step: int | None = None,
    ) -> None:
        """Open the screen `name`: on top of the overview, in place of any other.

        It is made when it is first opened, and stays. Its cursor goes to the row `aim`, and what it shows
        to the moment `moment` (seconds since the epoch), of `component` where it shows several, or to `step`.
        """
        above = self.app.screen
        if not isinstance(above, BaseScreen):
            return  # a dialog has opened meanwhile, and must be answered
        if not self.app.is_screen_installed(name):
            self.app.install_screen(resolve_name(SCREENS[name])(self.app_state), name)
        screen = self.app.get_screen(name, BaseScreen)
        screen.aim = aim or screen.aim
        if moment is not None:
            screen.go_to(moment, component)
        if step is not None:
            screen.show_step(step)
        if above.place is KeyContext.OVERVIEW:
            self.app.push_screen(screen)
        elif screen is not above:
            above.show_instead(screen)

    def show_instead(self, screen: BaseScreen) -> None:
        self.left()
        self.app.switch_screen(screen)

    def go_to(self, moment: float, component: str | None) -> None:
        """Show what was at that moment, once it is open; a screen that knows only the present does not."""

    def action_ask_step(self) -> None:
        def take(text: str | None) -> None:
            if text is not None and text.isdecimal():
                self.show_step(int(text))
            elif text is not None:
                self.notify(f"not a step: {text}", severity="warning", markup=False)

        dialog = NoteDialog(title="Jump to step", placeholder="120", purpose="jump", max_length=12)
        self.app.push_screen(dialog, take)

    def show_step(self, step: int) -> None:
        """Go to a step of the run: here, or on the charts from a screen that knows no steps."""
        self.show_screen("metrics", step=step)

    def show_moment_of_step(self, step: int, component: str | None = None) -> None:
        """Go to the moment at which the run reached a step."""
        self.work(self._show_moment_of_step(step, component), changes=False)

    async def _show_moment_of_step(self, step: int, component: str | None) -> None:
        async with self.waiting(f"Looking for step {step}"):
            series = await asyncio.to_thread(self.experiment.open_series)
            moment = await asyncio.to_thread(time_of_step, series, step)
        if moment is None:
            self.notify(f"no step {step} in the metrics of this run", severity="warning", markup=False)
        else:
            self.go_to(moment, component)

    def left(self) -> None:
        """Another screen is to be shown: what only this one needs is not asked for any more."""

    def action_show_screen(self, name: str) -> None:
        self.show_screen(name)

    def action_show_overview(self) -> None:
        if self.is_active:  # a second key in haste would leave what is below
            self.left()
            self.app.pop_screen()

    def action_search_all(self) -> None:
        self.show_screen("logs", aim=SEARCH_AIM)

    def action_show_tour(self) -> None:
        self.app_state.wants_tour = True
        self.action_show_overview()

    def action_show_help(self) -> None:
        from rltui.ui.dialogs.help import HelpContext, HelpScreen

        context = HelpContext(self.place, self.pane_place, self._keys.can, readonly=bool(self.readonly_text))
        self.app.push_screen(HelpScreen(context))

    def action_pause_agents(self) -> None:
        self.work(self._pause_agents())

    async def _pause_agents(self) -> None:
        paused = await asyncio.to_thread(self.app_state.runs.pause_agents)
        self.show_pause(paused)
        self.notify(paused or "agents have their rights again", markup=False)

    def show_pause(self, text: str) -> None:
        """Show who has paused agents, empty for nobody, where the screen has a place for it."""

    # what is under the cursor, and what was said

    def copied(self) -> CopyRequested | None:
        """The row under the cursor as text; a screen that knows more of it than it shows overrides this."""
        focused: object = self.focused
        return focused.copied() if isinstance(focused, Copyable) else None

    def action_copy(self) -> None:
        text = self.get_selected_text()
        request = CopyRequested(text) if text else self.copied()
        if request is not None and request.text:
            self.post_message(request)
        else:
            self.notify("Nothing to copy under the cursor", markup=False)

    @on(MessageLine.AllWanted)
    def action_show_messages(self) -> None:
        from rltui.ui.dialogs.message_list import MessageList

        if isinstance(self.app, NotifyingApp):
            self.app.push_screen(MessageList(self.app.messages, self.app_state.clock))
