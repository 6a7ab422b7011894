"""What the output of an attempt says of its end; what old attempts leave is bounded."""

from __future__ import annotations

import json
from pathlib import Path

from rltui.core.layout import ComponentSpec
from rltui.core.lifecycle import ExitInfo
from rltui.frameworks.prime_rl.log_lines import FAILURES
from rltui.services.experiment_files import ControlFolder
from rltui.services.processes import boot_identity
from rltui.services.runs.attempt_end import LASTED_S, NEWEST_KEPT, explained, prune_attempts


def attempt(control: ControlFolder, lasted_s: float | None) -> int:
    number = control.new_attempt("trainer")
    folder = control.attempt_dir("trainer", number)
    (folder / "output.log").write_text("x")
    nothing = ("shim_pid", "shim_start", "pid", "pid_start", "session", "exit_code", "signal", "error")
    record = {
        **dict.fromkeys(nothing),
        "experiment": "one",
        "component": "trainer",
        "attempt": number,
        "boot": boot_identity(),
        "state": "running" if lasted_s is None else "exited",
        "argv": ["x"],
        "cwd": "/",
        "log": str(folder / "output.log"),
        "started_at": 100.0,
        "ended_at": None if lasted_s is None else 100.0 + lasted_s,
        "stop_requested": False,
        "descendants": [],
    }
    (folder / "attempt.json").write_text(json.dumps(record))
    return number


def test_old_attempts_that_came_to_nothing_are_removed(tmp_path: Path) -> None:
    """Finding H22."""
    control = ControlFolder(tmp_path)
    first = attempt(control, LASTED_S)
    gone = [attempt(control, 2.0) for _ in range(5)]
    unknown = attempt(control, None)
    unread = control.new_attempt("trainer")
    newest = [attempt(control, 2.0) for _ in range(NEWEST_KEPT)]
    prune_attempts(control, "trainer")
    assert control.attempts("trainer") == [first, unknown, unread, *newest]
    assert not any(control.attempt_dir("trainer", number).exists() for number in gone)
    assert control.new_attempt("trainer") == newest[-1] + 1, "a number is never used twice"


def test_a_launcher_that_submits_and_leaves_says_where_the_run_is(tmp_path: Path) -> None:
    """Finding A10."""
    job, log = ComponentSpec(id="rl", command=("rl",), kind="job"), tmp_path / "output.log"
    log.write_text("Submitting: sbatch /o/rl.sbatch\n12:00:00 SUCCESS Submitted batch job 4711\n\nLogs:\n")
    found = explained(ExitInfo(code=0), job, log, FAILURES)
    assert str(found).startswith("exited 0 (submitted to SLURM as job 4711")
    log.write_text("RL training finished!\n")
    assert explained(ExitInfo(code=0), job, log, FAILURES) == ExitInfo(code=0)
    log.write_text("Submitted batch job 4711\nRuntimeError: boom\n")
    failed = explained(ExitInfo(code=1), job, log, FAILURES)
    assert "boom" in str(failed)
    assert "4711" not in str(failed)
