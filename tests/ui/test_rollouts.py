"""The rollout screen under the keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes import rollouts as fakes
from tests.fakes.experiment import FakeExperiment
from tests.ui.conftest import Opener, press, until
from textual.pilot import Pilot
from textual.widgets import Input, Static

from rltui.core.rollouts import BatchKey
from rltui.ui.screens import rollouts
from rltui.ui.screens.rollouts import RolloutScreen
from rltui.ui.widgets.transcript_view import TranscriptView, transcript_lines


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollouts, "_LOOK_S", 0.05)


async def opened(pilot: Pilot[None]) -> RolloutScreen:
    await press(pilot, "5")
    screen = pilot.app.screen
    assert isinstance(screen, RolloutScreen)
    await until(pilot, lambda: screen._listing.indices)
    return screen


def text_of(view: TranscriptView) -> str:
    return "\n".join(line.plain for line in view._lines)


@pytest.mark.slow
async def test_steps_samples_and_reading(
    experiment: FakeExperiment, open_app: Opener, tmp_path: Path
) -> None:
    fakes.write_flat_run(tmp_path)
    experiment.rollouts = tmp_path
    async with open_app(experiment, size=(130, 40)) as pilot:
        screen = await opened(pilot)
        assert screen._listing.key == BatchKey("train", 3)
        await until(pilot, lambda: "answer 0 of 0" in text_of(screen._reading))
        await press(pilot, "greater_than_sign")
        assert screen._sample is not None
        assert screen._sample.reward == 0.3
        await press(pilot, "greater_than_sign", "f")
        assert {screen._listing.table[at].truncated for at in screen._listing.indices} == {True}
        await press(pilot, "f", "f")
        assert {screen._listing.table.text("group", at) for at in screen._listing.indices} == {"3"}
        await press(pilot, "f", "b")
        assert screen._listing.groups is not None
        assert screen._listing.groups[0].is_flat
        await press(pilot, "j", "enter")
        assert len(screen._listing.indices) == 4
        await press(pilot, "enter")
        await until(pilot, lambda: screen.has_class("-reading"))
        await press(pilot, "right", "T")
        await until(pilot, lambda: '"example_id"' in text_of(screen._reading))
        await press(pilot, "escape", "escape", "left_square_bracket")
        await until(
            pilot, lambda: screen._listing.key == BatchKey("train", 2) and len(screen._listing.indices) == 16
        )
        await press(pilot, "escape")
        assert pilot.app.screen is not screen


async def test_what_comes_is_followed_until_a_key(
    experiment: FakeExperiment, open_app: Opener, tmp_path: Path
) -> None:
    fakes.write_flat_run(tmp_path, steps=(1,))
    experiment.rollouts = tmp_path
    async with open_app(experiment) as pilot:
        screen = await opened(pilot)
        fakes.write_flat_run(tmp_path, steps=(2,))
        await until(pilot, lambda: screen._listing.key == BatchKey("train", 2))
        await until(pilot, lambda: screen._listing.indices)
        await press(pilot, "j")
        fakes.write_flat_run(tmp_path, steps=(3,))
        await until(pilot, lambda: len(screen._listing.batches) == 3)
        assert screen._listing.key == BatchKey("train", 2)
        assert screen._samples.at == 1


async def test_search_mark_compare_write(
    experiment: FakeExperiment, open_app: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes.write_stream_run(tmp_path)
    experiment.rollouts = tmp_path
    monkeypatch.chdir(tmp_path)
    async with open_app(experiment, size=(130, 40)) as pilot:
        screen = await opened(pilot)
        await press(pilot, "slash")
        screen.query_one(Input).value = "answer 300[12] TO"
        await press(pilot, "enter")
        await until(pilot, lambda: screen._listing.matches == [])
        await press(pilot, "slash")
        screen.query_one(Input).value = "answer 300[12] to"
        await press(pilot, "enter")
        await until(pilot, lambda: screen._listing.indices == [1, 2])
        await press(pilot, "m", "escape")
        await until(pilot, lambda: screen._reading.transcript is not None)
        await press(pilot, "c")
        await until(pilot, lambda: "answer 3001" in text_of(screen._other))
        await press(pilot, "escape", "escape", "m", "W", "enter")
        await until(pilot, lambda: list(tmp_path.glob("rollouts-*.jsonl")))
        screen._listing.marked.clear()
        await press(pilot, "home", "c")
        await until(pilot, lambda: "answer 2000" in text_of(screen._other))
        await press(pilot, "left_square_bracket")
        await until(pilot, lambda: "answer 1000" in text_of(screen._other))


@pytest.mark.slow
async def test_live_ones_and_those_that_no_batch_took(
    experiment: FakeExperiment, open_app: Opener, tmp_path: Path
) -> None:
    writer = fakes.write_stream_run(tmp_path)
    dispatch = {"id": "d1", "kind": "train", "env": "e", "group": "g", "started": fakes.T0}
    writer.delta(
        "t1", {"open": {"id": "t1"}, "dispatch": dispatch, "nodes": [fakes.node("user", "Say", None)]}
    )
    experiment.rollouts = tmp_path
    async with open_app(experiment, size=(130, 40)) as pilot:
        screen = await opened(pilot)
        await until(pilot, lambda: len(screen._listing.indices) == 7)
        await press(pilot, "0")
        await until(pilot, lambda: len(screen._listing.indices) == 8)
        await press(pilot, "shift+tab", "home")
        await until(
            pilot, lambda: screen._listing.key == BatchKey("live") and "Say" in text_of(screen._reading)
        )
        writer.delta("t1", {"nodes": [fakes.node("assistant", "on its way", 0)]})
        await until(pilot, lambda: "on its way" in text_of(screen._reading))


async def test_nothing_there(experiment: FakeExperiment, open_app: Opener, tmp_path: Path) -> None:
    experiment.rollouts = tmp_path / "none"
    async with open_app(experiment, size=(80, 24)) as pilot:
        await press(pilot, "5")
        summary = pilot.app.screen.query_one("#rollout-summary", Static)
        await until(pilot, lambda: "No rollouts yet" in str(summary.render()))
        for key in (
            "enter",
            "greater_than_sign",
            "f",
            "b",
            "c",
            "m",
            "0",
            "T",
            "j",
            "pagedown",
            "G",
            "tab",
            "right",
        ):
            await press(pilot, key)
        assert isinstance(pilot.app.screen, RolloutScreen)


def test_hostile_text_is_only_text(tmp_path: Path) -> None:
    from rltui.core.rollout_rows import episode_sample, episode_transcript

    record = fakes.tool_episode()
    transcript = episode_transcript(record, episode_sample(record, 0))
    for is_raw in (False, True):
        lines = transcript_lines(transcript, 40, is_raw=is_raw, is_folded=False)
        assert all(line.plain.isprintable() and line.cell_length <= 40 for line in lines)
    assert any(
        "[red]not markup" in line.plain
        for line in transcript_lines(transcript, 60, is_raw=False, is_folded=False)
    )


def test_long_lines_are_wrapped_quickly() -> None:
    from rltui.core.rollouts import Conversation, Message, Sample, Transcript

    said = ("漢字 and words " * 20_000, "x" * 300_000)
    messages = tuple(Message("assistant", text, sampled=True) for text in said)
    lines = transcript_lines(
        Transcript(Sample(0), (Conversation("", messages),)), 50, is_raw=False, is_folded=True
    )
    assert all(line.cell_length <= 50 for line in lines)
    assert "more characters" in lines[-1].plain
