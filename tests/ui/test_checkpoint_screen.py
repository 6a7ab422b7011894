"""The checkpoint screen: what it shows, and what its keys ask for."""

from __future__ import annotations

import pytest
from tests.fakes.experiment import NOW
from tests.ui.checkpoint_cases import EDIT, REPORT, with_checkpoints
from tests.ui.conftest import Opener, choose, make_app, opened, press, settle, until
from textual.pilot import Pilot
from textual.widgets import Static

from rltui.core.experiment.api import Archived, Plan, Request
from rltui.core.runs.checkpoints import Checkpoint, CheckpointReport, Retention
from rltui.ui.dialogs.base import ChoiceMenu, MessageDialog, NoteDialog, PlanDialog
from rltui.ui.dialogs.checkpoints import PublishDialog, RowsDialog, retentions
from rltui.ui.screens.checkpoints import CheckpointScreen, checkpoint_rows
from rltui.views.checkpoint import VIEW
from rltui.views.table import Arranged


async def open_screen(pilot: Pilot[None], *, at: int = 0) -> CheckpointScreen:
    screen = await opened(pilot, CheckpointScreen, "9")
    await press(pilot, *["j"] * at)
    return screen


def text_of(selected: str | None, width: int = 120, report: CheckpointReport | None = REPORT) -> list[str]:
    rows = checkpoint_rows(report, [EDIT], width, selected, NOW, Arranged(VIEW))
    return [line.plain for row in rows for line in row.lines]


async def test_they_are_sorted_and_filtered() -> None:
    app = make_app(with_checkpoints())
    async with app.run_test(size=(120, 30)) as pilot:
        screen = await open_screen(pilot)
        assert screen.rows.keys[0] == "500"
        await press(pilot, "greater_than_sign")
        assert [*screen.rows.keys][:3] == ["420", "400", "380"]
        assert "highest reward first" in str(screen.title_line.render())
        await press(pilot, "f")
        assert "440" not in screen.rows.keys, "it is not complete"
        await press(pilot, "f")
        assert [*screen.rows.keys] == ["420", "500", "480"]
        await press(pilot, "f", "less_than_sign")
        assert screen.rows.keys[0] == "500"


@pytest.mark.parametrize("width", [20, 40, 78, 120])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    for step in ("380", "440", "500"):
        assert all(len(line) <= width for line in text_of(step, width)) or width < 40


def test_what_is_unknown_is_left_out() -> None:
    bare = CheckpointReport(experiment="x", checkpoints=(Checkpoint(step=5, complete=True),))
    assert text_of("5", report=bare)[:2] == ["  step", "▸    5"]
    assert "No checkpoints yet" in text_of(None, report=CheckpointReport(experiment="x", folder="/run"))[0]
    assert text_of(None, report=None) == ["reading…"]


def test_what_one_may_want_to_keep() -> None:
    kept = {key: retention for key, (retention, *_) in retentions(REPORT).items()}
    assert kept["every"] == Retention(keep_every=200)
    assert kept["aside"].keep == (380, 400, 420, 440, 460, 480, 500)
    assert set(retentions(CheckpointReport(experiment="x"))) == {"3", "1"}


async def test_enter_goes_back_after_a_plan_whose_default_is_no(open_app: Opener) -> None:
    experiment = with_checkpoints()
    experiment.planner = lambda request: Plan(
        stop=("trainer",), start=("trainer",), archived=(Archived(folder="checkpoints", steps=(440, 460)),),
        archive="/a", resume_from=request.resume_step,
    )  # fmt: skip
    async with open_app(experiment) as pilot:
        await open_screen(pilot, at=1)
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, PlanDialog))
        assert experiment.planned[-1] == Request(action="restart", resume_step=480)
        await press(pilot, "enter")
        assert experiment.executed == [], "enter alone is no"
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, PlanDialog))
        await press(pilot, "y")
        await until(pilot, lambda: experiment.executed)
        assert experiment.executed[-1].resume_step == 480


async def test_one_that_is_not_complete_is_not_gone_back_to(open_app: Opener) -> None:
    experiment = with_checkpoints()
    async with open_app(experiment) as pilot:
        await open_screen(pilot)
        await press(pilot, "enter")
        assert experiment.planned == []
        assert isinstance(pilot.app.screen, CheckpointScreen)
        await press(pilot, "6", "9", "escape")
        assert not isinstance(pilot.app.screen, CheckpointScreen), "back, by its number too"


async def test_prune_asks_what_to_keep_and_then_again(open_app: Opener) -> None:
    experiment = with_checkpoints()
    async with open_app(experiment) as pilot:
        await open_screen(pilot)
        await press(pilot, "delete")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChoiceMenu))
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, RowsDialog))
        await press(pilot, "enter")
        assert experiment.pruned == [], "no is the default"
        await press(pilot, "delete")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChoiceMenu))
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, RowsDialog))
        await press(pilot, "y")
        await until(pilot, lambda: experiment.pruned)
        assert [each.step for each in experiment.pruned[0].delete] == [380, 400, 440]


async def test_what_a_restart_has_set_aside_is_brought_back_by_one_key(open_app: Opener) -> None:
    """G4: only a command line with a stamp in it brought it back."""
    experiment = with_checkpoints()
    async with open_app(experiment) as pilot:
        screen = await open_screen(pilot)
        await press(pilot, "u")
        assert isinstance(pilot.app.screen, CheckpointScreen), "something runs"
        assert screen.state.status is not None
        experiment.push(screen.state.status.replace(state="stopped", alive=False))
        await settle(pilot)
        for answer in ("enter", "y"):
            assert experiment.checkpoint_report.set_aside, "no is the default"
            await press(pilot, "u")
            await until(pilot, lambda: isinstance(pilot.app.screen, ChoiceMenu))
            await press(pilot, "enter")
            await until(pilot, lambda: isinstance(pilot.app.screen, RowsDialog))
            await press(pilot, answer)
        await until(pilot, lambda: not experiment.checkpoint_report.set_aside)
        await until(pilot, lambda: isinstance(pilot.app.screen, CheckpointScreen))
        await press(pilot, "u")
        assert isinstance(pilot.app.screen, CheckpointScreen), "nothing is left to bring back"


@pytest.mark.slow
async def test_who_may_only_look_changes_nothing(open_app: Opener) -> None:
    experiment = with_checkpoints(readonly=True)
    async with open_app(experiment) as pilot:
        await open_screen(pilot, at=1)
        await press(pilot, "enter", "delete")
        assert experiment.planned == []
        assert isinstance(pilot.app.screen, CheckpointScreen)


@pytest.mark.slow
async def test_weights_are_published_where_a_person_says_default_no(open_app: Opener) -> None:
    experiment = with_checkpoints()
    async with open_app(experiment) as pilot:
        await open_screen(pilot, at=1)
        await choose(pilot, "checkpoint.upload")
        await until(pilot, lambda: isinstance(pilot.app.screen, NoteDialog))
        await press(pilot, *"alice", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, MessageDialog))
        await press(pilot, "escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, NoteDialog))
        await press(pilot, "end", *"/m", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, PublishDialog))
        await settle(pilot)
        shown = str(pilot.app.screen.query_one(".body", Static).content)
        assert "2 files, 3.0 GiB: config.json, [x].safetensors" in shown
        assert (pilot.app.focused.id, experiment.opened[-1][:1]) == ("no", "/")  # type: ignore[union-attr]
        await press(pilot, "right", "enter")
        await until(pilot, lambda: experiment.opened[-1] == "alice/m private=True")
