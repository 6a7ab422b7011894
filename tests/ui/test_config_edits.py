"""Edits collected, reviewed, written, refused, taken back: which requests the keys become."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext

import pytest
from tests.fakes.experiment import FakeExperiment, running_status, simple_plan
from tests.ui.config_cases import (
    BASE,
    BATCH,
    COLLECT,
    OFFER,
    OTHER_BASE,
    SHARE,
    config_experiment,
    config_table,
    conflicting,
    own_copy_experiment,
    plan_of,
)
from tests.ui.conftest import Opener, press, said, settle, until
from textual.pilot import Pilot
from textual.widgets import Button, Static

from rltui.core.api import Plan, Request
from rltui.core.config_report import Problem
from rltui.core.states import ComponentState
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.ui.app import RltuiApp
from rltui.ui.screens.config_dialogs import ConfigReview, ConflictDialog, ConverterDialog
from rltui.ui.screens.dialogs import (
    ChoiceMenu,
    EditAgain,
    LeaveDialog,
    MessageDialog,
    PendingDialog,
    PlanDialog,
)
from rltui.ui.screens.knob_editor import KnobEditor
from rltui.ui.screens.overview import Overview
from rltui.ui.widgets.knob_table import KnobPanel, KnobRows
from rltui.ui.widgets.value_fields import FractionBar

FILE = "/work/rl.toml"
COLLECTED = {BATCH: 128}


def overview(pilot: Pilot[None]) -> Overview:
    return next(screen for screen in pilot.app.screen_stack if isinstance(screen, Overview))


def shown(pilot: Pilot[None]) -> str:
    return str(pilot.app.screen.query_one(".body", Static).content)


async def see(pilot: Pilot[None], kind: type[object]) -> None:
    await until(pilot, lambda: isinstance(pilot.app.screen, kind))


async def collect(pilot: Pilot[None]) -> None:
    """batch_size 64 ⇒ 128."""
    await press(pilot, *COLLECT)
    await until(pilot, lambda: overview(pilot).state.staged)


async def test_collected_edits_are_marked_and_written_as_one(open_app: Opener) -> None:
    experiment = config_experiment()
    async with open_app(experiment) as pilot:
        await collect(pilot)
        assert experiment.executed == []
        panel = overview(pilot).query_one(KnobPanel)
        assert "64 ⇒ 128" in "".join(panel.rows.render_line(y).text for y in range(panel.rows.size.height))
        assert "+ 1 collected: W writes" in str(panel.border_subtitle)
        await press(pilot, "j", "j", "j", "enter", "up", "ctrl+n", "W")
        await see(pilot, ConfigReview)
        edits = {BATCH: 128, "orchestrator.group_size": 17}
        assert experiment.planned[-1] == Request(
            action="set", edits=edits, base=BASE, restart=True, thorough=True
        )
        for part in ("+batch_size = 128", "prompts per step 4 → 8", "trainer → orchestrator"):
            assert part in shown(pilot)
        await press(pilot, "enter")
        await until(pilot, lambda: experiment.executed)
        assert experiment.executed == [Request(action="set", edits=edits, base=BASE)]
        assert not overview(pilot).state.staged


@pytest.mark.slow
async def test_a_review_can_restart_too_and_leaving_it_forgets_nothing(open_app: Opener) -> None:
    experiment = config_experiment()
    async with open_app(experiment) as pilot:
        await collect(pilot)
        await press(pilot, "W", "escape")
        assert overview(pilot).state.staged.edits == COLLECTED
        await press(pilot, "W", "ctrl+r")
        await until(pilot, lambda: experiment.executed)
        assert experiment.executed == [Request(action="set", edits=COLLECTED, base=BASE, restart=True)]


async def test_apply_writes_what_is_collected_and_restarts_with_no_as_default(open_app: Opener) -> None:
    experiment = config_experiment()
    async with open_app(experiment) as pilot:
        await collect(pilot)
        await press(pilot, "A")
        await see(pilot, ConfigReview)
        await press(pilot, "enter")
        assert experiment.executed == []
        await press(pilot, "A", "y")
        await until(pilot, lambda: experiment.executed)
        assert experiment.executed == [Request(action="set", edits=COLLECTED, base=BASE, restart=True)]


async def test_a_collected_edit_is_dropped(open_app: Opener) -> None:
    async with open_app(config_experiment()) as pilot:
        await collect(pilot)
        assert overview(pilot).check_action("command", ("config.drop",)) is True
        await press(pilot, "j")
        assert overview(pilot).check_action("command", ("config.drop",)) is False
        await press(pilot, "k", "backspace")
        assert not overview(pilot).state.staged
        assert overview(pilot).check_action("command", ("config.review",)) is False


@pytest.mark.slow
async def test_the_editor_goes_on_with_the_collected_value_and_writes_all(open_app: Opener) -> None:
    experiment = config_experiment()
    async with open_app(experiment) as pilot:
        await collect(pilot)
        await press(pilot, "j", "enter")
        await see(pilot, KnobEditor)
        await until(
            pilot, lambda: "enter: write all 2" in str(pilot.app.screen.query_one(".box").border_subtitle)
        )
        await press(pilot, "escape", "k", "enter")
        await see(pilot, KnobEditor)
        assert isinstance(pilot.app.screen, KnobEditor)
        assert pilot.app.screen.draft.text == "128"
        await press(pilot, "enter")
        await until(pilot, lambda: experiment.executed)
        assert experiment.executed[0].edits == COLLECTED


@pytest.mark.slow
async def test_what_is_wrong_alone_can_be_collected(open_app: Opener) -> None:
    experiment = config_experiment()
    experiment.planner = simple_plan
    async with open_app(experiment) as pilot:
        await press(pilot, "ctrl+k", "enter", "backspace", "backspace", *"100", "ctrl+n")
        await until(pilot, lambda: overview(pilot).state.staged)
        await press(pilot, "W")
        await see(pilot, ConfigReview)
        assert [button.id for button in pilot.app.screen.query(Button)] == ["no"]


@pytest.mark.slow
async def test_a_new_warning_is_confirmed_before_writing(open_app: Opener) -> None:
    experiment = config_experiment()
    async with open_app(experiment) as pilot:
        await press(pilot, "ctrl+k", "enter", "backspace", "backspace", "1", "enter")
        await see(pilot, PlanDialog)
        assert "one rollout teaches nothing" in shown(pilot)
        await press(pilot, "enter")
        await see(pilot, KnobEditor)
        assert experiment.executed == []
        await press(pilot, "enter")
        await see(pilot, PlanDialog)
        await press(pilot, "y")
        await until(pilot, lambda: experiment.executed)
        assert experiment.executed[0].edits == {BATCH: 1}


async def test_the_framework_has_the_last_word_before_a_value_is_written(open_app: Opener) -> None:
    experiment = config_experiment()
    own = Problem(severity="error", key=BATCH, message="prime-rl says: not today")

    def planner(request: Request) -> Plan:
        more: dict[str, object] = {"problems": (own,)} if request.thorough else {"asks_more": True}
        return Plan(action="set", diff="-1\n+2", **more)

    experiment.planner = planner
    async with open_app(experiment) as pilot:
        await press(pilot, "ctrl+k", "enter", "up", "enter")
        await see(pilot, KnobEditor)
        await until(pilot, lambda: "not today" in shown(pilot))
        assert experiment.executed == []
        assert pilot.app.screen.has_class("-danger")
        assert any(request.thorough for request in experiment.planned)


@pytest.mark.slow
async def test_who_waits_too_long_for_the_framework_writes_without_it(
    open_app: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rltui.ui.screens.knob_editor.LAST_WORD_S", 0.01)
    experiment = config_experiment()
    never = asyncio.Event()
    plan = experiment.plan

    async def slow(request: Request) -> Plan:
        if request.thorough:
            await never.wait()
        return (await plan(request)).model_copy(update={"asks_more": True})

    experiment.planner = simple_plan
    monkeypatch.setattr(experiment, "plan", slow)
    async with open_app(experiment) as pilot:
        await press(pilot, "ctrl+k", "enter", "up")
        await until(pilot, lambda: "asking the framework" in shown(pilot))
        await press(pilot, "enter")
        await until(pilot, lambda: experiment.executed)


async def test_a_key_is_taken_out_of_the_file(open_app: Opener) -> None:
    experiment = config_experiment()
    async with open_app(experiment) as pilot:
        await press(pilot, "ctrl+k", "enter", "ctrl+x", "enter")
        await until(pilot, lambda: experiment.executed)
        assert experiment.executed[0].edits == {BATCH: None}


@pytest.mark.parametrize(
    ("keys", "edits", "base", "left"),
    [
        (("right", "enter"), COLLECTED, OTHER_BASE, {}),
        (("right", "right", "enter"), None, None, {}),
        (("enter",), None, None, COLLECTED),
    ],
    ids=["mine", "theirs", "cancel is the default"],
)
async def test_a_conflict_has_three_ways_out(
    keys: tuple[str, ...],
    edits: dict[str, object] | None,
    base: dict[str, str] | None,
    left: dict[str, object],
    open_app: Opener,
) -> None:
    experiment = conflicting()
    async with open_app(experiment) as pilot:
        await collect(pilot)
        await press(pilot, "W")
        await see(pilot, ConflictDialog)
        assert "you saw 64  now 96  yours 128" in shown(pilot)
        await press(pilot, *keys)
        if edits is None:
            await see(pilot, Overview)
            assert experiment.executed == []
        else:
            await see(pilot, ConfigReview)
            await press(pilot, "enter")
            await until(pilot, lambda: experiment.executed)
            assert experiment.executed == [Request(action="set", edits=edits, base=base or {})]
        assert overview(pilot).state.staged.edits == left


async def test_a_single_edit_meets_the_conflict_too(open_app: Opener) -> None:
    experiment = conflicting()
    experiment.refusals = [ConflictError("rl.toml changed")]
    async with open_app(experiment) as pilot:
        await press(pilot, "ctrl+k", "enter", "asterisk", "enter")
        await see(pilot, ConflictDialog)


@pytest.mark.slow
async def test_a_refusal_without_a_conflict_is_told(open_app: Opener) -> None:
    experiment = config_experiment()
    experiment.refusals = [ConflictError("another rltui is writing"), RltuiError("disk full")]
    async with open_app(experiment) as pilot:
        await press(pilot, "ctrl+k", "enter", "asterisk", "enter")
        await see(pilot, MessageDialog)
        assert "another rltui is writing" in shown(pilot)
        await press(pilot, "escape", "enter", "asterisk", "ctrl+n")
        await until(pilot, lambda: overview(pilot).state.staged)
        await press(pilot, "W", "enter")
        await see(pilot, MessageDialog)
        assert "disk full" in shown(pilot)
        assert overview(pilot).state.staged


@pytest.mark.slow
async def test_undo_and_redo_show_their_plan(open_app: Opener) -> None:
    cases = (
        (("u", "enter"), Request(action="undo", base=BASE), "Take back: orchestrator.batch_size 128 → 64?"),
        (("U", "y"), Request(action="redo", base=BASE), "Make again: seq_len 2048 → 4096?"),
        (("ctrl+y", "ctrl+r"), Request(action="redo", base=BASE, restart=True), "Make again:"),
    )
    experiment = config_experiment()
    async with open_app(experiment) as pilot:
        for keys, request, heading in cases:
            await press(pilot, keys[0])
            await see(pilot, ConfigReview)
            assert str(pilot.app.screen.query_one(".box").border_title).startswith(heading)
            await press(pilot, keys[1])
            await until(pilot, lambda: experiment.executed)
            assert experiment.executed == [request]
            experiment.executed.clear()
            await see(pilot, Overview)


async def test_nothing_to_take_back_is_no_key(open_app: Opener) -> None:
    experiment = config_experiment(undo=None, redo=None, converts_to=None)
    async with open_app(experiment) as pilot:
        for action in ("undo", "redo", "convert", "roll_back", "review"):
            assert overview(pilot).check_action("command", (f"config.{action}",)) is False, action
        await press(pilot, "u", "U", "B")
        assert experiment.planned == []


async def test_a_rollback_is_offered_once_and_stays_at_hand(open_app: Opener) -> None:
    experiment = config_experiment()
    status = running_status(rollback=OFFER)
    async with open_app(experiment) as pilot:
        experiment.push(status)
        await see(pilot, ConfigReview)
        assert "orchestrator ended right after it: exited 1" in shown(pilot)
        await press(pilot, "enter")
        await see(pilot, Overview)
        experiment.push(status.model_copy(update={"step": 1}))
        await settle(pilot)
        assert isinstance(pilot.app.screen, Overview)
        await press(pilot, "B", "y")
        await until(pilot, lambda: experiment.executed)
        assert experiment.executed == [Request(action="undo", base=BASE, restart=True)]


@pytest.mark.slow
async def test_a_rollback_does_not_catch_the_keys_of_a_dialog(open_app: Opener) -> None:
    experiment = config_experiment()
    async with open_app(experiment) as pilot:
        await press(pilot, "question_mark")
        experiment.push(running_status(rollback=OFFER))
        await until(pilot, lambda: said(pilot))
        assert "B takes it back" in said(pilot)[0]
        assert experiment.planned == []


COLLAPSE = OFFER.model_copy(update={"reason": "reward collapsed: 0.97 to 0.01", "resume_step": 420})


async def test_after_a_collapse_b_goes_back_and_takes_the_edit_back(open_app: Opener) -> None:
    experiment = config_experiment()
    async with open_app(experiment) as pilot:
        experiment.push(running_status(rollback=COLLAPSE))
        await until(pilot, lambda: said(pilot))
        assert "B goes back to checkpoint 420 and takes back" in said(pilot)[0]
        assert experiment.planned == [], "the run goes on: nobody is asked unless they want"
        await press(pilot, "B")
        await see(pilot, ConfigReview)
        assert "checkpoint 420 is the last good one before that edit" in shown(pilot)
        await press(pilot, "y")
        await until(pilot, lambda: experiment.executed)
        assert experiment.executed == [Request(action="undo", base=BASE, restart=True, resume_step=420)]


async def test_after_a_collapse_without_an_edit_to_blame_b_just_goes_back(open_app: Opener) -> None:
    experiment = config_experiment()
    async with open_app(experiment) as pilot:
        experiment.push(running_status(rollback=COLLAPSE.model_copy(update={"edit": ""})))
        await until(pilot, lambda: said(pilot))
        await press(pilot, "B")
        await see(pilot, PlanDialog)
        await press(pilot, "y")
        await until(pilot, lambda: experiment.executed)
        assert experiment.executed == [Request(action="restart", resume_step=420)]


@pytest.mark.parametrize("leave", ["escape", "ctrl+n"])
async def test_no_check_outlives_the_editor(
    leave: str, open_app: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that came while the screen was taken down found no widgets to be shown in."""
    experiment = config_experiment()
    async with open_app(experiment) as pilot:
        await press(pilot, "ctrl+k", "enter")
        await see(pilot, KnobEditor)
        editor = pilot.app.screen
        checks: list[list[bool]] = []

        def dismiss(decision: object) -> None:
            found = [worker for worker in editor.workers if worker.group == "plan"]
            checks.append([worker.is_finished or worker.is_cancelled for worker in found])

        monkeypatch.setattr(editor, "dismiss", dismiss)
        experiment.plan_delay_s = 60.0
        await press(pilot, "up")
        await until(pilot, lambda: len(experiment.planned) == 2)
        experiment.plan_delay_s = 0.0
        await press(pilot, leave)
        await until(pilot, lambda: checks)
        assert all(checks[0])


async def test_the_difference_to_what_runs_is_shown_also_to_who_may_only_look(open_app: Opener) -> None:
    experiment = FakeExperiment(running_status(), config_table(), readonly=True)
    async with open_app(experiment) as pilot:
        await press(pilot, "ctrl+k", "d")
        await see(pilot, PendingDialog)
        assert "orchestrator.batch_size 128 → 64  orchestrator" in shown(pilot)


async def test_what_the_runs_own_copy_says_beside_its_original_is_shown(open_app: Opener) -> None:
    experiment = own_copy_experiment()
    async with open_app(experiment) as pilot:
        await see_all_stopped(pilot, experiment)
        await press(pilot, "ctrl+k", "d")
        await see(pilot, PendingDialog)
        assert "original → this run's own copy" in shown(pilot)
        assert '+name = "outputs/weights/step_100"' in shown(pilot)


@pytest.mark.slow
async def test_the_batch_is_counted_the_other_way(open_app: Opener) -> None:
    experiment = config_experiment()
    async with open_app(experiment) as pilot:
        await press(pilot, "ctrl+k", "C")
        await see(pilot, ConverterDialog)
        assert "nothing was measured yet: type it" in shown(pilot)
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, ConverterDialog)
        await press(pilot, *"200", "enter")
        await see(pilot, ConfigReview)
        await press(pilot, "enter")
        await until(pilot, lambda: experiment.executed)
        assert experiment.executed[0].edits == {
            "orchestrator.token_batch_size": 25600,
            "orchestrator.max_inflight_rollouts": 256,
            BATCH: None,
        }


@pytest.fixture
def lent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that can be lent, which Textual's headless one cannot."""
    monkeypatch.setattr(RltuiApp, "suspend", lambda self: nullcontext())


def with_text(editor: Callable[[str], str]) -> FakeExperiment:
    experiment = config_experiment()
    experiment.texts[FILE] = "a = 1\r\n"
    experiment.editor = editor
    return experiment


@pytest.mark.slow
@pytest.mark.usefixtures("lent")
async def test_what_an_editor_saved_is_reviewed_and_written(open_app: Opener) -> None:
    experiment = with_text(lambda text: text.replace("1", "2"))
    async with open_app(experiment) as pilot:
        await press(pilot, "dollar_sign")
        await see(pilot, ConfigReview)
        asked = experiment.planned[-1]
        assert (asked.action, asked.texts, asked.thorough) == ("write", {FILE: "a = 2\r\n"}, True)
        assert asked.base == {FILE: experiment.read_config(FILE).sha256}
        await press(pilot, "y")
        await until(pilot, lambda: experiment.executed)
        assert experiment.executed == [Request(action="write", texts={FILE: "a = 2\r\n"}, base=BASE)]


@pytest.mark.usefixtures("lent")
async def test_an_editor_that_changes_nothing_or_fails_says_so(open_app: Opener) -> None:
    def fail(text: str) -> str:
        raise RltuiError("the editor ended with code 1: vi")

    experiment = with_text(lambda text: text)
    async with open_app(experiment) as pilot:
        await press(pilot, "dollar_sign")
        await until(pilot, lambda: said(pilot) == ["Unchanged: nothing was written"])
        experiment.editor = fail
        await press(pilot, "dollar_sign")
        await see(pilot, MessageDialog)
        assert "the editor ended with code 1" in shown(pilot)
        assert experiment.planned == []


@pytest.mark.slow
@pytest.mark.usefixtures("lent")
async def test_a_text_that_is_no_toml_goes_back_to_the_editor_and_is_kept(open_app: Opener) -> None:
    def refuse(request: Request) -> Plan:
        if "[" in next(iter(request.texts.values())):
            raise ConfigError("rl.toml:1:5: a table needs its ]")
        return plan_of(request)

    experiment = with_text(lambda text: "a = [")
    experiment.planner = refuse
    async with open_app(experiment) as pilot:
        await press(pilot, "dollar_sign")
        await see(pilot, EditAgain)
        assert "rl.toml:1:5: a table needs its ]" in shown(pilot)
        await press(pilot, "enter")
        await until(pilot, lambda: experiment.edited == ["a = 1\r\n", "a = ["])
        await see(pilot, EditAgain)
        await press(pilot, "escape")
        await until(pilot, lambda: any("Your text is kept" in words for words in said(pilot)))
        experiment.editor = lambda text: "a = 3"
        await press(pilot, "dollar_sign", "enter")
        await see(pilot, ConfigReview)
        assert experiment.edited[-1] == "a = ["


@pytest.mark.usefixtures("lent")
async def test_a_text_that_breaks_a_rule_can_only_be_edited_again(open_app: Opener) -> None:
    experiment = with_text(lambda text: "a = 100")
    problem = Problem(message="a 100 is not a multiple of 16", file=FILE, line=1)
    experiment.planner = lambda request: Plan(action="write", diff="+a", problems=(problem,))
    async with open_app(experiment) as pilot:
        await press(pilot, "dollar_sign")
        await see(pilot, ConfigReview)
        assert [button.id for button in pilot.app.screen.query(Button)] == ["again", "no"]


async def test_a_terminal_that_cannot_be_lent_names_the_file(open_app: Opener) -> None:
    experiment = with_text(lambda text: text)
    async with open_app(experiment) as pilot:
        await press(pilot, "dollar_sign")
        await until(pilot, lambda: said(pilot))
        assert FILE in said(pilot)[0]
        assert experiment.edited == []


@pytest.mark.slow
async def test_the_fraction_moves_with_its_verdict_beside_it(open_app: Opener) -> None:
    experiment = config_experiment()
    async with open_app(experiment) as pilot:
        rows = overview(pilot).query_one(KnobRows)
        await press(pilot, "ctrl+k")
        rows.go_to(SHARE)
        await press(pilot, "enter", "right", "up", "up")
        await see(pilot, KnobEditor)
        bar = pilot.app.screen.query_one(FractionBar)
        await until(pilot, lambda: bar.verdict is not None and bar.verdict.utilization == 0.61)
        words = str(bar.render())
        assert "budget 86.0 of 141 GiB on GPU 0 · leaves the trainer 55.0 GiB" in words
        await press(pilot, *["up"] * 3, "enter")
        await see(pilot, PlanDialog)
        assert "leaves the trainer 33.8 GiB" in shown(pilot)


async def see_all_stopped(pilot: Pilot[None], experiment: FakeExperiment) -> None:
    status = overview(pilot).state.status
    assert status is not None
    gone = [part.model_copy(update={"state": ComponentState.STOPPED}) for part in status.components]
    experiment.push(status.model_copy(update={"components": tuple(gone)}))
    await until(pilot, lambda: overview(pilot).config.pending_readers == ())


async def test_components_that_are_gone_need_no_restart(open_app: Opener) -> None:
    experiment = config_experiment()
    async with open_app(experiment) as pilot:
        await see_all_stopped(pilot, experiment)
        assert overview(pilot).check_action("command", ("config.show_pending",)) is False


async def test_e_on_a_component_edits_one_of_the_knobs_that_it_reads(open_app: Opener) -> None:
    experiment = config_experiment()
    async with open_app(experiment) as pilot:
        await press(pilot, "t", "e")
        menu = pilot.app.screen
        assert isinstance(menu, ChoiceMenu)
        assert menu.heading == "Knobs of trainer"
        assert "trainer.optim.lr" in menu.choices
        assert not any(key.startswith("inference.") for key in menu.choices)
        await press(pilot, *["down"] * list(menu.choices).index("trainer.optim.lr"), "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, KnobEditor))
        await press(pilot, "escape", "e", "escape")
        assert experiment.executed == []


async def test_leaving_with_collected_edits_asks(open_app: Opener) -> None:
    """Finding C3."""
    async with open_app(config_experiment()) as pilot:
        await collect(pilot)
        await press(pilot, "q")
        await see(pilot, LeaveDialog)
        assert f"not written: {BATCH} 64 ⇒ 128" in shown(pilot)
        await press(pilot, "enter")
        await see(pilot, Overview)
        assert pilot.app.is_running
        assert overview(pilot).state.staged
        await press(pilot, "q")
        await see(pilot, LeaveDialog)
        await press(pilot, "y")
        await until(pilot, lambda: not pilot.app.is_running or pilot.app._exit)
