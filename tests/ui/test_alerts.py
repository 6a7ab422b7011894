from __future__ import annotations

import pytest
from tests.fakes.experiment import FakeExperiment, gpu_report, knob_table, running_status
from tests.ui.conftest import Opener, said, settle, until
from textual.drivers.headless_driver import HeadlessDriver

from rltui.core.experiment.api import Alert
from rltui.core.experiment.journal import JournalEntry
from rltui.ui.app import RltuiApp, desktop_notification

CRASH = Alert(kind="crash", severity="error", title="trainer failed", text="exited 1", component="trainer")
TALK = Alert(kind="notice", severity="information", title="by the way", text="nothing much")


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Bells and notifications that reached the terminal, in order."""
    sounds: list[str] = []
    monkeypatch.setattr(RltuiApp, "bell", lambda app: sounds.append("bell"))
    monkeypatch.setattr(
        HeadlessDriver, "write", lambda driver, data: sounds.append(data) if "\x1b]9;" in data else None
    )
    monkeypatch.delenv("TMUX", raising=False)
    return sounds


@pytest.mark.parametrize("severity", ["warning", "error"])
async def test_what_goes_wrong_rings_once(
    experiment: FakeExperiment, open_app: Opener, heard: list[str], severity: str
) -> None:
    async with open_app(experiment) as pilot:
        experiment.push(CRASH.replace(severity=severity))
        experiment.push(TALK)
        await until(pilot, lambda: len(said(pilot)) == 2)
        assert heard == ["bell"]


async def test_the_bell_can_be_off_and_the_desktop_told(
    experiment: FakeExperiment, open_app: Opener, heard: list[str]
) -> None:
    async with open_app(experiment, bell=False, osc9=True) as pilot:
        experiment.push(CRASH)
        await until(pilot, lambda: heard)
        assert heard == ["\x1b]9;rltui reverse-text: trainer failed\x07"]


async def test_what_was_there_before_does_not_ring(open_app: Opener, heard: list[str]) -> None:
    first = FakeExperiment(running_status(), gpu_report(), CRASH)
    async with open_app(first) as pilot:
        await until(pilot, lambda: said(pilot))
        await settle(pilot)
        assert heard == []
        first.push(CRASH)
        await until(pilot, lambda: heard)


async def test_after_a_reconnection_only_what_is_new_rings(open_app: Opener, heard: list[str]) -> None:
    experiment = FakeExperiment(running_status(), CRASH)
    async with open_app(experiment) as pilot:
        experiment.end_stream()
        await until(pilot, lambda: experiment.connections == 2)
        await until(pilot, lambda: len(said(pilot)) == 2)
        assert heard == []
        experiment.push(knob_table())
        experiment.push(JournalEntry(at=1.0, kind="note", text="hello"))
        experiment.push(CRASH)
        await until(pilot, lambda: heard)
        assert heard == ["bell"]


def test_a_notification_holds_no_control_characters() -> None:
    text = "a\x07b\x1b]0;evil\x07c\x9dd\nnext"
    assert desktop_notification(text, inside_tmux=False) == "\x1b]9;abcd next\x07"


def test_tmux_is_asked_to_pass_it_on() -> None:
    assert desktop_notification("hi", inside_tmux=True) == "\x1bPtmux;\x1b\x1b]9;hi\x07\x1b\\"
