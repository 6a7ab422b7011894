from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.waiting import ready_process

from rltui.errors import RltuiError
from rltui.services.own_files import FileLock

HOLD = """\
import sys
from pathlib import Path
from rltui.services.own_files import FileLock
lock = FileLock(Path(sys.argv[1]))
print(lock.acquire(), flush=True)
sys.stdin.read()
"""


def test_one_holds_it_until_it_lets_go(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert first.acquire()
    assert first.acquire(), "it has it already"
    assert not second.acquire()
    assert (first.is_held(), second.is_held()) == (True, False)
    first.release()
    first.release()
    assert second.acquire()


def test_lock_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with ready_process([sys.executable, "-c", HOLD, str(path)], "True") as holder:
        assert not FileLock(path).acquire()
        holder.kill()
        holder.wait()
        assert FileLock(path).acquire()


def test_deleted_lock_is_taken_again_before_anybody_else(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = FileLock(path)
    assert first.acquire()
    path.unlink()
    assert not first.is_held()
    assert first.acquire()
    assert first.is_held()
    assert not FileLock(path).acquire()


def test_deleted_lock_that_another_took_stays_theirs(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first, second = FileLock(path), FileLock(path)
    assert first.acquire()
    path.unlink()
    assert second.acquire()
    assert not first.acquire()
    assert not first.is_held()
    assert second.is_held()


def test_lock_in_no_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(RltuiError, match="cannot open the lock"):
        FileLock(tmp_path / "nowhere" / "lock").acquire()
