"""Finding H5: another editor saves the config at any moment, in any way, and none of its saves is lost."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from tests.fakes.saving_editor import Saves, saving_editor
from tests.services.config.desk import Desk

from rltui.core.api import Request
from rltui.errors import ConfigError, ConflictError
from rltui.services.config import writing
from rltui.services.config.writing import FileChange, ForeignSaveError, replace_files


def edit_beside_an_editor(folder: Path, edits: int) -> tuple[int, Saves]:
    """Edits made, and what became of the other editor's saves."""
    desk = Desk(folder, "mine = 0\ntheirs = 0\n")
    made = tried = 0
    with saving_editor(desk.path) as saves:
        while tried < edits:
            request = Request(action="set", edits={"mine": tried + 1}, force=True)
            time.sleep(random.random() / 100)
            try:
                preview = desk.editor.preview(request)
            except ConfigError:  # half written, or moved aside
                continue
            tried += 1
            try:
                desk.editor.apply(request, preview)
                made += 1
            except ConflictError:
                continue
    assert [entry.name for entry in folder.iterdir() if "rltui-tmp" in entry.name] == []
    return made, saves


@pytest.mark.parametrize(
    "edits", [30, pytest.param(5000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_no_save_of_another_editor_is_lost(tmp_path: Path, edits: int) -> None:
    made, saves = edit_beside_an_editor(tmp_path, edits)
    print(f"{made} of {edits} edits made beside {saves.made} saves, {saves.lost} lost")
    assert saves.lost == 0
    assert made
    assert saves.made


@contextmanager
def at_exchange(monkeypatch: pytest.MonkeyPatch, *saves: tuple[str, Path, str]) -> Iterator[None]:
    """Right before each exchange in turn, somebody saves: by rename or in place."""
    real, left = writing.swap, list(saves)

    def swap(one: Path, other: Path) -> None:
        if left:
            how, path, content = left.pop(0)
            beside = path.with_name("theirs")
            if how == "rename":
                beside.write_text(content)
                beside.replace(path)
            elif how == "in place":
                path.write_text(content)
            elif how == "aside":
                path.rename(beside)
        real(one, other)

    with monkeypatch.context() as patch:
        patch.setattr(writing, "swap", swap)
        yield


@pytest.mark.parametrize(
    "saves",
    [
        ["in place"],
        ["rename", "in place"],
        ["rename", "rename", "in place", "rename", "rename"],
    ],
    ids=" ".join,
)
def test_the_newest_foreign_save_is_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saves: list[str]
) -> None:
    path = tmp_path / "run.toml"
    path.write_text("old")
    steps = [(how, path, f"theirs {number}") for number, how in enumerate(saves)]
    with (
        at_exchange(monkeypatch, *steps),
        pytest.raises(ForeignSaveError) as caught,
    ):
        replace_files({path: FileChange(b"old", b"new")})
    assert caught.value.content == b"theirs 0"
    assert path.read_text() == steps[-1][2]
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.toml"]


def test_a_file_that_an_editor_moves_aside_meanwhile_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.toml"
    path.write_text("old")
    with at_exchange(monkeypatch, ("aside", path, "")), pytest.raises(ForeignSaveError):
        replace_files({path: FileChange(b"old", b"new")})
    assert [entry.name for entry in tmp_path.iterdir()] == ["theirs"]
    path.write_text("old")
    with (
        at_exchange(monkeypatch, ("rename", path, "theirs"), ("aside", path, "")),
        pytest.raises(ForeignSaveError),
    ):
        replace_files({path: FileChange(b"old", b"new")})
    assert path.read_text() == "theirs"


def test_a_writer_that_opened_the_file_before_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.toml"
    path.write_text("old")
    real = writing.swap
    writers: list[threading.Thread] = []

    def swap(one: Path, other: Path) -> None:
        if not writers:
            writers.append(threading.Thread(target=save, args=[other.open("r+")]))
            monkeypatch.setattr(writing, "_lease", started)
        real(one, other)

    def save(file: IO[str]) -> None:
        with file:
            file.write("theirs")

    def started(descriptor: int, kind: int) -> bool | None:
        granted = lease(descriptor, kind)
        if granted is False and not writers[0].is_alive() and writers[0].ident is None:
            writers[0].start()
        return granted

    lease = writing._lease
    monkeypatch.setattr(writing, "swap", swap)
    with pytest.raises(ForeignSaveError) as caught:
        replace_files({path: FileChange(b"old", b"new")})
    assert caught.value.content == b"theirs"
    assert path.read_text() == "theirs"


def test_of_several_files_none_is_changed_when_one_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "a.toml", tmp_path / "b.toml"
    for path in (first, second):
        path.write_text("old")
    with (
        at_exchange(monkeypatch, ("none", first, ""), ("rename", second, "theirs")),
        pytest.raises(ForeignSaveError),
    ):
        replace_files({first: FileChange(b"old", b"new"), second: FileChange(b"old", b"new")})
    assert (first.read_text(), second.read_text()) == ("old", "theirs")


def test_both_names_of_a_file_keep_one_content(tmp_path: Path) -> None:
    """Finding H9."""
    path, link = tmp_path / "run.toml", tmp_path / "link.toml"
    path.write_text("a longer old text")
    link.hardlink_to(path)
    replace_files({path: FileChange(path.read_bytes(), b"new")})
    assert (path.read_text(), link.read_text()) == ("new", "new")
    with pytest.raises(ForeignSaveError):
        replace_files({link: FileChange(b"other", b"newer")})
    replace_files({link: FileChange(b"new", b"newer")})
    assert path.read_text() == "newer"
    assert path.stat().st_nlink == 2


def test_what_a_killed_process_could_not_put_back_is_put_back(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("new")
    mark = writing._fingerprint
    left = tmp_path / f".run.toml.{mark(b'old')}-{mark(b'new')}.rltui-tmp"
    left.write_text("theirs")
    writing.tidy(path)
    assert path.read_text() == "theirs"
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.toml"]
