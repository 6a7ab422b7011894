"""The queue screen: what it looks like, and what its keys ask for."""

from __future__ import annotations

import pytest
from tests.fakes.experiment import NOW, FakeExperiment
from tests.fakes.runs import FakeRuns, run_row, running_row
from tests.params import slow_but
from tests.ui.conftest import Opener, make_app, press, settle, until
from tests.ui.test_look import HUGE, SMALL, SnapCompare
from textual.pilot import Pilot

from rltui.core.queue import QueueEntry, RunQueue
from rltui.errors import ConflictError
from rltui.ui.screens.dialogs import MessageDialog
from rltui.ui.screens.queue import QueueScreen
from rltui.ui.screens.runs import RunsScreen


def entry(name: str, **values: object) -> QueueEntry:
    told = {
        "id": name,
        "name": name,
        "folder": f"/runs/{name}",
        "added_at": NOW - 3600.0,
        "words": ["rl.toml"],
    }
    return QueueEntry.model_validate(told | values)


def queue() -> RunQueue:
    lr = {"group": "sweep", "max_parallel": 2, "stop_if": ["reward < 0.2 at 50"]}
    return RunQueue(
        entries=(
            entry("sweep-lr1e-6", state="running", told="lr=1e-6", overrides=["--lr=1e-6"], **lr),
            entry("sweep-lr3e-6", state="starting", told="lr=3e-6", overrides=["--lr=3e-6"], **lr),
            entry("sweep-lr1e-5", told="lr=1e-5", why="sweep has 2 at work, of at most 2",
                  overrides=["--lr=1e-5"], **lr),
            entry("big", gpus=4, retries=2, why="4 of 8 GPUs needed, 3 free: GPU 0 is used by sweep-lr1e-6"),
            entry("again", retries=2, failures=1, not_before=NOW + 90,
                  why="trainer: exited 1; it is tried again"),
            entry("base", state="done", ended_at=NOW - 60),
            entry("hot", state="stopped", ended_at=NOW - 90, stop_if=["kl > 10"],
                  why="stopped by the rule 'kl > 10': kl 14.2 at step 31"),
            entry("typo", state="failed", ended_at=NOW - 99, why="unknown knob [red]learning_rte[/red]"),
        )
    )  # fmt: skip


def with_queue(**values: object) -> FakeRuns:
    runs = FakeRuns(running_row("sweep-lr1e-6", metrics={"reward": (0.412, 0.5)}), run_row("base"))
    runs.queued = queue().model_copy(update=values)
    return runs


async def open_screen(pilot: Pilot[None]) -> QueueScreen:
    await press(pilot, "7", "Q")
    screen = pilot.app.screen
    assert isinstance(screen, QueueScreen)
    await until(pilot, lambda: screen._queue is not None)
    await settle(pilot)
    return screen


@pytest.mark.parametrize("size", slow_but({"small": SMALL, "medium": (130, 40), "huge": HUGE}, "medium"))
def test_look_of_the_queue(size: tuple[int, int], snap_compare: SnapCompare) -> None:
    async def prepare(pilot: Pilot[None]) -> None:
        await settle(pilot)
        await open_screen(pilot)
        await press(pilot, "j", "j", "j")
        await settle(pilot)

    app = make_app(FakeExperiment(), runs=with_queue(paused="the machine was restarted"))
    app.animation_level = "none"
    assert snap_compare(app, terminal_size=size, run_before=prepare)


async def test_keys_ask_for_what_the_entry_under_the_cursor_allows(open_app: Opener) -> None:
    runs = with_queue()
    async with open_app(FakeExperiment(), runs=runs) as pilot:
        screen = await open_screen(pilot)
        await press(pilot, "delete", "r", "shift+up")
        assert runs.queue_requests == [], "it runs"
        await press(pilot, "j", "j", "shift+up", "shift+down", "shift+home", "delete")
        await press(pilot, "G", "r", "D")
        assert runs.queue_requests == [
            ("move", "sweep-lr1e-5", "up"),
            ("move", "sweep-lr1e-5", "down"),
            ("move", "sweep-lr1e-5", "first"),
            ("remove", "sweep-lr1e-5", ""),
            ("retry", "typo", ""),
            ("pause", "", ""),
        ]
        await until(pilot, lambda: screen._queue is not None and screen._queue.paused)
        await press(pilot, "S")
        assert runs.queue_requests[-1] == ("resume", "", "")
        runs.error = ConflictError("another rltui holds the queue")
        await press(pilot, "D")
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
        await open_screen(pilot)
        await press(pilot, "D", "G", "r", "delete")
        assert runs.queue_requests == []


async def test_jobs_that_slurm_holds_back_are_not_counted_as_running() -> None:
    job = {"is_job": True, "state": "running"}
    entries = (entry("one", **job), entry("two", why="waits for free nodes (Resources)", **job))
    app = make_app(FakeExperiment(), runs=with_queue(entries=entries))
    async with app.run_test() as pilot:
        await settle(pilot)
        screen = await open_screen(pilot)
        assert str(screen.title_line.render()) == " rltui · Queue · 1 run · 1 pending"
