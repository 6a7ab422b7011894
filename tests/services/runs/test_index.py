"""The index as many use it at once, and as it is found damaged."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from rltui import paths
from rltui.core.runs.row import RunConfigFile, RunRow
from rltui.errors import RltuiError
from rltui.services.own_files import make_folder
from rltui.services.runs.index import IndexBusyError, RunIndex
from rltui.services.runs.query import RunQuery


def row(number: int, **values: object) -> RunRow:
    told = {"id": f"run{number:07}", "name": f"r-{number}", "folder": f"/o/{number}", "created_at": 1.0}
    return RunRow(**{**told, **values})  # type: ignore[arg-type]


def test_a_row_comes_back_as_it_was(tmp_path: Path) -> None:
    index = RunIndex(tmp_path / "runs.sqlite")
    full = row(
        1, metrics={"reward": (0.5, 0.75)}, sparkline=(0.1, 0.5), checkpoints=(5, 10), tags=("baseline",),
        changed={"optim.lr": (1e-6, 3e-6)}, configs=(RunConfigFile(path="/c/rl.toml", sha256="ab" * 32),),
        supervisor=(12, 3.5), versions={"torch": "2.9"}, gpus=("0",), parent="run0000000", parent_step=5,
    )  # fmt: skip
    index.put([(full, {"optim.lr": 3e-6})])
    other = RunIndex(tmp_path / "runs.sqlite")
    (found,) = other.named("r-1")
    assert found == full
    assert other.configs(["run0000001"]) == {"run0000001": {"optim.lr": 3e-6}}
    index.put([(row(1, step=3), None)])
    assert other.named("run0000001")[0].step == 3
    assert other.configs(["run0000001"]) == {"run0000001": {"optim.lr": 3e-6}}


def test_only_what_changed_is_read_again(tmp_path: Path) -> None:
    index = RunIndex(tmp_path / "runs.sqlite")
    index.put((row(number), None) for number in range(5))
    seen = index.revision()
    assert index.rows(seen) == []
    index.put([(row(3, step=1), None)])
    assert [each.id for each in index.rows(seen)] == ["run0000003"]
    index.remove(["run0000003"])
    assert len(index.ids()) == 4


def test_many_write_at_once(tmp_path: Path) -> None:
    def write(number: int) -> None:
        index = RunIndex(tmp_path / "runs.sqlite", timeout_s=30)
        for step in range(8):
            index.put([(row(number, step=step), {"a": step})])
        index.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    index = RunIndex(tmp_path / "runs.sqlite")
    assert {each.step for each in index.rows()} == {7}
    assert index.revision() == 32


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_set_aside(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "runs.sqlite").write_bytes(content)
    index = RunIndex(tmp_path / "runs.sqlite")
    assert not index.is_whole
    assert "it was saved as" in index.was_damaged
    index.put([(row(1), None)])
    index.set_whole(0)
    assert RunIndex(tmp_path / "runs.sqlite").is_whole


def test_damage_under_an_open_connection_is_told_and_the_next_call_works(tmp_path: Path) -> None:
    index = RunIndex(tmp_path / "runs.sqlite")
    index.put((row(number), {"text": "x" * 3000}) for number in range(50))
    with index.path.open("r+b") as file:
        size = file.seek(0, 2)
        file.seek(size // 2)
        file.write(b"\xff" * (size // 2))
    with pytest.raises(RltuiError, match="damaged"):
        RunIndex(tmp_path / "runs.sqlite").rows()
    fresh = RunIndex(tmp_path / "runs.sqlite")
    assert fresh.rows() == []
    assert not fresh.is_whole


def test_a_deleted_file_is_made_again_under_a_connection(tmp_path: Path) -> None:
    index = RunIndex(tmp_path / "runs.sqlite")
    index.put([(row(1), None)])
    index.set_whole(0)
    index.path.unlink()
    assert not index.is_whole
    index.put([(row(2), None)])
    assert RunIndex(index.path).ids() == {"run0000002"}


def test_somebody_who_holds_it_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    index = RunIndex(tmp_path / "runs.sqlite", timeout_s=0.05)
    index.put([(row(1), None)])
    holder = sqlite3.connect(index.path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(IndexBusyError):
        index.put([(row(2), None)])
    holder.execute("ROLLBACK")
    index.put([(row(2), None)])
    assert len(index.ids()) == 2


def test_a_changed_field_leaves_what_others_wrote_and_the_fingerprint(tmp_path: Path) -> None:
    index, other = RunIndex(tmp_path / "runs.sqlite"), RunIndex(tmp_path / "runs.sqlite")
    first = row(1, control="/o/1/.rltui")
    index.put([(first, {"a": 1})], fingerprints={first.id: b"[]"})
    seen = other.revision()
    index.put([(replace(first, step=7), None)], fingerprints={first.id: b"[1]"})
    changed = other.change(first.id, {"tags": ("good",), "name": "better"})
    assert changed == replace(first, step=7, tags=("good",), name="better")
    assert index.named("better") == index.rows(seen) == [changed]
    assert [run.fingerprint for run in index.fingerprinted_runs()] == [b"[1]"]
    assert index.note(first.id)["name"] == "better"
    assert index.change("run0000002", {"step": 1}) is None


def test_what_is_asked_of_the_table(tmp_path: Path) -> None:
    index = RunIndex(tmp_path / "runs.sqlite")
    rows = [
        row(1, tags=("a", "b"), is_alive=True),
        row(2, tags=("b",), folder="/o/1/x"),
        row(3, tags=("c",), trashed_at=2.0, folder="/o/10"),
    ]
    index.put((each, None) for each in rows)
    assert index.tags() == {"a": 1, "b": 2}
    assert [each.name for each in index.trashed()] == ["r-3"]
    assert index.living_names() == ["r-1"]
    assert [each.name for each in index.below("/o/1")] == ["r-2"]
    assert index.names() == {f"run{number:07}": f"r-{number}" for number in (1, 2, 3)}
    assert {each.name for each in index.starting_with("r-")} == {"r-1", "r-2", "r-3"}
    assert [each.name for each in index.starting_with("run0000003")] == ["r-3"]
    assert index.starting_with("%") == []


def test_an_index_of_the_earlier_version_is_taken_over_without_its_living_runs(own_user: Path) -> None:
    del own_user
    make_folder(paths.state_dir(), mode=0o700)
    earlier = sqlite3.connect(paths.state_dir() / "runs-5.sqlite")
    earlier.execute(
        "CREATE TABLE run (id TEXT PRIMARY KEY, name TEXT NOT NULL, folder TEXT NOT NULL,"
        " control TEXT NOT NULL, is_alive INTEGER NOT NULL, row BLOB NOT NULL,"
        " config BLOB NOT NULL, mark BLOB NOT NULL, stamp INTEGER NOT NULL, disk INTEGER) WITHOUT ROWID"
    )
    earlier.execute("CREATE TABLE head (stamp INTEGER, is_whole INTEGER, list_seen INTEGER)")
    earlier.execute("INSERT INTO head VALUES (7, 1, 3)")
    rows = [row(1, ended_at=2.0), row(2, archived_at=5.0, entry="e"), row(3, is_alive=True)]
    for each in rows:
        values = (
            each.id,
            each.name,
            each.folder,
            "",
            each.is_alive,
            orjson.dumps(each),
            b'{"a": 1}',
            b"m",
            7,
            4,
        )
        earlier.execute("INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
    earlier.commit()
    index = RunIndex()
    assert {each.id: each for each in index.rows()} == {each.id: each for each in rows[:2]}
    assert (index.revision(), index.is_whole, index.list_seen()) == (7, True, 3)
    assert [run.fingerprint for run in index.fingerprinted_runs()] == [b"m", b"m"]
    assert index.config("run0000001") == {"a": 1}
    assert index.select_ids(RunQuery("archived_at IS NULL AND at = 2")) == ["run0000001"]
    index.path.unlink()
    earlier.execute("UPDATE run SET row = 'no JSON'")
    earlier.commit()
    assert RunIndex().rows() == [], "a damaged one is not taken over"
    assert not RunIndex().is_whole
