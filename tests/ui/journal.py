"""A journal with entries of every kind."""

from __future__ import annotations

from typing import Any

from tests.fakes.experiment import NOW

from rltui.core.experiment.journal import JournalEntry

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m[bold]not markup[/bold]\u202e"
DIFF = """\
--- /run/rl.toml
+++ /run/rl.toml
@@ -3,5 +3,5 @@
 [trainer.optim]
-lr = 1e-5 # as in the paper
+lr = 1e-4 # as in the paper
 weight_decay = 0.0
"""
LONG_DIFF = "--- rl.toml\n+++ rl.toml\n@@ -1,40 +1,40 @@\n" + "".join(
    f"-key_{number} = {number}\n+key_{number} = {number * 2}\n" for number in range(20)
)
STACKS = 'Thread 0x7f (idle): "MainThread"\n    recv (zmq/sugar/socket.py:812)\n    step (trainer.py:91)'


def entry(ago_s: float, kind: str, text: str, **fields: Any) -> JournalEntry:
    return JournalEntry(at=NOW - ago_s, kind=kind, text=text, **fields)


def journal() -> list[JournalEntry]:
    """Of a run of a day."""
    pair = ("orchestrator", "trainer")
    return [
        entry(90_000, "supervisor", "supervisor started, pid 4711"),
        entry(89_990, "plan", "start inference, orchestrator, trainer", data={"action": "start"}),
        entry(89_990, "resume", "from the start", data={"step": None}),
        entry(89_900, "start", "inference starting", component="inference", attempt=1),
        entry(
            89_700, "ready", "inference ready", component="inference", attempt=1, data={"took_s": 200.0}
        ),
        entry(89_650, "ready", "trainer ready", component="trainer", attempt=1, data={"took_s": 42.0}),
        entry(50_000, "checkpoint", "checkpoint 100 is complete", step=100),
        entry(9_000, "edit", "trainer.optim.lr 1e-5 → 1e-4", step=180, data={"diff": DIFF}),
        entry(
            8_990,
            "plan",
            "stop trainer, orchestrator; start orchestrator, trainer",
            step=180,
            data={"action": "restart", "stop": pair[::-1], "start": pair},
        ),
        entry(8_900, "resume", "from checkpoint 100", step=100, data={"step": 100}),
        entry(7_000, "note", "the new data from here on", step=130),
        entry(
            5_000,
            "alert",
            "reward collapsed: reward 0.02 over the last 8 steps, 0.61 before; take back"
            " the edit of the learning rate (B), or go back to checkpoint 100",
            step=151,
            data={"alert": "metric", "severity": "warning", "suppressed": 3},
        ),
        entry(4_000, "stall", "stacks of trainer: /run/stall.txt", component="trainer",
              attempt=2, step=153, data={"stacks": STACKS}),
        entry(
            600,
            "exit",
            "trainer failed: killed by SIGKILL (the kernel ended it for want of memory)",
            component="trainer",
            attempt=2,
            step=153,
            data={"failed": True, "exit_code": None, "signal": "SIGKILL"},
        ),
        entry(60, "edit", f"write: 20 keys {EVIL}", step=153, data={"diff": LONG_DIFF}),
    ]  # fmt: skip
