from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.core.logs.lines import Level, LineFilter
from rltui.core.logs.query import Query
from rltui.errors import RltuiError
from rltui.services.logs import search
from rltui.services.logs.search import FileScan, display_text

LINES = [
    b"23:34:14 SUCCESS Step 3 | Time: 12.35s | Reward: 0.1000 | Loss: nan",
    b"\x1b[2m23:34:15\x1b[0m \x1b[32m\x1b[1mSUCCESS\x1b[0m \x1b[32m\x1b[22mStep 4 | Loss: 0.0012\x1b[0m",
    b"loss=\x1b[1;36m0.5\x1b[0m grad\x1b[1m.\x1b[0mnorm\x1b[38;5;208m =\x1b[0m 12.5\x1b[2ms\x1b[0m",
    b"a\ttab  and   blanks\t\tx",
    b"Generating:   0%|   | 0/16\rGenerating:  50%|## | 8/16",
    "Größe ist 3 µm ✓ done [ok] a|b (c) {d} ^e$ \\w .* -x]".encode(),
    b"[trainer0]:Traceback (most recent call last):",
    b"[trainer0]:  File train.py, line 3",
    b"[trainer0]:torch.OutOfMemoryError: CUDA out of memory.",
    b"(EngineCore_DP0 pid=12) WARNING 11-21 23:03:15 [core.py:1] slow",
    b"\xff\xfe broken \x01 bytes \x07",
    b"",
    b"23:34:16    INFO fine",
]
PATTERNS = [
    "Step", "step [34]", "SUCCESS Step", "Step 4 | Loss", r"Step \d+ \| (Time|Loss)", "loss=0.5",
    "0.5 grad", "grad.norm = 12.5s", r"\bnorm\b", "tab  and", r"tab\s+and", "16", "8/16", "0/16",
    "Größe", "größe", "µm ✓", r"\[ok\]", r"a\|b", r"\(c\) \{d\}", r"\^e\$", r"\\w", r"-x\]",
    "^23:34:14", "nan$", "^$", "(?i)SUCCESS", "out of memory|slow", "(foo|Tim)e", "l{1,3}",
    r"(?<!1)2\.5s", r"(?=fine)", r"(\d)\1", "[^a-z ]{6}", "[]x]", "[-^]", r"[\w.]+Error",
    "(?s:.)done", "i(?i:N)fo", "x*", "broken  bytes", "(?:ab|cd|)tab", "memory.", "Z",
    "(?>Tim)e",
]  # fmt: skip


def texts(path: Path, query: Query | None, **options: object) -> list[str]:
    return [hit.text for hits in FileScan(path, query, **options).batches() for hit in hits]  # type: ignore[arg-type]


@pytest.fixture(params=["grep", "own"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "own":
        monkeypatch.setattr(search, "_grep", lambda: None)


@pytest.mark.usefixtures("_both_ways")
def test_finds_what_is_shown_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"\n".join(LINES))
    shown_lines = list(map(display_text, LINES))
    for pattern in PATTERNS:
        for query in (Query(re.compile(pattern), pattern), Query.from_text(pattern)):
            expected = [text for text in shown_lines if query.matches(text)]
            assert texts(path, query) == expected, pattern


@pytest.mark.usefixtures("_both_ways")
def test_a_traceback_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    traceback = "Traceback (most recent call last):\n  File x\nValueError: no\n"
    text = f"{traceback}1:00:00 INFO a\n12:00:00 ERROR step failed\n{traceback}12:00:00 INFO b\n{traceback}"
    path.write_text(f"{text}12:00:01 ERROR one\n12:00:02 ERROR two\n")
    hits = [hit for hits in FileScan(path, None, level=Level.ERROR).batches() for hit in hits]
    begins = [hit.text.split()[-1] for hit in hits if not hit.continues]
    assert begins == ["last):", "failed", "last):", "one", "two"]
    assert len(hits) == 13


ESCAPES = ["\t", r"\.", r"\d", r"\w", r"\s", r"\b", "ab", "[a1]", "[^b]", "[^-a]", "(a|b1)", "(?:.|b)"]
pieces = st.sampled_from([*"ab1. |[]()-^$", *ESCAPES])
patterns = st.lists(
    st.tuples(pieces, st.sampled_from(["", "", "", "+", "*", "?", "{2}", "{1,3}"])), max_size=5
)
UNSHOWN = [b"\t", b"\r", b"\x01", b"\x1b[0m", b"\xc3\xa9"]
raw = st.lists(st.sampled_from([*(letter.encode() for letter in "ab1. |(]-A"), *UNSHOWN]), max_size=12)


@given(st.lists(patterns, min_size=1, max_size=3), st.lists(raw, max_size=30))
def test_any_pattern_finds_what_looking_at_each_line_finds(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[list[tuple[str, str]]], lines: list[list[bytes]]
) -> None:
    path = tmp_path_factory.mktemp("log") / "output.log"
    # A colour within a run of letters or of digits is not looked through: no program writes it.
    data = [
        re.sub(
            rb"(?<=[0-9])(\x1b\[0m|\x01)+(?=[0-9])|(?<=[a-zA-Z])(\x1b\[0m|\x01)+(?=[a-zA-Z])",
            b"",
            b"".join(line),
        )
        for line in lines
    ]
    path.write_bytes(b"\n".join(data))
    for pattern in drawn:
        query = Query.from_text("".join(piece + times for piece, times in pattern))
        expected = [text for text in map(display_text, data) if query.matches(text)]
        if data and data[-1] == b"":
            expected = [text for text in map(display_text, data[:-1]) if query.matches(text)]
        assert texts(path, query) == expected, query


@pytest.mark.usefixtures("_both_ways")
def test_json_logging_is_found_as_it_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    record = {"timestamp": "2026-01-02T10:11:12", "level": "INFO", "message": 'Step 3 | "loss" 0.5\nnext'}
    path.write_text(f"{json.dumps(record)}\n")
    for pattern in ("INFO Step", '"loss" 0.5', "^10:11:12", "0.5 ⏎ next"):
        assert texts(path, Query.from_text(pattern)) == ['10:11:12    INFO Step 3 | "loss" 0.5 ⏎ next'], (
            pattern
        )
    assert texts(path, Query.from_text("timestamp")) == []


@pytest.mark.usefixtures("_both_ways")
@pytest.mark.parametrize("level", [Level.WARNING, Level.ERROR])
def test_levels_bring_their_continuation_lines(tmp_path: Path, level: Level) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(
        b"\n".join([*LINES, b"E1120 23:33:07 utils.cpp:68] glog", b"more of it", *LINES[:2], b""])
    )
    line_filter = LineFilter(level=level)
    expected = [
        text for text in map(display_text, path.read_bytes().split(b"\n")[:-1]) if line_filter.accepts(text)
    ]
    assert texts(path, None, level=level) == expected
    assert texts(path, Query.from_text("train.py"), level=level) == ["[trainer0]:  File train.py, line 3"]


def test_offsets_lead_to_the_lines_and_a_start_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(1000)))
    hits = [hit for hits in FileScan(path, Query.from_text("7$"), start=4000).batches() for hit in hits]
    data = path.read_bytes()
    assert len(hits) > 50
    for hit in hits:
        assert hit.offset >= 4000
        assert data[hit.offset :].partition(b"\n")[0].decode() == hit.text


def test_what_is_written_meanwhile_is_left_for_later(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"one\n")
    looking = FileScan(path, Query.from_text("o"))
    batches = looking.batches()
    assert [hit.text for hit in next(batches)] == ["one"]
    assert looking.size == 4


@pytest.mark.usefixtures("_both_ways")
def test_cancelled_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_READ_BYTES", 4096)
    path = tmp_path / "output.log"
    path.write_bytes(b"a\n" * 20_000)
    looking = FileScan(path, Query.from_text("a"))
    batches = looking.batches()
    assert len(next(batches)) > 100
    looking.cancel()
    assert list(batches) == []


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RltuiError, match="cannot read"):
        list(FileScan(tmp_path / "none", Query.from_text("x")).batches())


def test_what_is_typed_has_smart_case_and_may_be_plain_text() -> None:
    assert Query.from_text("loss").matches("LOSS")
    assert not Query.from_text("Loss").matches("loss")
    assert Query.from_text(r"\S+x").matches("AX")
    assert Query.from_text("f(x").is_plain
    assert Query.from_text("f(x").matches("F(X)")
    assert list(Query.from_text("o+").spans("foo bo")) == [(1, 3), (5, 6)]
    with pytest.raises(RltuiError, match="at most"):
        Query.from_text("x" * 2000)
