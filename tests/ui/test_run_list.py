"""The list of runs without an app: what is meant by a line, what is compared, and what is gone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.runs import FakeRuns
from tests.ui.run_cases import QUEUE, RUNS

from rltui.core.runs.row import RunRow
from rltui.errors import RltuiError
from rltui.ui.run_list import RunList
from rltui.views.run_filter import parse_filter
from rltui.views.run_list import RunSelection, RunView


def names(rows: tuple[RunRow, ...]) -> list[str]:
    return [row.name for row in rows]


@pytest.fixture
async def runs() -> RunList:
    fake = FakeRuns(*RUNS)
    fake.queued = QUEUE
    runs = RunList(fake)
    assert await runs.look()
    assert not await runs.look(), "nothing is another than before"
    await runs.select(RunSelection(RunView(is_grouped=True)))
    return runs


async def test_what_is_meant_is_the_line_or_all_that_are_marked(runs: RunList) -> None:
    assert names(runs.chosen("id-baseline")) == ["baseline"]
    assert len(runs.chosen(":lr")) == 3, "a heading: all of its sweep"
    assert runs.chosen("queue:q1") == runs.chosen(None) == ()
    runs.mark("id-half")
    runs.mark("id-baseline")
    assert names(runs.chosen(":lr")) == ["baseline", "half"], "in the order of the list"
    await runs.select(replace(runs.selection, filter=parse_filter("tag:baseline")))
    assert names(runs.chosen(":lr")) == ["baseline", "half"], "also one that is not listed"
    runs.mark("id-baseline")
    assert names(runs.chosen(None)) == ["half"]
    runs.unmark()
    assert runs.chosen(None) == ()


async def test_what_is_compared_begins_with_the_oldest(runs: RunList) -> None:
    assert names(runs.compared("id-reverse-text-b")) == ["baseline", "reverse-text-b"], "with its parent"
    assert names(runs.compared("id-baseline")) == ["baseline"]
    runs.mark("id-half")
    assert names(runs.compared("id-baseline")) == ["half", "baseline"], "with the one under the cursor"
    runs.mark("id-torn")
    assert names(runs.compared("id-baseline")) == ["torn", "half"]


async def test_runs_that_are_gone_are_marked_no_more() -> None:
    fake = FakeRuns(*RUNS)
    runs = RunList(fake)
    await runs.look()
    runs.mark("id-half")
    fake.known = tuple(row for row in fake.known if row.name != "half")
    assert await runs.look()
    assert not runs.marked


async def test_what_cannot_be_read_leaves_what_was_there() -> None:
    fake = FakeRuns(*RUNS)
    runs = RunList(fake)
    await runs.look()
    fake.error = RltuiError("database is locked")
    assert await runs.look()
    assert runs.problem == "database is locked"
    assert runs.line("id-baseline") is not None
