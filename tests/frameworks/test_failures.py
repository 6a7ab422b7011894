"""Real texts of the programs that are run, word for word, and what is made of them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rltui.core.experiment.reason_codes import REASON_CODES
from rltui.core.logs import failure_cause
from rltui.core.logs.failure_cause import LONGEST_LINE, FailurePattern, find_cause
from rltui.core.logs.lines import plain_text
from rltui.frameworks import registry
from rltui.frameworks.failures import COMMON
from rltui.frameworks.prime_rl.log_lines import FAILURES as PRIME_RL
from rltui.frameworks.tinyrl import TINYRL

DATA = Path(__file__).parents[1] / "data"
CASE = re.compile(
    r"^== (?P<name>[\w.-]+)(?P<hopeless>, hopeless)?(?:, of (?P<framework>\S+))?[^\n]*\n"
    r"(?P<text>[^\n]+)\n--\n(?P<output>(?:(?!== )[^\n]*\n)*)",
    re.MULTILINE,
)
"""A name, whether a restart would fail the same way, whose patterns are used; the cause, `-` for none; the
output.
"""
CASES = [pytest.param(case, id=case["name"]) for case in CASE.finditer((DATA / "failures.txt").read_text())]


@pytest.mark.parametrize("case", CASES)
def test_the_cause_of_an_output(case: re.Match[str]) -> None:
    patterns = registry.get(case["framework"]).failures if case["framework"] else COMMON
    cause = find_cause(case["output"].splitlines(), patterns)
    if case["text"] == "-":
        assert cause is None
        return
    assert cause is not None
    assert cause.code in REASON_CODES
    assert cause.lines
    assert (cause.text, cause.hopeless, cause.memory) == (case["text"], bool(case["hopeless"]), None)


@pytest.mark.parametrize("log", [pytest.param(log, id=log.stem) for log in sorted(DATA.glob("oom/*.log"))])
def test_a_want_of_device_memory_has_sizes_and_would_come_again(log: Path) -> None:
    cause = find_cause([plain_text(line) for line in log.read_text().splitlines()], COMMON)
    assert cause is not None
    assert cause.memory is not None
    sizes = {name: value for name, value in cause.memory.to_plain().items() if value not in (None, "", [])}
    assert cause.code in ("oom_cuda", "oom_host")
    assert {"text": cause.text, **sizes} == json.loads(log.with_suffix(".json").read_text())
    assert cause.hopeless


TORCHRUN = {  # P2; written by torchrun of torch 2.13 as prime-rl starts it
    "assert": "AssertionError in prog.py:4",
    "value": "ValueError: num_heads 3 does not divide 8",
    "recorded": "ValueError: num_heads 3 does not divide 8",
    "import": "ImportError: cannot import name 'nothing_there' from 'torch'",
    "module": "No module named 'flash_attn_x'; install it in the framework's environment",
    "file": "FileNotFoundError: [Errno 2] No such file or directory: '/nope/checkpoints/step_3/trainer.pt'",
    "timeout": "httpx.ReadTimeout in prog.py:14",
    "chain": "RuntimeError: no rewards in the batch",
    "killed": "rank 0 was killed by SIGKILL; unless you killed it, check the host's memory",
}


@pytest.mark.parametrize(("case", "text"), TORCHRUN.items(), ids=TORCHRUN)
def test_the_rank_s_own_line_goes_before_torchrun_s_report(case: str, text: str) -> None:
    cause = find_cause((DATA / f"torchrun/{case}.log").read_text().splitlines(), PRIME_RL)
    assert cause is not None
    assert cause.text.startswith(text)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("RuntimeError: Found no NVIDIA driver on your system. Please", "no usable GPU: Found no"),
        (
            (
                "[rank0]:[E1122 02:12:25.943 ProcessGroupNCCL.cpp:632] Watchdog caught collective operation "
                "timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1) ran for 600014 milliseconds before "
            ),
            "communication between GPUs timed out: ALLREDUCE waited 10m",
        ),
        ("[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", "out of GPU memory"),
        ("12:00:00 INFO nothing to see", "rank 0 exited 1; its output is in its own file"),
    ],
    ids=["driver", "nccl", "memory", "silent"],
)
def test_ranks_say_it_behind_their_prefix(line: str, text: str) -> None:
    report = (DATA / "torchrun/value.log").read_text().partition("\nE1122")[2]
    cause = find_cause([f"[trainer0]:{line}", *f"E1122{report}".splitlines()], PRIME_RL)
    assert cause is not None
    assert cause.text.startswith(text)


UNITS = (
    "7",
    " ",
    "a",
    "[",
    "([{",
    "-",
    "│ ",
    "a:b: ",
    "Error: ",
    "a.B",
    "\n",
    " \n",
    "│ \n",
    "1.",
    "/a",
    '"',
)
STARTS = (
    "1 validation error for XConfig\n",
    "Free memory on device (1/1 GiB) on startup is less than desired GPU memory utilization ",
    " in capture_model ",
    "CUDA out of memory. Tried to allocate 1 GiB. GPU 1 has a total capacity of 1 GiB of which 1 GiB is free",
    "ModuleNotFoundError: ",
    "╭─ Value error ─\n",
    '  File "a", line 1\n',
    "NCCL error\n",
    "DefaultCPUAllocator: can't allocate memory",
    "  traceback : Traceback \n",
    "(EngineCore pid=1) ERROR ",
    "rl.toml: ",
    "x.cu:1: ",
    "ValueError: \n",
    "Starting router on http://0.0.0.0:8000/v1\n",
    "failed to install Prometheus metrics exporter ",
)


def hostile(size: int) -> Iterator[str]:
    """Texts that make careless patterns try again from every place."""
    yield from ((unit * size)[:size] for unit in (*UNITS, *STARTS))
    yield from (
        start + (unit * size)[:size] for start in STARTS for unit in (" ", "7", "│ \n", "a", "    \n")
    )


@pytest.mark.slow
def test_patterns_work_in_proportion_to_what_they_read(monkeypatch: pytest.MonkeyPatch) -> None:
    # cutting would hide what they do with long lines
    monkeypatch.setattr(failure_cause, "LONGEST_LINE", 1 << 30)
    table = (*TINYRL.failures, *PRIME_RL)

    def cost(text: str) -> float:
        started = time.thread_time()
        find_cause(text.split("\n"), table)
        return time.thread_time() - started

    for short, long in zip(hostile(4_000), hostile(32_000), strict=True):
        assert cost(long) < 20 * cost(short) + 0.5, long[:120]  # a square would be 64 times as much


def test_a_log_full_of_the_same_frame_takes_no_time() -> None:
    started = time.process_time()
    find_cause([" in capture_model" * 4000], COMMON)
    assert time.process_time() - started < 2.0


def test_patterns_never_see_more_of_a_line() -> None:
    whole = FailurePattern("F", r"^(?P<what>[^\n]+)$", lambda groups: str(len(groups["what"])))
    cause = find_cause(["7" * 65_000], [whole])
    assert cause is not None
    assert cause.text == str(LONGEST_LINE)
