from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.core.logs.lines import Level
from rltui.core.logs.prefix import LogClock, format_prefix, parse_prefix


@pytest.mark.parametrize(
    ("line", "expected"),
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
        ("(EngineCore pid=12) Traceback (most", "EngineCore Traceback (most"),
        ("[trainer0]:  File x, line 3", "trainer0    File x, line 3"),
        ("  File x, line 3", "  File x, line 3"),
        ("23:03:15 no level", "23:03:15   no level"),
        ("INFO but no head", "INFO but no head"),
        ("", ""),
    ],
)
def test_heads_fold_into_a_narrow_column(line: str, expected: str) -> None:
    head = parse_prefix(line)
    assert format_prefix(head) + line[head.length :] == expected


@given(st.text(alphabet="0123:-[]() IWEFNO.|pid=\t\x1bTé", max_size=60))
def test_a_head_is_part_of_its_line(line: str) -> None:
    head = parse_prefix(line)
    assert 0 <= head.length <= len(line)
    LogClock(1.8e9).older(head)


def test_dates_are_rebuilt_in_both_directions() -> None:
    evening = LogClock(1_800_000_000.0)
    evening.older(parse_prefix("2027-01-10 00:30:00 INFO x"))
    midnight = evening.now - 1800
    texts = ["23:59:59 INFO", "23:59:58 INFO", "01:00:00 INFO", "23:00:00 INFO"]
    back = [evening.older(parse_prefix(text)) for text in texts]
    assert [None if at is None else at - midnight for at in back] == [-1, -2, -82_800, -90_000]
    morning = LogClock(midnight - 7200)
    forth = [
        morning.newer(parse_prefix(text)) for text in ("23:00:00 INFO", "00:00:05 INFO", "22:00:00 INFO")
    ]
    assert [None if at is None else at - midnight for at in forth] == [-3600, 5, 79_200]
    assert morning.newer(parse_prefix("no clock")) is None
    assert morning.newer(parse_prefix("29:99:99 INFO x")) is None


def test_the_router_says_its_message_behind_its_place() -> None:
    """Finding R7: time and module took all of a pane."""
    places = ("vllm_router_rs::server: src/server.rs:1025: ", "a::b::c_d: src/a/b.rs:7: ", "a::b: ", "")
    for place in places:
        head = f"2026-11-24 17:39:52  INFO {place}"
        prefix = parse_prefix(f"{head}Starting router: on 0.0.0.0:23000")
        assert (prefix.length, prefix.clock, prefix.level) == (len(head), "17:39:52", Level.INFO), place
    assert parse_prefix("2026-11-24 17:39:52  INFO note: it is::so: yes").length == len(
        "2026-11-24 17:39:52  INFO "
    )
