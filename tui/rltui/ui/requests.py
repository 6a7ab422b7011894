"""What a key asks for, up to its execution: plan, ask, carry out, say so. Errors become dialogs."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, ClassVar, Self

from textual import on
from textual.events import Key
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Input

from rltui.core.api import ComponentStatus, Link, Plan, Request, Status
from rltui.core.consent import Decision, agreed, decide, loss_of_plan
from rltui.core.states import ALIVE_STATES, ComponentState
from rltui.core.text import listed, shortened
from rltui.errors import RltuiError
from rltui.ui.actions import CHANGING_CALLS, KeyContext, Use, changing_keys, key_of
from rltui.ui.background import in_background
from rltui.ui.copying import Copyable, CopyRequested
from rltui.ui.keymap import idle_key
from rltui.ui.messages import MessageLine, NotifyingApp, NotifyingScreen, waiting
from rltui.ui.screens import SCREENS
from rltui.ui.screens.dialogs import ChoiceMenu, LinkMenu, MessageDialog, NoteDialog, PlanDialog
from rltui.ui.shared import AppState, ExperimentState
from rltui.ui.text import clean_line
from rltui.ui.widgets.log_pane import LogPane
from rltui.views.checkpoint import checkpoint_words

if TYPE_CHECKING:
    from textual.app import App

READONLY_TEXT = "Read-only: nothing can be changed from here. Open it without --readonly to do so."
OBSERVED_TEXT = "Observed: rltui did not start this run. There is nothing to start, stop or edit here."
_AGAIN = ("request", ("start-all",))
"""Of a finished run: what opens it with a supervisor."""
_GROUP = "request"
SEARCH_AIM = "/"
"""Has the log screen ask what to search for; with words behind it, search for them."""
_STOPPABLE = ALIVE_STATES | {ComponentState.WAITING, ComponentState.BACKOFF}
"""States in which there is something to stop, be it a start to come."""
_RESTARTABLE = ALIVE_STATES | {ComponentState.FAILED, ComponentState.BACKOFF, ComponentState.EXITED}
_RESTARTS = {
    "set": (
        "Restart set of {}",
        "It and what must restart with it; trainers resume from the newest checkpoint",
    ),
    "all": ("Restart everything", "Trainers resume from the newest complete checkpoint"),
    "set-checkpoint": (
        "Restart set of {} from a checkpoint…",
        "Choose which; later checkpoints and rollouts are set aside ({} shows more of each)",
    ),
    "set-scratch": (
        "Restart set of {} from scratch",
        "Trainers forget their checkpoints and begin at step 0",
    ),
    "all-scratch": ("Restart everything from scratch", "The whole run begins at step 0"),
}


def finished_text() -> str:
    opens = key_of("component.start-all")
    return f"Nothing of this run lives: it is read from its files. {opens} opens it with a supervisor."


@dataclass(frozen=True, slots=True)
class ConfirmableRequest:
    request: Request
    heading: str
    verb: str = ""
    """On the button; empty for the usual word."""
    danger: bool = False
    """Always asked about, with *no* as the default."""


def request_for(
    what: str, status: Status | None, component: ComponentStatus | None
) -> ConfirmableRequest | None:
    """What a key asks for, `None` where it does not apply. `component` is the selected one."""
    names = () if component is None else (component.id,)
    name = "".join(names)
    match what:
        case "start-all":
            return ConfirmableRequest(Request(action="start"), "Start everything?")
        case "stop-all":
            return ConfirmableRequest(Request(action="stop"), "Stop everything?", danger=True)
        case "free-orphans" if status is not None and status.orphans:
            pids = tuple(orphan.pid for orphan in status.orphans)  # just those that are shown now
            request = Request(action="free", pids=pids)
            return ConfirmableRequest(request, "End these leftover processes?", verb="End them", danger=True)
        case "start" | "stop" | "restart" if names:
            return ConfirmableRequest(Request(action=what, components=names), f"{what.capitalize()} {name}?")
        case "kill" if names:
            request = Request(action="stop", components=names, kill=True)
            heading = f"Kill {name} and all its processes at once?"
            return ConfirmableRequest(request, heading, verb="Kill", danger=True)
        case _:
            return None


def makes_sense(what: str, status: Status | None, component: ComponentStatus | None) -> bool:
    """Whether the state of things allows what a key asks for."""
    state = component.state if component is not None else None
    states = [item.state for item in status.components] if status is not None else []
    match what:
        case "start":
            return state is not None and state not in ALIVE_STATES and state is not ComponentState.WAITING
        case "stop":
            return state in _STOPPABLE
        case "kill":
            return state in ALIVE_STATES
        case "restart":
            return state in _RESTARTABLE
        case "stop-all":
            return any(item in _STOPPABLE for item in states)
        case _:
            return any(item not in ALIVE_STATES for item in states)


def done_text(plan: Plan, *, restarts: bool = True) -> str:
    match plan.action:
        case "start":
            return f"Starting {listed(plan.start)}"
        case "stop":
            return f"Stopping {listed(plan.stop)}"
        case "restart":
            return f"Restarting {listed(plan.start or plan.stop)}"
        case "free":
            return f"Ending {listed(tuple(f'pid {orphan.pid}' for orphan in plan.free))}"
        case "set" | "write" | "undo" | "redo":
            return f"Written. Restarting {listed(plan.start)}" if restarts and plan.start else "Written"


def _nothing_text(plan: Plan) -> str:
    if plan.action == "free":
        return "No leftover process is alive any more"
    reasons = "; ".join(clean_line(reason) for reason in plan.reasons)
    return f"Nothing to {plan.action}{': ' + reasons if reasons else ''}"


async def show_error(app: App[None], error: RltuiError) -> None:
    await app.push_screen(MessageDialog.for_error(error))


class MainScreen(NotifyingScreen[None]):
    """One of the screens that a key leads to from any other. Carries out one request at a time, and shows
    the help.

    A client that may only look is told why a key does nothing.
    """

    VERTICAL_BREAKPOINTS = [(0, "-short"), (36, "-tall")]  # noqa: RUF012 - as Textual declares it
    place: ClassVar[KeyContext]

    @dataclass
    class OpenRunRequested(Message):
        """A person wants to look at another run, or at this one with a supervisor."""

        id: str
        again: bool = False
        """As `Runs.open`."""
        screen: str = ""
        """What to show of it; empty: the overview."""

    def __init__(self) -> None:
        super().__init__()
        self.aim = ""
        """Key of the row that the cursor is to go to, once it is there."""

    @classmethod
    def made(cls, home: AppState) -> Self:
        """A new one, of what is open."""
        raise NotImplementedError

    @property
    def home(self) -> AppState:
        """What outlives the experiment that is open."""
        raise NotImplementedError

    @property
    def readonly_text(self) -> str:
        """Why nothing can be changed; empty where it can."""
        raise NotImplementedError

    @property
    def pane_place(self) -> KeyContext | None:
        """Of the pane that has the keys, where it has some of its own."""
        place = getattr(self.focused, "place", None)
        return place if isinstance(place, KeyContext) else None

    def keep(self) -> None:
        """Have the next app know what this one does."""
        in_background(self.app, self.home.kept.write, group="keep", exclusive=False)

    @property
    def is_open(self) -> bool:
        """It is seen, be it below a dialog."""
        return self.is_mounted and self in self.app.screen_stack

    def work(self, coroutine: Coroutine[None, None, None], *, changes: bool = True) -> None:
        """Carry it out, unless the last one is still busy: a second key must not cut off its answer.

        Nor where it `changes` something, and nothing may be changed.
        """
        if changes and self.readonly_text:
            coroutine.close()
            self._say_readonly()
        elif any(worker.group == _GROUP and not worker.is_finished for worker in self.workers):
            coroutine.close()
            self.notify("Still busy with the last request", markup=False)
        else:
            in_background(self, lambda: coroutine, group=_GROUP)

    def on_key(self, event: Key) -> None:
        """A key that does nothing says why: where it would change something, each time; else once."""
        if isinstance(self.focused, Input):
            return
        active = self.active_bindings.get(event.key)
        if active is not None and active.enabled:  # the pane that has the keys does something else with it
            return
        calls = changing_keys(self.place).get(event.key, ()) if self.readonly_text else ()
        if calls and not any(self.check_action(*call) for call in calls):
            self._say_readonly()
        elif event.key not in self.home.key_hints and event.key not in super().active_bindings:
            self.home.key_hints.add(event.key)
            self.notify(idle_key(event.key, self.place), markup=False)

    def _say_readonly(self) -> None:
        self.notify(self.readonly_text, severity="warning", markup=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing that changes something, where that may not be. A screen adds what makes sense now."""
        if self.home.shared is None and action in ("show_screen", "show_overview"):
            return action == "show_screen" and parameters in (("runs",), ("queue",))  # none is open
        return (action, parameters) not in CHANGING_CALLS or not self.readonly_text

    # from one main screen to another

    def show_screen(
        self, name: str, *, aim: str = "", at: float | None = None, component: str | None = None
    ) -> None:
        """Open the screen `name`: on top of the overview, in place of any other.

        It is made when it is first opened, and stays. Its cursor goes to the row `aim`, and what it shows
        to the moment `at` (seconds since the epoch), of `component` where it shows several.
        """
        above = self.app.screen
        if not isinstance(above, MainScreen):
            return  # a dialog has opened meanwhile, and must be answered
        if not self.app.is_screen_installed(name):
            self.app.install_screen(resolve_name(SCREENS[name]).made(self.home), name)
        screen = self.app.get_screen(name, MainScreen)
        screen.aim = aim or screen.aim
        if at is not None:
            screen.go_to(at, component)
        if above.place is KeyContext.OVERVIEW:
            self.app.push_screen(screen)
        elif screen is not above:
            above.show_instead(screen)

    def show_instead(self, screen: MainScreen) -> None:
        """In place of this one, on top of the overview."""
        self.left()
        self.app.switch_screen(screen)

    def go_to(self, at: float, component: str | None) -> None:
        """Show what was at that moment, once it is open; a screen that knows only the present does not."""

    def left(self) -> None:
        """Another screen is to be shown: what only this one needs is not asked for any more."""

    def action_show_screen(self, name: str) -> None:
        self.show_screen(name)

    def action_show_overview(self) -> None:
        if self.is_active:  # a second key in haste would leave what is below
            self.left()
            self.app.pop_screen()

    def action_show_help(self) -> None:
        from rltui.ui.screens.help import HelpContext, HelpScreen

        here = HelpContext(self.place, self.pane_place, self._can, readonly=bool(self.readonly_text))
        self.app.push_screen(HelpScreen(here))

    def _can(self, use: Use) -> bool:
        """It would do something now."""
        owner = self.focused if self.pane_place in use.places else self
        return owner is None or owner.check_action(*use.call) is True

    def copied(self) -> CopyRequested | None:
        """What is under the cursor. A screen overrides it that knows more of it than its rows show."""
        focused: object = self.focused
        return focused.copied() if isinstance(focused, Copyable) else None

    def action_copy(self) -> None:
        """To the clipboard: what the mouse has selected, else what is under the cursor."""
        text = self.get_selected_text()
        wanted = CopyRequested(text) if text else self.copied()
        if wanted is not None and wanted.text:
            self.post_message(wanted)
        else:
            self.notify("There is nothing to copy under the cursor", markup=False)

    @on(MessageLine.AllWanted)
    def action_show_messages(self) -> None:
        from rltui.ui.screens.message_list import MessageList

        if isinstance(self.app, NotifyingApp):
            self.app.push_screen(MessageList(self.app.messages, self.home.clock))


class GlobalScreen(MainScreen):
    """A screen about all runs, whatever experiment is open."""

    def __init__(self, home: AppState) -> None:
        super().__init__()
        self._home = home

    @classmethod
    def made(cls, home: AppState) -> Self:
        return cls(home)

    @property
    def home(self) -> AppState:
        return self._home

    @property
    def readonly_text(self) -> str:
        return READONLY_TEXT if self._home.runs.readonly else ""


class ExperimentScreen(MainScreen):
    def __init__(self, shared: ExperimentState) -> None:
        super().__init__()
        self.shared = shared
        self.experiment = shared.experiment

    @classmethod
    def made(cls, home: AppState) -> Self:
        assert home.shared is not None, "no key leads there"
        return cls(home.shared)

    @property
    def home(self) -> AppState:
        return self.shared.home

    @property
    def readonly_text(self) -> str:
        if not self.experiment.readonly:
            return ""
        if self.experiment.finished and not self.home.runs.readonly:
            return finished_text()
        return OBSERVED_TEXT if self.experiment.observed else READONLY_TEXT

    @property
    def access(self) -> str:
        if self.experiment.finished and not self.home.runs.readonly:
            return f"read-only, {key_of('component.start-all')} opens it to start"
        return "read-only" if self.experiment.readonly and not self.experiment.observed else ""

    def carry_out(self, asked: ConfirmableRequest) -> None:
        """Plan it, ask where it is more than a plain start, and do it."""
        self.work(self._carry_out(asked))

    async def _carry_out(self, asked: ConfirmableRequest) -> None:
        request = asked.request
        try:
            async with waiting(self.app, f"Working out what it takes to {request.action}", cancels=True):
                plan = await self.experiment.plan(request)
            if not (plan.stop or plan.start or plan.diff or plan.free or plan.blocked):
                self.notify(_nothing_text(plan), markup=False)
                return
            loss = loss_of_plan(plan, request)
            is_asked = decide(request.action, loss, has_terminal=True, yes=False) is Decision.ASK
            if asked.danger or is_asked or plan.blocked:
                dialog = PlanDialog(plan, asked.heading, verb=asked.verb, danger=asked.danger)
                if not await self.app.push_screen_wait(dialog):
                    return
            async with waiting(self.app, f"Having it done: {asked.heading.rstrip('?')}"):
                done = await self.experiment.execute(agreed(request, plan))
            self.notify(done_text(done), markup=False)
        except RltuiError as error:
            await show_error(self.app, error)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "open_links":
            return self.shared.status is not None and bool(self.shared.status.links)
        if action == "note":  # is none of the run's business
            return (
                not self.experiment.readonly
                or self.experiment.observed
                or (self.experiment.finished and not self.home.runs.readonly)
            )
        if self.experiment.finished and (action, parameters) == _AGAIN:
            return not self.home.runs.readonly
        return super().check_action(action, parameters)

    def action_show_tour(self) -> None:
        self.home.wants_tour = True
        self.action_show_overview()

    def action_search_all(self) -> None:
        self.show_screen("logs", aim=SEARCH_AIM)

    def action_note(self) -> None:
        self.work(self._note(), changes=False)

    async def _note(self) -> None:
        """Until it is kept: what somebody has typed is not lost."""
        text = ""
        while text := await self.app.push_screen_wait(NoteDialog(text)) or "":
            try:
                async with waiting(self.app, "Noting it"):
                    entry = await self.experiment.note(text)
            except RltuiError as error:
                await self.app.push_screen_wait(MessageDialog.for_error(error))
                continue
            step = "" if entry.step is None else f" at step {entry.step}"
            self.notify(f"Noted{step}: {shortened(clean_line(entry.text), 40)}", markup=False)
            self.shared.show_journal()
            return

    def action_open_links(self) -> None:
        if self.shared.status is not None:
            self.work(self._open_link(self.shared.status.links), changes=False)

    async def _open_link(self, links: Sequence[Link]) -> None:
        url = await self.app.push_screen_wait(LinkMenu(links))
        if url is None:
            return
        async with waiting(self.app, "Opening a browser"):
            is_opened = await self.experiment.open_url(url)
        if is_opened:
            self.notify(f"RemoteHandle {clean_line(url)}", markup=False)
        else:
            self.app.post_message(CopyRequested(url))


class ComponentActions(ExperimentScreen):
    """The keys that start, stop and restart. A screen of it says which component is selected."""

    status: reactive[Status | None] = reactive(None, init=False, bindings=True)
    """The newest one."""

    @property
    def component(self) -> ComponentStatus | None:
        """The component that the keys act on."""
        raise NotImplementedError

    def action_show_script(self) -> None:
        if script := self._job_script:
            self.post_message(LogPane.PagerWanted(script))

    @property
    def _job_script(self) -> str:
        host = self.component.host if self.component is not None else None
        return host.script if host is not None else ""

    def action_request(self, what: str) -> None:
        """Plan first, and ask: but for a plain start. A finished run is given a supervisor instead."""
        if self.experiment.finished:
            self.post_message(self.OpenRunRequested(self.experiment.run_id, again=True))
        elif (asked := request_for(what, self.status, self.component)) is not None:
            self.carry_out(asked)

    def action_restart_menu(self) -> None:
        if (item := self.component) is not None:
            self.work(self._restart_by_menu(item.id))

    async def _restart_by_menu(self, component_id: str) -> None:
        known = key_of("screen.checkpoints")
        choices = {
            key: (label.format(component_id), text.format(known)) for key, (label, text) in _RESTARTS.items()
        }
        choice = await self.app.push_screen_wait(ChoiceMenu("Restart", choices))
        if choice is None:
            return
        request = Request(
            action="restart",
            components=() if choice.startswith("all") else (component_id,),
            resume="scratch" if choice.endswith("scratch") else "latest",
        )
        heading = choices[choice][0]
        if choice == "set-checkpoint":
            if (step := await self._choose_checkpoint(request)) is None:
                return
            request = request.model_copy(update={"resume_step": step})
            heading = f"Restart set of {component_id} from checkpoint {step}"
        await self._carry_out(ConfirmableRequest(request, f"{heading}?", danger=True))

    async def _choose_checkpoint(self, request: Request) -> int | None:
        """One of those that `request` could continue from, newest first."""
        try:
            async with waiting(self.app, "Looking for checkpoints", cancels=True):
                steps = (await self.experiment.plan(request)).checkpoints
                report = await self.experiment.checkpoints() if steps else None
        except RltuiError as error:
            await show_error(self.app, error)
            return None
        if not steps:
            self.notify("No checkpoint to continue from: none is complete yet, or no job of the run restarts")
            return None
        now = self.shared.clock()
        known = {} if report is None else {each.step: checkpoint_words(each, now) for each in report.complete}
        choices = {
            str(step): (f"Checkpoint {step}", clean_line(known.get(step, ""))) for step in reversed(steps)
        }
        choice = await self.app.push_screen_wait(ChoiceMenu("Continue from", choices))
        if choice is None:
            return None
        return int(choice)

    def action_fix_memory(self) -> None:
        if (item := self.component) is not None:
            self.work(self._fix_memory(item))

    async def _fix_memory(self, component: ComponentStatus) -> None:
        remedies = {remedy.title: remedy for remedy in component.remedies}
        choice = next(iter(remedies), None)
        if len(remedies) > 1:
            choices = {title: (title, remedy.reason) for title, remedy in remedies.items()}
            heading = f"{component.id} ran out of memory"
            choice = await self.app.push_screen_wait(ChoiceMenu(heading, choices))
        if choice is None:
            return
        remedy = remedies[choice]
        request = Request(action="set", edits=remedy.edits, components=remedy.components, restart=True)
        asked = ConfirmableRequest(request, f"{remedy.title}?", verb="Write + restart", danger=True)
        await self._carry_out(asked)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._component_allows(action, parameters) and super().check_action(action, parameters)

    def _component_allows(self, action: str, parameters: tuple[object, ...]) -> bool:
        item = self.component
        match action:
            case "request" if self.experiment.finished:
                return (action, parameters) == _AGAIN
            case "request":
                return makes_sense(str(parameters[0]), self.status, item)
            case "attach_component":
                return item is not None and item.state in ALIVE_STATES
            case "restart_menu":
                return item is not None
            case "show_script":
                return bool(self._job_script)
            case "fix_memory":
                return item is not None and bool(item.remedies)
            case _:
                return True
