"""The lines above and below the panes answer the mouse, and say what the keys are about."""

from __future__ import annotations

import pytest
from tests.fakes.experiment import (
    FAILED,
    FakeExperiment,
    component,
    gpu_report,
    knob_table,
    running_status,
)
from tests.fakes.runs import FakeRuns
from tests.ui.conftest import Opener, press, settle
from textual.content import Content
from textual.pilot import Pilot

from rltui.core.experiment.actor import Actor
from rltui.core.experiment.api import AgentProposal, Curve
from rltui.ui.dialogs.help import HelpScreen
from rltui.ui.screens.metrics import MetricsScreen
from rltui.ui.screens.overview import Overview
from rltui.ui.screens.runs import RunsScreen
from rltui.ui.widgets.bars import (
    FooterEntry,
    HeaderBar,
    KeyBar,
    ProposalBar,
    RewardCurve,
    curve_lines,
    fitting_facts,
    footer_line,
)
from rltui.ui.widgets.knob_table import KnobRows

ENTRIES = [FooterEntry("help", "show_help", "?", "help"), FooterEntry("detach", "app.detach", "q", "detach")]


def make_experiment() -> FakeExperiment:
    return FakeExperiment(running_status(), gpu_report(), knob_table())


def text_of(pilot: Pilot[None], bar: type[HeaderBar | KeyBar]) -> str:
    return pilot.app.screen.query_one(bar).render().plain


async def click(pilot: Pilot[None], bar: type[HeaderBar | KeyBar], words: str) -> None:
    """On the middle of some words in it."""
    at = text_of(pilot, bar).index(words) + len(words) // 2
    await pilot.click(bar, offset=(at, 0))
    await settle(pilot)


@pytest.mark.parametrize(
    ("width", "told"),
    [(80, "trainer · ready · enter: Go there"), (40, "trainer · ready"), (28, ""), (5, "")],
)
def test_the_footer_says_what_its_keys_are_about_where_there_is_room(width: int, told: str) -> None:
    line = footer_line(ENTRIES, width, description="trainer · ready", enter="enter: Go there").plain
    assert line.endswith(told or line)
    assert ("trainer" in line) is bool(told)
    assert len(line) <= max(width, 8)
    assert line.startswith(" ? help ")


def test_a_long_meaning_is_cut() -> None:
    line = footer_line(ENTRIES, 60, description="lr: " + "x" * 100).plain
    assert len(line) == 59
    assert line.endswith("x…")


async def test_the_footer_follows_the_focus_and_the_cursor(
    open_app: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_app(make_experiment(), size=(200, 50)) as pilot:
        assert text_of(pilot, KeyBar).endswith("orchestrator · running")
        await press(pilot, "t")
        assert text_of(pilot, KeyBar).endswith("trainer · running")
        await press(pilot, "ctrl+k")
        first = text_of(pilot, KeyBar)
        knob = pilot.app.screen.query_one(KnobRows).knob
        assert knob is not None
        assert f"{knob.key}: {knob.help}" in first
        await press(pilot, "j")
        assert text_of(pilot, KeyBar) != first
        # Which keys work takes milliseconds to find out: not at each step of the cursor.
        monkeypatch.setattr(Overview, "check_action", None)
        text_of(pilot, KeyBar)


async def test_a_click_on_the_footer_does_what_the_key_does(open_app: Opener) -> None:
    async with open_app(make_experiment(), size=(200, 50)) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, Overview)
        await pilot.click(KeyBar, offset=(198, 0))
        await settle(pilot)
        assert isinstance(pilot.app.screen, Overview), "beside the keys it does nothing"
        await click(pilot, KeyBar, "zoom")
        assert screen.panels.body.zoomed is not None
        await click(pilot, KeyBar, "wrap")
        assert screen.panels.body.components[1].log_pane.model.window.wrap, "also of the pane with the focus"
        await click(pilot, KeyBar, "help")
        assert isinstance(pilot.app.screen, HelpScreen)


async def test_a_click_on_the_header_goes_to_what_tells_more(open_app: Opener) -> None:
    status = running_status()
    curve = tuple((step, step / 20) for step in range(20))
    status = status.replace(progress=status.progress.replace(curve=curve))
    experiment = FakeExperiment(status, gpu_report(), knob_table())
    async with open_app(experiment, size=(160, 40), runs=FakeRuns()) as pilot:
        for words, screen in (
            ("step 12/20", MetricsScreen), ("reward 0.62", MetricsScreen), ("reverse-text", RunsScreen),
        ):  # fmt: skip
            await click(pilot, HeaderBar, words)
            assert isinstance(pilot.app.screen, screen)
            await press(pilot, "1")
        await pilot.click(RewardCurve, offset=(30, 1))
        await settle(pilot)
        assert isinstance(pilot.app.screen, MetricsScreen)


@pytest.mark.parametrize(
    ("width", "told"),
    [
        (51, " rltui x · Config · 1 change waits · a.toml · ⚠ old"),
        (50, " rltui x · Config · 1 change waits · ⚠ old"),
        (30, " rltui x · Config · ⚠ old"),
        (16, " rltui x · ⚠ old"),
        (9, " rltui x…"),
    ],
)
def test_the_last_facts_of_a_title_leave_as_a_whole_and_warnings_stay(width: int, told: str) -> None:
    line = Content(" rltui x · Config · 1 change waits · a.toml · ⚠ old")
    assert fitting_facts(line, width).plain == told


def test_the_curve_of_rewards_is_drawn_from_its_lowest_to_its_highest() -> None:
    lines = [line.plain for line in curve_lines([(step, 0.04 + step / 100) for step in range(17)], 60)]
    assert lines[0].startswith(" reward 0.2 ┤")
    assert lines[2].strip().startswith("0.04 ┤")
    assert all(set(line.split("┤")[-1].split("│")[-1]) - {" "} for line in lines), "over all its rows"


def test_a_few_old_outliers_do_not_flatten_the_curve_and_new_ones_are_within_it() -> None:
    """Finding U27: of a run that began at 0.56 nothing was seen after step 50."""
    risen = [(step, 0.2 if step < 6 else 0.9 + step / 4000) for step in range(200)]
    assert curve_lines(risen, 60)[2].plain.strip().startswith("0.90")
    fallen = [(step, 0.9 if step < 197 else 0.1) for step in range(200)]
    assert curve_lines(fallen, 60)[2].plain.strip().startswith("0.1 ")


async def test_another_metric_is_beside_the_rewards_where_there_is_room(open_app: Opener) -> None:
    points = tuple((step, 2.0 - step / 20) for step in range(20))
    curves = {"curve": points, "beside": Curve(title="entropy", points=points)}
    status = running_status()
    status = status.replace(progress=status.progress.replace(**curves))
    for width, shown in ((120, True), (90, False)):
        experiment = FakeExperiment(status, gpu_report(), knob_table())
        async with open_app(experiment, size=(width, 40)) as pilot:
            lines = pilot.app.screen.query_one(RewardCurve).render().plain.split("\n")
            assert ("entropy 2 ┤" in lines[0]) is shown
            assert all(len(line) <= width for line in lines)


async def test_a_click_on_what_failed_goes_to_its_pane(open_app: Opener) -> None:
    parts = (component("inference"), component("trainer", FAILED, exit_code=1))
    experiment = FakeExperiment(running_status(components=parts), gpu_report(), knob_table())
    async with open_app(experiment, component_ids=("inference", "trainer")) as pilot:
        await click(pilot, HeaderBar, "failed")
        screen = pilot.app.screen
        assert isinstance(screen, Overview)
        assert screen.panels.selected == "trainer"


async def test_the_bar_of_proposals_says_how_many_and_that_agents_are_paused(open_app: Opener) -> None:
    agent = Actor(kind="agent", user="ada", name="night-1", pid=1)
    proposals = tuple(AgentProposal(id=f"p{n}", verb="set", text="x" * 99, by=agent, at=0.0) for n in (1, 2))
    async with open_app(make_experiment(), size=(80, 24)) as pilot:
        bar = pilot.app.screen.query_one(ProposalBar)
        bar.show(running_status().replace(proposals=proposals, agents_paused="agents were paused by ada"))
        paused, first = str(bar.render()).splitlines()
        assert paused == "⏸ agents were paused by ada · Z resumes"
        assert first[:60].startswith("? agent night-1 proposes · 1 of 2 · X answers: xxx")
