"""Edits on the screens: collected, checked while they are typed, offered to be taken back."""

from __future__ import annotations

import asyncio

import pytest
from tests.fakes.experiment import running_status, simple_plan
from tests.params import slow_but
from tests.ui.config_cases import (
    BASE,
    BATCH,
    COLLECT,
    OFFER,
    SHARE,
    config_experiment,
)
from tests.ui.conftest import Opener, choose, press, said, screen_text, settle, until
from textual.pilot import Pilot
from textual.widgets import Button, Static

from rltui.core.config.report import Problem
from rltui.core.experiment.api import Plan, Request
from rltui.ui.dialogs.base import (
    LeaveDialog,
    PlanDialog,
)
from rltui.ui.dialogs.config import ConfigReview, ConverterDialog
from rltui.ui.dialogs.knob_editor import KnobEditor
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
        problems = (own,) if request.thorough else ()
        return Plan(action="set", diff="-1\n+2", problems=problems, asks_more=not request.thorough)

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
    monkeypatch.setattr("rltui.ui.dialogs.knob_editor.LAST_WORD_S", 0.01)
    experiment = config_experiment()
    never = asyncio.Event()
    plan = experiment.plan

    async def slow(request: Request) -> Plan:
        if request.thorough:
            await never.wait()
        return (await plan(request)).replace(asks_more=True)

    experiment.planner = simple_plan
    monkeypatch.setattr(experiment, "plan", slow)
    async with open_app(experiment) as pilot:
        await press(pilot, "ctrl+k", "enter", "up")
        await until(pilot, lambda: "validating with the framework…" in shown(pilot))
        await press(pilot, "enter")
        await until(pilot, lambda: experiment.executed)


async def test_a_rollback_is_offered_once_and_stays_at_hand(open_app: Opener) -> None:
    experiment = config_experiment()
    status = running_status(rollback=OFFER)
    async with open_app(experiment) as pilot:
        experiment.push(status)
        await see(pilot, ConfigReview)
        assert "orchestrator ended right after this edit: exited 1" in shown(pilot)
        await press(pilot, "enter")
        await see(pilot, Overview)
        experiment.push(status.replace(step=1))
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
        assert said(pilot)[0].endswith(". B undoes this edit")
        assert experiment.planned == []


COLLAPSE = OFFER.replace(reason="reward collapsed: 0.97 to 0.01", resume_step=420)


async def test_after_a_collapse_nobody_is_asked_unless_they_want(open_app: Opener) -> None:
    experiment = config_experiment()
    async with open_app(experiment) as pilot:
        experiment.push(running_status(rollback=COLLAPSE))
        await until(pilot, lambda: said(pilot))
        assert "B goes back to checkpoint 420 and undoes" in said(pilot)[0]
        assert experiment.planned == [], "the run goes on"
        await press(pilot, "B")
        await see(pilot, ConfigReview)


@pytest.mark.parametrize("leave", slow_but(["escape", "ctrl+n"], "escape"))
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


@pytest.mark.slow
async def test_the_batch_is_counted_the_other_way(open_app: Opener) -> None:
    experiment = config_experiment()
    async with open_app(experiment) as pilot:
        await press(pilot, "ctrl+k")
        await choose(pilot, "knob.convert")
        await see(pilot, ConverterDialog)
        assert "nothing measured yet: type the mean" in shown(pilot)
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


async def test_a_finished_run_offers_the_knob_that_lets_it_train_more(open_app: Opener) -> None:
    """Restarted as it is, it would end at once."""
    experiment = config_experiment()
    done = Problem(
        severity="warning", key="max_steps", message="step 20 of 20 is reached", mended_by="rltui set …"
    )
    experiment.planner = lambda request: Plan(action="restart", start=("trainer",), problems=(done,))
    async with open_app(experiment) as pilot:
        await press(pilot, "r")
        await see(pilot, PlanDialog)
        assert "step 20 of 20 is reached" in shown(pilot)
        assert "rltui set" not in shown(pilot)
        assert "enter: Edit max_steps" in screen_text(pilot)
        await press(pilot, "enter")
        await see(pilot, KnobEditor)
        assert "max_steps" in screen_text(pilot)
        assert experiment.executed == []
