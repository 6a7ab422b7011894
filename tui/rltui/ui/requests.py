"""From a wish to its execution: plan, ask, carry out, say so. Errors become dialogs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rltui.core.api import ComponentStatus, Plan, Request
from rltui.core.text import listed
from rltui.errors import RltuiError
from rltui.ui.text import clean_line

if TYPE_CHECKING:
    from textual.app import App

    from rltui.client.protocol import Experiment

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
            from rltui.ui.screens.plan_dialog import PlanDialog

            if not await app.push_screen_wait(PlanDialog(plan, heading, verb=verb, danger=danger)):
                return
        app.notify(done_text(await experiment.execute(request)), markup=False)
    except RltuiError as error:
        await show_error(app, error)


async def show_error(app: App[None], error: RltuiError) -> None:
    """An expected failure, in full."""
    from rltui.ui.screens.message_dialog import MessageDialog

    await app.push_screen(MessageDialog.for_error(error))


async def fix_memory(app: App[None], experiment: Experiment, component: ComponentStatus) -> None:
    """Let a person choose what to edit against an out-of-memory error; then plan, ask, write and restart."""
    from rltui.ui.screens.choice_menu import ChoiceMenu

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
    from rltui.ui.screens.choice_menu import ChoiceMenu

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
    from rltui.ui.screens.choice_menu import ChoiceMenu

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
