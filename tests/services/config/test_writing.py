"""Whatever fails, and whenever the process is killed: each file is the old or the new one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rltui.errors import RltuiError
from rltui.services.config import writing
from rltui.services.config.writing import SUFFIX, FileChange, replace_files

CALLS = (
    "access",
    "stat",
    "link",
    "fchmod",
    "fsync",
    "open",
    "close",
    "rename",
    "replace",
    "unlink",
    "scandir",
)
"""System calls of a write, by their names in `os`."""
OLD, NEW = b"old = 1\n", b"new = 2\n"

KILLED = """
import os, signal, sys
from pathlib import Path
from rltui.services.config.writing import FileChange, replace_files
step, count = int(sys.argv[1]), 0
def counted(call):
    def wrapper(*args, **kwargs):
        global count
        count += 1
        if count == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **kwargs)
    return wrapper
for name in sys.argv[2].split(","):
    setattr(os, name, counted(getattr(os, name)))
replace_files({Path(path): FileChange(b"old = 1\\n", b"new = 2\\n") for path in sys.argv[3:]})
"""


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "a" / "one.toml", tmp_path / "b" / "two.toml"]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(OLD)
    return paths


def changes(files: list[Path], content: bytes = NEW) -> dict[Path, FileChange]:
    return {path: FileChange(path.read_bytes(), content) for path in files}


def left_behind(files: list[Path]) -> list[str]:
    return [entry.name for path in files for entry in path.parent.iterdir() if entry not in files]


class Failing:
    """Makes the n-th system call of a write fail, and counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, at: int) -> None:
        self.count, self.failed, self._at = 0, "", at
        for name in CALLS:
            monkeypatch.setattr(os, name, self._wrapped(name, getattr(os, name)))
        monkeypatch.setattr(writing, "_rename", self._wrapped("exchange", writing._rename))

    def _wrapped(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            if self.count == self._at:
                self.failed = name
                if name == "close":
                    call(*args)  # Linux closes whatever it says
                raise OSError(5, "Input/output error")
            return call(*args, **kwargs)

        return wrapper


def refusal(files: list[Path]) -> RltuiError | None:
    try:
        replace_files(changes(files))
    except RltuiError as error:
        return error
    return None


def test_every_failing_call_leaves_all_files_old(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    at, failed = 0, set()
    while True:
        at += 1
        with monkeypatch.context() as patch:
            failing = Failing(patch, at=at)
            error = refusal(files)
            assert error is None or error.details == ("the files are as they were",), (at, failing.failed)
            if not failing.failed:
                break
        contents = {path.read_bytes() for path in files}
        assert len(contents) == 1, f"call {at}, {failing.failed}: all or none"
        if contents == {OLD}:
            failed.add(failing.failed)
        for path in files:
            path.write_bytes(OLD)
    assert [path.read_bytes() for path in files] == [NEW, NEW]
    assert left_behind(files) == []
    assert {"fchmod", "fsync", "replace", "exchange"} <= failed
    assert at > 25


@pytest.mark.parametrize("step", [1, 4, 8, 12, 16, 20, 24, 28, 32])
def test_a_killed_process_leaves_each_file_old_or_new(files: list[Path], step: int) -> None:
    arguments = [sys.executable, "-c", KILLED, str(step), ",".join(CALLS), *map(str, files)]
    done = subprocess.run(arguments, check=False, capture_output=True, text=True)
    assert done.returncode in (-9, 0), done.stderr
    assert {path.read_bytes() for path in files} <= {OLD, NEW}
    replace_files(changes(files, b"next = 3\n"))
    assert left_behind(files) == [], "what it left is swept"


def test_a_file_that_cannot_be_put_back_is_named(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = writing._rename, []

    def fails_from_the_second(source: Path, target: Path, flags: int) -> None:
        calls.append(target)
        if len(calls) > 1:
            raise OSError(30, "Read-only file system")
        real(source, target, flags)

    monkeypatch.setattr(writing, "_rename", fails_from_the_second)
    with pytest.raises(RltuiError, match="Read-only") as caught:
        replace_files(changes(files))
    assert caught.value.details == (f"changed all the same: {files[0]}",)
    assert [path.read_bytes() for path in files] == [NEW, OLD]


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_without_exchange_two_renames_do(
    files: list[Path], monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def no_rename(one: Path, other: Path, flags: int) -> None:
        raise OSError(22, "Invalid argument")

    def no_link(source: Any, target: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    def no_sync(folder: Path) -> None:
        if folder == files[1].parent:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(writing, "_rename", no_rename)
    if not links:
        monkeypatch.setattr(os, "link", no_link)
    replace_files(changes(files[:1]))
    monkeypatch.setattr(writing, "_sync_folder", no_sync)
    with pytest.raises(RltuiError, match="Input/output"):
        replace_files(changes(files, b"next = 3\n"))
    assert [path.read_bytes() for path in files] == [NEW, OLD]
    assert left_behind(files) == []


def test_others_hidden_files_stay(files: list[Path]) -> None:
    mine = files[0].parent / f".other.toml.x{SUFFIX}"
    mine.write_bytes(b"")
    replace_files(changes(files[:1]))
    assert mine.exists()
