"""The comparison screen, and what it leads to."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ui.compare_cases import compared_runs, open_comparison
from tests.ui.conftest import Opener, choose, press, screen_text, settle, until
from tests.ui.scenes.scene import SMALL

from rltui.errors import RltuiError
from rltui.ui.dialogs.base import MessageDialog
from rltui.ui.screens.compare import CompareScreen
from rltui.ui.screens.metrics import MetricsScreen
from rltui.ui.screens.rollouts import RolloutScreen
from rltui.ui.screens.runs import RunsScreen
from rltui.ui.widgets.row_list import RowList

MIDDLE = (130, 40)


def keys(screen: CompareScreen) -> list[str]:
    rows = screen.query_one(RowList).keys
    return [key.removeprefix("config:") for key in rows if key.startswith("config:")]


async def test_only_what_differs_is_shown_until_all_is_asked_for(open_app: Opener) -> None:
    runs = compared_runs()
    async with open_app(None, runs=runs, size=MIDDLE) as pilot:
        screen = await open_comparison(pilot, runs, 3)
        assert keys(screen) == ["orchestrator.sampling.temperature", "trainer.optim.lr"]
        assert "2 of 46 keys differ" in screen_text(pilot)
        await press(pilot, "f")
        assert len(keys(screen)) == 46
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, RunsScreen)


async def test_runs_for_which_there_is_no_room_are_shifted_into_sight(open_app: Opener) -> None:
    runs = compared_runs()
    async with open_app(None, runs=runs, size=(60, 24)) as pilot:
        screen = await open_comparison(pilot, runs)
        head = screen.query_one("#compare-head")
        assert "base" in str(head.render())
        assert "more →" in str(head.render())
        await press(pilot, "right", "right")
        assert "← 2 more" in str(head.render())
        assert "cold" in str(head.render())
        key = "config:orchestrator.train.environments.0.arguments.dataset_name"
        screen.query_one(RowList).go_to(key)
        await settle(pilot)
        assert "PrimeIntellect/synthetic-2-base-cleaned" in screen_text(pilot), "in full"


async def test_curves_lie_over_each_other_and_lead_back(open_app: Opener) -> None:
    runs = compared_runs()
    async with open_app(None, runs=runs, size=MIDDLE) as pilot:
        await open_comparison(pilot, runs, 2)
        await press(pilot, "enter")
        screen = pilot.app.screen
        assert isinstance(screen, MetricsScreen)
        await until(pilot, lambda: "Reward base 0.834 lr3 0.906" in screen_text(pilot))
        assert "━ base  ━ lr3 · Metrics · 17 charts of 20 series · by step" in screen_text(pilot)
        await choose(pilot, "chart.axis")
        await press(pilot, "3", "number_sign")
        assert "by time" in screen_text(pilot)
        assert pilot.app.screen is screen, "other screens are of another run"
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, CompareScreen)


@pytest.mark.slow
async def test_a_prompt_is_read_beside_what_other_runs_made_of_it(open_app: Opener, tmp_path: Path) -> None:
    runs = compared_runs(tmp_path)
    async with open_app(None, runs=runs, size=MIDDLE) as pilot:
        await open_comparison(pilot, runs, 3)
        runs.open(runs.known[0].id).rollouts = tmp_path / "base"
        await press(pilot, "5")
        assert isinstance(pilot.app.screen, RolloutScreen)
        await until(pilot, lambda: "· compared with lr3, lr10-warm" in screen_text(pilot))
        await until(pilot, lambda: "answer 0 of 0" in screen_text(pilot))
        await press(pilot, "enter", "c")
        await until(pilot, lambda: "lr3 · step" in screen_text(pilot))
        assert screen_text(pilot).count("Reverse: word0") == 2, "the same prompt in both"
        await press(pilot, "left_square_bracket")
        await until(pilot, lambda: "lr10-warm · step" in screen_text(pilot))


async def test_marked_runs_are_compared_and_reported(open_app: Opener) -> None:
    runs = compared_runs()
    async with open_app(None, runs=runs, size=MIDDLE) as pilot:
        listed = pilot.app.screen
        assert isinstance(listed, RunsScreen)
        await until(pilot, lambda: listed.chosen)
        await press(pilot, "m", "m", "c")
        screen = pilot.app.screen
        assert isinstance(screen, CompareScreen)
        assert "Compare · 2 runs" in screen_text(pilot)
        await press(pilot, "escape")
        assert pilot.app.screen is listed
        await press(pilot, "W")
        await until(pilot, lambda: len(runs.exported) == 2)
        assert all(curves > 10 for _, curves, _ in runs.exported)


async def test_what_cannot_be_compared_is_told(open_app: Opener) -> None:
    runs = compared_runs()
    async with open_app(None, runs=runs, size=SMALL) as pilot:
        await open_comparison(pilot, runs, 2)
        runs.error = RltuiError("/runs/base is gone")
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, MessageDialog)
