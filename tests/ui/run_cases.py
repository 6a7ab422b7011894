"""Runs of every kind, as a list has them."""

from __future__ import annotations

import math

from tests.fakes.experiment import NOW
from tests.fakes.runs import run_row, running_row

from rltui.core.experiment.states import Reason
from rltui.core.metrics.levels import MetricLevel
from rltui.core.runs.queue import QueueEntry, RunQueue
from rltui.core.runs.row import RunRow

DAY_S = 86400.0


def curve(top: float) -> tuple[float, ...]:
    """Rewards that rise to about `top`."""
    return tuple(top * (1 - math.exp(-at / 6)) + 0.02 * math.sin(at * 2.7) for at in range(24))


def level(reward: float) -> dict[str, MetricLevel]:
    return {"reward": MetricLevel(reward, 0.02, 10)}


def ended(name: str, days: float, reward: float, **values: object) -> RunRow:
    """So many days ago, after an hour."""
    at = NOW - days * DAY_S
    usual: dict[str, object] = {
        "created_at": at - 3600, "started_at": at - 3600, "ended_at": at, "sparkline": curve(reward),
        "metrics": {"reward": (reward, reward + 0.02)}, "levels": level(reward),
    }  # fmt: skip
    return run_row(name, **(usual | values))


FORK = running_row(
    "reverse-text-b", started_at=NOW - 2460, step=120, max_steps=200, sparkline=curve(0.81),
    metrics={"reward": (0.81, 0.84), "eval": (0.71, 0.74), "loss": (0.021, 0.014)}, levels=level(0.81),
    parent="id-baseline", parent_step=100,
    changed={"trainer.optim.lr": (1e-5, 3e-6), "seed": (0, 1)}, gpus=("NVIDIA H200", "NVIDIA H200"),
    seconds=2400.0, gpu_seconds=4800.0, attempts=2, commit="3f9c2a1b7d5e", is_dirty=True, host="gpu-1",
    versions={"prime-rl": "0.8.0", "vllm": "0.32.0", "torch": "2.9.1"}, generation="0.8", disk_bytes=13 << 30,
    checkpoints=(50, 100),
)  # fmt: skip
SWEEP = (
    running_row("lr-lr1e-06", group="lr", started_at=NOW - 600, step=12, sparkline=curve(0.3),
               metrics={"reward": (0.31, 0.33)}, levels=level(0.31),
               changed={"trainer.optim.lr": (1e-5, 1e-6)}),
    running_row("lr-lr3e-06", group="lr", started_at=NOW - 500, step=9, sparkline=curve(0.28),
               metrics={"reward": (0.28, 0.3)}, levels=level(0.28),
               changed={"trainer.optim.lr": (1e-5, 3e-6)}),
    ended("lr-lr1e-05", 0.1, 0.92, group="lr"),
)  # fmt: skip
RUNS = (
    FORK,
    *SWEEP,
    ended("baseline", 2, 0.74, is_best=True, tags=("baseline", "paper"), step=200, max_steps=200,
          note="the one in the paper", disk_bytes=40 << 30, changed={"max_steps": (100, 200)}),
    ended("collapsed", 3, 0.01, state="failed", parent="id-baseline", step=37, max_steps=200,
          reason=Reason("component_failed", "trainer: CUDA out of memory", ("trainer",)),
          sparkline=curve(0.6)[::-1]),
    ended("half", 4, 0.5, state="stopped", parent="id-collapsed", step=50),
    ended("moved", 5, 0.5, state="lost",
          reason=Reason("folder_gone", "/mnt/data/moved is not there: its disk is not mounted")),
    ended("torn", 6, 0.5, state="lost", metrics={}, levels={}, sparkline=(), step=None, max_steps=None,
          reason=Reason("folder_damaged", "/runs/torn/.rltui/experiment.toml is damaged: line 3")),
    ended("old", 30, 0.4, archived_at=NOW - DAY_S),
    ended("thrown-away", 31, 0.4, trashed_at=NOW - DAY_S),
    *(ended(f"try-{at:02}", 10 + at, 0.02 * at, changed={"seed": (0, at)}) for at in range(20)),
)  # fmt: skip
LONG_SWEEP = tuple(
    running_row(f"reverse-text-lr{lr}-bs{batch}", group="reverse-text", started_at=NOW - 600 - at, step=12,
                sparkline=curve(0.3), metrics={"reward": (0.31, 0.33)}, levels=level(0.31),
                gpus=("NVIDIA H200",),
                changed={"max_steps": (100, 3000), "trainer.optim.lr": (1e-5, lr),
                         "orchestrator.batch_size": (64, batch)})
    for at, (lr, batch) in enumerate((lr, batch) for lr in ("1e-05", "3e-05") for batch in (128, 256))
)  # fmt: skip
"""Names and values that differ at their ends."""
QUEUE = RunQueue(
    entries=(
        QueueEntry(id="q1", name="lr-lr3e-05", folder="/runs/lr-lr3e-05", group="lr", told="lr=3e-05", gpus=1,
                   gpu_bytes=40 << 30, words=("rl.toml",), stop_if=("reward < 0.2 at 50",), retries=1,
                   why="GPU 0 has 12 of 80 GiB free, it needs 40", added_at=NOW - 900),
        QueueEntry(id="q2", name="lr-lr1e-04", folder="/runs/lr-lr1e-04", group="lr", told="lr=0.0001",
                   gpus=1, words=("rl.toml",), why="waits behind lr-lr3e-05", added_at=NOW - 890),
    )
)  # fmt: skip
