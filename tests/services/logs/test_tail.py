from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from rltui.core.logs.lines import Level, LineFilter
from rltui.errors import RltuiError
from rltui.services.logs.tail import CHUNK_BYTES, follow_lines, tail_lines


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "output.log"


@pytest.mark.parametrize(
    ("data", "count", "lines"),
    [
        (b"", 5, []),
        (b"a\nb\nc\n", 2, ["b", "c"]),
        (b"a\nb\nc", 2, ["b", "c"]),
        (b"a\nb\nc", 9, ["a", "b", "c"]),
        (b"a\nb\nc", 0, []),
        (b"a\n\n\n", 2, ["", ""]),
        (b"\x1b[31mred\x1b[0m\x1b]52;c;eA==\x07\r\n", 1, ["red"]),
        (b"0%\r50%\r100%", 1, ["100%"]),
    ],
)
def test_tail_lines_are_sanitised(path: Path, data: bytes, count: int, lines: list[str]) -> None:
    path.write_bytes(data)
    assert list(tail_lines(path, count)) == lines


def test_tail_lines_reaches_back_into_a_big_file(path: Path) -> None:
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(30_000)))
    assert list(tail_lines(path, 3)) == ["line 29997", "line 29998", "line 29999"]
    lines = list(tail_lines(path, 20_000))
    assert (len(lines), lines[0]) == (20_000, "line 10000")


def test_tail_lines_filters_the_whole_file(path: Path) -> None:
    path.write_bytes(b"12:00:00   ERROR bad\n  detail\n" + b"12:00:01    INFO fine\n" * 60_000)
    assert list(tail_lines(path, 5, LineFilter(level=Level.ERROR))) == ["12:00:00   ERROR bad", "  detail"]
    assert list(tail_lines(path, 5, LineFilter(re.compile("det")))) == ["  detail"]


def test_tail_lines_bounds_a_line_without_end(path: Path) -> None:
    path.write_bytes(b"x" * (3 * CHUNK_BYTES + 5))
    assert [len(line) for line in tail_lines(path, 9)] == [CHUNK_BYTES] * 3 + [5]


def test_missing_log_is_an_error(path: Path) -> None:
    with pytest.raises(RltuiError, match="cannot read"):
        list(tail_lines(path, 5))


def test_follow_lines_yields_growth_and_replacements(path: Path) -> None:
    path.write_bytes(b"old\nlast\nhal")
    stop = threading.Event()
    lines = follow_lines(path, 1, stop)
    with path.open("ab") as file:
        file.write(b"f\n")
    assert next(lines) == "half"
    path.unlink()
    path.write_bytes(b"new\nunfinished")
    assert next(lines) == "new"
    stop.set()
    assert list(lines) == ["unfinished"]


def test_follow_lines_filters(path: Path) -> None:
    path.write_bytes(b"a 1\nb 2\na 3\n")
    stop = threading.Event()
    lines = follow_lines(path, 1, stop, LineFilter(re.compile("a")))
    assert next(lines) == "a 3"
    with path.open("ab") as file:
        file.write(b"b 4\na 5\n")
    assert next(lines) == "a 5"
    stop.set()
    assert list(lines) == []
