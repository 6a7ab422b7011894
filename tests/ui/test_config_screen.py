"""The config screen: what it lists, search and filter, from a problem to its knob."""

from __future__ import annotations

import pytest
from tests.fakes.experiment import FakeExperiment, knob, running_status
from tests.ui.config_cases import BATCH, COLLECT, config_experiment, config_table
from tests.ui.conftest import Opener, forget, offered, press, said, screen_text, settle, until
from textual.pilot import Pilot
from textual.widgets import Static

from rltui.ui.dialogs.knob_editor import KnobEditor
from rltui.ui.requests import READONLY_TEXT
from rltui.ui.screens.config import ConfigScreen, RowFilter, columns_for, config_rows, heading, problem_rows
from rltui.ui.screens.overview import Overview
from rltui.ui.widgets.row_list import RowList

WIDTHS = (40, 200)


async def open_config(pilot: Pilot[None]) -> ConfigScreen:
    await press(pilot, "6")
    await until(pilot, lambda: isinstance(pilot.app.screen, ConfigScreen))
    screen = pilot.app.screen
    assert isinstance(screen, ConfigScreen)
    await until(pilot, lambda: screen.cursor_knob is not None)
    return screen


def keys_of(screen: ConfigScreen) -> list[str]:
    return screen.query_one("#config-rows", RowList).keys


def text_of(screen: ConfigScreen, selector: str) -> str:
    return str(screen.query_one(selector, Static).content)


@pytest.mark.parametrize("size", [(200, 50), (30, 10)], ids=str)
async def test_every_key_is_listed_also_those_of_no_knob(size: tuple[int, int], open_app: Opener) -> None:
    async with open_app(config_experiment(), size=size) as pilot:
        screen = await open_config(pilot)
        table = config_table()
        assert sorted(keys_of(screen)) == sorted(item.key for item in (*table.knobs, *table.others))
        await press(pilot, "G")
        assert screen.cursor_knob is not None
        assert screen.cursor_knob.key == keys_of(screen)[-1]
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, Overview)


async def test_search_finds_keys_and_meanings_and_escape_ends_it(open_app: Opener) -> None:
    async with open_app(config_experiment()) as pilot:
        screen = await open_config(pilot)
        await press(pilot, "slash", *"adapter")
        assert keys_of(screen) == ["trainer.lora.target_modules"]
        await press(pilot, "enter", "e")
        await until(pilot, lambda: isinstance(pilot.app.screen, KnobEditor))
        await press(pilot, "escape", "slash", *["backspace"] * 7, *"lr optim")
        assert keys_of(screen) == ["trainer.optim.lr", "trainer.optim.lrr"]
        await press(pilot, "down")
        assert screen.cursor_knob is not None
        assert screen.cursor_knob.key == "trainer.optim.lrr"
        await press(pilot, "x", "q")
        assert keys_of(screen) == []
        assert "No match" in text_of(screen, "#config-detail")
        await press(pilot, "escape")
        assert keys_of(screen) == ["trainer.lora.target_modules"], "what was searched before"
        await press(pilot, "escape")
        assert pilot.app.screen is screen
        assert len(keys_of(screen)) > 10


@pytest.mark.slow
async def test_only_what_is_changed_collected_or_wrong(open_app: Opener) -> None:
    async with open_app(config_experiment()) as pilot:
        await press(pilot, *COLLECT)
        screen = await open_config(pilot)
        await press(pilot, "f")
        assert keys_of(screen) == [BATCH, "trainer.optim.lrr"]
        assert "only changed" in text_of(screen, "#config-title")
        await press(pilot, "f")
        assert len(keys_of(screen)) > 2


async def test_enter_on_a_problem_goes_to_its_knob(open_app: Opener) -> None:
    async with open_app(config_experiment()) as pilot:
        screen = await open_config(pilot)
        await press(pilot, "slash", *"wandb", "enter", "tab", "j", "enter")
        assert screen.cursor_knob is not None
        assert screen.cursor_knob.key == "trainer.optim.lrr"
        assert "did you mean trainer.optim.lr?" in screen_text(pilot)
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, KnobEditor))


@pytest.mark.slow
async def test_the_cursor_comes_along_and_keeps_its_knob(open_app: Opener) -> None:
    experiment = config_experiment()
    async with open_app(experiment) as pilot:
        await press(pilot, "ctrl+k")
        screen = await open_config(pilot)
        assert screen.cursor_knob is not None
        assert screen.cursor_knob.key == BATCH
        table = config_table()
        experiment.push(table.replace(knobs=(knob("new.one", 1), *table.knobs)))
        await settle(pilot)
        assert screen.cursor_knob.key == BATCH
        assert "new.one" in keys_of(screen)


@pytest.mark.slow
async def test_edits_made_here_are_those_of_the_overview(open_app: Opener) -> None:
    experiment = config_experiment()
    async with open_app(experiment) as pilot:
        screen = await open_config(pilot)
        await press(pilot, "j", "j", "enter", "asterisk", "ctrl+n")
        await until(pilot, lambda: screen.state.staged)
        assert "+ 1 collected: W writes" in text_of(screen, "#config-title")
        await press(pilot, "backspace")
        assert not screen.state.staged
        await press(pilot, "e", "asterisk", "enter")
        await until(pilot, lambda: experiment.executed)
        assert experiment.executed[0].edits == {BATCH: 128}
        await until(pilot, lambda: pilot.app.screen is screen)


async def test_who_may_only_look_is_told_why(open_app: Opener) -> None:
    experiment = FakeExperiment(running_status(), config_table(), readonly=True)
    async with open_app(experiment) as pilot:
        screen = await open_config(pilot)
        for key in ("e", "enter", "u", "A", "dollar_sign"):
            forget(pilot)
            await press(pilot, key)
            assert said(pilot) == [READONLY_TEXT], key
            assert pilot.app.screen is screen
        found = offered(pilot)
        assert not any(action.changes for action in found)
        assert {"search", "toggle_changed", "config.show_pending"} <= {each.command[0] for each in found}


async def test_the_palette_offers_what_there_is_here(open_app: Opener) -> None:
    async with open_app(config_experiment()) as pilot:
        await open_config(pilot)
        ids = {action.id for action in offered(pilot)}
        assert {"edit", "undo", "knob.editor", "search", "detach"} <= ids
        assert {"screen.overview", "screen.gpus"} <= ids
        assert not {"component.start", "knob.roll-back", "write"} & ids


@pytest.mark.parametrize("width", WIDTHS)
def test_rows_have_their_columns_below_the_heading(width: int) -> None:
    table = config_table()
    columns = columns_for((*table.knobs, *table.others), {}, width)
    line = heading(columns).plain
    rows = config_rows(table, {}, RowFilter(), width)
    batch = next(row for row in rows if row.key == BATCH).lines[0].plain
    assert batch.index("128 → 64") == line.index("value")
    if "running" in columns.extra:
        assert batch[line.index("running") :].startswith("128")
    assert max(row.lines[0].cell_length for row in rows) <= width


def test_what_is_collected_is_marked_without_colour() -> None:
    table = config_table(problems=())
    rows = config_rows(table, {BATCH: 32, "seq_len": None}, RowFilter(), 78)
    lines = {row.key: row.lines[0].plain for row in rows}
    assert lines[BATCH].startswith("+ batch_size")
    assert "64 ⇒ 32" in lines[BATCH]
    assert "2048 ⇒ default" in lines["seq_len"]


def test_files_are_named_where_there_are_several() -> None:
    one = config_rows(config_table(), {}, RowFilter(), 78)
    assert "rl.toml" not in "".join(row.lines[0].plain for row in one)
    two = config_rows(config_table(files=("/a/rl.toml", "/a/sft.toml")), {}, RowFilter(), 78)
    assert two[0].lines[0].plain == "run  rl.toml"


def test_problems_tell_their_place() -> None:
    first, second = problem_rows(config_table().problems, 200)
    assert first.lines[0].plain.startswith("⚠ rl.toml:4 orchestrator.batch_size 64")
    assert second.lines[0].plain.startswith("· rl.toml:17 trainer.optim.lrr")
