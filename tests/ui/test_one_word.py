"""Every place says the same word of a run, for all that can be known of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson
from tests.core.runs.test_state import combinations
from tests.fakes.experiment import NOW, running_status
from tests.fakes.runs import run_row, selected

from rltui.base.values import from_json
from rltui.cli.commands.status import Sentences, list_lines
from rltui.cli.status_text import as_text, document
from rltui.core.experiment.api import Status
from rltui.core.experiment.states import RUN_STATES, EntryState, Reason
from rltui.core.runs.queue import QueueEntry
from rltui.core.runs.row import RunRow
from rltui.core.runs.state import FOLDER_DAMAGED, FOLDER_GONE, NEVER_STARTED, NO_ANSWER, Verdict, is_expected
from rltui.ui.widgets.bars import header_line
from rltui.ui.widgets.run_table import RunRows, RunTable
from rltui.views.experiment import exit_code, state_cell
from rltui.views.queue_entry import VIEW, QueuedRun
from rltui.views.run import column_of, columns_of, run_summary
from rltui.views.run_filter import parse_filter, run_query
from rltui.views.run_list import RunListing, RunSelection

ENTRY = QueueEntry(id="e", name="one", folder="/runs/one", added_at=NOW, state="running", run="aaaaaaaaaa")
ROOM = 28
"""Cells of the column of states on screen 7; a longer text gives way to its word."""
COLUMNS = columns_of(("name", "state"))


def row_of(verdict: Verdict, *, is_alive: bool) -> RunRow:
    return run_row(
        "one", id="aaaaaaaaaa", state=verdict.state, reason=verdict.reason, is_alive=is_alive, entry="e"
    )


def screen_line(row: RunRow) -> str:
    """The line of screen 7."""
    lines = RunSelection().lines([row])
    layout = RunTable().layout(RunListing(lines=lines, columns=COLUMNS), 200)
    return RunRows(layout, None, NOW).lines(0)[0].plain


def test_every_place_says_the_same_word() -> None:
    """Finding U3: the header said `done`, the list `running`; the queue `failed`, the list `stopped`."""
    verdicts: dict[tuple[Verdict, bool], Any] = {}
    for parts, facts, verdict in combinations():
        verdicts.setdefault((verdict, is_expected(parts)), (parts, facts))
    for code in (FOLDER_GONE, FOLDER_DAMAGED):
        verdicts[Verdict("lost", Reason(code, "/runs/one was deleted")), False] = ((), {})
    verdicts[Verdict("stalled", Reason(NO_ANSWER, "no answer")), True] = ((), {})
    verdicts[Verdict("stopped").in_queue("queued", "behind a"), False] = ((), {})
    assert {verdict.state for verdict, _ in verdicts} == set(RUN_STATES)

    for (verdict, is_alive), (parts, facts) in verdicts.items():
        state, reason = verdict
        told = state_cell(state, reason).text
        sign, _, text = told.partition(" ")
        assert text.startswith(state)
        status = running_status(components=parts, down=facts.get("down"))
        status = status.replace(state=state, reason=reason, alive=is_alive)
        json: dict[str, Any] = status.to_plain()
        assert f" · {told}" in header_line(status, 400).plain, "header"
        assert f" · {told}" in as_text(json, NOW).splitlines()[0], "status"
        assert (document(json)["state"], document(json)["reason"]["code"]) == (state, reason.code), "JSON"
        assert Status.from_plain(json).reason == reason, "laptop"
        assert next(iter(Sentences().about(json, NOW))).endswith(f" {text}."), "status --plain"
        assert told in list_lines([{**json, "created_at": NOW}])[1], "status without a run"
        expected = 1 if reason.code == NO_ANSWER else 5 if state in ("failed", "lost") else 0
        assert exit_code(state, reason) == expected, "exit code"

        row = row_of(verdict, is_alive=is_alive)
        assert column_of("state").text(row, {}, now=NOW, names={}) == text, "runs"
        assert f"{sign} one" in screen_line(row), "screen 7"
        assert f" {text if len(text) <= ROOM else state} " in f"{screen_line(row)} ", "screen 7"
        assert run_summary(row).startswith(told), "runs show"
        assert from_json(RunRow, orjson.dumps(row)).reason == reason, "index"
        queries = {word: run_query(parse_filter(f"is:{word}")) for word in RUN_STATES}
        assert [word for word, query in queries.items() if selected(query, [row])] == [state]
        queued = QueuedRun(ENTRY.replace(state="done"), row)
        cells = [column.cell(queued, NOW).text for column in VIEW.named(("sign", "state"))]
        assert cells == [sign, text], "queue"


def test_an_entry_and_its_run_have_one_state() -> None:
    """Of a run of which nothing lives, the queue says whether it waits; of any other, the run does."""
    failed, running = Verdict("failed", Reason("component_failed", "x", ("trainer",))), Verdict("running")
    states: tuple[EntryState, ...] = ("queued", "starting", "running", "stopping", "failed")
    for entry_state in states:
        entry = ENTRY.replace(state=entry_state)
        ended = QueuedRun(entry, row_of(failed, is_alive=False)).verdict.state
        assert ended == (entry_state if entry_state in ("queued", "starting") else "failed")
        assert QueuedRun(entry, row_of(running, is_alive=True)).verdict.state == "running"
        assert QueuedRun(entry, None).verdict.state == entry_state
    just_made = Verdict("stopped", Reason(NEVER_STARTED, "never started"))
    assert QueuedRun(ENTRY, row_of(just_made, is_alive=False)).verdict.state == "starting"
    other = dataclasses.replace(row_of(failed, is_alive=False), entry="earlier")
    assert QueuedRun(ENTRY, other).verdict.state == "running"
