"""Record the box of the contracts: `python -m tests.contracts.record` runs real experiments of the embedded
engine for about two minutes and keeps what they leave on disk in `box.tar.xz`.

Folders that an earlier version wrote must stay readable, so a new recording is kept beside the old one. The
outputs change with it: `pytest tests/contracts --snapshot-update`.
"""

from __future__ import annotations

import os
import signal
import sys

from tests.conftest import Box, temporary_box
from tests.contracts.recorded import pack
from tests.engine import write_example
from tests.waiting import retry_until

KNOBS = {
    "interval = 10 ": "interval = 4 ",
    "batch_size = 128 ": "batch_size = 32 ",
    "rollouts_per_example = 16 ": "rollouts_per_example = 8 ",
}


def step_of(box: Box, name: str) -> int:
    """The newest step of a living run."""
    return int(box.json("status", name)["step"] or 0)


def record(box: Box, port: int) -> None:
    """A run with an edit, a restart and evaluations; a fork of it that was killed; a queue that is paused."""

    def run(*arguments: str, code: int = 0) -> None:
        done = box.run(*arguments, timeout_s=300.0)
        print("+ rltui", *arguments, "->", done.returncode, flush=True)
        assert done.returncode == code, done.stdout + done.stderr

    write_example(box.work, port=port, steps=24, replaced=KNOBS, sft_steps=30)
    run("up", "sft.toml", "rl.toml", "-n", "first", "-o", "outputs/first", "--no-wait")
    retry_until(lambda: step_of(box, "first") >= 9, timeout_s=120.0)
    run("set", "first", "trainer.optim.lr=5e-4", "--restart", "--yes", "--wait")
    run("events", "add", "first", "twice the learning rate")
    retry_until(lambda: box.json("status", "first")["state"] == "done", timeout_s=120.0)
    run("eval", "run", "first", "--from", "8", "--examples", "6", "--rollouts", "2", "--wait")
    run("eval", "run", "first", "--from", "24", "--examples", "6", "--rollouts", "2", "--wait")
    run("down", "first")
    run("runs", "tag", "+good", "first")
    run("runs", "note", "first", "what all others are compared with")
    run("fork", "first", "-n", "second", "--set", "seed=1", "--set", "max_steps=60")
    retry_until(lambda: step_of(box, "second") >= 6, timeout_s=120.0)
    os.kill(int(box.component("trainer", experiment="second")["pid"]), signal.SIGKILL)
    box_failed = lambda: box.json("status", "second")["state"] == "failed"  # noqa: E731
    retry_until(box_failed, timeout_s=60.0)
    run("down", "second")
    run("queue", "pause")
    run("queue", "add", "rl.toml", "-n", "third", "-o", "outputs/third", "--set", "seed=2")


def main() -> int:
    """Record it."""
    with temporary_box() as box:
        record(box, port=18765)
        pack(box.root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
