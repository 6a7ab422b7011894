"""What the events screen looks like."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.fakes.experiment import FakeExperiment
from tests.ui.conftest import make_app, press, settle, until
from tests.ui.journal import journal
from tests.ui.test_look import HUGE, SMALL, SnapCompare
from textual.pilot import Pilot


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("size", [SMALL, (130, 40), HUGE], ids=["small", "medium", "huge"])
def test_look_of_events(size: tuple[int, int], snap_compare: SnapCompare) -> None:
    async def prepare(pilot: Pilot[None]) -> None:
        await settle(pilot)
        await press(pilot, "8")
        await until(pilot, lambda: pilot.app.screen._items)  # type: ignore[attr-defined]
        await settle(pilot)
        await press(pilot, "k", "k")
        await settle(pilot)

    experiment = FakeExperiment()
    experiment.entries = journal()
    app = make_app(experiment)
    app.animation_level = "none"
    assert snap_compare(app, terminal_size=size, run_before=prepare)
