from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.past_run import write_finished_run
from tests.fakes.runs import run_row, running_row
from tests.supervisor.conftest import make_checkpoints

from rltui.client.local_runs import LocalRuns
from rltui.client.queue import commands
from rltui.client.runs import Runs
from rltui.core.runs.forks import ForkRequest
from rltui.core.runs.row import RunOrigin
from rltui.errors import ConflictError, UsageError
from rltui.services.runs.index import RunIndex, index_file


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index leaves notes of its runs there, and is made again from those it finds."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_rows_are_read_once_and_then_only_what_changed(tmp_path: Path) -> None:
    index = RunIndex(tmp_path / "runs.sqlite")
    index.put([(run_row("a", id="a" * 10), {"lr": 1.0}), (run_row("b", id="b" * 10), {})])
    runs: Runs = LocalRuns(RunIndex(tmp_path / "runs.sqlite"))

    first = runs.rows()
    assert {row.name for row in first} == {"a", "b"}
    assert runs.rows() is first, "nothing has changed"

    index.put([(running_row("b", id="b" * 10, step=51), None), (running_row("c", id="c" * 10), {})])
    index.remove(["a" * 10])
    assert {(row.name, row.step) for row in runs.rows()} == {("b", 51), ("c", 50)}
    assert runs.configs(["b" * 10, "c" * 10]) == {"b" * 10: {}, "c" * 10: {}}


def test_an_index_that_was_made_anew_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    index = RunIndex(path)
    index.put([(run_row("a", id="a" * 10), {})])
    index.put([(run_row("b", id="b" * 10), {})])
    runs = LocalRuns(RunIndex(path))
    assert len(runs.rows()) == 2

    path.unlink()
    shutil.rmtree(tmp_path / "runs")
    RunIndex(path).put([(run_row("c", id="c" * 10), {})])
    assert [row.name for row in runs.rows()] == ["c"]


def test_a_run_that_nobody_knows_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no longer in the index"):
        LocalRuns(RunIndex(tmp_path / "runs.sqlite")).open("nobody")


def test_an_index_that_is_lost_while_it_is_looked_at_is_filled_again(own_user: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_finished_run(tmp_path / "out" / name)
    runs = LocalRuns()
    runs.catch_up()
    assert len(runs.rows()) == 2

    index_file().unlink()
    RunIndex().put([(running_row("c", id="c" * 10), {})])  # as a supervisor does
    assert {row.name for row in runs.rows()} == {"a", "b", "c"}


def test_a_queued_fork_keeps_its_parent(
    own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "ensure_scheduler", lambda: None)
    record = replace(write_finished_run(tmp_path / "out" / "base"), forced=True)  # its model is not there
    record.control.write_record(record)
    make_checkpoints(Path(record.run_dir), 20)
    runs = LocalRuns()
    runs.catch_up()
    (base,) = runs.rows()
    for request in (ForkRequest(edits={"lr": "0.1"}), ForkRequest(begin="last", name="later")):
        assert runs.fork(base.id, replace(request, is_queued=True)) == ()
    first, second = runs.queue().entries
    requests = [entry.request for entry in (first, second) if entry.request is not None]
    assert [(first.name, first.told), (second.name, second.told)] == [
        ("base-lr0-1", "lr=0.1"),
        ("later", "from 20"),
    ]
    assert [(request.origin, request.config.edits) for request in requests] == [
        (RunOrigin(parent=base.id), {"lr": "0.1"}),
        (RunOrigin(parent=base.id, parent_step=20), {}),
    ]
    assert (first.words, first.folder) == ((), str(tmp_path / "out" / "base-lr0-1"))
    with pytest.raises(ConflictError, match="is taken"):
        runs.fork(base.id, ForkRequest(name="later", is_queued=True))


def test_a_program_that_starts_a_fork_passes_on_why_it_refuses(own_user: Path, tmp_path: Path) -> None:
    write_finished_run(tmp_path / "out" / "base")
    runs = LocalRuns()
    runs.catch_up()
    with pytest.raises(ConflictError, match="base has no complete checkpoint 7") as refusal:
        runs.fork(runs.rows()[0].id, ForkRequest(begin=7))
    assert refusal.value.hint == "leave out --from to start over"
