"""A run with checkpoints of every kind."""

from __future__ import annotations

from tests.fakes.experiment import GIB, NOW, FakeExperiment

from rltui.core.experiment.journal import JournalEntry
from rltui.core.runs.checkpoints import BEING_WRITTEN, HIGHEST, NEWEST, Checkpoint, CheckpointReport, SetAside

RUN = "/data/outputs/reverse-text"


def checkpoint(step: int, reward: float, after: float | None, **values: object) -> Checkpoint:
    base: dict[str, object] = {
        "step": step, "at": NOW - 60 * (520 - step), "size_bytes": int(2.1 * GIB), "complete": True,
        "parts": ("trainer", "orchestrator", "weights"), "attempt": 1 if step < 450 else 2, "reward": reward,
        "reward_after": after, "evals": {"math": reward * 0.9, "code": reward * 0.7},
        "path": f"{RUN}/checkpoints/step_{step}",
    }  # fmt: skip
    return Checkpoint.from_plain(base | values)


REPORT = CheckpointReport(
    experiment="reverse-text",
    folder=f"{RUN}/checkpoints",
    checkpoints=(
        checkpoint(380, 0.71, 0.78),
        checkpoint(400, 0.83, 0.9),
        checkpoint(420, 0.914, 0.62, notes=(HIGHEST,)),
        checkpoint(440, 0.42, 0.12, complete=False, missing=("orchestrator",), parts=("trainer",)),
        checkpoint(460, 0.08, 0.03),
        checkpoint(480, 0.03, None, notes=(NEWEST,)),
        checkpoint(
            500, 0.03, None, complete=False, missing=("trainer/.metadata", "orchestrator"),
            parts=("trainer",), notes=(BEING_WRITTEN,), attempt=None,
        ),
    ),
    step=503,
    total_bytes=int(14.2 * GIB),
    free_bytes=182 * GIB,
    fits=86,
    to_come=25,
    archive=f"{RUN}/.rltui/archive",
    archive_bytes=int(6.3 * GIB),
    set_aside=(SetAside(name="20261125-163000", steps=(400, 420, 440)),),
)  # fmt: skip
EDIT = JournalEntry(at=NOW - 60 * 95, kind="edit", text="trainer.optim.lr 1e-06 → 0.01")


def with_checkpoints(report: CheckpointReport = REPORT, *, readonly: bool = False) -> FakeExperiment:
    experiment = FakeExperiment(readonly=readonly)
    experiment.checkpoint_report = report
    experiment.entries = [EDIT]
    return experiment
