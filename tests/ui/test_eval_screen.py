"""The evaluation screen: what it shows, and what its keys ask for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.experiment import NOW, running_status
from tests.fakes.rollouts import write_old_evaluation
from tests.ui.conftest import Opener, opened, press, screen_text, until
from tests.ui.eval_cases import REPORT, with_evals
from textual.pilot import Pilot

from rltui.cli.status_text import as_text
from rltui.core.runs.evals import EvalReport, EvalRequest, EvalTarget, TrainingEval
from rltui.errors import UsageError
from rltui.ui.dialogs.evaluation import EvalDialog, target_of, targets
from rltui.ui.screens.evals import EvalScreen, eval_rows
from rltui.ui.screens.rollouts import RolloutScreen
from rltui.views.evaluation import VIEW
from rltui.views.table import Arranged


async def open_screen(pilot: Pilot[None], *, at: int = 0) -> EvalScreen:
    screen = await opened(pilot, EvalScreen, "V")
    await press(pilot, *["j"] * at)
    return screen


def text_of(
    selected: str | None, width: int = 140, report: EvalReport | None = REPORT, chosen: str | None = None
) -> list[str]:
    evaluations = () if report is None else report.evaluations
    to = next((each for each in evaluations if each.id == chosen), None)
    rows = eval_rows(report, to, Arranged(VIEW), width, selected, NOW)
    return [line.plain for row in rows for line in row.lines]


def test_a_chosen_baseline_is_what_all_are_compared_with() -> None:
    told = "\n".join(text_of("3", chosen="4"))
    assert "baseline" in told
    assert "with checkpoint 20 (#4): -0.368 ± 0.032 (other examples), unpaired" in told
    assert "not comparable with checkpoint 20, evaluated on primeintellect/reverse-text" in "\n".join(
        text_of("8", chosen="4")
    )


@pytest.mark.parametrize("width", [40, 78, 120, 200])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    for each in ("1", "5", "6", "queue:9"):
        assert all(len(line) <= width for line in text_of(each, width))


def test_evaluations_while_it_trains_have_a_line_that_fits() -> None:
    training = tuple(TrainingEval(env="reverse-text", step=step) for step in (100, 200, 300, 400))
    lines = text_of(None, 78, EvalReport(experiment="x", training=training))
    assert lines[-1].strip() == "No other evaluations. s starts one."
    assert lines[0].startswith("  reverse-text while training: cancelled at step 400, cancelled at 300, ")
    assert len(lines[0]) <= 78


def test_the_status_tells_of_the_queue() -> None:
    told = as_text(running_status(evals=REPORT.queue).to_plain(), NOW).splitlines()
    assert "  ✦ evaluation 9: checkpoint 40 on reverse-text · 24/60 rollouts" in told


def test_what_is_not_there_yet() -> None:
    assert text_of(None, report=None) == ["reading…"]
    assert "No evaluations yet. s starts one." in text_of(None, report=EvalReport(experiment="x"))[0]
    assert "No results yet." in text_of(None, report=EvalReport(experiment="x", queue=REPORT.queue))[-1]


def test_what_a_person_types_is_a_target() -> None:
    assert target_of(" 20 ") == target_of("checkpoint 20") == EvalTarget(kind="checkpoint", step=20)
    assert target_of("base").kind == "base"
    assert target_of("").kind == "now"
    assert target_of("org/model") == EvalTarget(kind="model", model="org/model")
    known = targets([10, 30, 20], REPORT, has_sft=True)
    assert known == ("now", "base", "sft", "30", "20", "10", "PrimeIntellect/Qwen3-0.6B-Reverse-Text-RL")


async def test_enter_opens_the_samples_and_esc_comes_back(open_app: Opener, tmp_path: Path) -> None:
    folder = write_old_evaluation(tmp_path)
    one = REPORT.evaluations[0].replace(results=str(folder))
    none = REPORT.evaluations[1].replace(results="")
    experiment = with_evals(EvalReport(experiment="x", evaluations=(one, none)))
    async with open_app(experiment) as pilot:
        await open_screen(pilot)
        await press(pilot, "enter")
        screen = pilot.app.screen
        assert isinstance(screen, RolloutScreen)
        await until(pilot, lambda: screen._listing.batches)
        await press(pilot, "escape", "j", "enter")
        assert isinstance(pilot.app.screen, EvalScreen), "it left no samples"
        await press(pilot, "5")
        assert isinstance(pilot.app.screen, RolloutScreen)
        assert not pilot.app.screen._listing.batches, "those of the run"
        await press(pilot, "escape")
        assert len(pilot.app.screen_stack) == 1


@pytest.mark.slow
async def test_v_asks_for_one_until_it_is_accepted(open_app: Opener) -> None:
    experiment = with_evals(EvalReport(experiment="x"))
    experiment.error = UsageError("answers of 4096 tokens leave no room for a prompt")
    async with open_app(experiment) as pilot:
        await open_screen(pilot)
        await press(pilot, "s")
        assert isinstance(pilot.app.screen, EvalDialog)
        await press(pilot, "up", "up")  # the oldest checkpoint but one
        await press(pilot, "tab", *"math", "tab", "2", "enter")
        assert isinstance(pilot.app.screen, EvalDialog), "2 examples, refused"
        assert "leave no room" in screen_text(pilot)
        experiment.error = None
        await press(pilot, "x")
        assert "leave no room" not in screen_text(pilot)
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, EvalDialog), "2x is no number"
        await press(pilot, "backspace", "enter")
        assert isinstance(pilot.app.screen, EvalScreen)
        target = EvalTarget(kind="checkpoint", step=400)
        assert experiment.evaluated == [EvalRequest(target=target, env="math", num_examples=2)]


async def test_x_takes_one_from_the_queue(open_app: Opener) -> None:
    experiment = with_evals()
    async with open_app(experiment) as pilot:
        screen = await open_screen(pilot)
        await press(pilot, "enter")
        assert pilot.app.screen is screen, "it has no samples yet"
        await press(pilot, "j", "x")
        assert [each.id for each in experiment.eval_report.queue] == ["9"]


@pytest.mark.slow
async def test_a_standing_order_and_a_checkpoint(open_app: Opener) -> None:
    experiment = with_evals()
    async with open_app(experiment) as pilot:
        await press(pilot, "9", "j", "s")
        await until(pilot, lambda: isinstance(pilot.app.screen, EvalDialog))
        await press(pilot, "enter")
        assert experiment.evaluated[-1].target == EvalTarget(kind="checkpoint", step=480)
        await press(pilot, "s")
        await press(pilot, "shift+tab", *"done", "shift+tab", "2", "enter")
        assert experiment.eval_report.every == 2
        assert len(experiment.evaluated) == 2
        assert experiment.evaluated[-1].when_done


@pytest.mark.slow
async def test_the_baseline_is_chosen_by_a_key(open_app: Opener) -> None:
    async with open_app(with_evals()) as pilot:
        screen = await open_screen(pilot, at=4)
        await press(pilot, "c")
        assert "baseline: sft · ▲ ▼ significant" in screen_text(pilot)
        await press(pilot, "c")
        assert "baseline: base, else SFT" in screen_text(pilot)
        await press(pilot, "j", "j", "j", "c")
        assert "baseline: checkpoint 30 · ▲ ▼ significant" in screen_text(pilot)
        assert "Compare with care: 54 of 60 rollouts were cut off" in screen_text(pilot)
        await press(pilot, "greater_than_sign")
        assert "newest first" in str(screen.title_line.render())


async def test_who_may_only_look_asks_for_nothing(open_app: Opener) -> None:
    async with open_app(with_evals(readonly=True)) as pilot:
        await open_screen(pilot)
        await press(pilot, "s", "x")
        assert isinstance(pilot.app.screen, EvalScreen)
        assert "◌ base on reverse-text" in screen_text(pilot)
