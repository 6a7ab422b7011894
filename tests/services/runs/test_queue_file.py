"""The file of the queue, as several change it and as it is found damaged."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from rltui import paths
from rltui.core.experiment.actor import Actor
from rltui.core.runs.queue import QueueEntry
from rltui.services.actor import acting_as, requester
from rltui.services.runs.queue_file import change_queue, read_queue

pytestmark = pytest.mark.usefixtures("own_user")


def added(number: int) -> QueueEntry:
    return QueueEntry(id=f"id{number}", name=f"r{number}", folder=f"/o/{number}", added_at=1.0)


def test_many_add_at_once_and_none_is_lost() -> None:
    def add(number: int) -> None:
        change_queue(lambda queue: queue.with_entries((*queue.entries, added(number))))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(24)))
    assert {each.name for each in read_queue().entries} == {f"r{number}" for number in range(24)}
    assert paths.queue_file().stat().st_mode & 0o077 == 0
    journal = (paths.queue_folder() / "journal.jsonl").read_text().splitlines()
    assert {json.loads(line)["text"] for line in journal} == {f"r{number} was added" for number in range(24)}


def test_the_journal_says_who_changed_the_queue_and_for_whom_the_scheduler_did() -> None:
    night = Actor(kind="agent", user="ada", name="night-1", pid=7)
    change_queue(lambda queue: queue.with_entries([added(1).replace(by=night)]))
    entry = read_queue().entries[0].replace(state="running")
    change_queue(lambda queue: queue.with_entry(entry), author=requester)
    with acting_as(night.replace(name="night-2")):
        change_queue(lambda queue: queue.with_entries([]))
    journal = (paths.queue_folder() / "journal.jsonl").read_text().splitlines()
    authors = [json.loads(line)["by"]["name"] for line in journal]
    assert authors == ["", "night-1", "night-2"]


def test_what_is_refused_changes_nothing() -> None:
    change_queue(lambda queue: queue.with_entries([added(1)]))
    before = paths.queue_file().read_bytes()
    with pytest.raises(ZeroDivisionError):
        change_queue(lambda queue: queue.with_entries([added(1 // 0)]))
    assert paths.queue_file().read_bytes() == before


@pytest.mark.parametrize("content", [b"", b'{"entries": 3}', b"\xff\xfe"])
def test_a_damaged_file_is_set_aside_and_told(content: bytes) -> None:
    change_queue(lambda queue: queue.with_entries([added(1)]))
    known = read_queue()
    paths.queue_file().write_bytes(content)
    assert read_queue().entries == ()
    assert paths.queue_file().read_bytes() == content
    after = change_queue(lambda queue: queue)
    (aside,) = paths.queue_folder().glob("queue.json.damaged-*")
    assert aside.read_bytes() == content
    assert str(aside) in after.told
    assert "the queue starts empty" in after.told
    assert json.dumps(after.told) in (paths.queue_folder() / "journal.jsonl").read_text()
    assert read_queue() == after
    paths.queue_file().write_bytes(content)
    again = change_queue(lambda queue: queue, fallback=known)
    assert again.entries == known.entries
    assert "the queue was restored from its last known state" in again.told


def test_a_deleted_file_is_told_and_what_is_known_of_the_queue_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert change_queue(lambda queue: queue).told == "", "there never was one"
    change_queue(lambda queue: queue.with_entries([added(1)]))
    known = read_queue()
    paths.queue_file().unlink()
    after = change_queue(lambda queue: queue, fallback=known)
    assert after.entries == known.entries
    assert after.told == "the queue file was deleted: the queue was restored from its last known state"
    paths.queue_file().unlink()
    told = change_queue(lambda queue: queue.with_entries([*queue.entries, added(2)])).told
    assert told.startswith("the queue file was deleted: the queue starts empty; ")
    monkeypatch.setattr("rltui.services.runs.queue_file._LARGEST_JOURNAL", 10)
    before = (paths.queue_folder() / "journal.jsonl").read_text()
    change_queue(lambda queue: queue.with_entries([]))
    assert (paths.queue_folder() / "journal.1.jsonl").read_text().startswith(before)


def test_what_is_no_id_name_or_path_is_no_entry_and_another_boot_pauses() -> None:
    change_queue(lambda queue: queue.with_entries([added(1)]))
    document = json.loads(paths.queue_file().read_text())
    paths.queue_file().write_text(json.dumps({**document, "boot": "another"}))
    assert read_queue().paused == "the machine was restarted"
    for change in ({"id": "../x"}, {"name": "-x"}, {"folder": "x"}, {"folder": "/a\0"}):
        entry = document["entries"][0] | change
        paths.queue_file().write_text(json.dumps({**document, "entries": [entry]}))
        assert "was damaged" in change_queue(lambda queue: queue).told, change
