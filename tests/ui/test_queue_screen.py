"""The queue screen: what its keys ask for."""

from __future__ import annotations

import pytest
from tests.fakes.experiment import FakeExperiment
from tests.ui.conftest import Opener, choose, make_app, opened, press, screen_text, settle, until
from tests.ui.queue_cases import entry, with_queue

from rltui.errors import ConflictError
from rltui.ui.dialogs.base import MessageDialog
from rltui.ui.screens.queue import QueueScreen
from rltui.ui.screens.runs import RunsScreen


async def test_keys_ask_for_what_the_entry_under_the_cursor_allows(open_app: Opener) -> None:
    runs = with_queue()
    async with open_app(FakeExperiment(), runs=runs) as pilot:
        await opened(pilot, QueueScreen, "7", "Q")
        await press(pilot, "delete", "r", "shift+up")
        assert runs.queue_requests == [], "it runs"
        await press(pilot, "j", "j", "shift+up", "shift+down")
        await choose(pilot, "queue.first")
        await press(pilot, "delete")
        await press(pilot, "G", "r", "P")
        assert runs.queue_requests == [
            ("move", "sweep-lr1e-5", "up"),
            ("move", "sweep-lr1e-5", "down"),
            ("move", "sweep-lr1e-5", "first"),
            ("remove", "sweep-lr1e-5", ""),
            ("retry", "typo", ""),
            ("pause", "", ""),
        ]
        await until(pilot, lambda: "‖ paused" in screen_text(pilot))
        await press(pilot, "P")
        assert runs.queue_requests[-1] == ("resume", "", "")
        runs.error = ConflictError("another rltui holds the queue")
        await press(pilot, "P")
        assert isinstance(pilot.app.screen, MessageDialog)
        runs.error = None
        await press(pilot, "escape", "escape")
        assert isinstance(pilot.app.screen, RunsScreen)


async def test_a_run_is_opened_from_the_queue_also_where_nothing_is_open(open_app: Opener) -> None:
    runs = with_queue()
    async with open_app(None, runs=runs) as pilot:
        await press(pilot, "Q")
        await until(pilot, lambda: isinstance(pilot.app.screen, QueueScreen))
        await press(pilot, "escape", "Q")
        await settle(pilot)
        await press(pilot, "enter")
        await until(pilot, lambda: runs.opened == ["id-sweep-lr1e-6"])


@pytest.mark.slow
async def test_who_only_looks_changes_nothing(open_app: Opener) -> None:
    runs = with_queue()
    runs.readonly = True
    async with open_app(FakeExperiment(), runs=runs) as pilot:
        await opened(pilot, QueueScreen, "7", "Q")
        await press(pilot, "P", "G", "r", "delete")
        assert runs.queue_requests == []


async def test_jobs_that_slurm_holds_back_are_not_counted_as_running() -> None:
    job = {"is_job": True, "state": "running"}
    entries = (entry("one", **job), entry("two", why="waiting for free nodes (Resources)", **job))
    app = make_app(FakeExperiment(), runs=with_queue(entries=entries))
    async with app.run_test() as pilot:
        await settle(pilot)
        screen = await opened(pilot, QueueScreen, "7", "Q")
        assert str(screen.title_line.render()) == " rltui Queue · 1 starting · 1 running"
