"""The list of folders that prime-rl's dashboard shows the runs of, which its launchers write, too."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import multiprocessing.synchronize
import os
from pathlib import Path

import pytest
from tests.fakes.prime_rl.dashboard import register, registry_lock

from rltui.errors import RltuiError
from rltui.frameworks.prime_rl.dashboard import DASHBOARD
from rltui.services.runs import dashboard_folders
from rltui.services.runs.dashboard_folders import DashboardFolders

NUMBER = 40
"""Folders that each of the writers enters."""


@pytest.fixture
def home(own_user: Path) -> Path:
    return own_user / "home"


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    folder = tmp_path / "outputs"
    (folder / "one/logs").mkdir(parents=True)
    return folder


def list_file(home: Path) -> Path:
    return home / ".cache/prime-rl/dashboard/dirs.json"


def entries(home: Path) -> list[str]:
    document: list[str] = json.loads(list_file(home).read_text())
    return document


def test_what_rltui_added_is_taken_back_with_the_last_run_and_put_back(home: Path, outputs: Path) -> None:
    folders = DashboardFolders(DASHBOARD)
    link = outputs.with_name("link")
    link.symlink_to(outputs)
    assert folders.add(link)
    assert entries(home) == [str(outputs)], "resolved, as launchers do"
    assert not folders.add(outputs)
    (outputs / "two/.rltui").mkdir(parents=True)
    (outputs / "one/logs").rename(outputs / "notes")
    folders.take_back(outputs)
    assert entries(home) == [str(outputs)], "a run of ours that has written nothing yet is left"
    (outputs / "two").rename(outputs / ".rltui-trash")
    folders.take_back(outputs)
    assert entries(home) == []
    folders.put_back(outputs)
    assert entries(home) == [str(outputs)]


def test_what_others_entered_stays(home: Path, outputs: Path) -> None:
    folders = DashboardFolders(DASHBOARD)
    register([outputs])
    assert not folders.add(outputs)
    (outputs / "one/logs").rmdir()
    folders.take_back(outputs)
    folders.put_back(outputs.parent)
    assert entries(home) == [str(outputs)]


@pytest.mark.parametrize("content", ['{"dirs": []}', "[1]", '["/a"', '"/a"', "\udc80[]"])
def test_a_damaged_list_is_left_alone(home: Path, outputs: Path, content: str) -> None:
    list_file(home).parent.mkdir(parents=True)
    list_file(home).write_text(content, errors="surrogateescape")
    before = list_file(home).read_bytes()
    with pytest.raises(RltuiError, match=r"dirs\.json is not a list of folders: .*; it is left alone"):
        DashboardFolders(DASHBOARD).add(outputs)
    assert list_file(home).read_bytes() == before


def test_nobody_waits_for_long_for_a_lock_or_a_home(
    home: Path, outputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard_folders, "_LOCK_S", 0.05)
    with registry_lock(), pytest.raises(RltuiError, match="another program holds it"):
        DashboardFolders(DASHBOARD).add(outputs)
    assert not list_file(home).exists()
    for wrong_home, reason in ((home / "file", "Not a directory"), (Path("/proc"), "No such file")):
        (home / "file").touch()
        monkeypatch.setenv("HOME", str(wrong_home))
        with pytest.raises(RltuiError, match=reason):
            DashboardFolders(DASHBOARD).add(outputs)


def test_a_path_that_the_dashboard_could_not_read_is_not_written(home: Path) -> None:
    with pytest.raises(RltuiError, match="not UTF-8"):
        DashboardFolders(DASHBOARD).add(Path(os.fsdecode(b"/outputs/\xff")))
    assert not list_file(home).exists()


def _enter(ours: bool, outputs: Path, barrier: multiprocessing.synchronize.Barrier) -> None:
    barrier.wait()
    folders = DashboardFolders(DASHBOARD)
    for number in range(NUMBER):
        folder = outputs / f"{os.getpid()}-{number}"
        if ours:
            folders.add(folder)
        else:
            register([folder])


def test_nothing_is_lost_where_several_write_at_once(
    home: Path, outputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard_folders, "_LOCK_S", 60.0)  # the others hardly ever let go
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(4)
    writers = [context.Process(target=_enter, args=(bool(n % 2), outputs, barrier)) for n in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 4
    expected = {f"{outputs}/{writer.pid}-{number}" for writer in writers for number in range(NUMBER)}
    assert sorted(entries(home)) == sorted(expected)
    with (list_file(home).parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
