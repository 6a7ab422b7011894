"""What the metrics screen looks like. Review the pictures before `--snapshot-update`."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.fakes.experiment import FakeExperiment
from tests.fakes.series import STARTED, STEP_S, example_run
from tests.params import slow_but
from tests.ui.conftest import make_app, press, settle, until
from tests.ui.test_look import HUGE, SMALL, SnapCompare
from textual.pilot import Pilot

from rltui.core.api import JournalEntry
from rltui.core.series import Rewind
from rltui.ui.charts.plot import Plot

MIDDLE = (130, 40)


def at(step: int) -> float:
    return STARTED + step * STEP_S


JOURNAL = [
    JournalEntry(at=at(0), kind="plan", text="start everything", data={"start": ["inference", "trainer"]}),
    *(
        JournalEntry(at=at(step), kind="checkpoint", text=f"checkpoint {step}", step=step)
        for step in range(50, 600, 50)
    ),
    JournalEntry(at=at(180), kind="edit", text="trainer.optim.lr 1e-05 → 0.0001", step=180),
    JournalEntry(at=at(205), kind="exit", text="trainer ended with code 1: CUDA error", step=205,
                 component="trainer", data={"failed": True}),
    JournalEntry(at=at(210), kind="plan", text="restart trainer, orchestrator", step=200,
                 data={"stop": ["trainer", "orchestrator"], "start": ["trainer", "orchestrator"]}),
    JournalEntry(at=at(480), kind="note", text="looks good \x1b[31mfrom here", step=480),
]  # fmt: skip


def experiment() -> FakeExperiment:
    made = FakeExperiment()
    run = example_run()
    run.rewound = (Rewind(430, at(470)),)
    made.series = run
    made.entries = JOURNAL
    return made


CASES: dict[str, tuple[tuple[int, int], tuple[str, ...]]] = {
    "small": (SMALL, ()),
    "middle": (MIDDLE, ("M", "comma", "comma")),
    "huge": (HUGE, ("right",)),
    "zoom-small": (SMALL, ("enter", "left_square_bracket")),
    "zoom-huge": (HUGE, ("down", "right", "enter", "at", "circumflex_accent", "left_square_bracket")),
    "filter": (SMALL, ("slash", *"env|kl")),
}


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The clock of the pictures."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("name", slow_but(CASES.keys(), "small", "zoom-huge"))
def test_look_of_metrics(name: str, snap_compare: SnapCompare) -> None:
    size, keys = CASES[name]

    async def prepare(pilot: Pilot[None]) -> None:
        await settle(pilot)
        await press(pilot, "4")
        await until(pilot, lambda: any(plot.border_title for plot in pilot.app.screen.query(Plot)))
        await press(pilot, *keys)
        await pilot.pause(0.3)

    app = make_app(experiment())
    app.animation_level = "none"
    assert snap_compare(app, terminal_size=size, run_before=prepare)
