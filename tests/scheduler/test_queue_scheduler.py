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

from rltui.client.queue.commands import QueueRequest, add_to_queue
from rltui.core.queue import LaunchEnvironment, QueueEntry, QueueOptions
from rltui.scheduler.queue_scheduler import QueueScheduler, verdict
from rltui.services import fingerprints, own_files
from rltui.services.queue_file import change_queue, queue_file


def status(*components: dict[str, Any], **values: Any) -> dict[str, Any]:
    usual = {"kind": "job", "state": "ready", "attempt": 1, "reason": None}
    found = [{"id": f"c{number}", **usual, **each} for number, each in enumerate(components)]
    failed = [each["id"] for each in found if each["state"] == "failed"]
    told = {"done": False, "failed": failed, "down": None, "transaction": None, "evals": []}
    return {**told, "components": found, **values}


SPARE = {"state": "stopped", "attempt": None, "prepares": True}
DOWN = {"by": "ada", "complete": True}


@pytest.mark.parametrize(
    ("found", "living", "expected"),
    [
        (status({}), True, (None, "")),
        (status({"state": "exited"}, done=True), True, ("done", "")),
        (status({"state": "exited"}, done=True, evals=[{}]), True, (None, "")),
        (status({"state": "failed", "reason": "exited 1"}), True, ("failed", "c0: exited 1")),
        (status({"state": "failed"}, transaction="restart"), True, (None, "")),
        (status({"state": "stopping"}, down={**DOWN, "complete": False}), True, (None, "")),
        (status({"state": "stopped"}, down=DOWN), False, ("stopped", "taken down by ada")),
        (status({"state": "exited"}, down=DOWN), False, ("done", "")),
        (status({"state": "exited"}, SPARE), False, ("done", "")),
        (status({"state": "failed", "reason": "killed"}), False, ("failed", "c0: killed")),
        (status({"state": "stopped"}), False, ("failed", "it ended, and nobody saw why")),
        (status({"state": "stopped"}), True, (None, "")),
    ],
)  # fmt: skip
def test_verdict(found: dict[str, Any], *, living: bool, expected: tuple[str | None, str]) -> None:
    assert verdict(found, living=living) == expected


def waiting(id_: str, config: Path) -> QueueEntry:
    files = {str(config): fingerprints.fingerprint(str(config)).sha256}
    return QueueEntry(id=id_, name=id_, folder=f"/o/{id_}", added_at=1.0, files=files)


@pytest.fixture
def keeper(own_user: Path, monkeypatch: pytest.MonkeyPatch) -> QueueScheduler:
    """Starts nothing."""
    monkeypatch.setattr(QueueScheduler, "_start", lambda self, entry: None)
    return QueueScheduler()


def why(keeper: QueueScheduler) -> dict[str, str]:
    return {each.id: each.why or each.state for each in keeper.queue.entries}


@pytest.mark.timeout(30)
def test_a_pipe_in_place_of_a_config_holds_up_nobody(keeper: QueueScheduler, tmp_path: Path) -> None:
    configs = [tmp_path / "a.toml", tmp_path / "b.toml"]
    for config in configs:
        config.write_text("x = 1")
    change_queue(lambda queue: queue.with_entries(map(waiting, "ab", configs)))
    configs[0].unlink()
    os.mkfifo(configs[0])
    keeper.look()
    assert why(keeper) == {
        "a": f"{configs[0]} cannot be read: it is no regular file; as it is now: rltui queue retry a",
        "b": "starting",
    }


@pytest.mark.timeout(30)
def test_a_disk_that_does_not_answer_holds_up_nobody(
    keeper: QueueScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = [tmp_path / "a.toml", tmp_path / "b.toml"]
    for config in configs:
        config.write_text("x = 1")
    change_queue(lambda queue: queue.with_entries(map(waiting, "ab", configs)))
    answers, read = threading.Event(), own_files.read_regular

    def slow(path: Path, most: int) -> bytes:
        if path == configs[0]:
            answers.wait()
        return read(path, most)

    monkeypatch.setattr(fingerprints, "read_regular", slow)
    monkeypatch.setattr(fingerprints, "_DISK_TIMEOUT_S", 0.2)
    keeper.look()
    assert why(keeper)["b"] == "starting"
    assert "its disk does not answer" in why(keeper)["a"]
    begun = time.monotonic()
    for _ in range(20):
        keeper.look()
    assert time.monotonic() - begun < 2, "it is waited for once"
    answers.set()
    keeper._files._readers[str(configs[0])].join()
    keeper.look()
    assert "does not answer" not in why(keeper)["a"]


@pytest.mark.timeout(30)
def test_a_folder_on_a_disk_that_does_not_answer_holds_up_nobody(
    keeper: QueueScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own folder, the one that it was added in, and that of one that runs."""
    config = tmp_path / "a.toml"
    config.write_text("x = 1")
    entries = [waiting(id_, config) for id_ in "abcd"]
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
    keeper.look()
    assert why(keeper) == {
        "a": "the disk of /o/a does not answer",
        "b": "the disk of /dead does not answer",
        "c": "the disk of /o/c does not answer",
        "d": "starting",
    }
    answers.set()
    retry_until(lambda: keeper._files.answers("/o/c"))
    with pytest.raises(AssertionError):
        keeper.look()


@pytest.mark.timeout(30)
def test_whoever_adds_a_run_does_not_touch_the_folders_of_others(
    keeper: QueueScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_queue(lambda queue: queue.with_entries([waiting("a", tmp_path / "none.toml")]))
    resolve = Path.resolve

    def watched(path: Path, *, strict: bool = False) -> Path:
        assert not path.is_relative_to("/o")
        return resolve(path, strict=strict)

    monkeypatch.setattr(Path, "resolve", watched)
    monkeypatch.setattr("rltui.client.queue.commands.ensure_scheduler", lambda: None)
    (tmp_path / "link").symlink_to(tmp_path)
    wish = QueueRequest(words=(), overrides=(), name="b", folder=tmp_path / "link/b", files=())
    assert add_to_queue([wish], QueueOptions())[0].folder == str(tmp_path / "b")
    wish = replace(wish, name="c", folder=tmp_path / "b")
    assert add_to_queue([wish], QueueOptions())[0].folder == str(tmp_path / "b-2")


def test_a_file_that_was_deleted_by_hand_comes_back(keeper: QueueScheduler, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("x = 1")
    change_queue(lambda queue: queue.with_entries([waiting("a", tmp_path / "a.toml")]))
    keeper.look()
    queue_file().unlink()
    keeper.look()
    assert [each.id for each in keeper.queue.entries] == ["a"]
    assert "was deleted" in keeper.queue.told


def test_a_clock_that_was_set_back_holds_up_no_retry(
    keeper: QueueScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.toml").write_text("x = 1")
    failed = waiting("a", tmp_path / "a.toml").model_copy(update={"retries": 1})
    now = 2e9
    failed = failed.ended("failed", "it died", now)
    change_queue(lambda queue: queue.with_entries([failed]))
    monkeypatch.setattr(time, "time", lambda: now)
    keeper.look()
    assert why(keeper) == {"a": "it died; it is tried again"}
    monkeypatch.setattr(time, "time", lambda: now - 86400)
    keeper.look()
    assert why(keeper) == {"a": "starting"}
