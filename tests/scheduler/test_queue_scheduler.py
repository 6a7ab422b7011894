"""What the supervisor of the queue makes of a status, and of files that cannot be read."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import retry_until

from rltui import paths
from rltui.client.queue.commands import QueueRequest, add_to_queue
from rltui.core.queue import LaunchEnvironment, QueuedFork, QueueEntry, QueueOptions
from rltui.scheduler import queue_scheduler
from rltui.scheduler.queue_scheduler import QueueScheduler, verdict
from rltui.services import fingerprints, own_files
from rltui.services.queue_file import change_queue
from rltui.services.runs.experiment_files import ExperimentRecord
from rltui.views.queue_entry import entry_details


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
    entries[1] = entries[1].model_copy(update={"surroundings": "dead"})
    entries[2] = entries[2].model_copy(update={"state": "running"})
    dead = {"dead": LaunchEnvironment(cwd="/dead", variables={})}
    change_queue(
        lambda queue: queue.model_copy(update={"surroundings": dead, "max_parallel": 4}).with_entries(entries)
    )
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
    request = QueueRequest(words=(), overrides=(), name="c", folder=tmp_path / "link/c", files=())
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
    failed = entry.model_copy(update={"retries": 1}).ended("failed", "it died", now)
    change_queue(lambda queue: queue.with_entries([failed]))
    monkeypatch.setattr(time, "time", lambda: now)
    scheduler.look()
    assert why(scheduler) == {"a": "it died; retrying"}
    monkeypatch.setattr(time, "time", lambda: now - 86400)
    scheduler.look()
    assert why(scheduler) == {"a": "starting"}


def test_a_fork_is_started_as_a_fork_and_resumed_as_any_run() -> None:
    fork = QueuedFork(parent="parent-id", edits={"lr": "1e-4"}, step=20)
    entry = QueueEntry(
        id="a", name="child", folder="/o/child", fork=fork, group="g", devices="1", added_at=1.0
    )
    own = ["-n", "child", "-o", "/o/child", "--entry=a", "--group=g", "--devices=1", "--no-wait", "--json"]
    words = queue_scheduler._start_words(entry, None)
    assert words == ["fork", "parent-id", "--set=lr=1e-4", "--from=20", *own]
    record = ExperimentRecord(
        name="child", output_dir="/o/child", workspace="/w", config_files=("/o/child/rl.toml",),
        layout_file="/l.toml", framework="tinyrl", created_at=1.0,
    )  # fmt: skip
    assert queue_scheduler._start_words(entry, record) == [
        "up", "/o/child/rl.toml", "--set=lr=1e-4", *own, "--resume"
    ]  # fmt: skip
    (command,) = dict(entry_details(entry, 2.0))["command"]
    assert command == "rltui fork parent-id --from 20 --set lr=1e-4"
