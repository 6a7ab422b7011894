from __future__ import annotations

import math
from pathlib import Path

from rltui.services.logs.growing_file import JsonLines


def test_rows_come_once_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    feed = JsonLines(path)
    assert list(feed.read()) == []
    path.write_bytes(b'{"step": 1}\n{"st')
    assert list(feed.read()) == [{"step": 1}]
    with path.open("ab") as file:
        file.write(b'ep": 2}\nnonsense\n[1]\n{"step": 3}\n')
    assert list(feed.read()) == [{"step": 2}, {"step": 3}]
    assert list(feed.read()) == []
    assert not feed.restarted


def test_a_replaced_file_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n{"step": 2}\n')
    feed = JsonLines(path)
    list(feed.read())
    path.rename(tmp_path / "old")
    assert list(feed.read()) == []
    assert feed.restarted, "what was read is void"
    path.write_bytes(b'{"step": 1}\n')
    assert list(feed.read()) == [{"step": 1}]


def test_rows_with_nan_and_infinity_are_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1, "loss": NaN, "norm": -Infinity}\nNaN of old\n{"step": 2, "loss": 1}\n')
    first, second = JsonLines(path).read()
    assert (first["step"], first["norm"]) == (1, -math.inf)
    assert math.isnan(first["loss"])
    assert second == {"step": 2, "loss": 1}


def test_a_file_that_cannot_be_read_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.mkdir()
    (path / "x").touch()
    assert list(JsonLines(path).read()) == []


def test_the_first_place_with_a_file_counts(tmp_path: Path) -> None:
    newer, older = tmp_path / "monitors/file/metrics.jsonl", tmp_path / "metrics.jsonl"
    feed = JsonLines(newer, older)
    older.write_bytes(b'{"step": 7}\n')
    assert list(feed.read()) == [{"step": 7}]
    newer.parent.mkdir(parents=True)
    newer.write_bytes(b'{"step": null}\n{"step": 1}\n')
    assert list(feed.read()) == [{"step": None}, {"step": 1}]
    assert feed.restarted, "an earlier run left the other"
    newer.unlink()
    assert list(feed.read()) == [{"step": 7}]
