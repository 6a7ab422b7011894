"""Files of runs and of the queue with anything in them: no traceback, and nothing is written elsewhere."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from tests.fakes.past_run import write_finished_run
from tests.foreign import changed, example_counts, examples, values

from rltui import paths
from rltui.client.observation import add
from rltui.client.queue import commands
from rltui.core.runs.queue import LaunchEnvironment, QueueEntry, RunQueue
from rltui.core.runs.row import RunChange
from rltui.errors import RltuiError
from rltui.scheduler.queue_scheduler import QueueScheduler
from rltui.services.experiment.registry import listed_experiments
from rltui.services.runs import catalog, organize
from rltui.services.runs.index import RunIndex

METADATA: dict[str, Any] = {
    "id": "0123456789", "created_at": 1.8e9, "parent": "abcdefghij", "parent_step": 3, "again": "",
    "group": "g", "entry": "e", "tags": ["a"], "note": "n", "is_best": True,
    "archived_at": None, "trashed_at": None,
}  # fmt: skip


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def place(own_user: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a user's state folder in it, for each example another."""
    return own_user


def box(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = Path(tempfile.mkdtemp(dir=place))
    (root / "state").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_STATE_HOME", str(root / "state"))
    (root / ".bashrc").write_text("mine")
    return root


def tried(root: Path, run: Path) -> None:
    """All that people do with a run that they were given, and with one of their own beside it."""
    before = {
        path: content
        for path, content in files_of(root).items()
        if not path.is_relative_to(root / "dl") and not path.is_relative_to(root / "state")
    }
    index = RunIndex()
    with suppress(RltuiError):
        add(root / "dl")
    catalog.catch_up(index)
    catalog.catch_up(index, whole=True)
    rows = {row.folder: row for row in index.rows()}
    assert rows[str(root / "out" / "mine")].state == "done"
    listed_experiments()
    for row in rows.values():
        if row.folder != str(root / "out" / "mine"):
            for change in (
                lambda row: organize.change_run(index, row, RunChange(add_tags=("x",))),
                lambda row: organize.change_run(index, row, RunChange(note="x")),
                lambda row: organize.trash(index, row),
                lambda row: organize.restore(index, index.row(row.id) or row),
                lambda row: organize.delete_for_good(index, organize.trash(index, row)),
            ):
                with suppress(RltuiError):
                    change(row)
    catalog.catch_up(index)
    assert not index.was_damaged
    after = files_of(root)
    assert {path: after.get(path) for path in before} == before
    allowed = (root / "dl", root / "state" / "rltui", root / "out" / "mine" / ".rltui")
    new = [path for path in after.keys() - before.keys() if not any(map(path.is_relative_to, allowed))]
    assert not new


@pytest.mark.parametrize("count", example_counts(3, 300))
def test_a_sheet_with_anything_in_it(place: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    @examples(count)
    @given(changed(METADATA) | values)
    def check(sheet: object) -> None:
        root = box(place, monkeypatch)
        write_finished_run(root / "dl" / "theirs")
        (root / "dl" / "theirs" / ".rltui" / "run.json").write_text(json.dumps(sheet))
        shutil.rmtree(root / "state" / "rltui")
        write_finished_run(root / "out" / "mine")
        RunIndex().close()
        catalog.catch_up(RunIndex())
        tried(root, root / "dl" / "theirs")
        shutil.rmtree(root)

    check()


@pytest.mark.parametrize("count", example_counts(3, 300))
def test_a_record_with_anything_in_it(place: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    good = json.loads(json.dumps(asdict(write_finished_run(place / "good"))))

    @examples(count)
    @given(changed(good))
    def check(record: Any) -> None:
        root = box(place, monkeypatch)
        write_finished_run(root / "dl" / "theirs")
        try:
            text = tomlkit.dumps(record)
        except (ValueError, TypeError, AttributeError, tomlkit.exceptions.TOMLKitError, OverflowError):
            return
        with suppress(UnicodeEncodeError):
            (root / "dl" / "theirs" / ".rltui" / "experiment.toml").write_text(text)
        shutil.rmtree(root / "state" / "rltui")
        write_finished_run(root / "out" / "mine")
        catalog.catch_up(RunIndex())
        tried(root, root / "dl" / "theirs")
        shutil.rmtree(root)

    check()


@pytest.mark.parametrize("count", example_counts(20, 2000))
def test_a_queue_with_anything_in_it(place: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(QueueScheduler, "_run", lambda *_, **__: (_ for _ in ()).throw(OSError(2, "no", "x")))
    monkeypatch.setattr(commands, "ensure_scheduler", lambda: None)
    entry = QueueEntry(id="a", name="a", folder="/o/a", added_at=1.0, files={"/x": "0"}, surroundings="s")
    around = LaunchEnvironment(cwd="/", variables={"PATH": "/bin"})
    good = json.loads(RunQueue(entries=(entry,), surroundings={"s": around}, boot="").to_json().decode())

    @examples(count)
    @given(changed(good) | values)
    def check(queue: object) -> None:
        root = box(place, monkeypatch)
        paths.queue_folder().mkdir(parents=True, mode=0o700)
        paths.queue_file().write_text(json.dumps(queue))
        before = files_of(root)
        keeper = QueueScheduler()
        for _ in range(2):
            with suppress(RltuiError):
                keeper.look()
        for change in (
            lambda: commands.retry(["a"]),
            lambda: commands.move("a", "first"),
            lambda: commands.remove(["a"]),
        ):
            with suppress(RltuiError):
                change()
        new = files_of(root).keys() - before.keys()
        assert all(path.is_relative_to(paths.queue_folder()) for path in new), new
        shutil.rmtree(root)

    check()
