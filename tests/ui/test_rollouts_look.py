"""What the rollout screen looks like."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes import rollouts as fakes
from tests.fakes.experiment import FakeExperiment
from tests.params import slow_but
from tests.ui.conftest import make_app, press, settle, until
from tests.ui.test_look import HUGE, SMALL, SnapCompare
from textual.pilot import Pilot

from rltui.ui.screens.rollouts import RolloutScreen

MIDDLE = (130, 40)
SIZES = {"small": SMALL, "middle": MIDDLE, "huge": HUGE}
KEYS: dict[str, tuple[str, ...]] = {
    "lists": ("j", "j"),
    "groups": ("b",),
    "reading": ("j", "enter"),
    "comparing": ("enter", "c"),
}
CASES = (
    "lists-small",
    "lists-middle",
    "lists-huge",
    "groups-middle",
    "reading-small",
    "comparing-middle",
    "comparing-small",
)


def stream(folder: Path) -> Path:
    """Rewards that rise, a group without spread, some that were cut off; a long one comes in just now."""
    writer = fakes.StreamWriter(folder)
    for step in range(1, 9):
        begin = fakes.T0 + 100 * step
        names = []
        for at in range(32):
            group, reward = at // 8, min(1.0, (step + at % 8) / 12)
            record = fakes.episode(
                100 * step + at,
                0.5 if group == 2 else reward,
                group=f"{step}{group}c4f2e91",
                task=f"t{group}",
            )
            is_cut = at % 11 == 3
            stop = "max_output_tokens" if is_cut else "agent_completed"
            tokens = 40 + 7 * (at % 5) + (300 if is_cut else 0)
            writer.arrive(record, begin + at, truncated=is_cut, stop_condition=stop, output_tokens=tokens)
            names.append(f"tr{100 * step + at}")
        writer.ship(names[:-1], step, begin + 50)
    writer.arrive(fakes.tool_episode(), fakes.T0 + 10_000)
    return folder


@pytest.mark.parametrize("case", slow_but(CASES, "lists-middle", "comparing-small"))
def test_look(case: str, tmp_path: Path, snap_compare: SnapCompare) -> None:
    name, word = case.split("-")
    experiment = FakeExperiment()
    experiment.rollouts = stream(tmp_path)

    async def prepare(pilot: Pilot[None]) -> None:
        await settle(pilot)
        await press(pilot, "5")
        screen = pilot.app.screen
        assert isinstance(screen, RolloutScreen)
        await until(pilot, lambda: len(screen._listing.places) > 0)
        for key in KEYS[name]:
            await press(pilot, key)
            await pilot.pause(0.1)
        if name == "comparing":
            await until(pilot, lambda: screen.has_class("-comparing"))
        await until(pilot, lambda: screen._reading.transcript or word == "small" or name == "groups")
        await settle(pilot)

    app = make_app(experiment)
    app.animation_level = "none"
    assert snap_compare(app, terminal_size=SIZES[word], run_before=prepare)
