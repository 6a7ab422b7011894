"""Commands without an app: what they ask, what they request, what they say, and when they make sense."""

from __future__ import annotations

from typing import Literal

import pytest
from tests.fakes.experiment import NOW, ORPHANS, SET_PLAN, FakeExperiment, component, running_status
from tests.fakes.frontend import FakeFrontend
from tests.fakes.runs import FakeRuns
from tests.ui.checkpoint_cases import with_checkpoints
from tests.ui.run_cases import RUNS
from tests.ui.trouble import REMEDIES, backoff_status, out_of_memory_status

from rltui.core.config.report import Problem
from rltui.core.experiment.api import ComponentStatus, Plan, Request
from rltui.core.experiment.states import ComponentState
from rltui.core.gpu.report import Remedy
from rltui.errors import RltuiError
from rltui.ui.commands.checkpoints import CheckpointCommands
from rltui.ui.commands.components import AttachRequested, ComponentCommands
from rltui.ui.commands.config import ConfigCommands
from rltui.ui.commands.experiment import ExperimentCommands
from rltui.ui.commands.run_annotations import RunAnnotationCommands
from rltui.ui.dialogs.base import ChoiceMenu, PlanDialog
from rltui.ui.dialogs.checkpoints import RowsDialog
from rltui.ui.dialogs.trash import TrashDialog
from rltui.ui.requests import OpenRunRequested
from rltui.ui.state import AppState, ExperimentState

TRAINER = component("trainer", ComponentState.READY)


def state_of(experiment: FakeExperiment, *components: ComponentStatus) -> ExperimentState:
    app_state = AppState(FakeRuns(), lambda: NOW)
    state = app_state.current = ExperimentState(experiment, app_state)
    state.status = running_status(components=components or (TRAINER,))
    return state


def component_commands(
    frontend: FakeFrontend, experiment: FakeExperiment, selected: ComponentStatus | None = TRAINER
) -> ComponentCommands:
    state = state_of(experiment, *(() if selected is None else (selected,)))
    return ComponentCommands(frontend, state, ExperimentCommands(frontend, state), lambda: selected)


async def test_a_restart_is_planned_and_done_once_it_is_agreed_to() -> None:
    frontend, experiment = FakeFrontend(True), FakeExperiment()
    component_commands(frontend, experiment).request("restart")
    await frontend.done()
    assert isinstance(frontend.dialogs[0], PlanDialog)
    assert experiment.planned == [Request(action="restart", components=("trainer",))]
    assert [(request.action, request.components) for request in experiment.executed] == [
        ("restart", ("trainer",))
    ]
    assert frontend.notices == ["Restarting orchestrator and trainer"]


async def test_what_is_not_agreed_to_is_not_done() -> None:
    frontend, experiment = FakeFrontend(None), FakeExperiment()
    component_commands(frontend, experiment).request("kill")
    await frontend.done()
    assert experiment.planned
    assert experiment.executed == []


async def test_an_error_is_shown_and_nothing_is_done() -> None:
    frontend, experiment = FakeFrontend(), FakeExperiment()
    experiment.error = RltuiError("no")
    component_commands(frontend, experiment).request("stop")
    await frontend.done()
    assert frontend.errors == [experiment.error]


NO_PORT = Problem(message="port 8000 is taken by pid 12: stop it, or set port")
MORE = Plan(action="start", start=("inference", "trainer"))


@pytest.mark.parametrize(
    ("name", "plan", "default"),
    [
        ("restart", SET_PLAN, "yes"),
        ("kill", SET_PLAN, "no"),
        ("stop-all", SET_PLAN, "no"),
        ("start", MORE, "yes"),
        ("restart", Plan(action="restart", stop=("trainer",), problems=(NO_PORT,)), "no"),
    ],
    ids=["restart", "kill", "stop all", "a start that starts more", "blocked"],
)
async def test_what_does_more_than_it_says_is_asked(name: str, plan: Plan, default: str) -> None:
    frontend, experiment = FakeFrontend(None), FakeExperiment()
    experiment.planner = lambda request: plan
    stopped = component("trainer", ComponentState.STOPPED)
    component_commands(frontend, experiment, stopped if name == "start" else TRAINER).request(name)
    await frontend.done()
    (dialog,) = frontend.dialogs
    assert isinstance(dialog, PlanDialog)
    assert (dialog.default, "yes" in dialog.answers) == (default, not plan.blocked)
    assert experiment.executed == []


@pytest.mark.parametrize("action", ["start", "stop", "restart"])
async def test_a_retry_can_be_hurried_or_given_up(action: Literal["start", "stop", "restart"]) -> None:
    *_, waits = backoff_status().components
    frontend, experiment = FakeFrontend(True), FakeExperiment()
    component_commands(frontend, experiment, waits).request(action)
    await frontend.done()
    assert len(frontend.dialogs) == (action != "start")
    assert experiment.executed == [Request(action=action, components=("trainer",))]


async def test_a_start_that_ends_leftovers_first_is_asked() -> None:
    frontend, experiment = FakeFrontend(None), FakeExperiment()
    experiment.planner = lambda request: Plan(action="start", start=request.components, free=ORPHANS)
    component_commands(frontend, experiment, component("trainer", ComponentState.STOPPED)).request("start")
    await frontend.done()
    (dialog,) = frontend.dialogs
    assert isinstance(dialog, PlanDialog)
    assert "end first  2 leftover processes of inference" in dialog.body.plain


async def test_a_plain_start_needs_no_question() -> None:
    frontend, experiment = FakeFrontend(), FakeExperiment()
    component_commands(frontend, experiment, component("trainer", ComponentState.STOPPED)).request("start")
    await frontend.done()
    assert experiment.executed == [Request(action="start", components=("trainer",))]


async def test_a_plan_without_steps_only_says_so() -> None:
    frontend, experiment = FakeFrontend(), FakeExperiment()
    experiment.planner = lambda request: Plan(action="restart", reasons=("nothing reads it",))
    component_commands(frontend, experiment).request("restart")
    await frontend.done()
    assert frontend.notices == ["Nothing to restart: nothing reads it"]


async def test_a_checkpoint_is_chosen_from_those_there_are() -> None:
    """Finding A1."""
    frontend, experiment = FakeFrontend("set-checkpoint", "20", True, "set-checkpoint"), FakeExperiment()
    commands = component_commands(frontend, experiment)
    experiment.planner = lambda request: Plan(stop=("trainer",), start=("trainer",), checkpoints=(10, 20, 30))
    commands.restart_menu()
    await frontend.done()
    _, menu, _ = frontend.dialogs
    assert isinstance(menu, ChoiceMenu)
    assert list(menu.choices) == ["30", "20", "10"]
    (request,) = experiment.executed
    assert (request.action, request.components, request.resume_step) == ("restart", ("trainer",), 20)
    experiment.planner = lambda request: Plan(stop=("trainer",), start=("trainer",))
    commands.restart_menu()
    await frontend.done()
    assert frontend.notices[-1].startswith("No checkpoint to restart from")


@pytest.mark.parametrize(
    ("choice", "request_"),
    [
        ("set", Request(action="restart", components=("trainer",))),
        ("all", Request(action="restart")),
        ("set-scratch", Request(action="restart", components=("trainer",), resume="scratch")),
        ("all-scratch", Request(action="restart", resume="scratch")),
    ],
)
async def test_the_restart_menu_says_what_and_from_where(choice: str, request_: Request) -> None:
    frontend, experiment = FakeFrontend(choice, True), FakeExperiment()
    component_commands(frontend, experiment).restart_menu()
    await frontend.done()
    menu, plan = frontend.dialogs
    assert isinstance(menu, ChoiceMenu)
    assert choice in menu.choices
    assert isinstance(plan, PlanDialog)
    assert plan.default == "no"
    assert experiment.executed == [request_]


async def test_the_restart_menu_can_be_left() -> None:
    frontend, experiment = FakeFrontend(None), FakeExperiment()
    component_commands(frontend, experiment).restart_menu()
    await frontend.done()
    assert experiment.planned == []


async def test_a_shell_is_opened_as_the_selected_component() -> None:
    frontend, experiment = FakeFrontend(), FakeExperiment()
    component_commands(frontend, experiment).open_shell()
    await frontend.done()
    assert experiment.opened == ["shell as trainer"]
    assert frontend.messages == [AttachRequested("shell")]


async def test_a_finished_run_is_opened_with_a_supervisor() -> None:
    frontend, experiment = FakeFrontend(), FakeExperiment()
    experiment.finished = True
    commands = component_commands(frontend, experiment)
    assert commands.allows("request", "start-all")
    assert not commands.allows("request", "stop")
    commands.request("start-all")
    assert frontend.messages == [OpenRunRequested(experiment.run_id, again=True)]


def trainer_without_memory(*remedies: Remedy) -> ComponentStatus:
    *_, trainer = out_of_memory_status(*remedies).components
    return trainer


async def test_the_only_remedy_is_planned_at_once_and_written_with_a_restart() -> None:
    _, length, _ = REMEDIES
    frontend, experiment = FakeFrontend(True), FakeExperiment()
    component_commands(frontend, experiment, trainer_without_memory(length)).fix_memory()
    await frontend.done()
    (plan,) = frontend.dialogs
    assert isinstance(plan, PlanDialog)
    assert (plan.heading, plan.default) == ("trainer.model.seq_len 4096 → 2048?", "no")
    expected = Request(action="set", edits={"trainer.model.seq_len": 2048}, restart=True)
    assert (experiment.planned, experiment.executed) == ([expected], [expected])


async def test_of_several_remedies_one_is_chosen() -> None:
    share, *_ = REMEDIES
    frontend, experiment = FakeFrontend(None, share.title, True), FakeExperiment()
    commands = component_commands(frontend, experiment, trainer_without_memory(*REMEDIES))
    commands.fix_memory()
    await frontend.done()
    assert not experiment.planned
    commands.fix_memory()
    await frontend.done()
    assert [type(dialog) for dialog in frontend.dialogs] == [ChoiceMenu, ChoiceMenu, PlanDialog]
    assert experiment.executed == [
        Request(action="set", edits=share.edits, components=("inference", "trainer"), restart=True)
    ]


@pytest.mark.parametrize(
    ("command", "selected", "is_allowed"),
    [
        ("attach", TRAINER, True),
        ("attach", component("trainer", ComponentState.STOPPED), False),
        ("attach", None, False),
        ("restart_menu", None, False),
        ("fix_memory", TRAINER, False),
        ("fix_memory", trainer_without_memory(), False),
        ("fix_memory", trainer_without_memory(*REMEDIES), True),
        ("show_script", TRAINER, False),
    ],
)
def test_component_commands_make_sense_or_not(
    command: str, selected: ComponentStatus | None, is_allowed: bool
) -> None:
    commands = component_commands(FakeFrontend(), FakeExperiment(), selected)
    assert commands.allows(command) is is_allowed


def test_attach_names_the_selected_component() -> None:
    frontend = FakeFrontend()
    component_commands(frontend, FakeExperiment()).attach()
    assert frontend.messages == [AttachRequested("trainer")]


def test_config_commands_make_sense_where_there_is_something_to_do() -> None:
    frontend, state = FakeFrontend(), state_of(FakeExperiment())
    config = ConfigCommands(frontend, state, ExperimentCommands(frontend, state), lambda: None)
    commands = ("apply", "review", "drop", "undo", "redo", "roll_back", "edit_outside", "convert")
    assert not any(map(config.allows, commands))
    state.collect({"trainer.batch": 2}, {})
    assert [command for command in commands if config.allows(command)] == ["apply", "review"]


async def test_annotations_are_taken_back_the_last_one_first() -> None:
    runs = FakeRuns(*RUNS)
    row, frontend = runs.known[0], FakeFrontend(True)
    looks = 0

    async def look() -> None:
        nonlocal looks
        looks += 1

    commands = RunAnnotationCommands(frontend, runs, lambda: [row], look)
    assert not commands.allows("undo")
    commands.mark_best()
    await frontend.done()
    commands.trash()
    await frontend.done()
    assert isinstance(frontend.dialogs[0], TrashDialog)
    changed = next(known for known in runs.known if known.id == row.id)
    assert changed.is_best is not row.is_best
    assert changed.trashed_at is not None
    commands.undo()
    commands.undo()
    await frontend.done()
    assert next(known for known in runs.known if known.id == row.id) == row
    assert looks == 4
    assert not commands.allows("undo")


async def test_old_checkpoints_are_deleted_once_it_is_agreed_to() -> None:
    frontend, experiment = FakeFrontend("1", True), with_checkpoints()
    state, looks = state_of(experiment), []

    async def look() -> None:
        looks.append(experiment.checkpoint_report)

    commands = CheckpointCommands(
        frontend,
        state,
        ExperimentCommands(frontend, state),
        lambda: experiment.checkpoint_report,
        lambda: None,
        look,
    )
    assert [name for name in ("go_back", "prune", "publish") if commands.allows(name)] == ["go_back", "prune"]
    commands.prune()
    await frontend.done()
    assert [type(dialog) for dialog in frontend.dialogs] == [ChoiceMenu, RowsDialog]
    assert len(experiment.pruned) == 1
    assert looks == [experiment.checkpoint_report]
    assert frontend.notices[0].startswith("Checkpoints deleted; ")
