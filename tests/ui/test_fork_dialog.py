"""A fork from a key: what the fields say, what it comes to, what is asked for."""

from __future__ import annotations

from tests.fakes.experiment import FakeExperiment
from tests.fakes.runs import FakeRuns, run_row
from tests.ui.checkpoint_cases import REPORT
from tests.ui.conftest import make_app, press, said, settle, until

from rltui.core.runs.forks import ForkRequest, fork_name, parse_checkpoint
from rltui.errors import ConflictError
from rltui.ui.dialogs.fork import ForkDialog
from rltui.ui.screens.runs import RunsScreen


def shown(dialog: ForkDialog) -> str:
    return str(dialog._preview.content)


async def test_f_shows_what_it_comes_to_and_asks_until_it_is_done() -> None:
    runs = FakeRuns(run_row("base[b]", checkpoints=(10, 20)))
    async with make_app(FakeExperiment(), runs=runs).run_test(size=(100, 30)) as pilot:
        await press(pilot, "7")
        await settle(pilot)
        await press(pilot, "Y")
        dialog = pilot.app.screen
        assert isinstance(dialog, ForkDialog)
        await until(pilot, lambda: "config unchanged" in shown(dialog))
        await press(pilot, *"typo=2")
        await until(pilot, lambda: "unknown knob typo" in shown(dialog))
        await press(pilot, *["backspace"] * 6, *"lr=0.1", "down", "down")
        await until(pilot, lambda: "starts from checkpoint 20" in shown(dialog))
        assert "+lr = 0.1" in shown(dialog)
        runs.error = ConflictError("/runs/x has been taken")
        await press(pilot, "enter")
        await until(pilot, lambda: "has been taken" in shown(dialog))
        runs.error = None
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, RunsScreen)
        assert runs.forked == [("id-base[b]", ForkRequest(edits={"lr": "0.1"}, begin=20))]


async def test_a_run_that_is_indexed_meanwhile_is_forked() -> None:
    runs = FakeRuns()
    async with make_app(FakeExperiment(), runs=runs).run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await press(pilot, "Y", *"lr=0.1", "enter")
        dialog = pilot.app.screen
        assert isinstance(dialog, ForkDialog)
        await until(pilot, lambda: "this run is not indexed yet\n→ press enter in a moment" in shown(dialog))
        runs.known = (run_row("reverse-text", folder="/run", checkpoints=(10, 20)),)
        await press(pilot, "enter")
        await until(pilot, lambda: runs.forked)
        assert runs.forked == [("id-reverse-text", ForkRequest(edits={"lr": "0.1"}))]


async def test_a_fork_may_wait_in_the_queue() -> None:
    runs = FakeRuns(run_row("base"))
    async with make_app(None, runs=runs).run_test(size=(100, 30)) as pilot:
        await press(pilot, "Y", *"lr=0.1", *["tab"] * 3, *"later", "enter")
        dialog = pilot.app.screen
        assert isinstance(dialog, ForkDialog)
        await until(pilot, lambda: "start: not now or queue: later" in shown(dialog))
        await press(pilot, *["backspace"] * 5, *"queue", "enter")
        await until(pilot, lambda: runs.forked)
        assert runs.forked == [("id-base", ForkRequest(edits={"lr": "0.1"}, is_queued=True))]
        await until(pilot, lambda: any("queued: Q" in text for text in said(pilot)))


async def test_the_checkpoint_under_the_cursor_is_what_it_begins_with() -> None:
    experiment = FakeExperiment()
    experiment.checkpoint_report = REPORT
    runs = FakeRuns(run_row("one", folder="/run", checkpoints=(480,)))
    async with make_app(experiment, runs=runs).run_test(size=(100, 30)) as pilot:
        await press(pilot, "9")
        await settle(pilot)
        await press(pilot, "j", "Y")  # below the one that is being written
        await until(pilot, lambda: isinstance(pilot.app.screen, ForkDialog))
        dialog = pilot.app.screen
        assert isinstance(dialog, ForkDialog)
        assert dialog.entries["begin"] == "480"
        await press(pilot, "escape", "escape", "Y")
        await until(pilot, lambda: isinstance(pilot.app.screen, ForkDialog))
        assert not runs.forked


def test_names_tell_what_is_changed() -> None:
    wish = ForkRequest(edits={"trainer.optim.lr": "1e-3", "model.name": "Qwen/Qwen3-0.6B"})
    assert fork_name("base", wish, 20) == "base-lr1e-3-nameQwen-Qwen3-0-6B-from20"
    assert fork_name("base", ForkRequest(), None) == "base-fork"
    assert [parse_checkpoint(word) for word in ("last", "best", "20")] == ["last", "best", 20]
