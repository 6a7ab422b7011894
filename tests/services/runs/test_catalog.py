"""The index compared with the folders it is made of, whatever happens to either."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.past_run import made

from rltui.errors import ConfigError, UsageError
from rltui.services.runs import catalog
from rltui.services.runs.experiments import forget
from rltui.services.runs.index import RunIndex
from rltui.services.runs.run_sheet import change_sheet, read_sheet


def test_a_run_is_read_from_its_folder(own_user: Path, tmp_path: Path) -> None:
    record = made(tmp_path / "out" / "a", steps=30)
    index = RunIndex()
    assert catalog.catch_up(index).read == 1
    row = catalog.find_run(index, "a")
    assert (row.name, row.folder, row.state, row.step) == ("a", record.output_dir, "done", 30)
    assert row.metrics["reward"] == (3.0, 3.0)
    assert row.metrics["loss"][1] == pytest.approx(1 / 30)
    assert len(row.sparkline) == 24
    assert (row.seconds, row.gpu_seconds, row.attempts) == (60.0, 360.0, 1)
    assert row.configs[0].path == record.config_files[0]
    assert index.configs([row.id])[row.id]["max_steps"] == row.max_steps
    assert "output_dir" not in row.changed
    assert catalog.record_of(row) == record
    assert read_sheet(Path(row.control)) is not None
    assert catalog.catch_up(index).read == 0


def test_a_moved_folder_is_followed_and_a_deleted_one_is_told(own_user: Path, tmp_path: Path) -> None:
    record = made(tmp_path / "out" / "a")
    made(tmp_path / "out" / "b")
    index = RunIndex()
    catalog.catch_up(index)
    was = catalog.find_run(index, "a")
    change_sheet(Path(was.control), lambda sheet: replace(sheet, tags=("keep",)))
    (tmp_path / "out").rename(tmp_path / "outputs")
    found = catalog.catch_up(index)
    row = catalog.find_run(index, "a")
    place = str(tmp_path / "outputs" / "a")
    assert (row.id, row.folder, row.tags, row.state) == (was.id, place, ("keep",), "done")
    assert f"a was moved from {record.output_dir} to {place}" in found.told
    assert catalog.record_of(row).run_dir == place
    shutil.rmtree(place)
    assert catalog.catch_up(index).told == ()
    row = catalog.find_run(index, "a")
    assert (row.state, row.problem) == ("gone", f"{place} was deleted or moved away")
    assert catalog.catch_up(index).read == 0
    with pytest.raises(ConfigError, match="was deleted or moved away"):
        catalog.record_of(row)


def test_a_lost_index_is_made_again_with_what_only_it_had_seen(own_user: Path, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        made(tmp_path / "out" / name)
    index = RunIndex()
    assert catalog.catch_up(index).told == ()
    before = {row.id: row for row in index.rows()}
    forget(next(catalog.record_of(row) for row in before.values() if row.name == "b"))
    index.close()
    index.path.unlink()
    found = catalog.catch_up(index)
    assert found.told == ("there was no index of runs: it is made anew from the folders",)
    assert {row.id: row for row in index.rows()} == before
    index.path.write_bytes(b"nothing of a database" * 300)
    found = catalog.catch_up(RunIndex())
    assert found.told[0].startswith("the index of runs was damaged and is made anew: ")
    assert {row.id: row for row in RunIndex().rows()} == before


def test_a_damaged_run_is_listed_as_such_and_hides_no_other(own_user: Path, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        made(tmp_path / "out" / name)
    index = RunIndex()
    catalog.catch_up(index)
    (tmp_path / "out/a/.rltui/experiment.toml").write_text("name = ")
    (tmp_path / "out/b/.rltui/run.json").write_text("[]")
    catalog.catch_up(index)
    states = {row.name: (row.state, "is damaged" in row.problem) for row in index.rows()}
    assert states == {"a": ("damaged", True), "b": ("damaged", True), "c": ("done", False)}
    assert catalog.catch_up(index).read == 0


def test_names(own_user: Path, tmp_path: Path) -> None:
    index = RunIndex()
    with pytest.raises(UsageError, match="no run 'lr-low'"):
        catalog.find_run(index, "lr-low")
    made(tmp_path / "out" / "lr-high")
    assert catalog.find_run(index, "lr-high").name == "lr-high"
    with pytest.raises(UsageError) as told:
        catalog.find_run(index, "lr-hihg")
    assert told.value.hint == "did you mean lr-high?"
    forget(catalog.record_of(catalog.find_run(index, "lr-high")))
    made(tmp_path / "other" / "lr-high")
    catalog.catch_up(index)
    assert catalog.find_run(index, "lr-high").folder == str(tmp_path / "other" / "lr-high")
