"""A run is found as it was left: panes, cursor, logs, the screen on top."""

from __future__ import annotations

import pytest
from tests.fakes.experiment import FakeExperiment, component, knob, knob_table, running_status
from tests.fakes.runs import FakeRuns
from tests.ui.conftest import Opener, press, screen_text, settle, until
from textual.pilot import Pilot

from rltui.core.experiment.journal import JournalEntry
from rltui.ui.screens.config import ConfigScreen
from rltui.ui.screens.logs import LogScreen
from rltui.ui.screens.overview import Overview
from rltui.ui.widgets.knob_table import KnobRows
from rltui.ui.widgets.panes import ReaderPane


def overview(pilot: Pilot[None]) -> Overview:
    return next(screen for screen in pilot.app.screen_stack if isinstance(screen, Overview))


def reader(pilot: Pilot[None], name: str) -> ReaderPane:
    pane = overview(pilot).panels.body.reader(name)
    assert pane is not None
    return pane


async def leave(pilot: Pilot[None]) -> None:
    """As a moment later, or when it is left."""
    await overview(pilot).view_state.save()


@pytest.mark.slow
async def test_panes_and_logs_are_as_they_were_left(open_app: Opener) -> None:
    runs = FakeRuns()
    async with open_app(FakeExperiment(), runs=runs) as pilot:
        await press(pilot, "o", "w", "slash", *"reward", "enter", "ampersand")
        await press(pilot, "t", "w", "g", "z")
        assert "G follows" in screen_text(pilot)
        await leave(pilot)
    async with open_app(FakeExperiment(), runs=runs) as pilot:
        await until(pilot, lambda: overview(pilot).panels.body.zoomed)
        assert overview(pilot).panels.body.zoomed is reader(pilot, "trainer")
        assert overview(pilot).panels.selected == "trainer"
        trainer, orchestrator = reader(pilot, "trainer").log_pane, reader(pilot, "orchestrator").log_pane
        assert trainer.model.window.follow, "a new session begins at the newest lines"
        assert orchestrator.model.window.wrap
        assert orchestrator.model.view_state == {"wrap": True, "query": "reward", "only": True}
        await press(pilot, "escape", "G")
        await leave(pilot)
    async with open_app(FakeExperiment(), runs=runs) as pilot:
        await settle(pilot)
        assert overview(pilot).panels.body.zoomed is None
        assert overview(pilot).panels.selected == "trainer"
        assert reader(pilot, "trainer").log_pane.model.window.follow


@pytest.mark.slow
async def test_what_was_done_just_before_leaving_is_kept(open_app: Opener) -> None:
    runs = FakeRuns()
    async with open_app(FakeExperiment(), runs=runs) as pilot:
        await press(pilot, "t", "q")
    async with open_app(FakeExperiment(), runs=runs) as pilot:
        await settle(pilot)
        assert overview(pilot).panels.selected == "trainer"


@pytest.mark.slow
async def test_the_cursor_and_the_screen_are_as_they_were_left(open_app: Opener) -> None:
    runs = FakeRuns()
    async with open_app(FakeExperiment(), runs=runs) as pilot:
        await press(pilot, "ctrl+k", "j", "j", "6")
        await leave(pilot)
        key = overview(pilot).query_one(KnobRows).key
    async with open_app(FakeExperiment(), runs=runs) as pilot:
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfigScreen))
        rows = overview(pilot).query_one(KnobRows)
        assert rows.key == key == rows.keys[2]
        await press(pilot, "1")
        assert rows.has_focus
        await leave(pilot)
    async with open_app(FakeExperiment(), runs=runs) as pilot:
        await settle(pilot)
        assert isinstance(pilot.app.screen, Overview)


@pytest.mark.parametrize(
    "kept",
    [
        {"focused": "gone", "selected": 7, "zoomed": "knobs2", "knob": "gone", "screen": "gone", "logs": []},
        {"logs": {"trainer": {"query": 3, "level": "loud"}, "gone": {}}, "screen": "runs"},
        {"knob": [], "screen": {}, "logs": {"trainer": 1}},
    ],
    ids=str,
)
async def test_what_is_not_there_any_more_is_no_error(kept: dict[str, object], open_app: Opener) -> None:
    runs = FakeRuns()
    experiment = FakeExperiment()
    runs.saved_values[f"run-{experiment.run_id}"] = kept
    async with open_app(experiment, runs=runs) as pilot:
        await settle(pilot)
        assert isinstance(pilot.app.screen, Overview)
        assert overview(pilot).panels.body.zoomed is None
        await press(pilot, "ctrl+k", "j")
        assert overview(pilot).query_one(KnobRows).knob is not None


async def test_a_later_attempt_is_followed_with_the_same_filter(open_app: Opener) -> None:
    runs = FakeRuns()
    async with open_app(FakeExperiment(), runs=runs) as pilot:
        await press(pilot, "t", "f", "g")
        await leave(pilot)
    restarted = component("trainer", attempt=2, log="/run/orchestrator.log")
    experiment = FakeExperiment(running_status(components=(*running_status().components[:2], restarted)))
    async with open_app(experiment, runs=runs) as pilot:
        await settle(pilot)
        assert reader(pilot, "trainer").log_pane.model.view_state["level"] == "warning"


@pytest.mark.slow
async def test_the_log_screen_shows_the_log_that_it_showed(open_app: Opener) -> None:
    runs = FakeRuns()
    async with open_app(FakeExperiment(), runs=runs) as pilot:
        await press(pilot, "2", "t")
        await until(pilot, lambda: "▸ trainer" in screen_text(pilot))
        await leave(pilot)
    async with open_app(FakeExperiment(), runs=runs) as pilot:
        await until(pilot, lambda: "▸ trainer" in screen_text(pilot))
        assert isinstance(pilot.app.screen, LogScreen)


@pytest.mark.slow
async def test_pins_are_kept_with_the_layout_and_edits_are_known_from_the_journal(open_app: Opener) -> None:
    runs = FakeRuns()
    async with open_app(FakeExperiment(), runs=runs) as pilot:
        rows = overview(pilot).query_one(KnobRows)
        await press(pilot, "ctrl+k")
        rows.go_to("trainer.optim.lr")
        await press(pilot, "p")
        assert rows.keys[:2] == ["trainer.optim.lr", "orchestrator.batch_size"]
        assert rows.key == "trainer.optim.lr"
    experiment = FakeExperiment()
    async with open_app(experiment, runs=runs) as pilot:
        rows = overview(pilot).query_one(KnobRows)
        assert rows.keys[:2] == ["trainer.optim.lr", "orchestrator.batch_size"]
        file = {"path": "/work/rl.toml", "before": "", "after": "", "keys": {"seq_len": ["1", "2"]}}
        data = {"number": 1, "action": "set", "words": "seq_len 1 → 2", "files": [file]}
        experiment.push(JournalEntry(at=0.0, kind="edit", text="edit", data=data))
        experiment.push(JournalEntry(at=0.0, kind="edit", text="of another version"))
        await settle(pilot)
        assert rows.keys[:3] == ["trainer.optim.lr", "seq_len", "orchestrator.batch_size"]
        rows.go_to("trainer.optim.lr")
        await press(pilot, "ctrl+k", "p")
        assert rows.keys[0] != "trainer.optim.lr"


async def test_all_knobs_are_listed_those_that_are_turned_most_first(open_app: Opener) -> None:
    """Finding U16: "… 41 more" stood above 15 empty rows."""
    table = knob_table()
    many = tuple(knob(f"more.k{number}", number, main=False) for number in range(10))
    table = table.replace(knobs=(*many, *table.knobs))
    experiment = FakeExperiment(running_status(), table)
    async with open_app(experiment, size=(150, 60)) as pilot:
        rows = overview(pilot).query_one(KnobRows)
        assert rows.keys[0] == "orchestrator.batch_size", "it has changed"
        others = [key for key in rows.keys if key.startswith("more.")]
        assert others == [item.key for item in many]
        assert rows.keys.index(others[0]) > rows.keys.index("seq_len")
        assert "more · more" in screen_text(pilot)


async def test_the_cursor_is_on_the_first_knob_in_whatever_order_tables_arrive(open_app: Opener) -> None:
    """A table that does not know yet what changed may arrive first: the same is shown in the end."""
    runs = FakeRuns()
    known = knob_table()
    unchanged = tuple(item.replace(running=item.value) for item in known.knobs)
    experiment = FakeExperiment(running_status(), known.replace(knobs=unchanged))
    async with open_app(experiment, runs=runs) as pilot:
        rows = overview(pilot).query_one(KnobRows)
        assert rows.key == "max_steps" == rows.keys[0]
        experiment.push(known)
        await until(pilot, lambda: rows.keys[0] == "orchestrator.batch_size")
        assert rows.key == "orchestrator.batch_size"
        await leave(pilot)
        assert "knob" not in runs.saved_values[f"run-{experiment.run_id}"]
        await press(pilot, "ctrl+k")
        experiment.push(known.replace(knobs=unchanged))
        await until(pilot, lambda: rows.keys[0] == "max_steps")
        assert rows.key == "orchestrator.batch_size", "someone is there"
