"""Edits collected, reviewed, written, refused, taken back: which requests the answers become."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest
from tests.fakes.experiment import FakeExperiment, running_status
from tests.fakes.frontend import FakeFrontend
from tests.ui.commands.test_commands import state_of
from tests.ui.config_cases import (
    BASE,
    BATCH,
    OFFER,
    OTHER_BASE,
    SHARE,
    SINCE_ORIGIN,
    config_experiment,
    config_table,
    conflicting,
    plan_of,
)
from textual.app import App, SuspendNotSupported

from rltui.core.config.report import KnobInfo, Problem
from rltui.core.experiment.api import Loss, Plan, Request
from rltui.core.experiment.states import ComponentState
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.ui.commands.config import ConfigCommands
from rltui.ui.commands.experiment import ExperimentCommands
from rltui.ui.dialogs.base import ButtonDialog, ChoiceMenu, EditAgain, PendingDialog, PlanDialog
from rltui.ui.dialogs.config import ConfigReview, ConflictDialog
from rltui.ui.dialogs.knob_editor import EditCheck, EditDecision, KnobEditor

FILE = "/work/rl.toml"
COLLECTED = {BATCH: 128}


class Desk:
    """The commands of a screen on `experiment`, with a person who gives `answers`."""

    def __init__(
        self,
        experiment: FakeExperiment,
        *answers: object,
        collected: bool = False,
        since_origin: str = "",
    ) -> None:
        self.experiment, self.frontend = experiment, FakeFrontend(*answers)
        self.state = state_of(experiment)
        self.state.status, self.state.table = running_status(), config_table(since_origin=since_origin)
        if collected:
            self.state.collect(COLLECTED, BASE)
        self.knob: KnobInfo | None = self.knob_of(BATCH)
        commands = ExperimentCommands(self.frontend, self.state)
        self.config = ConfigCommands(self.frontend, self.state, commands, lambda: self.knob)

    def knob_of(self, key: str) -> KnobInfo:
        return next(knob for knob in self.state.knobs if knob.key == key)

    async def do(self, command: Callable[[], object]) -> None:
        command()
        await self.frontend.done()

    async def edit(self, command: Callable[[], object]) -> None:
        """Do what opens the editor, whose line to type in cannot be made without an app."""
        async with App[None]().run_test() as pilot:
            with pilot.app._context():
                await self.do(command)

    @property
    def dialogs(self) -> list[type]:
        return [type(dialog) for dialog in self.frontend.dialogs]

    def dialog(self) -> ButtonDialog[Any]:
        """The last one."""
        dialog = self.frontend.dialogs[-1]
        assert isinstance(dialog, ButtonDialog)
        return dialog


def writes() -> Callable[[KnobEditor], EditDecision]:
    """A person who writes 128 in the editor of the batch size."""
    return lambda editor: EditDecision(Request(action="set", edits=COLLECTED, base=BASE), "write")


@pytest.mark.parametrize(
    ("command", "answer", "default", "request_"),
    [
        ("review", "write", "write", Request(action="set", edits=COLLECTED, base=BASE)),
        ("review", "restart", "write", Request(action="set", edits=COLLECTED, base=BASE, restart=True)),
        ("apply", "restart", "no", Request(action="set", edits=COLLECTED, base=BASE, restart=True)),
        ("undo", "write", "write", Request(action="undo", base=BASE)),
        ("redo", "restart", "no", Request(action="redo", base=BASE, restart=True)),
    ],
)
async def test_a_review_asks_and_writes(command: str, answer: str, default: str, request_: Request) -> None:
    desk = Desk(config_experiment(), answer, collected=command in ("review", "apply"))
    await desk.do(getattr(desk.config, command))
    assert (desk.dialogs, desk.dialog().default) == ([ConfigReview], default)
    assert desk.experiment.planned[0].thorough
    assert desk.experiment.executed == [request_]
    assert not desk.state.staged


@pytest.mark.parametrize(
    ("command", "heading"),
    [
        ("review", "Write 1 edit?"),
        ("apply", "Write 1 edit and restart its readers?"),
        ("undo", "Undo: orchestrator.batch_size 128 → 64?"),
        ("redo", "Redo: seq_len 2048 → 4096?"),
    ],
)
async def test_a_review_that_is_left_forgets_nothing(command: str, heading: str) -> None:
    desk = Desk(config_experiment(), None, collected=True)
    await desk.do(getattr(desk.config, command))
    assert desk.dialog().heading == heading
    assert desk.experiment.executed == []
    assert desk.state.staged.edits == COLLECTED


def test_a_collected_edit_is_dropped() -> None:
    desk = Desk(config_experiment(), collected=True)
    desk.knob = desk.knob_of(SHARE)
    assert not desk.config.allows("drop")
    desk.knob = desk.knob_of(BATCH)
    assert desk.config.allows("drop")
    desk.config.drop()
    assert not desk.state.staged
    assert not desk.config.allows("review")


async def test_the_editor_goes_on_with_the_collected_value_and_writes_all() -> None:
    desk = Desk(config_experiment(), None, None, collected=True)
    for key in (BATCH, SHARE):
        await desk.edit(partial(desk.config.edit, desk.knob_of(key)))
    first, second = desk.frontend.dialogs
    assert isinstance(first, KnobEditor)
    assert isinstance(second, KnobEditor)
    assert first.draft.text == "128"
    for editor, label in ((first, ""), (second, "write all 2")):
        editor.draft = EditCheck("1", 1, Plan(action="set"))
        assert ("editor.write", label) in editor.footer_hints()


@pytest.mark.parametrize(
    ("answers", "executed", "staged"),
    [
        (("mine", "write"), [Request(action="set", edits=COLLECTED, base=OTHER_BASE)], {}),
        (("theirs",), [], {}),
        ((None,), [], COLLECTED),
    ],
    ids=["mine", "theirs", "none"],
)
async def test_a_conflict_has_three_ways_out(
    answers: tuple[object, ...], executed: list[Request], staged: dict[str, object]
) -> None:
    experiment = conflicting()
    await experiment.plan(Request(action="set", edits=COLLECTED))  # the person's first look
    desk = Desk(experiment, *answers, collected=True)
    await desk.do(desk.config.review)
    conflict = desk.frontend.dialogs[0]
    assert isinstance(conflict, ConflictDialog)
    assert conflict.default == "no"
    assert "you saw 64  now 96  yours 128" in conflict.body.plain
    assert experiment.executed == executed
    assert desk.state.staged.edits == staged


async def test_a_single_edit_meets_the_conflict_too() -> None:
    experiment = conflicting()
    await experiment.plan(Request(action="set", edits=COLLECTED))
    experiment.refusals = [ConflictError("rl.toml changed")]
    desk = Desk(experiment, writes(), None)
    await desk.edit(partial(desk.config.edit, desk.knob_of(BATCH)))
    assert desk.dialogs == [KnobEditor, ConflictDialog]


async def test_a_refusal_without_a_conflict_is_told() -> None:
    experiment = config_experiment()
    refusals = [ConflictError("another rltui is writing"), RltuiError("disk full")]
    experiment.refusals = [*refusals]
    desk = Desk(experiment, writes(), "write", collected=True)
    await desk.edit(partial(desk.config.edit, desk.knob_of(BATCH)))
    await desk.do(desk.config.review)
    assert desk.frontend.errors == refusals
    assert desk.state.staged


async def test_a_rollback_restarts_and_no_is_its_default() -> None:
    desk = Desk(config_experiment(), "restart")
    desk.state.status = running_status(rollback=OFFER)
    await desk.do(desk.config.roll_back)
    assert desk.dialog().default == "no"
    assert "orchestrator ended right after this edit: exited 1" in desk.dialog().body.plain
    assert desk.experiment.executed == [Request(action="undo", base=BASE, restart=True)]


COLLAPSE = OFFER.replace(reason="reward collapsed: 0.97 to 0.01", resume_step=420)
REWOUND = Request(action="restart", resume_step=420, accepts=Loss.MORE)
"""With consent to all steps that the run makes while the plan is read."""


async def test_after_a_collapse_the_run_goes_back_without_the_edit() -> None:
    desk = Desk(config_experiment(), "restart")
    desk.state.status = running_status(rollback=COLLAPSE)
    await desk.do(desk.config.roll_back)
    assert "checkpoint 420 is the last good one before that edit" in desk.dialog().body.plain
    undone = REWOUND.replace(action="undo", base=BASE, restart=True)
    assert desk.experiment.executed == [undone]


async def test_after_a_collapse_without_an_edit_to_blame_the_run_just_goes_back() -> None:
    desk = Desk(config_experiment(), True)
    desk.state.status = running_status(rollback=COLLAPSE.replace(edit=""))
    await desk.do(desk.config.roll_back)
    assert desk.dialogs == [PlanDialog]
    assert desk.experiment.executed == [REWOUND]


async def test_the_difference_to_what_runs_is_shown() -> None:
    desk = Desk(config_experiment(), None)
    assert desk.config.allows("show_pending")
    await desk.do(desk.config.show_pending)
    assert desk.dialogs == [PendingDialog]
    assert "orchestrator.batch_size 128 → 64  orchestrator" in desk.dialog().body.plain


def all_stopped(desk: Desk) -> None:
    status = running_status()
    gone = [item.replace(state=ComponentState.STOPPED) for item in status.components]
    desk.state.status = status.replace(components=tuple(gone))


def test_components_that_are_gone_need_no_restart() -> None:
    desk = Desk(config_experiment())
    all_stopped(desk)
    assert not desk.config.allows("show_pending")


async def test_what_the_runs_own_copy_says_beside_its_original_is_shown() -> None:
    desk = Desk(config_experiment(), None, since_origin=SINCE_ORIGIN)
    all_stopped(desk)
    await desk.do(desk.config.show_pending)
    assert "original → this run's copy" in desk.dialog().body.plain
    assert '+name = "outputs/weights/step_100"' in desk.dialog().body.plain


async def test_one_of_the_knobs_that_a_component_reads_is_chosen_and_edited() -> None:
    desk = Desk(config_experiment(), "trainer.optim.lr", None)
    desk.knob = None
    assert not desk.config.edit_chosen("shell"), "it reads none"
    await desk.edit(partial(desk.config.edit_chosen, "trainer"))
    menu, editor = desk.frontend.dialogs
    assert isinstance(menu, ChoiceMenu)
    assert isinstance(editor, KnobEditor)
    assert (menu.heading, editor.knob.key) == ("Knobs of trainer", "trainer.optim.lr")


# in an editor of the person's own


def with_text(editor: Callable[[str], str], *answers: object) -> Desk:
    experiment = config_experiment()
    experiment.texts[FILE] = "a = 1\r\n"
    experiment.editor = editor
    return Desk(experiment, *answers)


async def test_what_an_editor_saved_is_reviewed_and_written() -> None:
    desk = with_text(lambda text: text.replace("1", "2"), "write")
    await desk.do(desk.config.edit_outside)
    planned = desk.experiment.planned[-1]
    assert (planned.action, planned.texts, planned.thorough) == ("write", {FILE: "a = 2\r\n"}, True)
    assert planned.base == {FILE: desk.experiment.read_config(FILE).sha256}
    assert desk.experiment.executed == [Request(action="write", texts={FILE: "a = 2\r\n"}, base=BASE)]


async def test_an_editor_that_changes_nothing_or_fails_says_so() -> None:
    error = RltuiError("the editor ended with code 1: vi")

    def fail(text: str) -> str:
        raise error

    desk = with_text(lambda text: text)
    await desk.do(desk.config.edit_outside)
    assert desk.frontend.notices == ["Unchanged; nothing written"]
    desk.experiment.editor = fail
    await desk.do(desk.config.edit_outside)
    assert desk.frontend.errors == [error]
    assert desk.experiment.planned == []


async def test_a_text_that_is_no_toml_goes_back_to_the_editor_and_is_kept() -> None:
    def refuse(request: Request) -> Plan:
        if "[" in next(iter(request.texts.values())):
            raise ConfigError("rl.toml:1:5: a table needs its ]")
        return plan_of(request)

    desk = with_text(lambda text: "a = [", True, None, "kept", "write")
    desk.experiment.planner = refuse
    await desk.do(desk.config.edit_outside)
    assert desk.dialogs == [EditAgain, EditAgain]
    assert "rl.toml:1:5: a table needs its ]" in desk.dialog().body.plain
    assert desk.experiment.edited == ["a = 1\r\n", "a = ["]
    assert desk.frontend.notices == ["Not written. Your text is kept; $ resumes the edit"]
    desk.experiment.editor = lambda text: "a = 3"
    await desk.do(desk.config.edit_outside)
    assert desk.dialogs[2:] == [ChoiceMenu, ConfigReview]
    assert desk.experiment.edited[-1] == "a = ["


async def test_a_text_that_breaks_a_rule_can_only_be_edited_again() -> None:
    problem = Problem(message="a 100 is not a multiple of 16", file=FILE, line=1)
    desk = with_text(lambda text: "a = 100", None)
    desk.experiment.planner = lambda request: Plan(action="write", diff="+a", problems=(problem,))
    await desk.do(desk.config.edit_outside)
    assert desk.dialog().answers == {"again": "again"}
    assert desk.dialog().default == "again"


async def test_a_terminal_that_cannot_be_lent_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def suspend() -> AbstractContextManager[None]:
        raise SuspendNotSupported

    desk = with_text(lambda text: text)
    monkeypatch.setattr(desk.frontend, "suspend", suspend)
    await desk.do(desk.config.edit_outside)
    assert FILE in desk.frontend.notices[0]
    assert desk.experiment.edited == []
