from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rltui.services import metrics
from rltui.services.metrics import LogMetrics


def read_row(component: str, line: str) -> Mapping[str, Any] | None:
    word, _, number = line.rpartition(" ")
    return {"step": int(number), "from": component} if word.endswith("step") and number.isdigit() else None


def steps(rows: list[Mapping[str, Any]]) -> list[int]:
    return [row["step"] for row in rows]


@pytest.fixture
def feed() -> LogMetrics:
    return LogMetrics(read_row, "step ")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "output.log"


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_rows_come_once_and_from_whole_lines(feed: LogMetrics, log: Path) -> None:
    assert feed.read({"trainer": log}) == [], "not there yet"
    append(log, b"hello\nstep 1\nste")
    assert feed.read({"trainer": log}) == [{"step": 1, "from": "trainer"}]
    append(log, b"p 2\n\x1b[32mstep\x1b[0m 3\nbar 1%\rbar 2%\rstep 4\n")
    assert steps(feed.read({"trainer": log})) == [2, 4], "colours inside the mark hide it; redraws do not"
    assert feed.read({"trainer": log}) == []
    assert not feed.restarted


def test_a_truncated_log_is_read_from_its_start(feed: LogMetrics, log: Path) -> None:
    append(log, b"step 1\nstep 2\nstep 3\n")
    feed.read({"trainer": log})
    log.write_bytes(b"step 7\n")
    assert steps(feed.read({"trainer": log})) == [7]
    assert feed.restarted


def test_the_next_attempt_comes_behind_the_rest_of_the_last(feed: LogMetrics, tmp_path: Path) -> None:
    first, second = tmp_path / "1.log", tmp_path / "2.log"
    append(first, b"step 1\n")
    feed.read({"trainer": first})
    append(first, b"step 2\n")
    append(second, b"step 1\n")
    assert steps(feed.read({"trainer": second})) == [2, 1]
    assert feed.restarted


def test_a_long_log_is_read_in_pieces_and_what_lies_far_back_not_at_all(
    feed: LogMetrics, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "READ_BYTES", 50)
    monkeypatch.setattr(metrics, "BACKLOG_BYTES", 200)
    append(log, b"".join(b"step %03d\n" % number for number in range(100)))
    found = steps(feed.read({"trainer": log}))
    assert found[0] == 78, "200 bytes from the end, the cut line left out"
    assert len(found) <= 50 // 9
    while feed.behind:
        found += steps(feed.read({"trainer": log}))
    assert found == list(range(78, 100))
    assert steps(feed.read_whole("trainer", log)) == list(range(78, 100))


def test_an_endless_line_is_not_kept(feed: LogMetrics, log: Path) -> None:
    for _ in range(3):
        append(log, b"x" * metrics.LINE_BYTES)
        assert feed.read({"trainer": log}) == []
    append(log, b"\nstep 5\n")
    assert steps(feed.read({"trainer": log})) == [5]


def test_without_a_mark_every_line_is_asked(log: Path) -> None:
    append(log, b"step 1\n\nother\nstep 2\n")
    assert steps(LogMetrics(read_row).read({"trainer": log})) == [1, 2]
