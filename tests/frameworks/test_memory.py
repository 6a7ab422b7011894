"""Texts as the programs print them, each a file in `tests/data/oom`, beside what is to be read from it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from rltui.core.failure_cause import Cause, find_cause
from rltui.core.lines import plain_text
from rltui.frameworks.failures import COMMON

DATA = Path(__file__).parents[1] / "data" / "oom"
LOGS = sorted(DATA.glob("*.log"))


def cause_of(log: Path) -> Cause:
    cause = find_cause([plain_text(line) for line in log.read_text().splitlines()], COMMON)
    assert cause is not None
    return cause


@pytest.mark.parametrize("log", LOGS, ids=[log.stem for log in LOGS])
def test_the_figures_of_a_text(log: Path) -> None:
    memory = cause_of(log).memory
    assert memory is not None
    assert memory.model_dump(mode="json", exclude_defaults=True) == json.loads(
        log.with_suffix(".json").read_text()
    )


@pytest.mark.parametrize("log", LOGS, ids=[log.stem for log in LOGS])
def test_it_is_told_as_a_want_of_memory_that_would_come_again(log: Path) -> None:
    cause = cause_of(log)
    assert cause.hopeless
    assert cause.text.startswith("out of "), cause.text


@pytest.mark.parametrize(
    "line",
    [
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 400000000000 bytes. Error code 12",
        "MemoryError",
        "Error in memory profiling. Initial free memory 21.50 GiB, current free memory 22.75 GiB.",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
    ],
)
def test_what_is_not_device_memory_has_no_figures(line: str) -> None:
    cause = find_cause([line], COMMON)
    assert cause is not None
    assert cause.memory is None


def test_a_log_full_of_the_same_frame_takes_no_time() -> None:
    started = time.process_time()
    find_cause([" in capture_model" * 4000], COMMON)
    assert time.process_time() - started < 2.0
