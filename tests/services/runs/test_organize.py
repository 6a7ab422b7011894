"""What people do with runs, on real folders: what they said is kept there, and the index follows."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.past_run import write_finished_run

from rltui import paths
from rltui.core.experiment.actor import Actor
from rltui.core.runs.row import RunChange, RunRow
from rltui.errors import ConfigError, ConflictError, RltuiError, UsageError
from rltui.services.actor import acting_as
from rltui.services.experiment.files import ControlFolder, list_dir
from rltui.services.experiment.gpu_use import GpuUseReader
from rltui.services.experiment.journal import journal_of, read_journal
from rltui.services.experiment.registry import find_experiment, name_if_needed
from rltui.services.own_files import FileLock
from rltui.services.runs import catalog, organize
from rltui.services.runs.catalog import record_of
from rltui.services.runs.index import RunIndex
from rltui.services.runs.metadata import new_metadata, read_metadata, save_metadata
from rltui.services.runs.moved_folders import TRASH
from rltui.services.runs.organize import RunRetention, change_run, retention_plan
from rltui.services.runs.references import find_run


@pytest.fixture
def index(own_user: Path, tmp_path: Path) -> RunIndex:
    """Of the runs `a` and `b`."""
    write_finished_run(tmp_path / "out" / "a")
    write_finished_run(tmp_path / "out" / "b")
    index = RunIndex()
    catalog.catch_up(index)
    return index


def there(index: RunIndex, name: str) -> RunRow:
    """As the folders have it: the index is made again."""
    catalog.catch_up(index, whole=True)
    return find_run(index, name)


def test_words_are_in_the_sheet_and_in_the_index(index: RunIndex) -> None:
    row = find_run(index, "a")
    change_run(index, row, RunChange(add_tags=("x", "baseline")))
    change = RunChange(add_tags=("y",), remove_tags=("x", "never"), note="  higher lr\n")
    change_run(index, row, change)  # by a stale row: nothing is lost
    change_run(index, row, RunChange(is_best=True, is_archived=True))
    (now,) = index.named("a")
    assert (now.tags, now.note, now.is_best) == (("baseline", "y"), "higher lr", True)
    assert now.archived_at is not None
    assert there(index, "a") == now
    assert change_run(index, now, RunChange(is_archived=False)).archived_at is None
    assert change_run(index, now, RunChange(note="")).note == ""
    with pytest.raises(UsageError, match="4001 characters, at most 4000"):
        change_run(index, now, RunChange(note="x" * 4001))
    for tag in ("", "a b", "a,b", "x" * 49, "\x1b[31m"):
        with pytest.raises(UsageError, match="is not a valid tag"):
            change_run(index, row, RunChange(add_tags=(tag,)))
    assert find_run(index, "a").tags == ("baseline", "y")


def test_the_journal_of_the_run_has_who_changed_it(index: RunIndex) -> None:
    row = find_run(index, "a")
    journal = ControlFolder(Path(row.folder)).journal_file
    journal.touch()
    night = Actor(kind="agent", user="ada", name="night-1", pid=7)
    paths.settings_file().parent.mkdir(parents=True, exist_ok=True)
    paths.settings_file().write_text("[agents]\nrights = 'act'\n")
    with acting_as(night):
        row = change_run(index, row, RunChange(add_tags=("x",), remove_tags=("y",), is_archived=True))
        row = change_run(index, row, RunChange(is_trashed=True))
    row = change_run(index, row, RunChange(note="higher lr", is_trashed=False))
    entries = read_journal(journal)
    assert [(entry.text, entry.by == night) for entry in entries] == [
        ("tags +x -y; archived", True), ("moved to the trash", True),
        ("note of the run: higher lr", False), ("restored from the trash", False),
    ]  # fmt: skip


def test_a_run_is_renamed_in_its_folder_on_the_list_and_in_the_index(index: RunIndex, tmp_path: Path) -> None:
    row = find_run(index, "a")
    change = RunChange(name="higher-lr", note="x")
    renamed = change_run(index, row, change)
    assert (renamed.name, renamed.note, renamed.id) == ("higher-lr", "x", row.id)
    assert find_experiment("a") is None
    record = find_experiment("higher-lr")
    assert record is not None
    assert record.output_dir == row.folder
    catalog.catch_up(index, whole=True)
    assert find_run(index, "higher-lr").id == row.id
    assert change_run(index, renamed, change.inverse(row)).name == "a"
    assert find_experiment("higher-lr") is None


def test_names_that_are_invalid_or_taken_are_refused(index: RunIndex, tmp_path: Path) -> None:
    row, other = find_run(index, "a"), find_run(index, "b")
    assert change_run(index, row, RunChange(name="a")).name == "a"
    cases: tuple[tuple[str, type[RltuiError], str], ...] = (
        ("a b", ConfigError, "not a name"),
        ("", ConfigError, "not a name"),
        ("b", ConflictError, "the name b is taken"),
        (other.id, ConflictError, f"the name {other.id} is taken"),
    )
    for name, kind, text in cases:
        with pytest.raises(kind, match=text):
            change_run(index, row, RunChange(name=name))
    user = find_experiment("b")
    assert user is not None
    user.control.write_record(replace(user, inference_of="a"))
    with pytest.raises(ConflictError, match="b uses its inference server"):
        change_run(index, row, RunChange(name="c"))
    trashed = change_run(index, other, RunChange(is_trashed=True))
    with pytest.raises(ConflictError, match="b is in the trash"):
        change_run(index, trashed, RunChange(name="c"))
    assert find_run(index, "a").name == "a"


def test_a_run_that_is_not_there_is_told(index: RunIndex, tmp_path: Path) -> None:
    row = find_run(index, "a")
    shutil.rmtree(tmp_path / "out" / "b")
    change_run(index, find_run(index, "b"), RunChange(is_trashed=True))
    assert index.named("b") == [], "there is nothing to put into the trash: it is forgotten"
    shutil.rmtree(tmp_path / "out" / "a")
    with pytest.raises(ConflictError, match="a: its folder is missing"):
        change_run(index, row, RunChange(is_best=True))
    write_finished_run(tmp_path / "out" / "a")
    save_metadata(Path(row.control), new_metadata(1.0))
    change_run(index, there(index, "a"), RunChange(is_best=True))
    with pytest.raises(ConflictError, match="now holds another run"):
        change_run(index, row, RunChange(note="of the one before"))


def test_the_trash_takes_a_run_and_gives_it_back_as_it_was(index: RunIndex, tmp_path: Path) -> None:
    row = change_run(index, find_run(index, "a"), RunChange(add_tags=("kept",)))
    (tmp_path / "out/a/.rltui/supervisor.lock").touch(0o600)
    files = sorted(path.relative_to(tmp_path / "out/a") for path in (tmp_path / "out/a").rglob("*"))
    gone = organize.trash(index, row)
    place = tmp_path / "out" / TRASH / f"{row.id}-a"
    assert (gone.folder, gone.run_dir, gone.trashed_at is not None) == (str(place), str(place), True)
    assert not (tmp_path / "out/a").exists()
    assert organize.is_in_trash(gone)
    assert there(index, "a") == replace(gone, disk_bytes=there(index, "a").disk_bytes)
    assert organize.trash(index, gone) == gone
    write_finished_run(tmp_path / "out" / "a")  # somebody was quicker
    with pytest.raises(ConflictError, match="already exists"):
        organize.restore(index, gone)
    shutil.rmtree(tmp_path / "out" / "a")
    back = organize.restore(index, gone)
    assert (back.folder, back.tags, back.trashed_at) == (str(tmp_path / "out/a"), ("kept",), None)
    assert files == sorted(path.relative_to(tmp_path / "out/a") for path in (tmp_path / "out/a").rglob("*"))
    assert there(index, "a").id == row.id
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a", "a.toml", "b", "b.toml"]


def test_only_what_lies_in_the_trash_is_deleted(index: RunIndex, tmp_path: Path) -> None:
    row = find_run(index, "a")
    with pytest.raises(UsageError, match="not in the trash"):
        organize.delete_for_good(index, row)
    gone, other = organize.trash(index, row), organize.trash(index, find_run(index, "b"))
    outside = tmp_path / "weights"
    outside.mkdir()
    (Path(gone.folder) / "link").symlink_to(outside)
    organize.delete_for_good(index, gone)
    organize.delete_for_good(index, gone)  # twice at once
    assert outside.is_dir()
    assert index.ids() == {other.id}
    write_finished_run(tmp_path / "out/b")  # another one in its place
    assert name_if_needed("a") == "a"
    shutil.rmtree(tmp_path / "out/b")
    assert name_if_needed("a") is None, "b is listed, and in the trash"
    assert [entry.name for entry in list_dir().iterdir()] == ["b"]
    organize.delete_for_good(index, other)
    assert not [*list_dir().iterdir()]
    assert not (tmp_path / "out" / TRASH).exists()
    assert catalog.catch_up(index, whole=True).runs == 0


def test_gpu_hours_of_an_agent_outlive_its_run(index: RunIndex) -> None:
    row = find_run(index, "a")
    night = Actor(kind="agent", user="ada", name="night-1", pid=7)
    with acting_as(night):
        for kind in ("start", "exit"):
            journal_of(record_of(row)).add(kind, "x", component="trainer", attempt=1, gpus=2)
    before = GpuUseReader().by_run()
    gone = organize.trash(index, row)
    for _ in range(2):  # tried again
        organize.delete_for_good(index, gone)
        assert GpuUseReader().by_run() == before
    assert GpuUseReader().hours_of("night-1") > 0


def test_one_that_lives_or_holds_others_stays(index: RunIndex, tmp_path: Path) -> None:
    row = find_run(index, "a")
    lock = FileLock(ControlFolder(tmp_path / "out" / "a").lock_file)
    assert lock.acquire()
    with pytest.raises(ConflictError, match="a is running"):
        organize.trash(index, row)
    lock.release()
    write_finished_run(tmp_path / "out" / "a" / "inner")
    catalog.catch_up(index)
    with pytest.raises(ConflictError, match="other runs are in the folder of a: inner"):
        organize.trash(index, row)
    organize.trash(index, find_run(index, "inner"))
    with pytest.raises(ConflictError, match="other runs are in"):
        organize.trash(index, row)  # its trash is in there
    organize.delete_for_good(index, find_run(index, "inner"))
    assert organize.trash(index, row).trashed_at is not None


def test_a_full_disk_keeps_no_run_from_the_trash(
    index: RunIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise RltuiError("cannot write run.json: No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("rltui.services.runs.metadata.save_metadata", full)
        gone = organize.trash(index, find_run(index, "a"))
    assert organize.is_in_trash(gone)
    assert gone.trashed_at is not None
    sheet = read_metadata(Path(gone.control))
    assert sheet is not None
    assert sheet.trashed_at is None
    assert there(index, "a").trashed_at is not None, "its folder is what counts"
    assert organize.restore(index, there(index, "a")).trashed_at is None


def row(name: str, **values: object) -> RunRow:
    told: dict[str, object] = {"id": name, "name": name, "folder": f"/{name}", "created_at": 1.0}
    return RunRow(**{**told, "state": "done", **values})  # type: ignore[arg-type]


def test_a_rule_says_what_it_keeps_and_why() -> None:
    rows = [
        row("a", ended_at=10.0, metrics={"reward": (0.1, 0.9)}),
        row("b", ended_at=20.0, metrics={"reward": (0.5, 0.5)}, tags=("x", "paper")),
        row("c", ended_at=30.0, metrics={"reward": (None, float("nan"))}),
        row("d", ended_at=40.0, is_best=True),
        row("e", ended_at=None, started_at=1.0, is_alive=True),
        row("f", ended_at=95.0, metrics={"reward": (0.2, 0.2)}),
    ]

    def kept(**rule: object) -> dict[str, str]:
        plan = retention_plan(rows, RunRetention(**rule), 100.0)  # type: ignore[arg-type]
        assert {row.id for row in plan.go} == {row.id for row in rows} - {row.id for row, _ in plan.keep}
        return {row.name: why for row, why in plan.keep}

    always = {"d": "starred", "e": "running"}
    assert kept(keep_best=1) == {**always, "a": "the best"}
    assert kept(keep_best=2, keep_last=1) == {
        **always, "a": "among the 2 best", "b": "among the 2 best", "f": "the last"
    }  # fmt: skip
    assert kept(keep_tags=("paper",)) == {**always, "b": "tagged paper"}
    assert kept(older_than_s=75.0) == {**always, "c": "ended 1m10s ago", "f": "ended 5s ago"}
    assert not RunRetention().says_something
