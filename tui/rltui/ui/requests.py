"""What a key asks for, up to its execution: plan, ask, carry out, say so. Errors become dialogs."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.reactive import reactive
from textual.screen import Screen

from rltui.client.protocol import Experiment
from rltui.core.api import ALIVE_STATES, ComponentState, ComponentStatus, Plan, Request, Status
from rltui.core.text import listed
from rltui.errors import RltuiError
from rltui.ui.text import clean_line

if TYPE_CHECKING:
    from textual.app import App

STOPPABLE = ALIVE_STATES | {ComponentState.WAITING, ComponentState.BACKOFF}
"""States in which there is something to stop, be it a start to come."""
RESTARTABLE = ALIVE_STATES | {ComponentState.FAILED, ComponentState.BACKOFF, ComponentState.EXITED}


@dataclass(frozen=True, slots=True)
class AskedRequest:
    """A request, and how a person is asked about it."""

    request: Request
    heading: str
    verb: str = ""
    """On the button; empty for the usual word."""
    danger: bool = False
    """Always asked about, with *no* as the default."""


def request_for(action: str, status: Status | None, component: ComponentStatus | None) -> AskedRequest | None:
    """What `action` asks for, `None` where it does not apply. `component` is the selected one."""
    match action:
        case "start_all":
            return AskedRequest(Request(action="start"), "Start everything?")
        case "stop_all":
            return AskedRequest(Request(action="stop"), "Stop everything?", danger=True)
        case "free_orphans" if status is not None and status.orphans:
            pids = tuple(orphan.pid for orphan in status.orphans)  # just those that are shown now
            request = Request(action="free", pids=pids)
            return AskedRequest(request, "End these leftover processes?", verb="End them", danger=True)
        case _:
            return None if component is None else _of_component(action, component.id)


def _of_component(action: str, name: str) -> AskedRequest | None:
    match action:
        case "start_component":
            return AskedRequest(Request(action="start", components=(name,)), f"Start {name}?")
        case "stop_component":
            return AskedRequest(Request(action="stop", components=(name,)), f"Stop {name}?")
        case "restart_component":
            return AskedRequest(Request(action="restart", components=(name,)), f"Restart {name}?")
        case "kill_component":
            request = Request(action="stop", components=(name,), kill=True)
            return AskedRequest(
                request, f"Kill {name} and all its processes at once?", verb="Kill", danger=True
            )
        case _:
            return None


def makes_sense(action: str, status: Status | None, component: ComponentStatus | None) -> bool | None:
    """Whether the state of things allows `action`; `None` where that does not depend on it."""
    state = component.state if component is not None else None
    states = [item.state for item in status.components] if status is not None else []
    match action:
        case "start_component":
            return state is not None and state not in ALIVE_STATES and state is not ComponentState.WAITING
        case "stop_component":
            return state in STOPPABLE
        case "kill_component" | "attach_component":
            return state in ALIVE_STATES
        case "restart_component":
            return state in RESTARTABLE
        case "restart_menu":
            return state is not None
        case "fix_component":
            return component is not None and bool(component.remedies)
        case "free_orphans":
            return status is not None and bool(status.orphans)
        case "stop_all":
            return any(item in STOPPABLE for item in states)
        case "start_all":
            return any(item not in ALIVE_STATES for item in states)
        case _:
            return None


READONLY_TEXT = "Read-only: nothing can be changed from here. Open it without --readonly to do so."
OBSERVED_TEXT = "Observed: rltui did not start this run. There is nothing to start, stop or edit here."
_GROUP = "request"


def say_readonly(screen: ExperimentScreen) -> None:
    """Why a key does nothing."""
    observed = screen.experiment.observed
    screen.notify(OBSERVED_TEXT if observed else READONLY_TEXT, severity="warning", markup=False)


def run_alone(screen: ExperimentScreen, coroutine: Coroutine[None, None, None], *, readonly: bool) -> None:
    """Run it unless the last one is still busy: a second key must not cut off the first one's answer."""
    is_busy = any(worker.group == _GROUP and not worker.is_finished for worker in screen.workers)
    if readonly or is_busy:
        coroutine.close()
        if readonly:
            say_readonly(screen)
        else:
            screen.notify("Still busy with the last request", markup=False)
        return
    screen.run_worker(coroutine, name=_GROUP, group=_GROUP)


_RESTARTS = {
    "set": (
        "Restart set of {}",
        "It and what must restart with it; trainers resume from the newest checkpoint",
    ),
    "all": ("Restart everything", "Trainers resume from the newest complete checkpoint"),
    "set-checkpoint": (
        "Restart set of {} from a checkpoint…",
        "Choose which; later checkpoints and rollouts are moved aside",
    ),
    "set-scratch": (
        "Restart set of {} from scratch",
        "Trainers forget their checkpoints and begin at step 0",
    ),
    "all-scratch": ("Restart everything from scratch", "The whole run begins at step 0"),
}


def is_harmless(plan: Plan, request: Request) -> bool:
    """Starts just what was asked for, and throws nothing away: no reason to ask."""
    return (
        request.action == "start"
        and plan.start == request.components
        and not (plan.stop or plan.free or plan.problems or plan.lost.steps)
    )


def done_text(plan: Plan, *, restarts: bool = True) -> str:
    """What a toast says once the plan is being carried out."""
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


def nothing_text(plan: Plan) -> str:
    """Why a plan without steps has none."""
    if plan.action == "free":
        return "No leftover process is alive any more"
    reasons = "; ".join(clean_line(reason) for reason in plan.reasons)
    return f"Nothing to {plan.action}{': ' + reasons if reasons else ''}"


async def carry_out(
    app: App[None],
    experiment: Experiment,
    request: Request,
    heading: str,
    *,
    verb: str = "",
    danger: bool = False,
) -> None:
    """Plan `request`, ask where it is more than a plain start, and do it. `danger` makes *no* the default."""
    try:
        plan = await experiment.plan(request)
        if not (plan.stop or plan.start or plan.diff or plan.free or plan.blocked):
            app.notify(nothing_text(plan), markup=False)
            return
        if danger or not is_harmless(plan, request):
            from rltui.ui.screens.dialogs import PlanDialog

            if not await app.push_screen_wait(PlanDialog(plan, heading, verb=verb, danger=danger)):
                return
        app.notify(done_text(await experiment.execute(request)), markup=False)
    except RltuiError as error:
        await show_error(app, error)


async def show_error(app: App[None], error: RltuiError) -> None:
    """An expected failure, in full."""
    from rltui.ui.screens.dialogs import MessageDialog

    await app.push_screen(MessageDialog.for_error(error))


async def fix_memory(app: App[None], experiment: Experiment, component: ComponentStatus) -> None:
    """Let a person choose what to edit against an out-of-memory error; then plan, ask, write and restart."""
    from rltui.ui.screens.dialogs import ChoiceMenu

    remedies = {remedy.title: remedy for remedy in component.remedies}
    choice = next(iter(remedies), None)
    if len(remedies) > 1:
        choices = {title: (title, remedy.reason) for title, remedy in remedies.items()}
        heading = f"{component.id} ran out of memory"
        choice = await app.push_screen_wait(ChoiceMenu(heading, choices))
    if choice is None:
        return
    remedy = remedies[choice]
    request = Request(action="set", edits=remedy.edits, components=remedy.components, restart=True)
    await carry_out(app, experiment, request, f"{remedy.title}?", verb="Write + restart", danger=True)


async def restart_by_menu(app: App[None], experiment: Experiment, component_id: str) -> None:
    """Let a person choose which components, and where trainers begin; then plan and ask."""
    from rltui.ui.screens.dialogs import ChoiceMenu

    choices = {key: (label.format(component_id), text) for key, (label, text) in _RESTARTS.items()}
    choice = await app.push_screen_wait(ChoiceMenu("Restart", choices))
    if choice is None:
        return
    request = Request(
        action="restart",
        components=() if choice.startswith("all") else (component_id,),
        resume="scratch" if choice.endswith("scratch") else "latest",
    )
    heading = choices[choice][0]
    if choice == "set-checkpoint":
        step = await _chosen_checkpoint(app, experiment, request)
        if step is None:
            return
        request = request.model_copy(update={"resume_step": step})
        heading = f"Restart set of {component_id} from checkpoint {step}"
    await carry_out(app, experiment, request, f"{heading}?", danger=True)


async def _chosen_checkpoint(app: App[None], experiment: Experiment, request: Request) -> int | None:
    """One of those that `request` could continue from, newest first."""
    from rltui.ui.screens.dialogs import ChoiceMenu

    try:
        steps = (await experiment.plan(request)).checkpoints
    except RltuiError as error:
        await show_error(app, error)
        return None
    if not steps:
        app.notify("No checkpoint to continue from: none is complete yet, or no job of the run restarts")
        return None
    choices = {
        str(step): (
            f"Checkpoint {step}",
            "the newest" if step == steps[-1] else "what came later is moved aside",
        )
        for step in reversed(steps)
    }
    choice = await app.push_screen_wait(ChoiceMenu("Continue from", choices))
    if choice is None:
        return None
    return int(choice)


class ExperimentScreen(Screen[None]):
    """Carries out work on `experiment`, one at a time, and shows the help."""

    def __init__(self, experiment: Experiment) -> None:
        super().__init__()
        self.experiment = experiment

    def work(self, coroutine: Coroutine[None, None, None]) -> None:
        """Carry it out, unless the last one is still busy or nothing may be changed."""
        run_alone(self, coroutine, readonly=self.experiment.readonly)

    @property
    def is_open(self) -> bool:
        """It is seen, be it below a dialog."""
        return self.is_mounted and self in self.app.screen_stack

    def action_show_help(self) -> None:
        """All keys."""
        from rltui.ui.screens.help import HelpScreen

        self.app.push_screen(HelpScreen(readonly=self.experiment.readonly))


class ComponentActions(ExperimentScreen):
    """Turns keys into requests. A screen of it says which component is selected."""

    status: reactive[Status | None] = reactive(None, init=False, bindings=True)
    """The newest one."""

    @property
    def component(self) -> ComponentStatus | None:
        """The component that the keys act on."""
        raise NotImplementedError

    def carry_out(self, wish: AskedRequest) -> None:
        """Plan it, ask where that is called for, and do it."""
        self.work(
            carry_out(
                self.app,
                self.experiment,
                wish.request,
                wish.heading,
                verb=wish.verb,
                danger=wish.danger,
            )
        )

    def carry_out_action(self, action: str) -> None:
        """What `action` asks for now, if it asks for anything."""
        if (wish := request_for(action, self.status, self.component)) is not None:
            self.carry_out(wish)

    def action_start_component(self) -> None:
        """A plain start needs no question; one that starts more shows its plan."""
        self.carry_out_action("start_component")

    def action_stop_component(self) -> None:
        """Plan first."""
        self.carry_out_action("stop_component")

    def action_kill_component(self) -> None:
        """Asks, default no."""
        self.carry_out_action("kill_component")

    def action_restart_component(self) -> None:
        """Plan first."""
        self.carry_out_action("restart_component")

    def action_start_all(self) -> None:
        """Plan first."""
        self.carry_out_action("start_all")

    def action_stop_all(self) -> None:
        """Plan first, default no."""
        self.carry_out_action("stop_all")

    def action_restart_menu(self) -> None:
        """Which components, and where trainers begin."""
        if (item := self.component) is not None:
            self.work(restart_by_menu(self.app, self.experiment, item.id))

    def action_fix_component(self) -> None:
        """Which edit, then its plan."""
        if (item := self.component) is not None:
            self.work(fix_memory(self.app, self.experiment, item))

    def component_sense(self, action: str) -> bool | None:
        """Whether a component key makes sense now; `None` for other keys."""
        return makes_sense(action, self.status, self.component)
