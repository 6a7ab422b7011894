"""A queue with entries in every state."""

from __future__ import annotations

from tests.fakes.experiment import NOW
from tests.fakes.runs import FakeRuns, run_row, running_row

from rltui.core.runs.queue import QueueEntry, RunQueue


def entry(name: str, **values: object) -> QueueEntry:
    told = {
        "id": name,
        "name": name,
        "folder": f"/runs/{name}",
        "added_at": NOW - 3600.0,
        "words": ["rl.toml"],
    }
    return QueueEntry.from_plain(told | values)


def queue() -> RunQueue:
    lr = {"group": "sweep", "max_parallel": 2, "stop_if": ["reward < 0.2 at 50"]}
    return RunQueue(
        entries=(
            entry("sweep-lr1e-6", state="running", told="lr=1e-6", overrides=["--lr=1e-6"], **lr),
            entry("sweep-lr3e-6", state="starting", told="lr=3e-6", overrides=["--lr=3e-6"], **lr),
            entry("sweep-lr1e-5", told="lr=1e-5", why="sweep already runs 2 of at most 2",
                  overrides=["--lr=1e-5"], **lr),
            entry("big", gpus=4, retries=2, why="4 of 8 GPUs needed, 3 free: GPU 0 is used by sweep-lr1e-6"),
            entry("again", retries=2, failures=1, not_before=NOW + 90,
                  why="trainer: exited 1; retrying"),
            entry("base", state="done", ended_at=NOW - 60),
            entry("hot", state="stopped", ended_at=NOW - 90, stop_if=["kl > 10"],
                  why="stopped by the rule 'kl > 10': kl 14.2 at step 31"),
            entry("typo", state="failed", ended_at=NOW - 99, why="unknown knob [red]learning_rte[/red]"),
        )
    )  # fmt: skip


def with_queue(**values: object) -> FakeRuns:
    runs = FakeRuns(running_row("sweep-lr1e-6", metrics={"reward": (0.412, 0.5)}), run_row("base"))
    runs.queued = queue().replace(**values)
    return runs
