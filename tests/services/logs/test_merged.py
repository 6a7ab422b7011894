from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from rltui.core.logs.source import LogChange, LogEntry
from rltui.services.logs.merged import MergedLog, offset_at

MIDNIGHT = time.mktime((2026, 11, 22, 0, 0, 0, 0, 0, -1))


def written(folder: Path, name: str, text: str, changed: float = MIDNIGHT + 60) -> LogEntry:
    path = folder / name
    path.write_text(text)
    os.utime(path, (changed, changed))
    return LogEntry(name, 1, str(path), MIDNIGHT - 3600)


def lines(log: MergedLog) -> list[str]:
    return [f"{log.label(number).strip()}: {log.line(number)}" for number in range(log.start, log.stop)]


@pytest.fixture
def entries(tmp_path: Path) -> list[LogEntry]:
    return [
        written(tmp_path, "a", "start\n23:59:58 INFO 1\n  more\n00:00:01 INFO 3\n"),
        written(tmp_path, "b", "INFO 11-21 23:59:59 [x.py:1] 2\n00:00:02 INFO 4\nunfin", MIDNIGHT + 2),
        written(tmp_path, "none", ""),
    ]


def test_lines_are_in_the_order_of_their_times_across_midnight(entries: list[LogEntry]) -> None:
    log = MergedLog(entries)
    assert lines(log) == [
        "a: start",
        "a: 23:59:58 INFO 1",
        "a:   more",
        "b: INFO 11-21 23:59:59 [x.py:1] 2",
        "a: 00:00:01 INFO 3",
        "b: 00:00:02 INFO 4",
    ]
    assert not log.load_older()
    near = log.number_near(MIDNIGHT - 1)
    assert near is not None
    assert log.line(near).endswith(" 2")
    log.close()


def test_new_lines_are_merged_when_they_are_finished(entries: list[LogEntry]) -> None:
    log = MergedLog(entries)
    before = log.start
    assert log.poll(may_skip=True) is LogChange.NONE
    with Path(entries[1].path).open("a") as file:
        file.write("ished\n00:00:09 INFO 6\n")
    with Path(entries[0].path).open("a") as file:
        file.write("00:00:08 INFO 5\n")
    assert log.poll(may_skip=True) is LogChange.GREW
    assert (log.start, log.stop) == (before, 3)
    assert lines(log)[-3:] == ["b: unfinished", "a: 00:00:08 INFO 5", "b: 00:00:09 INFO 6"]
    Path(entries[0].path).write_text("00:00:10 INFO anew\n")
    assert log.poll(may_skip=True) is LogChange.RESET
    assert "a: 00:00:10 INFO anew" in lines(log)
    log.close()


def test_older_lines_come_as_they_are_wanted(tmp_path: Path) -> None:
    text = "".join(f"{n // 3600:02d}:{n // 60 % 60:02d}:{n % 60:02d} INFO {n}\n" for n in range(5000))
    end = MIDNIGHT + 5000
    log = MergedLog([written(tmp_path, "a", text, end), written(tmp_path, "b", text, end)])
    assert log.stop - log.start < 2000
    assert log.number_near(MIDNIGHT + 10) is None
    while log.load_older():
        pass
    assert log.stop - log.start == 10_000
    numbers = [int(log.line(number).split()[-1]) for number in range(log.start, log.stop)]
    assert numbers == sorted(numbers)
    near = log.number_near(MIDNIGHT + 10)
    assert near is not None
    assert log.line(near).endswith(" INFO 10")
    log.close()


def test_the_place_of_a_moment_is_found_over_days(tmp_path: Path) -> None:
    began = MIDNIGHT + 3600
    path = tmp_path / "output.log"
    with path.open("w") as file:
        for number in range(15_000):  # seven days, a line every forty seconds
            clock = time.strftime("%H:%M:%S", time.localtime(began + 40 * number))
            file.write(f"{clock}    INFO line {number} {'x' * 40}\n")
    data = path.read_bytes()
    for number in (0, 1, 777, 7_500, 14_999):
        offset = offset_at(path, began + 40 * number, began)
        assert offset is not None
        assert f"line {number} " in data[offset : offset + 60].decode()
    late = offset_at(path, began + 1e7, began)
    assert late is not None
    assert late >= len(data) - 1
    path.write_bytes(b"")
    assert offset_at(path, began, began) is None
