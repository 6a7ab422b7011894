"""What the scheduler of the queue makes of a status, and of files that cannot be read."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import retry_until

from rltui import paths
from rltui.client import starting
from rltui.client.queue.commands import QueueRequest, add_to_queue
from rltui.client.starting import StartOrder
from rltui.core.experiment.request import ConfigLine, ExperimentRequest
from rltui.core.runs.queue import QueueEntry, QueueOptions
from rltui.core.runs.row import RunOrigin
from rltui.scheduler import queue_scheduler
from rltui.scheduler.queue_scheduler import QueueScheduler, start_entry, verdict
from rltui.services import fingerprints, own_files
from rltui.services.runs.index import IndexBusyError, RunIndex, index_file
from rltui.services.runs.queue_file import change_queue
from rltui.views.queue_entry import entry_details, entry_document


def status(state: str, reason: str = "", **values: Any) -> dict[str, Any]:
    reason_document = {"code": "x", "text": reason, "components": []}
    return {"state": state, "reason": reason_document, "transaction": None, "evals": [], **values}


@pytest.mark.parametrize(
    ("found", "living", "expected"),
    [
        (status("running"), True, (None, "")),
        (status("done"), True, ("done", "")),
        (status("done", evals=[{}]), True, (None, "")),
        (status("failed", "trainer: exited 1"), True, ("failed", "trainer: exited 1")),
        (status("failed", transaction="restart"), True, (None, "")),
        (status("stopping", "shut down by ada"), True, (None, "")),
        (status("stopped", "shut down by ada"), False, ("stopped", "shut down by ada")),
        (status("done"), False, ("done", "")),
        (status("failed", "trainer: killed"), False, ("failed", "trainer: killed")),
        (status("lost", "nobody saw it"), False, ("lost", "nobody saw it")),
        (status("stopped"), True, (None, "")),
    ],
)  # fmt: skip
def test_verdict(found: dict[str, Any], *, living: bool, expected: tuple[str | None, str]) -> None:
    assert verdict(found, living=living) == expected


def waiting(folder: Path, ids: str) -> list[QueueEntry]:
    """An entry for each letter, with a config of that name in `folder`."""
    for id_ in ids:
        (folder / f"{id_}.toml").write_text("x = 1")
    configs = {id_: str(folder / f"{id_}.toml") for id_ in ids}
    return [
        QueueEntry(
            id=id_,
            name=id_,
            folder=f"/o/{id_}",
            added_at=1.0,
            request=ExperimentRequest(ConfigLine((Path(config),))),
            files={config: fingerprints.fingerprint(config).sha256},
        )
        for id_, config in configs.items()
    ]


@pytest.fixture
def scheduler(own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> QueueScheduler:
    """A scheduler that starts nothing, of a queue with `a` and `b`."""
    monkeypatch.setattr(QueueScheduler, "_start", lambda self, entry: None)
    change_queue(lambda queue: queue.with_entries(waiting(tmp_path, "ab")))
    return QueueScheduler()


def why(scheduler: QueueScheduler) -> dict[str, str]:
    return {entry.id: entry.why or entry.state for entry in scheduler.queue.entries}


@pytest.mark.timeout(30)
def test_a_pipe_in_place_of_a_config_holds_up_nobody(scheduler: QueueScheduler, tmp_path: Path) -> None:
    config = tmp_path / "a.toml"
    config.unlink()
    os.mkfifo(config)
    scheduler.look()
    assert why(scheduler) == {
        "a": f"{config} cannot be read: not a regular file; to use the new version: rltui queue retry a",
        "b": "starting",
    }


@pytest.mark.timeout(30)
def test_a_disk_that_does_not_answer_holds_up_nobody(
    scheduler: QueueScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, read = threading.Event(), own_files.read_regular

    def slow(path: Path, most: int) -> bytes:
        if path == tmp_path / "a.toml":
            answers.wait()
        return read(path, most)

    monkeypatch.setattr(fingerprints, "read_regular", slow)
    monkeypatch.setattr(fingerprints, "_DISK_TIMEOUT_S", 0.2)
    scheduler.look()
    assert why(scheduler)["b"] == "starting"
    assert "its disk does not respond" in why(scheduler)["a"]
    begun = time.monotonic()
    for _ in range(20):
        scheduler.look()
    assert time.monotonic() - begun < 2, "it is waited for once"
    answers.set()

    def is_answered() -> bool:
        scheduler.look()
        return "does not answer" not in why(scheduler)["a"]

    retry_until(is_answered)


@pytest.mark.timeout(30)
def test_a_folder_on_a_disk_that_does_not_answer_holds_up_nobody(
    scheduler: QueueScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own folder, the one that it was added in, and that of one that runs."""
    entries = waiting(tmp_path, "abcd")
    dead = ExperimentRequest(workspace=Path("/dead"))
    entries[1] = entries[1].replace(request=dead)
    entries[2] = entries[2].replace(state="running")
    change_queue(lambda queue: queue.replace(max_parallel=4).with_entries(entries))
    answers, opened = threading.Event(), fingerprints._open_folder

    def slow(folder: str) -> None:
        if folder in ("/o/a", "/dead", "/o/c"):
            answers.wait()
        opened(folder)

    def no_look(entry: QueueEntry) -> None:
        assert entry.id == "d"

    monkeypatch.setattr(fingerprints, "_open_folder", slow)
    monkeypatch.setattr(fingerprints, "_DISK_TIMEOUT_S", 0.1)
    monkeypatch.setattr("rltui.scheduler.queue_scheduler._record", no_look)
    scheduler.look()
    assert why(scheduler) == {
        "a": "the disk of /o/a does not respond",
        "b": "the disk of /dead does not respond",
        "c": "the disk of /o/c does not respond",
        "d": "starting",
    }
    answers.set()
    retry_until(lambda: scheduler._files.answers("/o/c"))
    with pytest.raises(AssertionError):
        scheduler.look()


@pytest.mark.timeout(30)
def test_whoever_adds_a_run_does_not_touch_the_folders_of_others(
    scheduler: QueueScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = Path.resolve

    def watched(path: Path, *, strict: bool = False) -> Path:
        assert not path.is_relative_to("/o")
        return resolve(path, strict=strict)

    monkeypatch.setattr(Path, "resolve", watched)
    monkeypatch.setattr("rltui.client.queue.commands.ensure_scheduler", lambda: None)
    (tmp_path / "link").symlink_to(tmp_path)
    request = QueueRequest(ExperimentRequest(), name="c", folder=tmp_path / "link/c")
    assert add_to_queue([request], QueueOptions())[0].folder == str(tmp_path / "c")
    request = replace(request, name="d", folder=tmp_path / "c")
    assert add_to_queue([request], QueueOptions())[0].folder == str(tmp_path / "c-2")


def test_a_file_that_was_deleted_by_hand_comes_back(scheduler: QueueScheduler) -> None:
    scheduler.look()
    paths.queue_file().unlink()
    scheduler.look()
    assert [entry.id for entry in scheduler.queue.entries] == ["a", "b"]
    assert "was deleted" in scheduler.queue.told


def test_a_clock_that_was_set_back_holds_up_no_retry(
    scheduler: QueueScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 2e9
    (entry,) = waiting(tmp_path, "a")
    failed = entry.replace(retries=1).ended("failed", "it died", now)
    change_queue(lambda queue: queue.with_entries([failed]))
    monkeypatch.setattr(time, "time", lambda: now)
    scheduler.look()
    assert why(scheduler) == {"a": "it died; retrying"}
    monkeypatch.setattr(time, "time", lambda: now - 86400)
    scheduler.look()
    assert why(scheduler) == {"a": "starting"}


def test_a_fork_is_started_as_a_fork_and_resumed_as_any_run() -> None:
    fork = ExperimentRequest(
        ConfigLine(edits={"lr": "1e-4"}), devices="7", origin=RunOrigin(parent="parent-id", parent_step=20)
    )
    entry = QueueEntry(
        id="a", name="child", folder="/o/child", request=fork, group="g", devices="1", added_at=1.0
    )
    assert QueueEntry.from_json(entry.to_json()) == entry
    first, resumed = (entry.run_request(is_resumed=is_resumed) for is_resumed in (False, True))
    assert (first.name, first.output_dir, first.devices) == ("child", Path("/o/child"), "1")
    assert first.origin == RunOrigin(parent="parent-id", parent_step=20, entry="a", group="g")
    assert resumed == replace(first, earlier_run="resume")
    (command,) = dict(entry_details(entry, 2.0))["command"]
    assert command == "rltui fork parent-id --from 20 --set lr=1e-4"
    document = entry_document(entry)
    assert document["fork"] == {"parent": "parent-id", "edits": {"lr": "1e-4"}, "step": 20}
    assert "request" not in document


def test_an_array_is_for_the_first_start_alone() -> None:
    jobs = ExperimentRequest(host_options={"slurm": {"time": "7"}})
    entry = QueueEntry(id="a", name="a", folder="/o/a", request=jobs, array="/arrays/s:0", added_at=1.0)
    entry = QueueEntry.from_json(entry.to_json().decode())
    assert entry.run_request(is_resumed=False).host_options == {
        "slurm": {"time": "7", "array": "/arrays/s:0"}
    }
    assert entry.run_request(is_resumed=True).host_options == {"slurm": {"time": "7"}}


def test_an_entry_of_an_older_version_waits_and_says_what_to_do(
    scheduler: QueueScheduler, tmp_path: Path
) -> None:
    old, other = waiting(tmp_path, "ab")
    old = old.replace(request=None, words=("rl.toml",))
    change_queue(lambda queue: queue.with_entries([old, other]))
    scheduler.look()
    assert why(scheduler) == {
        "a": "an older version of rltui queued it; to queue it again: rltui queue retry a",
        "b": "starting",
    }


def test_a_start_waits_for_somebody_who_holds_the_index_of_runs(
    own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = waiting(tmp_path, "a")
    tries: list[StartOrder] = []
    RunIndex().set_whole(0)

    def start_order(order: StartOrder, report: object) -> None:
        tries.append(order)
        if len(tries) == 3:
            holder.execute("ROLLBACK")
        RunIndex(timeout_s=0.01).ids()

    monkeypatch.setattr(starting, "start_order", start_order)
    with contextlib.closing(sqlite3.connect(index_file(), isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        start_entry(entry)
        assert len(tries) == 3
        holder.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr(queue_scheduler, "_INDEX_WAIT_S", 0.0)
        with pytest.raises(IndexBusyError):
            start_entry(entry)
    assert len(tries) == 4
