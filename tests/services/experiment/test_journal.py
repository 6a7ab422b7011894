from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from rltui.core.experiment.journal import JournalEntry
from rltui.services.experiment.journal import Journal, JournalFeed, read_journal


def test_entries_are_appended_and_told(tmp_path: Path) -> None:
    told: list[JournalEntry] = []
    journal = Journal(tmp_path / "journal.jsonl", clock=lambda: 12.5, listener=told.append)
    journal.add("start", "trainer starting", component="trainer", attempt=2, pid=7)
    journal.add("edit", "lr = 3e-4")
    entries = read_journal(tmp_path / "journal.jsonl")
    assert entries == told
    assert entries[0].data == {"pid": 7}
    assert entries[0].at == 12.5


def test_what_a_full_disk_cut_short_is_taken_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "journal.jsonl"
    told: list[JournalEntry] = []
    journal = Journal(path, listener=told.append)
    journal.add("start", "one")
    whole = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 10, hard))
    try:
        journal.add("start", "two")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == whole
    assert "cannot write the journal" in caplog.text
    journal.add("start", "three")
    assert [entry.text for entry in read_journal(path)] == ["one", "three"]
    assert [entry.text for entry in told] == ["one", "two", "three"]


def test_half_a_line_of_a_killed_supervisor_is_passed_over_and_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    assert read_journal(path) == []
    journal = Journal(path)
    journal.add("start", "one")
    with path.open("ab") as file:
        file.write(b'{"at": 2.0, "kind": "st')
    assert [entry.text for entry in read_journal(path)] == ["one"]
    journal.add("start", "two")
    lines = path.read_text().splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["one", "two"]


def test_entries_know_the_step_of_the_run(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    assert journal.add("start", "before anybody reads its metrics").step is None
    journal.step = lambda: 12
    assert journal.add("edit", "lr = 3e-4").step == 12
    assert journal.add("resume", "from checkpoint 10", step=10).step == 10, "its own"


def test_a_feed_reads_what_was_appended_and_forgets_another_file(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    feed = JournalFeed(path)
    assert feed.read() == ()
    journal = Journal(path)
    journal.add("start", "one")
    assert [entry.text for entry in feed.read()] == ["one"]
    with path.open("ab") as file:
        file.write(b'{"at": -1, "kind": "note", "text": "no date"}\n{"at": 1}\nnonsense\n')
    journal.add("note", "two")
    assert [entry.text for entry in feed.read()] == ["one", "two"]
    path.unlink()
    journal.add("start", "anew")
    assert [entry.text for entry in feed.read()] == ["anew"]
