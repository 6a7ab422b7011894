from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rltui.core.logs.source import LogChange, LogSource
from rltui.services.logs.index import BLOCK_BYTES, MAX_LINE_BYTES, SLICE_BYTES, TAIL_BYTES, LogFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "output.log"


def shown(log: LogSource) -> list[str]:
    return [log.line(number) for number in range(log.start, log.stop)]


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def numbered(first: int, last: int) -> bytes:
    return b"".join(b"line %09d\n" % number for number in range(first, last))


def test_missing_file_is_empty_until_it_appears(path: Path) -> None:
    log = LogFile(path)
    assert (shown(log), log.problem, log.poll()) == ([], None, LogChange.NONE)
    path.write_bytes(b"a\n")
    assert log.poll() is LogChange.RESET
    assert shown(log) == ["a"]


def test_growth_and_a_partial_last_line(path: Path) -> None:
    path.write_bytes(b"a\nb")
    log = LogFile(path)
    assert shown(log) == ["a", "b"]
    append(path, b"c")
    assert log.poll() is LogChange.GREW
    assert shown(log) == ["a", "bc"]
    append(path, b"\n\nd\xc3")
    assert log.poll() is LogChange.GREW
    assert shown(log) == ["a", "bc", "", "d"]
    append(path, b"\xa9\n")
    log.poll()
    assert shown(log) == ["a", "bc", "", "dé"]
    assert log.poll() is LogChange.NONE


def test_truncation_is_seen(path: Path) -> None:
    path.write_bytes(b"a\nb\nc\n")
    log = LogFile(path)
    path.write_bytes(b"x\n")
    assert log.poll() is LogChange.RESET
    assert shown(log) == ["x"]


def test_truncation_is_seen_when_the_file_outgrew_its_old_size(path: Path) -> None:
    path.write_bytes(b"old 1\nold 2\n")
    log = LogFile(path)
    path.write_bytes(b"new 1\nnew 2\nnew 3\n")
    assert log.poll() is LogChange.RESET
    assert shown(log) == ["new 1", "new 2", "new 3"]


def test_line_of_a_file_truncated_since_the_poll_is_empty(path: Path) -> None:
    path.write_bytes(b"a\nb\nc\n")
    log = LogFile(path)
    path.write_bytes(b"")
    assert [log.line(number) for number in range(3)] == ["", "", ""]


def test_replacement_by_another_file_of_the_same_size(path: Path) -> None:
    path.write_bytes(b"old\n")
    log = LogFile(path)
    path.unlink()
    assert log.poll() is LogChange.NONE
    assert shown(log) == ["old"]
    path.write_bytes(b"new\n")
    assert log.poll() is LogChange.RESET
    assert shown(log) == ["new"]


def test_unreadable_path_says_why(tmp_path: Path) -> None:
    log = LogFile(tmp_path)
    assert log.problem == "Is a directory"
    assert shown(log) == [] or set(shown(log)) == {""}


def test_long_line_is_cut_without_reading_it(path: Path) -> None:
    path.write_bytes(b"before\n" + b"x" * 5_000_000 + b"\nafter\n" + b"y" * 1_000_000)
    log = LogFile(path)
    last = log.line(log.stop - 1)
    assert last == "y" * MAX_LINE_BYTES + f" … +{1_000_000 - MAX_LINE_BYTES:,} bytes"
    assert log.line(log.stop - 2) == "after"
    while log.load_older():
        pass
    before = log.bytes_read
    assert log.line(log.start) == "before"
    assert log.line(log.start + 1).endswith(f" … +{5_000_000 - MAX_LINE_BYTES:,} bytes")
    assert log.bytes_read - before < 5 * BLOCK_BYTES


def test_progress_bar_that_never_ends_its_line_is_read_only_at_its_end(path: Path) -> None:
    path.write_bytes(b"start\n" + b"".join(b"\r%7d it" % number for number in range(500_000)))
    log = LogFile(path)
    assert log.line(log.stop - 1) == " 499999 it"
    before = log.bytes_read
    append(path, b"\r 500000 it")
    assert log.poll() is LogChange.GREW
    assert log.line(log.stop - 1) == " 500000 it"
    assert log.bytes_read - before < 2 * MAX_LINE_BYTES


def test_huge_file_opens_from_its_end(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"first\n")
        file.seek(200_000_000)
        file.write(b"\n" + numbered(0, 100_000))
    log = LogFile(path)
    assert log.bytes_read <= TAIL_BYTES + 2 * BLOCK_BYTES
    assert log.line(log.stop - 1) == "line 000099999"
    assert log.line(log.start).startswith("line ")
    append(path, b"more\n")
    before = log.bytes_read
    assert log.poll() is LogChange.GREW
    assert log.line(log.stop - 1) == "more"
    assert log.bytes_read - before < 3 * BLOCK_BYTES


def test_poll_without_news_reads_nothing(path: Path) -> None:
    path.write_bytes(numbered(0, 1000))
    log = LogFile(path)
    before = log.bytes_read
    assert log.poll(may_skip=True) is LogChange.NONE
    assert log.bytes_read == before


def test_older_lines_keep_the_numbers_of_the_newer_ones(path: Path) -> None:
    path.write_bytes(numbered(0, 400_000))
    log = LogFile(path)
    number = log.start + 5
    text = log.line(number)
    before = log.bytes_read
    assert log.load_older()
    assert log.bytes_read - before <= SLICE_BYTES
    assert log.line(number) == text
    while log.load_older():
        pass
    assert log.stop - log.start == 400_000
    assert log.line(log.start) == "line 000000000"
    assert log.line(log.start + 123_456) == "line 000123456"
    assert log.line(log.stop - 1) == "line 000399999"


def test_flood_is_indexed_in_slices_or_skipped(path: Path) -> None:
    path.write_bytes(b"first\n")
    patient, hasty = LogFile(path), LogFile(path)
    append(path, numbered(0, 2 * SLICE_BYTES // 15))
    assert hasty.poll(may_skip=True) is LogChange.RESET
    newest = hasty.line(hasty.stop - 1)
    assert hasty.bytes_read < 2 * TAIL_BYTES
    before = patient.bytes_read
    assert patient.poll(may_skip=False) is LogChange.GREW
    assert patient.bytes_read - before <= SLICE_BYTES + BLOCK_BYTES
    while patient.poll(may_skip=False) is LogChange.GREW:
        pass
    assert patient.line(0) == "first"
    assert patient.line(patient.stop - 1) == newest


def test_fifo_does_not_hang(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert shown(LogFile(fifo)) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(
        st.sampled_from([b"a", b"\n", b"bc\n", b"\n\n", b"x" * 70_000, b"y\n" * 40_000]), max_size=12
    )
)
def test_lines_are_those_of_a_split(path: Path, pieces: list[bytes]) -> None:
    path.unlink(missing_ok=True)
    log = LogFile(path)
    data = b""
    for piece in pieces:
        append(path, piece)
        data += piece
        log.poll()
    lines = data.split(b"\n")
    lines = lines if lines[-1] else lines[:-1]
    for reader in (log, LogFile(path)):
        while reader.load_older() or reader.poll() is LogChange.GREW:
            pass
        assert reader.stop - reader.start == len(lines)
        for number in {0, 1, len(lines) // 3, len(lines) // 2, len(lines) - 1} & set(range(len(lines))):
            expected = lines[number].decode()[:MAX_LINE_BYTES]
            assert reader.line(reader.start + number).split(" ")[0] == expected
