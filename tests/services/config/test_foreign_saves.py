"""Finding H5: another editor saves the config at any moment, in any way, and its saves stay."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.fakes.saving_editor import Saves, saving_editor
from tests.services.config.desk import Desk

from rltui.core.experiment.api import Request
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.services.config import writing
from rltui.services.config.change import FileChange
from rltui.services.config.writing import replace_files


def edit_beside_an_editor(folder: Path, edits: int) -> tuple[int, Saves]:
    """Edits made, and what became of the other editor's saves."""
    desk = Desk(folder, "mine = 0\ntheirs = 0\n")
    made = tried = 0
    with saving_editor(desk.path) as saves:
        while tried < edits:
            request = Request(action="set", edits={"mine": tried + 1}, force=True)
            time.sleep(random.random() / 100)
            try:
                proposal = desk.document.proposed(request)
            except ConfigError:  # half written, or moved aside
                continue
            tried += 1
            try:
                desk.document.commit(proposal)
                made += 1
            except ConflictError:
                continue
    assert [entry.name for entry in folder.iterdir() if "rltui-tmp" in entry.name] == []
    return made, saves


@pytest.mark.parametrize(
    "edits", [30, pytest.param(5000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_hardly_a_save_of_another_editor_is_lost(tmp_path: Path, edits: int) -> None:
    """None but those between the comparison and the rename, microseconds apart."""
    made, saves = edit_beside_an_editor(tmp_path, edits)
    print(f"{made} of {edits} edits made beside {saves.made} saves, {saves.lost} lost")
    assert saves.lost <= 1 + edits / 200
    assert made
    assert saves.made


@contextmanager
def once_written_beside(
    monkeypatch: pytest.MonkeyPatch, how: str, path: Path, content: str = "theirs"
) -> Iterator[None]:
    """Somebody saves once the new contents lie on the disk."""
    real = writing._replace

    def saved(change: FileChange) -> None:
        if change.path == path:
            save()
        real(change)

    def save() -> None:
        beside = path.with_name("theirs")
        if how == "rename":
            beside.write_text(content)
            beside.replace(path)
        elif how == "in place":
            path.write_text(content)
        else:
            path.rename(beside)

    with monkeypatch.context() as patch:
        patch.setattr(writing, "_replace", saved)
        yield


@pytest.mark.parametrize("how", ["in place", "rename"])
def test_what_was_saved_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text("old")
    with once_written_beside(monkeypatch, how, path), pytest.raises(ConflictError) as caught:
        replace_files([FileChange.of_contents(path, b"old", b"new")])
    assert caught.value.details[-2:] == ("+theirs", "\\ No newline at end of file")
    assert path.read_text() == "theirs"
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.toml"]


def test_a_file_that_an_editor_moves_aside_meanwhile_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.toml"
    path.write_text("old")
    with once_written_beside(monkeypatch, "aside", path), pytest.raises(ConflictError) as caught:
        replace_files([FileChange.of_contents(path, b"old", b"new")])
    assert caught.value.details == ()
    assert [entry.name for entry in tmp_path.iterdir()] == ["theirs"]


def test_of_several_files_none_is_changed_when_one_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "a.toml", tmp_path / "b.toml"
    for path in (first, second):
        path.write_text("old")
    with once_written_beside(monkeypatch, "rename", second), pytest.raises(ConflictError):
        replace_files([FileChange.of_contents(path, b"old", b"new") for path in (first, second)])
    assert (first.read_text(), second.read_text()) == ("old", "theirs")


def test_a_file_that_cannot_be_put_back_then_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "a.toml", tmp_path / "b.toml"
    for path in (first, second):
        path.write_text("old")
    real, calls = os.replace, []

    def fails_from_the_second(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) > 1:
            raise OSError(30, "Read-only file system")
        real(source, target)

    monkeypatch.setattr(os, "replace", fails_from_the_second)
    with once_written_beside(monkeypatch, "in place", second), pytest.raises(RltuiError) as caught:
        replace_files([FileChange.of_contents(path, b"old", b"new") for path in (first, second)])
    assert not isinstance(caught.value, ConflictError), "it is not as if nothing was written"
    assert caught.value.details == (f"still changed: {first}",)
    assert (first.read_text(), second.read_text()) == ("new", "theirs")


def test_both_names_of_a_file_keep_one_content(tmp_path: Path) -> None:
    """Finding H9."""
    path, link = tmp_path / "run.toml", tmp_path / "link.toml"
    path.write_text("a longer old text")
    link.hardlink_to(path)
    replace_files([FileChange.of_contents(path, path.read_bytes(), b"new")])
    assert (path.read_text(), link.read_text()) == ("new", "new")
    with pytest.raises(ConflictError):
        replace_files([FileChange.of_contents(link, b"other", b"newer")])
    replace_files([FileChange.of_contents(link, b"new", b"newer")])
    assert path.read_text() == "newer"
    assert path.stat().st_nlink == 2
