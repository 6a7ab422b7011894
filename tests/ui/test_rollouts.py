"""The rollout screen under the keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
from tests.fakes import rollouts as fakes
from tests.fakes.experiment import FakeExperiment, gpu_report, knob_table, stopped_status
from tests.ui.conftest import Opener, press, said, screen_text, until
from textual.pilot import Pilot
from textual.widgets import Input

from rltui.core.rollouts.batches import Batch, Conversation, Message, Sample, Transcript
from rltui.core.rollouts.rows import episode_sample, episode_transcript
from rltui.ui import rollout_listing
from rltui.ui.dialogs.base import PlanDialog
from rltui.ui.rollout_listing import RolloutListing, RolloutUpdate
from rltui.ui.screens.rollouts import RolloutScreen
from rltui.ui.widgets.transcript_view import transcript_lines


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout_listing, "LOOK_S", 0.05)


async def open_rollouts(pilot: Pilot[None], text: str) -> None:
    await press(pilot, "5")
    assert isinstance(pilot.app.screen, RolloutScreen)
    await sees(pilot, text)


async def sees(pilot: Pilot[None], *texts: str) -> None:
    await until(pilot, lambda: all(text in screen_text(pilot) for text in texts))


@pytest.mark.slow
async def test_steps_samples_and_reading(
    experiment: FakeExperiment, open_app: Opener, tmp_path: Path
) -> None:
    fakes.write_flat_run(tmp_path)
    experiment.rollouts = tmp_path
    async with open_app(experiment, size=(130, 40)) as pilot:
        await open_rollouts(pilot, "Samples of step 3 · worst first")
        await sees(pilot, "Sample 1 of 16")
        await press(pilot, "greater_than_sign", "f")
        await sees(pilot, "━Truncated samples of step 3━", "Sample 1 of 4")
        await press(pilot, "f", "f", "f", "b")
        await sees(pilot, "Groups of step 3")
        await press(pilot, "j", "enter")
        await sees(pilot, "━Samples of step 3 · group 0━")
        await press(pilot, "enter", "right", "T")
        await sees(pilot, "Sample 2 of 4", '"example_id"')
        await press(pilot, "escape", "escape", "left_square_bracket")
        await sees(pilot, "Samples of step 2 · best first", "Sample 1 of 16")
        await press(pilot, "escape")
        assert not isinstance(pilot.app.screen, RolloutScreen)


async def test_what_comes_is_followed_until_a_key(
    experiment: FakeExperiment, open_app: Opener, tmp_path: Path
) -> None:
    fakes.write_flat_run(tmp_path, steps=(1,))
    experiment.rollouts = tmp_path
    async with open_app(experiment, size=(130, 40)) as pilot:
        await open_rollouts(pilot, "Samples of step 1")
        fakes.write_flat_run(tmp_path, steps=(2,))
        await sees(pilot, "Samples of step 2", "Sample 1 of 16")
        await press(pilot, "j")
        fakes.write_flat_run(tmp_path, steps=(3,))
        await sees(pilot, "\n  3 ", "Samples of step 2", "Sample 2 of 16")


async def test_a_step_is_gone_to_while_others_come(
    experiment: FakeExperiment, open_app: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list grew before the screen heard that its cursor had moved, and took it back."""
    original, may_pass = RolloutListing.updates, asyncio.Event()
    held: list[RolloutUpdate] = []

    async def updates(
        self: RolloutListing, in_view: Callable[[], Sequence[Batch]]
    ) -> AsyncIterator[RolloutUpdate]:
        async for update in original(self, in_view):
            if len(update.batches) > 2 and not held:
                held.append(update)
                await may_pass.wait()
            yield update

    monkeypatch.setattr(RolloutListing, "updates", updates)
    fakes.write_flat_run(tmp_path, steps=(1, 2))
    experiment.rollouts = tmp_path
    async with open_app(experiment, size=(130, 40)) as pilot:
        await open_rollouts(pilot, "Samples of step 2")
        fakes.write_flat_run(tmp_path, steps=(3,))
        await until(pilot, lambda: held)
        screen = pilot.app.screen
        assert isinstance(screen, RolloutScreen)
        may_pass.set()
        screen.show_step(1)
        await sees(pilot, "\n  3 ", "Samples of step 1")


async def test_search_mark_compare_write(
    experiment: FakeExperiment, open_app: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes.write_stream_run(tmp_path)
    experiment.rollouts = tmp_path
    monkeypatch.chdir(tmp_path)
    async with open_app(experiment, size=(130, 40)) as pilot:
        await open_rollouts(pilot, "Samples of step 3")
        for words, count in (("answer 300[12] TO", 0), ("answer 300[12] to", 2)):
            await press(pilot, "slash")
            pilot.app.screen.query_one(Input).value = words
            await press(pilot, "enter")
            await sees(pilot, f"· {count} match━")
        await press(pilot, "m", "escape")
        await sees(pilot, "1 marked", "Sample 3 of 7")
        await press(pilot, "c")
        await sees(pilot, "The other sample", "answer 3001")
        await press(pilot, "escape", "escape", "W", "enter")
        await until(pilot, lambda: list(tmp_path.glob("rollouts-*.jsonl")))
        await press(pilot, "home", "j", "m", "home", "c")
        await sees(pilot, "The other sample · step 2", "answer 2000")
        await press(pilot, "left_square_bracket")
        await sees(pilot, "The other sample · step 1", "answer 1000")
        await press(pilot, "left_square_bracket")
        await until(pilot, lambda: any("No other step has this prompt" in text for text in said(pilot)))


@pytest.mark.slow
async def test_a_live_one_is_read_as_it_goes_on(
    experiment: FakeExperiment, open_app: Opener, tmp_path: Path
) -> None:
    writer = fakes.write_stream_run(tmp_path)
    dispatch = {"id": "d1", "kind": "train", "env": "e", "group": "g", "started": fakes.T0}
    writer.delta(
        "t1", {"open": {"id": "t1"}, "dispatch": dispatch, "nodes": [fakes.node("user", "Say", None)]}
    )
    experiment.rollouts = tmp_path
    async with open_app(experiment, size=(130, 40)) as pilot:
        await open_rollouts(pilot, "Sample 1 of 7")
        await press(pilot, "0")
        await sees(pilot, "Sample 1 of 8")
        await press(pilot, "shift+tab", "home")
        await sees(pilot, "Say")
        writer.delta("t1", {"nodes": [fakes.node("assistant", "on its way", 0)]})
        await sees(pilot, "on its way")


async def test_an_empty_screen_says_what_is_missing(open_app: Opener, tmp_path: Path) -> None:
    experiment = FakeExperiment(stopped_status(), gpu_report(), knob_table())
    experiment.rollouts = tmp_path / "none"
    async with open_app(experiment, size=(100, 24)) as pilot:
        await open_rollouts(
            pilot, "No rollouts: the run is not running. 1 opens it, and S there starts everything."
        )
        await press(pilot, "1", "S")
        await until(pilot, lambda: isinstance(pilot.app.screen, PlanDialog))


async def test_nothing_there(experiment: FakeExperiment, open_app: Opener, tmp_path: Path) -> None:
    experiment.rollouts = tmp_path / "none"
    async with open_app(experiment, size=(80, 24)) as pilot:
        await open_rollouts(pilot, "No rollouts yet")
        for key in ("enter", "greater_than_sign", "f", "b", "c", "m", "0", "T", "j", "pagedown", "G", "tab"):
            await press(pilot, key, "right")
        assert isinstance(pilot.app.screen, RolloutScreen)


def test_hostile_text_is_only_text() -> None:
    record = fakes.tool_episode()
    transcript = episode_transcript(record, episode_sample(record, 0))
    for is_raw in (False, True):
        lines = transcript_lines(transcript, 40, is_raw=is_raw, is_folded=False)
        assert all(line.plain.isprintable() and line.cell_length <= 40 for line in lines)
    lines = transcript_lines(transcript, 60, is_raw=False, is_folded=False)
    assert any("[red]not markup" in line.plain for line in lines)


def test_long_lines_are_wrapped_quickly() -> None:
    texts = ("漢字 and words " * 20_000, "x" * 300_000)
    messages = tuple(Message("assistant", text, sampled=True) for text in texts)
    transcript = Transcript(Sample(0), (Conversation("", messages),))
    lines = transcript_lines(transcript, 50, is_raw=False, is_folded=True)
    assert all(line.cell_length <= 50 for line in lines)
    assert "more characters" in lines[-1].plain
