from __future__ import annotations

import itertools
import json
import math
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rltui.core.logs.source import LogChange
from rltui.core.metrics.series import NO_STEP, Rewind, SeriesKey
from rltui.services.metrics.store import SeriesReader, SeriesWriter, lock_of
from rltui.services.metrics.store_index import INDEX
from rltui.services.own_files import FileLock

LOSS, REWARD = SeriesKey("trainer", "loss/mean"), SeriesKey("orch", "reward")
FILE = "file metrics.jsonl 00"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "control" / "metrics"


def write_steps(writer: SeriesWriter, first: int, last: int) -> None:
    for step in range(first, last + 1):
        writer.add(
            "trainer", {"loss/mean": step / 10}, at=100.0 + step, step=step, origin=FILE, cursor=step * 100
        )
        writer.add("orch", {"reward": step / 100, "length": 7.0}, at=100.5 + step, step=step, origin=FILE,
                   cursor=step * 100 + 50)  # fmt: skip
    assert writer.flush()


def values(folder: Path, key: SeriesKey = LOSS) -> list[float]:
    return list(SeriesReader(folder).read(key).values)


def test_what_is_written_is_read(folder: Path) -> None:
    write_steps(SeriesWriter(folder), 1, 3)
    reader = SeriesReader(folder)
    assert reader.keys() == (SeriesKey("orch", "length"), REWARD, LOSS)
    found = reader.read(LOSS)
    assert list(found.steps) == [1, 2, 3]
    assert list(found.times) == [101.0, 102.0, 103.0]
    assert list(found.values) == [0.1, 0.2, 0.3]
    assert len(reader.read(SeriesKey("trainer", "unknown"))) == 0


def test_a_reader_follows_and_reads_only_what_is_new(folder: Path) -> None:
    reader = SeriesReader(folder)
    assert reader.poll() is LogChange.NONE
    writer = SeriesWriter(folder)
    write_steps(writer, 1, 3)
    assert reader.poll() is LogChange.RESET
    assert len(reader.read(LOSS)) == 3
    assert reader.poll() is LogChange.NONE
    write_steps(writer, 4, 5)
    assert len(reader.read(LOSS, 3)) == 0, "not before it has looked"
    assert reader.poll() is LogChange.GREW
    assert list(reader.read(LOSS, 3).steps) == [4, 5]
    assert list(reader.read(LOSS, 5).steps) == []
    assert list(reader.read(LOSS, 2).steps) == [3, 4, 5]


def test_what_cannot_be_read_for_a_moment_is_read_later(folder: Path, tmp_path: Path) -> None:
    writer = SeriesWriter(folder)
    write_steps(writer, 1, 3)
    reader = SeriesReader(folder)
    assert len(reader.read(LOSS)) == 3
    write_steps(writer, 4, 5)
    reader.poll()
    points, aside = folder / "1.points", tmp_path / "aside"
    for is_unreadable in (False, True):
        points.rename(aside)
        if is_unreadable:
            points.mkdir()
        assert len(reader.read(LOSS, 3)) == 0, is_unreadable
        if is_unreadable:
            points.rmdir()
        aside.rename(points)
    assert list(reader.read(LOSS, 3).steps) == [4, 5]


def test_values_that_are_no_numbers_and_rows_without_steps(folder: Path) -> None:
    writer = SeriesWriter(folder)
    for value in (math.nan, math.inf, -math.inf):
        writer.add("inference", {"kv": value}, at=5.0)
    writer.flush()
    found = SeriesReader(folder).read(SeriesKey("inference", "kv"))
    assert list(found.steps) == [NO_STEP] * 3
    assert math.isnan(found.values[0])
    assert list(found.values[1:]) == [math.inf, -math.inf]


def test_rows_of_changing_shape(folder: Path) -> None:
    writer = SeriesWriter(folder)
    base = {f"m{number}": 1.0 for number in range(8)}
    expected: dict[str, list[int]] = {}
    for step in range(200):
        row = {**base, **({f"odd{step % 7}": 2.0} if step % 3 else {})}
        if step % 5 == 0:
            del row["m3"]
        writer.add("", row, at=float(step), step=step)
        for name in row:
            expected.setdefault(name, []).append(step)
        if step % 20 == 0:
            writer.flush()
    writer.flush()
    reader = SeriesReader(folder)
    assert {key.name: list(reader.read(key).steps) for key in [*reader.keys()]} == expected
    assert len(list(folder.glob("*.points"))) < 12


def test_the_next_writer_goes_on(folder: Path) -> None:
    write_steps(SeriesWriter(folder), 1, 3)
    writer = SeriesWriter(folder)
    assert writer.cursor(FILE) == 350
    assert writer.origins() == (FILE,)
    assert writer.names_of(FILE) == {"loss/mean", "reward", "length"}
    write_steps(writer, 4, 4)
    assert values(folder) == [0.1, 0.2, 0.3, 0.4]
    assert len(list(folder.glob("*.points"))) == 2


def test_what_a_killed_writer_did_not_commit_is_taken_back(folder: Path) -> None:
    writer = SeriesWriter(folder)
    write_steps(writer, 1, 3)
    committed = (folder / INDEX).read_bytes()
    write_steps(writer, 4, 6)
    (folder / INDEX).write_bytes(committed)
    with (folder / "1.points").open("ab") as file:
        file.write(b"torn")
    assert values(folder) == [0.1, 0.2, 0.3]
    again = SeriesWriter(folder)
    assert again.cursor(FILE) == 350
    write_steps(again, 4, 4)
    for step in range(9):  # the numbers of records get past those that were taken back
        again.add("other", {"x": 1.0}, at=1.0, step=step, origin="other", cursor=step)
    assert again.flush()
    assert values(folder) == [0.1, 0.2, 0.3, 0.4]


def test_runs_that_went_back(folder: Path) -> None:
    writer = SeriesWriter(folder)
    write_steps(writer, 1, 3)
    reader = SeriesReader(folder)
    writer.rewind(1, 110.0)
    assert writer.flush()
    assert reader.poll() is LogChange.GREW
    assert reader.rewinds() == (Rewind(1, 110.0),)
    current, branches = reader.read(LOSS).lines(reader.rewinds())
    assert list(current.steps) == [1]
    assert [list(branch.steps) for branch in branches] == [[2, 3]]
    assert SeriesReader(folder).rewinds() == (Rewind(1, 110.0),)
    write_steps(SeriesWriter(folder), 4, 4)
    assert SeriesReader(folder).rewinds() == (Rewind(1, 110.0),)


def lose_file(folder: Path) -> None:
    (folder / "1.points").unlink()


def lose_tail(folder: Path) -> None:
    os.truncate(folder / "1.points", (folder / "1.points").stat().st_size - 40)


def zero_tail(folder: Path) -> None:
    size = (folder / "1.points").stat().st_size
    with (folder / "1.points").open("r+b") as file:
        file.seek(size - 80)
        file.write(bytes(80))


def lose_index(folder: Path) -> None:
    (folder / INDEX).unlink()


def garble_index(folder: Path) -> None:
    (folder / INDEX).write_bytes(b'{"id": "x", "tables": [[1, 2]]}\n')


def lose_all(folder: Path) -> None:
    shutil.rmtree(folder)


@pytest.mark.parametrize("damage", [lose_file, lose_tail, zero_tail, lose_index, garble_index, lose_all])
def test_a_damaged_store_is_filled_again(folder: Path, damage: object) -> None:
    writer = SeriesWriter(folder)
    write_steps(writer, 1, 5)
    writer.add("rltui", {"gpu": 1.0}, at=1.0)
    writer.flush()
    reader = SeriesReader(folder)
    damage(folder)  # type: ignore[operator]
    again = SeriesWriter(folder)
    assert again.cursor(FILE) == 0, "to be read again from the start"
    write_steps(again, 1, 5)
    assert values(folder) == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert reader.poll() is LogChange.RESET
    sampled = values(folder, SeriesKey("rltui", "gpu"))
    assert sampled == ([] if damage in (lose_index, garble_index, lose_all) else [1.0]), (
        "nobody else can say that again"
    )


def test_no_room_on_the_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = SeriesWriter(folder)
    write_steps(writer, 1, 2)
    whole = os.pwrite

    def no_room(descriptor: int, data: bytes, offset: int) -> int:
        if offset:
            raise OSError(28, "No space left on device")
        return whole(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", no_room)
    writer.add("trainer", {"loss/mean": 9.0}, at=1.0, step=3, origin=FILE, cursor=500)
    assert not writer.flush()
    assert writer.problem == "No space left on device"
    assert values(folder) == [0.1, 0.2]
    monkeypatch.setattr(os, "pwrite", whole)
    assert writer.flush()
    assert writer.problem is None
    assert values(folder) == [0.1, 0.2, 9.0]


def test_another_run_begins(folder: Path, tmp_path: Path) -> None:
    writer = SeriesWriter(folder)
    write_steps(writer, 1, 3)
    reader = SeriesReader(folder)
    writer.begin_anew(tmp_path / "archive" / "metrics")
    assert reader.poll() is LogChange.RESET
    assert reader.keys() == ()
    write_steps(writer, 1, 1)
    assert values(folder) == [0.1]
    assert values(tmp_path / "archive" / "metrics") == [0.1, 0.2, 0.3]


def test_names_made_up_by_the_row_have_an_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rltui.services.metrics.store._MOST_NAMES", 10)
    writer = SeriesWriter(folder)
    for step in range(50):
        writer.add("", {f"name{step}": 1.0}, at=1.0, step=step)
    assert writer.flush()
    assert len(SeriesReader(folder).keys()) == 10


def test_what_is_lost_is_given_up_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_steps(SeriesWriter(folder), 1, 5)
    lose_tail(folder)
    for _ in range(3):
        SeriesWriter(folder)
    assert [record.message.endswith("is read again") for record in caplog.records] == [True]


EARLIER = Path(__file__).parents[2] / "data/earlier_store"
"""Written by the version before, whose reader said what is in `earlier_store.json`."""


def earlier_series(reader: SeriesReader) -> list[dict[str, object]]:
    series = {key: reader.read(key) for key in [*reader.keys()]}
    return [
        {"source": key.source, "name": key.name, "steps": list(points.steps), "times": list(points.times),
         "values": list(points.values)}
        for key, points in series.items()
    ]  # fmt: skip


def test_a_store_of_an_earlier_version_is_read_and_goes_on(folder: Path) -> None:
    shutil.copytree(EARLIER, folder)
    (folder / "converted").mkdir()
    (folder / "converted/1.points").write_text("of a conversion that was killed")
    expected = json.loads(EARLIER.with_suffix(".json").read_text())
    reader = SeriesReader(folder)
    assert repr(earlier_series(reader)) == repr(expected["series"])
    assert [[*rewind] for rewind in reader.rewinds()] == expected["rewinds"]
    writer = SeriesWriter(folder)
    assert {origin: writer.cursor(origin) for origin in writer.origins()} == expected["cursors"]
    assert {path.suffix for path in folder.iterdir()} == {".points", ".jsonl"}
    count = len(reader.read(LOSS))
    writer.add("trainer", {"loss/mean": 0.5}, at=2e9, step=9, origin=FILE, cursor=9999)
    assert writer.flush()
    assert reader.poll() is LogChange.GREW
    assert list(reader.read(LOSS, count).values) == [0.5]


def test_a_store_of_an_earlier_version_that_is_written_just_now_is_left_alone(folder: Path) -> None:
    shutil.copytree(EARLIER, folder)
    lock = FileLock(lock_of(folder))
    with lock.hold():
        assert SeriesReader(folder).keys() == ()
    assert (folder / "head").exists()
    assert SeriesReader(folder).keys()


def test_a_damaged_store_of_an_earlier_version_is_written_anew(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "head").write_bytes(b"RLSERIE")
    (folder / "1.rows").write_bytes(b"{}\n" + bytes(100))
    writer = SeriesWriter(folder)
    assert writer.origins() == ()
    write_steps(writer, 1, 2)
    assert values(folder) == [0.1, 0.2]


class KilledError(BaseException):
    """The process is gone in the middle of a system call."""


def kill_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """From system call `number` on nothing happens; of what that one writes, the first half is there."""
    calls = itertools.count()
    pwrite, replace, opened = os.pwrite, os.replace, os.open

    def counted(call: Callable[..., Any], *given: Any, **options: Any) -> Any:
        if (at := next(calls)) > number:
            raise KilledError
        if at == number and call is pwrite:
            descriptor, data, offset = given
            pwrite(descriptor, data[: len(data) // 2], offset)
        if at == number:
            raise KilledError
        return call(*given, **options)

    for name, call in (("pwrite", pwrite), ("replace", replace), ("open", opened)):
        monkeypatch.setattr(os, name, partial(counted, call))


@pytest.mark.parametrize("lines", [2, 4096], ids=["the index is replaced", "the index grows"])
def test_a_writer_that_is_killed_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    monkeypatch.setattr("rltui.services.metrics.store_index._MOST_LINES", lines)
    for number in range(200):
        folder = tmp_path / f"{number}"
        with monkeypatch.context() as patch:
            kill_at(patch, number)
            try:
                for first in (1, 3, 5):
                    write_steps(SeriesWriter(folder), first, first + 1)
                is_killed = False
            except KilledError:
                is_killed = True
        again = SeriesWriter(folder)
        write_steps(again, again.cursor(FILE) // 100 + 1, 6)
        assert values(folder) == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], number
        assert values(folder, REWARD) == [0.01, 0.02, 0.03, 0.04, 0.05, 0.06], number
        if not is_killed:
            break
    assert number > 20


def test_a_conversion_that_is_killed_at_any_moment_starts_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = json.loads(EARLIER.with_suffix(".json").read_text())
    for number in range(200):
        folder = tmp_path / f"{number}/metrics"
        shutil.copytree(EARLIER, folder)
        with monkeypatch.context() as patch:
            kill_at(patch, number)
            try:
                SeriesReader(folder)
                is_killed = False
            except KilledError:
                is_killed = True
        reader = SeriesReader(folder)
        assert repr(earlier_series(reader)) == repr(expected["series"]), number
        assert [[*rewind] for rewind in reader.rewinds()] == expected["rewinds"]
        if not is_killed:
            break
    assert number > 20
