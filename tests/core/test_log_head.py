from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.core.log_folds import LogFolds
from rltui.core.log_head import LogClock, folded_head, log_head


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("23:03:15    INFO Step 1", "23:03:15 I Step 1"),
        ("18:15:07 [SUCCESS] Step 2 | x", "18:15:07 S Step 2 | x"),
        ("[trainer0]:23:03:15 WARNING slow", "23:03:15 W slow"),
        ("(APIServer pid=1) INFO 11-20 23:32:46 [api.py:1] hello", "23:32:46 I hello"),
        ("(Worker_TP0 pid=1) ERROR 11-20 23:32:46 [a.py:1] ", "23:32:46 E "),
        ("INFO:     Application startup complete.", "         I Application startup complete."),
        ("[W1120 23:33:07.367283046 utils.cpp:68] Warning: NUMA", "23:33:07 W Warning: NUMA"),
        ("2026-11-21 23:03:15,123 - verifiers.x - INFO - hi", "23:03:15 I hi"),
        ("2026-11-21 23:03:15.123 | INFO     | a.b:main:12 - hi", "23:03:15 I hi"),
        ("(EngineCore pid=12) Traceback (most", "Traceback (most"),
        ("  File x, line 3", "  File x, line 3"),
        ("23:03:15 no level", "23:03:15   no level"),
        ("INFO but no head", "INFO but no head"),
        ("", ""),
    ],
)
def test_heads_fold_into_a_narrow_column(line: str, shown: str) -> None:
    head = log_head(line)
    assert folded_head(head) + line[head.length :] == shown


@given(st.text(alphabet="0123:-[]() IWEFNO.|pid=\t\x1bTé", max_size=60))
def test_a_head_is_part_of_its_line(line: str) -> None:
    head = log_head(line)
    assert 0 <= head.length <= len(line)
    LogClock(1.8e9).older(head)


def visible(*lines: str) -> list[str]:
    folds = LogFolds(lambda number: lines[number], lambda number: "")
    folds.stop = len(lines)
    rows = [number for number in range(len(lines)) if not folds.is_hidden(number)]
    counts = [(lines[number], folds.count(number)) for number in rows]
    return [f"×{count} {line}" if count > 1 else line for line, count in counts]


def test_repeated_lines_are_one_with_a_count() -> None:
    assert visible("12:00:00 INFO a", "12:00:01 INFO a", "12:00:02 INFO a", "b", "b", "", "", "c") == [
        "×3 12:00:02 INFO a",
        "×2 b",
        "",
        "",
        "c",
    ]
    assert visible("12:00:00 INFO a", "12:00:01 ERROR a") == ["12:00:00 INFO a", "12:00:01 ERROR a"]


def test_of_a_progress_bar_the_newest_state_is_left() -> None:
    assert visible(
        "Loading shards:  50% Completed | 1/2",
        "Loading shards: 100% Completed | 2/2",
        "Generating: 100%|##| 8/8 [00:00<00:00]",
        "12:00:01 INFO Step 1",
        "Generating: 100%|##| 8/8 [00:01<00:00]",
        "12:00:01 INFO Step 2",
    ) == [
        "×2 Loading shards: 100% Completed | 2/2",
        "12:00:01 INFO Step 1",
        "×2 Generating: 100%|##| 8/8 [00:01<00:00]",
        "12:00:01 INFO Step 2",
    ]


def test_tracebacks_of_further_ranks_are_one() -> None:
    def of(rank: int, last: str = "RuntimeError: device 3") -> list[str]:
        texts = ("Traceback (most recent call last):", f'  File "t.py", line {rank}', last)
        return [f"[trainer{rank}]:{text}" for text in texts]

    first, *rest = of(0)
    assert visible(*of(0), *of(1), *of(2), "end") == [f"×3 {first}", *rest, "end"]
    assert visible(*of(0), *of(1, "ValueError: other")) == [*of(0), *of(1, "ValueError: other")]
    both = [line for pair in zip(of(0), of(1), strict=True) for line in pair]
    assert visible(*both) == [
        "×2 [trainer1]:Traceback (most recent call last):",
        *both[2:4],
        "×2 [trainer1]:RuntimeError: device 3",
    ]


def test_a_run_without_end_is_shown_now_and_then() -> None:
    assert len(visible(*["same"] * 1000)) == 8


def test_dates_are_rebuilt_in_both_directions() -> None:
    evening = LogClock(1_800_000_000.0)
    evening.older(log_head("2027-01-10 00:30:00 INFO x"))
    midnight = evening.now - 1800
    texts = ["23:59:59 INFO", "23:59:58 INFO", "01:00:00 INFO", "23:00:00 INFO"]
    back = [evening.older(log_head(text)) for text in texts]
    assert [None if at is None else at - midnight for at in back] == [-1, -2, -82_800, -90_000]
    morning = LogClock(midnight - 7200)
    forth = [morning.newer(log_head(text)) for text in ("23:00:00 INFO", "00:00:05 INFO", "22:00:00 INFO")]
    assert [None if at is None else at - midnight for at in forth] == [-3600, 5, 79_200]
    assert morning.newer(log_head("no clock")) is None
    assert morning.newer(log_head("29:99:99 INFO x")) is None
