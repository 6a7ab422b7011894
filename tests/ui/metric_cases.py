"""A run with series of every kind, and what its journal says of it."""

from __future__ import annotations

from tests.fakes.experiment import FakeExperiment
from tests.fakes.series import STARTED, STEP_S, example_run

from rltui.core.experiment.journal import JournalEntry
from rltui.core.metrics.series import Rewind


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


def experiment_with_run() -> FakeExperiment:
    made = FakeExperiment()
    run = example_run()
    run.rewound = (Rewind(430, at(470)),)
    made.series = run
    made.entries = JOURNAL
    return made
