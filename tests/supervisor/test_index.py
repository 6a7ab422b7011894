"""A living run keeps its row in the index, whatever becomes of the index."""

from __future__ import annotations

import logging
import sqlite3
from dataclasses import replace
from typing import Any

import pytest

from rltui.core.runs.row import RunChange, RunMetadata, RunRow
from rltui.services.runs import organize
from rltui.services.runs.catalog import catch_up
from rltui.services.runs.index import RunIndex
from rltui.services.runs.metadata import change_metadata
from rltui.services.runs.row import RunReader
from rltui.supervisor.runs import index as feeding
from rltui.supervisor.runs.index import IndexFeed
from rltui.supervisor.supervisor import Supervisor


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "_TIMEOUT_S", 0.01)


def stamp() -> int:
    return RunIndex().revision()


async def test_a_row_is_put_where_something_has_changed(supervisor: Supervisor) -> None:
    feed, control = IndexFeed(supervisor), supervisor.runtime.setup.control
    await feed.poll()
    (row,) = RunIndex().named("one")
    assert (row.state, row.max_steps, row.control) == ("stopped", 20, str(control.path))
    before = stamp()
    await feed.poll()
    assert stamp() == before
    change_metadata(control.path, lambda metadata: replace(metadata, tags=("good",)))
    await feed.poll()
    assert RunIndex().named("one")[0].tags == ("good",)
    RunIndex().put([(replace(RunIndex().named("one")[0], is_alive=True), None)])
    await feed.poll()
    assert not RunIndex().named("one")[0].is_alive
    report = catch_up(RunIndex())
    assert (report.runs, report.messages) == (1, ())
    await feed.close()


async def test_what_a_person_writes_while_a_row_is_read_stays(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`archive`, and the list that still showed the run."""
    feed, read = IndexFeed(supervisor), RunReader.row
    await feed.poll()
    change_metadata(
        supervisor.runtime.setup.control.path, lambda metadata: replace(metadata, note="read again")
    )

    def archived_meanwhile(reader: RunReader, metadata: RunMetadata, **others: Any) -> RunRow:
        row = read(reader, metadata, **others)
        monkeypatch.setattr(RunReader, "row", read)
        organize.change_run(RunIndex(), RunIndex().named("one")[0], RunChange(is_archived=True))
        return row

    monkeypatch.setattr(RunReader, "row", archived_meanwhile)
    monkeypatch.setattr(feeding, "_TRIES", 1)
    await feed.poll()
    assert RunIndex().named("one")[0].archived_at is not None
    await feed.poll()
    assert RunIndex().named("one")[0].note == "read again"
    assert RunIndex().named("one")[0].archived_at is not None
    await feed.close()


async def test_an_index_in_trouble_is_none_for_the_run(
    supervisor: Supervisor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="rltui.supervisor.runs.index")
    feed, path = IndexFeed(supervisor), RunIndex().path
    RunIndex().revision()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    for _ in range(3):
        await feed.poll()
    assert len(caplog.messages) == 1
    assert "locked" in caplog.messages[0]
    other.close()
    await feed.poll()
    assert caplog.messages[1:] == ["the index of runs tells of this run again"]
    path.unlink()
    await feed.poll()
    assert [row.name for row in RunIndex().rows()] == ["one"]
    path.write_bytes(b"no database" * 500)
    await feed.poll()
    await feed.poll()
    assert [row.name for row in RunIndex().rows()] == ["one"]
    await feed.close()
