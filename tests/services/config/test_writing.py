"""Whatever fails, and whenever the process is killed: each file is the old or the new one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.services.config.system_calls import die, instead_of_call, is_killed

from rltui.errors import RltuiError
from rltui.services.config.change import FileChange
from rltui.services.config.writing import SUFFIX, replace_files

OLD, NEW = b"old = 1\n", b"new = 2\n"


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "a" / "one.toml", tmp_path / "b" / "two.toml"]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(OLD)
    return paths


def changes(files: list[Path], content: bytes = NEW) -> list[FileChange]:
    return [FileChange.of_contents(path, path.read_bytes(), content) for path in files]


def left_behind(files: list[Path]) -> list[str]:
    return [entry.name for path in files for entry in path.parent.iterdir() if entry not in files]


def fail(name: str, call: Callable[..., Any], *args: Any) -> None:
    if name == "close":
        call(*args)  # Linux closes whatever it says
    raise OSError(5, "Input/output error")


def refusal(files: list[Path]) -> RltuiError | None:
    try:
        replace_files(changes(files))
    except RltuiError as error:
        return error
    return None


def test_every_failing_call_leaves_all_files_old(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    number, failed = 0, set()
    while True:
        number += 1
        with monkeypatch.context() as patch:
            made = instead_of_call(patch, number, fail)
            error = refusal(files)
        assert error is None or error.details == ("the files are unchanged",), made
        assert error is None or "free disk space" in error.hint
        if len(made) < number:
            break
        contents = {path.read_bytes() for path in files}
        assert len(contents) == 1, f"{made}: all or none"
        if contents == {OLD}:
            failed.add(made[number - 1])
        for path in files:
            path.write_bytes(OLD)
    assert [path.read_bytes() for path in files] == [NEW, NEW]
    assert left_behind(files) == []
    assert {"fchmod", "fsync", "replace", "pread"} <= failed
    assert number > 25


def test_a_killed_process_leaves_each_file_old_or_new(files: list[Path]) -> None:
    def work() -> None:
        instead_of_call(pytest.MonkeyPatch(), step, die)
        replace_files(changes(files))

    step = 1
    while is_killed(work):
        assert {path.read_bytes() for path in files} <= {OLD, NEW}
        replace_files(changes(files, b"next = 3\n"))
        assert left_behind(files) == [], "what it left is swept"
        for path in files:
            path.write_bytes(OLD)
        step += 4
    assert step > 25


def test_a_file_that_cannot_be_put_back_is_named(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.replace, []

    def fails_from_the_second(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) > 1:
            raise OSError(30, "Read-only file system")
        real(source, target)

    monkeypatch.setattr(os, "replace", fails_from_the_second)
    with pytest.raises(RltuiError, match="Read-only") as caught:
        replace_files(changes(files))
    assert caught.value.details == (f"still changed: {files[0]}",)
    assert [path.read_bytes() for path in files] == [NEW, OLD]
    assert left_behind(files) == []


def test_others_hidden_files_stay(files: list[Path]) -> None:
    mine = files[0].parent / f".other.toml.x{SUFFIX}"
    mine.write_bytes(b"")
    replace_files(changes(files[:1]))
    assert mine.exists()
