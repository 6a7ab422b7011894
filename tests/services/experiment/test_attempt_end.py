"""What the output of an attempt says of its end; what old attempts leave is bounded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.fakes.past_run import write_attempt

from rltui.core.experiment.layout import ComponentSpec
from rltui.core.experiment.lifecycle import ExitInfo
from rltui.core.logs.failure_cause import Cause
from rltui.frameworks.failures import COMMON
from rltui.frameworks.prime_rl.log_lines import FAILURES
from rltui.frameworks.tinyrl import TINYRL
from rltui.services.experiment.attempt_end import (
    MIN_KEPT_ATTEMPTS,
    MIN_RUNTIME_S,
    TAIL_BYTES,
    cause_of_end,
    explained,
    last_lines,
    prune_attempts,
)
from rltui.services.experiment.files import ControlFolder


def attempt(control: ControlFolder, lasted_s: float | None) -> int:
    number = control.new_attempt("trainer")
    ended_at = None if lasted_s is None else 100.0 + lasted_s
    write_attempt(control.attempt_dir("trainer", number), started_at=100.0, ended_at=ended_at)
    return number


def test_old_attempts_that_came_to_nothing_are_removed(tmp_path: Path) -> None:
    """Finding H22."""
    control = ControlFolder(tmp_path)
    first = attempt(control, MIN_RUNTIME_S)
    gone = [attempt(control, 2.0) for _ in range(5)]
    unknown = attempt(control, None)
    unread = control.new_attempt("trainer")
    newest = [attempt(control, 2.0) for _ in range(MIN_KEPT_ATTEMPTS)]
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


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
HOST_OOM = Cause(
    "by the kernel's OOM killer: the machine, or its container, ran out of memory; reduce memory use",
    hopeless=True,
    code="oom_host",
)
PERHAPS = Cause(
    "possibly by the kernel's OOM killer, which killed a process on this machine; check `dmesg`",
    hopeless=False,
    code="oom_host",
)


def cause(
    log: Path, *, exit_code: int | None = None, signal: str | None = None, host_oom: str | None = ""
) -> Cause | None:
    return cause_of_end(log, exit_code=exit_code, signal=signal, patterns=COMMON, host_oom=host_oom)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "output.log"
    path.write_text(f"step 1\n{OOM}\n")
    return path


def test_what_the_output_says(log: Path) -> None:
    found = cause(log, exit_code=1)
    assert found is not None
    assert found.hopeless
    assert cause(log, exit_code=0) == found, "vLLM exits 0 after an engine crash"
    assert cause(log, signal="SIGABRT") == found


def test_colour_and_redrawn_lines_do_not_hide_it(log: Path) -> None:
    log.write_bytes(b"\x1b[31m\x1b[1mload: 10%|x\r\x1b[1mCUDA out of\x1b[0m memory\x1b[0m\r\n")
    assert cause(log, exit_code=1) is not None


def test_only_the_end_of_the_log_is_read(log: Path) -> None:
    with log.open("a") as file:
        file.write("step 2\n" * TAIL_BYTES)
    assert cause(log, exit_code=1) is None
    lines = last_lines(log)
    assert set(lines) == {"step 2", ""}, "a line that was cut is left out"
    assert cause(log.with_name("none"), exit_code=1) is None


@pytest.mark.parametrize(
    ("signal", "host_oom", "text"),
    [
        ("SIGKILL", "", "from outside; the kernel's OOM killer did not run"),
        ("SIGKILL", None, "from outside, or by the kernel's OOM killer; check `dmesg`"),
        ("SIGTERM", None, "from outside"),
        ("SIGINT", "own", "from outside"),
    ],
)
def test_a_signal_from_outside_is_not_the_outputs_fault(
    log: Path, signal: str, host_oom: str | None, text: str
) -> None:
    """Finding U28."""
    assert cause(log, signal=signal, host_oom=host_oom) == Cause(
        text, hopeless=False, code="killed_outside", from_outside=True
    )


def test_a_kill_below_a_shell_is_from_outside_where_the_output_says_nothing(log: Path) -> None:
    found = cause(log, exit_code=137)
    assert found is not None
    assert found.text.startswith("out of GPU memory")
    log.write_text("step 1\n")
    assert cause(log, exit_code=137) == Cause(
        "from outside; the kernel's OOM killer did not run",
        hopeless=False,
        code="killed_outside",
        from_outside=True,
    )


def test_what_the_host_of_a_component_says_of_a_kill_stays(log: Path) -> None:
    spec = ComponentSpec(id="trainer", command=("x",))
    ended = ExitInfo(signal="SIGKILL", cause="OOMKilled")
    assert explained(ended, spec, log, COMMON) == ended


def test_a_kill_while_the_kernel_killed_is_for_want_of_memory(log: Path) -> None:
    log.write_text("step 1\n")
    assert cause(log, signal="SIGKILL", host_oom="own") == HOST_OOM
    assert cause(log, exit_code=137, host_oom="own") == HOST_OOM, "killed below a shell or `uv run`"
    assert cause(log, signal="SIGSEGV", host_oom="own") is None
    assert cause(log, exit_code=1, host_oom="own") is None, "another process was killed"
    assert cause(log, signal="SIGKILL", host_oom="machine") == PERHAPS, "by whom is not known"


def test_a_child_that_was_killed_while_the_kernel_killed(log: Path) -> None:
    for line in (
        "ERROR Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor.",
        "  traceback : Signal 9 (SIGKILL) received by PID 4711",
        "  exitcode  : -9 (pid: 4711)",
    ):
        log.write_text(f"{line}\n")
        assert cause(log, exit_code=1, host_oom="own") == HOST_OOM, line
        assert cause(log, exit_code=1) != HOST_OOM, line


def test_a_usage_error_of_an_unknown_program_is_a_config_error(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        "import argparse\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--lr', type=float)\n"
        "if parser.parse_args().lr > 1: parser.error('lr is too high for this model')\n"
    )
    log = tmp_path / "output.log"
    with log.open("wb") as file:
        done = subprocess.run(
            [sys.executable, str(program), "--lr", "2"], stdout=file, stderr=file, check=False
        )
    assert cause(log, exit_code=done.returncode) == Cause(
        "config error: wrong arguments: lr is too high for this model", hopeless=True, code="config_rejected"
    )
    log.write_text("test 3 failed\n")
    assert cause(log, exit_code=2) is None, "2 alone is no usage error"


@pytest.mark.slow
def test_what_tinyrl_itself_says_of_a_wrong_config(tmp_path: Path) -> None:
    config = tmp_path / "rl.toml"
    for text, arguments, what in (
        ("max_step = 3\n", ["trainer", "@", str(config)], "rl.toml: max_step: unknown key"),
        ("max_steps = \n", ["trainer", "@", str(config)], "rl.toml:1:13: TOML syntax error"),
        ("", ["trainer", "@", str(config), "--max-steps", "x"], "command line: max_steps: "),
        ("", ["train"], "unknown program `train`"),
        ("", ["trainer", "x"], "unexpected argument `x`"),
    ):
        config.write_text(text)
        log = tmp_path / "output.log"
        with log.open("wb") as file:
            done = subprocess.run(
                [sys.executable, "-m", "rltui.tinyrl", *arguments], stdout=file, stderr=file, check=False
            )
        found = cause_of_end(
            log, exit_code=done.returncode, signal=None, patterns=TINYRL.failures, host_oom=""
        )
        assert found is not None, text
        assert found.text.startswith(f"config error: {what}")
        assert found.hopeless


def test_lines_before_an_end(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_text("loading\nstill loading\nKeyboardInterrupt\n")
    assert last_lines(log, end=22) == ["loading", "still loading", ""]
    assert last_lines(log, end=1000) == last_lines(log)


def test_whoever_leaves_a_terminal_wants_its_end(tmp_path: Path) -> None:
    spec = ComponentSpec(id="shell", command=("sh",), tty=True)
    ends = {
        ExitInfo(code=3): True,
        ExitInfo(signal="SIGKILL"): False,
        ExitInfo(code=127, error="cannot run 'sh'"): False,
    }
    for ended, is_wanted in ends.items():
        assert explained(ended, spec, tmp_path / "none", COMMON).on_request is is_wanted, ended


def test_the_last_text_that_the_layout_looks_for_tells_what_came_of_it(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_bytes(b"see https://a.b/first\n\x1b[32mdone\x1b[0m\n  url: https://a.b/last\n")
    spec = ComponentSpec(id="publish", command=("x",), outcome=r"https?://\S+")
    assert explained(ExitInfo(code=0), spec, log, COMMON).cause == "https://a.b/last"
    assert explained(ExitInfo(code=0), spec, tmp_path / "none", COMMON).cause is None
    assert explained(ExitInfo(code=1), spec, log, COMMON).cause is None


def test_a_wanted_end_needs_no_cause(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_bytes(b"RuntimeError: CUDA error: out of memory\n")
    spec, wanted = ComponentSpec(id="trainer", command=("x",)), ExitInfo(code=1, on_request=True)
    assert explained(wanted, spec, log, COMMON) == wanted
    assert explained(ExitInfo(code=1), spec, log, COMMON).cause
