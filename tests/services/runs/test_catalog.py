"""The index compared with the folders it is made of, whatever happens to either."""

from __future__ import annotations

import os
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.past_run import write_finished_run

from rltui.core.experiment.states import Reason
from rltui.core.runs.row import RunMetadata, RunOrigin, RunRow
from rltui.errors import ConfigError, RltuiError, UsageError
from rltui.services.experiment.files import ControlFolder, list_dir
from rltui.services.experiment.registry import forget
from rltui.services.runs import catalog, moved_folders, organize
from rltui.services.runs.index import RunIndex
from rltui.services.runs.metadata import (
    change_metadata,
    new_metadata,
    path_id,
    read_metadata,
    save_metadata,
)
from rltui.services.runs.moved_folders import gone_reason
from rltui.services.runs.references import find_run
from rltui.services.runs.row import RunReader

UNSEEN = "how orchestrator and trainer ended is unknown: killed, or the machine was restarted"


def test_a_run_is_read_from_its_folder(own_user: Path, tmp_path: Path) -> None:
    record = write_finished_run(tmp_path / "out" / "a", steps=30)
    index = RunIndex()
    assert catalog.catch_up(index).read == 1
    row = find_run(index, "a")
    assert (row.name, row.folder, row.state, row.step) == ("a", record.output_dir, "done", 30)
    assert row.metrics["reward"][0] == 3.0
    assert row.reward == pytest.approx(2.55)
    assert row.levels["reward"].text() == "2.55 ± 0.303"
    assert row.metrics["loss"][0] == pytest.approx(1 / 30)
    assert len(row.sparkline) == 24
    assert (row.seconds, row.gpu_seconds, row.attempts) == (60.0, 360.0, 1)
    assert row.configs[0].path == record.config_files[0]
    assert index.configs([row.id])[row.id]["max_steps"] == row.max_steps
    assert "output_dir" not in row.changed
    assert catalog.record_of(row) == record
    assert read_metadata(Path(row.control)) is not None
    assert catalog.catch_up(index).read == 0


def test_a_moved_folder_is_followed_and_a_deleted_one_is_told(own_user: Path, tmp_path: Path) -> None:
    record = write_finished_run(tmp_path / "out" / "a")
    write_finished_run(tmp_path / "out" / "b")
    index = RunIndex()
    catalog.catch_up(index)
    was = find_run(index, "a")
    change_metadata(Path(was.control), lambda sheet: replace(sheet, tags=("keep",)))
    (tmp_path / "out").rename(tmp_path / "outputs")
    found = catalog.catch_up(index)
    row = find_run(index, "a")
    place = str(tmp_path / "outputs" / "a")
    assert (row.id, row.folder, row.tags, row.state) == (was.id, place, ("keep",), "done")
    assert f"a was moved from {record.output_dir} to {place}" in found.messages
    assert catalog.record_of(row).run_dir == place
    shutil.rmtree(place)
    assert catalog.catch_up(index).messages == ()
    row = find_run(index, "a")
    assert (row.state, row.reason) == ("lost", Reason("folder_gone", f"{place} was deleted or moved away"))
    assert catalog.catch_up(index).read == 0
    with pytest.raises(ConfigError, match="was deleted or moved away"):
        catalog.record_of(row)


def test_a_lost_index_is_made_again_with_what_only_it_had_seen(own_user: Path, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_finished_run(tmp_path / "out" / name)
    index = RunIndex()
    assert catalog.catch_up(index).messages == ()
    before = {row.id: row for row in index.rows()}
    forget(next(catalog.record_of(row) for row in before.values() if row.name == "b"))
    index.close()
    index.path.unlink()
    found = catalog.catch_up(index)
    assert found.messages == ("no index of runs: rebuilding it from the folders",)
    assert {row.id: row for row in index.rows()} == before
    index.path.write_bytes(b"nothing of a database" * 300)
    found = catalog.catch_up(RunIndex())
    assert found.messages[0].startswith("the index of runs was damaged and is being rebuilt: ")
    assert {row.id: row for row in RunIndex().rows()} == before


def test_a_damaged_run_is_listed_as_such_and_hides_no_other(own_user: Path, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_finished_run(tmp_path / "out" / name)
    index = RunIndex()
    catalog.catch_up(index)
    for name in ("a", "b"):
        (tmp_path / f"out/{name}/.rltui/experiment.toml").write_text("name = ")
    (list_dir() / "b").write_text("")
    (tmp_path / "out/c/.rltui/run.json").write_text("[]")
    told = catalog.catch_up(index).messages
    assert [message.partition(" is damaged")[0] for message in told] == [f"{tmp_path}/out/c/.rltui/run.json"]
    states = {row.name: (row.state, row.reason.code) for row in index.rows()}
    assert states == dict.fromkeys("ac", ("done", "steps_done")) | {"b": ("lost", "folder_damaged")}
    assert catalog.catch_up(index).read == 0


def test_names(own_user: Path, tmp_path: Path) -> None:
    index = RunIndex()
    with pytest.raises(UsageError, match="run not found: lr-low"):
        find_run(index, "lr-low")
    write_finished_run(tmp_path / "out" / "lr-high")
    assert find_run(index, "lr-high").name == "lr-high"
    with pytest.raises(UsageError) as told:
        find_run(index, "lr-hihg")
    assert told.value.hint == "did you mean lr-high?"
    forget(catalog.record_of(find_run(index, "lr-high")))
    write_finished_run(tmp_path / "other" / "lr-high")
    catalog.catch_up(index)
    assert find_run(index, "lr-high").folder == str(tmp_path / "other" / "lr-high")


def test_how_large_a_run_is_is_measured_when_there_is_time(own_user: Path, tmp_path: Path) -> None:
    write_finished_run(tmp_path / "out" / "a")
    index = RunIndex()
    catalog.catch_up(index)
    assert index.unmeasured() == [find_run(index, "a").id]
    catalog.measure(index, within_s=60)
    row = find_run(index, "a")
    assert (row.disk_bytes or 0) > 4096
    assert catalog.catch_up(index).read == 0
    change_metadata(Path(row.control), lambda sheet: replace(sheet, note="x"))
    catalog.refresh(index, [row.id])
    assert find_run(index, "a") == replace(row, note="x")
    (tmp_path / "out/a/checkpoints/step_5").mkdir(parents=True)
    catalog.catch_up(index)
    assert find_run(index, "a").disk_bytes is None


def test_a_copy_is_a_run_of_its_own(own_user: Path, tmp_path: Path) -> None:
    write_finished_run(tmp_path / "out" / "a")
    index = RunIndex()
    catalog.catch_up(index)
    original = find_run(index, "a")
    shutil.copytree(tmp_path / "out" / "a", tmp_path / "out" / "b")
    told = catalog.read_folders(index, [tmp_path / "out" / "b"])
    copy = index.in_folder(str(tmp_path / "out" / "b"))
    assert copy is not None
    assert (copy.id != original.id, copy.parent, copy.name) == (True, original.id, "a-2")
    assert told == (f"{tmp_path / 'out/b'} is a copy of {tmp_path / 'out/a'}, named a-2",)
    assert find_run(index, "a") == original
    assert catalog.catch_up(index).read == 0


def test_a_run_whose_folder_cannot_be_written_has_the_id_of_its_path(
    own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise RltuiError("cannot write run.json: Read-only file system")

    record = write_finished_run(tmp_path / "out" / "a")
    monkeypatch.setattr("rltui.services.runs.metadata.save_metadata", full)
    index = RunIndex()
    catalog.catch_up(index)
    assert find_run(index, "a").id == path_id(record.control.path)


@pytest.mark.parametrize("depth", [1, 2])
def test_why_a_folder_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: int) -> None:
    place = tmp_path.joinpath("disk", *("abc"[:depth]))
    (tmp_path / "disk").mkdir()
    assert ("or not mounted" in gone_reason(place)) == (depth == 2)
    table = tmp_path / "fstab"
    table.write_text(f"# disks\n/dev/sdb1 {tmp_path / 'disk'} ext4 defaults 0 0\n")
    monkeypatch.setattr(moved_folders, "_FSTAB", table)
    assert gone_reason(place) == f"{place} is on a disk that is not mounted: {tmp_path / 'disk'}"


def test_two_bring_it_up_to_date_at_once(own_user: Path, tmp_path: Path) -> None:
    for number in range(6):
        write_finished_run(tmp_path / "out" / f"r{number}")
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: catalog.catch_up(RunIndex(timeout_s=60)), range(3)))
    rows = RunIndex().rows()
    assert sorted(row.name for row in rows) == sorted(f"r{number}" for number in range(6))
    assert {read_metadata(Path(row.control)) for row in rows} == {row.metadata for row in rows}


STEPS = (
    "create",
    "fork",
    "copy",
    "tag",
    "move",
    "rename parent",
    "delete",
    "trash",
    "rebuild",
    "lose",
    "spoil",
)


@pytest.mark.parametrize(
    ("seed", "steps"), [(0, 12), *(pytest.param(seed, 40, marks=pytest.mark.slow) for seed in range(1, 7))]
)
def test_random_sequences(own_user: Path, tmp_path: Path, seed: int, steps: int) -> None:
    """The index says what the folders say, after each step."""
    dice, index, root = random.Random(seed), RunIndex(), tmp_path / "out-0"
    truth: dict[str, tuple[Path, RunMetadata]] = {}
    for number in range(steps):
        step = dice.choice(STEPS)
        some = dice.choice(sorted(truth)) if truth else ""
        if step in ("create", "fork") or not truth:
            folder = root / f"r{number}"
            write_finished_run(folder)
            origin = RunOrigin(parent=some) if step == "fork" else RunOrigin()
            sheet = new_metadata(float(number), origin)
            save_metadata(ControlFolder(folder).path, sheet)
            truth[sheet.id] = (folder, sheet)
        elif step == "tag":
            folder, _ = truth[some]
            tags = (f"t{number}",)
            truth[some] = (folder, change_metadata(ControlFolder(folder).path, partial(replace, tags=tags)))
        elif step == "move":
            folder, sheet = truth[some]
            folder.rename(folder.with_name(f"m{number}"))
            truth[some] = (folder.with_name(f"m{number}"), sheet)
        elif step == "rename parent":
            new = tmp_path / f"out-{number}"
            root.rename(new)
            truth = {id_: (new / place.relative_to(root), sheet) for id_, (place, sheet) in truth.items()}
            root = new
        elif step == "delete":
            shutil.rmtree(truth.pop(some)[0])
        elif step == "trash":
            row = organize.trash(index, find_run(index, some))
            trashed = read_metadata(Path(row.control))
            assert trashed is not None
            truth[some] = (Path(row.control).parent, trashed)
        elif step == "rebuild":
            catalog.catch_up(index, whole=True)
        elif step == "lose":
            index.path.unlink(missing_ok=True)
        elif step == "spoil":
            index.path.write_bytes(dice.randbytes(5000))
        catalog.catch_up(index)
        there = {
            row.id: (Path(row.control).parent, row.metadata) for row in index.rows() if row.state == "done"
        }
        assert there == truth, (number, step)
        assert all(row.state in ("done", "lost") for row in index.rows()), (number, step)
        assert catalog.catch_up(index).read == 0, (number, step)


@pytest.mark.parametrize(
    ("steps", "code", "state", "problem"),
    [
        (3, 0, "done", ""),
        (200, 1, "failed", "orchestrator: exited 1; trainer: exited 1"),
        (3, None, "lost", UNSEEN),
    ],
)
def test_how_a_run_ended(
    own_user: Path, tmp_path: Path, steps: int, code: int | None, state: str, problem: str
) -> None:
    write_finished_run(tmp_path / "out" / "a", steps=steps, code=code)
    index = RunIndex()
    catalog.catch_up(index)
    row = find_run(index, "a")
    assert (row.state, row.reason.text) == (state, problem)


def test_a_run_that_nobody_saw_end_is_lost(own_user: Path, tmp_path: Path) -> None:
    record = write_finished_run(tmp_path / "out" / "a")
    for folder in record.control.newest_attempts():
        path = folder / "attempt.json"
        path.write_text(path.read_text().replace('"ended_at": 1800000060.0', '"ended_at": null'))
        path.write_text(
            path.read_text().replace('"exited"', '"running"').replace('"exit_code": 0', '"exit_code": null')
        )
    index = RunIndex()
    catalog.catch_up(index)
    row = find_run(index, "a")
    assert (row.state, row.reason) == ("lost", Reason("end_unseen", UNSEEN, ("orchestrator", "trainer")))


def test_a_run_on_another_machine_is_believed_while_it_writes(own_user: Path, tmp_path: Path) -> None:
    record = write_finished_run(tmp_path / "out" / "a")
    index, journal = RunIndex(), ControlFolder(tmp_path / "out" / "a").journal_file
    catalog.catch_up(index)
    there = replace(find_run(index, record.name), is_alive=True, supervisor=(1, 5.0), host="other")
    index.put([(there, None)])
    journal.touch()
    assert catalog.catch_up(index).read == 0
    assert find_run(index, "a") == there
    for path in (journal, journal.parent / "metrics" / "index.jsonl"):
        os.utime(path, (1e9, 1e9))
    assert catalog.catch_up(index).read == 1
    assert find_run(index, "a").state == "done"


def test_what_a_supervisor_puts_meanwhile_stays(
    own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        write_finished_run(tmp_path / "out" / name)
    index = RunIndex()
    catalog.catch_up(index)
    b = replace(find_run(index, "b"), is_alive=True, supervisor=(os.getpid(), 1.0))
    read = RunReader.row

    def row(self: RunReader, *arguments: Any, **named: Any) -> RunRow:
        RunIndex().put([(b, None)])
        return read(self, *arguments, **named)

    monkeypatch.setattr(RunReader, "row", row)
    monkeypatch.setattr(catalog, "_BATCH_ROWS", 1)
    catalog.catch_up(index, whole=True)
    assert find_run(index, "b") == b


def test_a_run_without_a_config_that_can_be_read_is_listed(own_user: Path, tmp_path: Path) -> None:
    record = write_finished_run(tmp_path / "out" / "a")
    for path in (*map(Path, record.config_files), *(tmp_path / "out/a/.rltui").rglob("config/*")):
        path.unlink()
    index = RunIndex()
    catalog.catch_up(index)
    row = find_run(index, "a")
    assert (row.state, row.configs, row.max_steps) != ("damaged", (), None)
    assert row.step is not None
