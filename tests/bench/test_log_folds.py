"""What it costs to say which lines of a log tell nothing new, beside reading the same lines for display."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest
from tests.bench.table import Row
from tests.core.logs.test_folds import step

from rltui.core.logs.folds import LogFolds
from rltui.core.logs.lines import parse_line

pytestmark = pytest.mark.bench

TURNS = 15
RANKS = 8
IN_VIEW = 40
NEW = 10
"""Lines between two looks at a log."""
STEPS = [line for number in range(600) for line in step(number % 60)]
CALLS = [f'  File "/work/trainer/part_{number}.py", line {number}, in run' for number in range(18)]
TRACEBACK = ["Traceback (most recent call last):", *CALLS, "RuntimeError: CUDA error on device"]
TRACEBACKS = 3 * [f"[trainer{rank}]:{text} {rank}" for text in TRACEBACK for rank in range(RANKS)]
"""All ranks at once, three times."""


def fold(lines: Sequence[str], new: int, asked: int) -> None:
    """Of a log that grows by so many lines at a time, the newest of which are asked about."""
    folds = LogFolds(lines.__getitem__, lambda _: "")
    for stop in range(new, len(lines) + 1, new):
        folds.forget(stop - new - 1)
        folds.set_range(0, stop)
        for number in range(max(0, stop - asked), stop):
            if not folds.is_hidden(number):
                folds.count_text(number)


def at_once(lines: Sequence[str]) -> None:
    fold(lines, len(lines), len(lines))


def in_pieces(lines: Sequence[str]) -> None:
    fold(lines, NEW, IN_VIEW)


def milliseconds(run: Callable[[Sequence[str]], object], lines: Sequence[str]) -> float:
    """CPU time, whatever else runs; the best of some turns."""
    spent = []
    for _ in range(TURNS):
        started = time.process_time()
        run(lines)
        spent.append(time.process_time() - started)
    return 1000 * min(spent)


def read(lines: Sequence[str]) -> None:
    for line in lines:
        parse_line(line)


@pytest.mark.parametrize(
    ("what", "run", "lines", "most"),
    [
        ("3,000 lines of steps at once", at_once, STEPS, 4.0),
        ("480 lines of eight tracebacks at once", at_once, TRACEBACKS, 3.5),
        ("3,000 lines of steps, ten at a time", in_pieces, STEPS, 11.0),
        ("480 lines of eight tracebacks, ten at a time", in_pieces, TRACEBACKS, 9.0),
    ],
)
def test_folding_beside_reading(
    table: list[Row], what: str, run: Callable[[Sequence[str]], object], lines: Sequence[str], most: float
) -> None:
    ours, peer = milliseconds(run, lines), milliseconds(read, lines)
    table.append(Row(f"folding {what}", ours, "ms", "parse_line", peer, most * peer))
    assert ours < most * peer
