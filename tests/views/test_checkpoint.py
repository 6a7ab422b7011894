"""How checkpoints are told."""

from __future__ import annotations

from rltui.core.runs.checkpoints import Checkpoint, CheckpointReport, PrunePlan, SetAside
from rltui.views.checkpoint import VIEW, checkpoint_summary, checkpoint_words, prune_rows

GIB = 1 << 30


def cells(checkpoint: Checkpoint, now: float) -> tuple[str, ...]:
    return tuple(column.cell(checkpoint, now).text for column in VIEW.columns)


def test_a_line_per_checkpoint() -> None:
    whole = Checkpoint(
        step=420, at=1000.0, size_bytes=2 * GIB, complete=True, parts=("trainer", "orchestrator"), attempt=2,
        reward=0.914, reward_std=0.02, reward_after=0.031, evals={"a": 0.5, "b": 0.6},
        notes=("highest reward",),
    )  # fmt: skip
    assert cells(whole, 1720.0) == (
        "420", "12m", "0.91±0.02 → 0.03", "0.50 +1", "trainer orchestrator", "2.0 GiB", "#2", "highest reward"
    )  # fmt: skip
    text = "12m ago · reward 0.91±0.02 → 0.03 · eval 0.50 +1 · highest reward"
    assert checkpoint_words(whole, 1720.0) == text
    half = Checkpoint(step=5, missing=("trainer/.metadata", "orchestrator"))
    assert cells(half, 0.0)[-1] == "incomplete: no trainer/.metadata or orchestrator"


def test_the_summary_says_what_fits_and_what_was_set_aside() -> None:
    report = CheckpointReport(
        experiment="x", checkpoints=(Checkpoint(step=1, complete=True), Checkpoint(step=2)),
        total_bytes=3 * GIB, free_bytes=9 * GIB, fits=4, to_come=8, archive_bytes=GIB,
        set_aside=(SetAside(name="20261125-163000", steps=(7,)),),
    )  # fmt: skip
    assert checkpoint_summary(report) == [
        "1 complete, 1 incomplete, 3.0 GiB",
        "9.0 GiB free: room for 4 more, 8 needed",
        "1.0 GiB set aside by restarts, including checkpoints 7",
    ]
    assert checkpoint_summary(CheckpointReport(experiment="x")) == ["no complete checkpoint yet"]


def test_a_plan_that_deletes_nothing_says_so() -> None:
    assert prune_rows(PrunePlan()) == [("delete", "nothing"), ("free", "0 MiB")]
