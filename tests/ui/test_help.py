"""The help: what applies where the person is, then all there is."""

from __future__ import annotations

import pytest
from tests.fakes.experiment import FakeExperiment, gpu_report, knob_table, running_status
from tests.ui.conftest import Opener, press
from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.widgets import Input, Static

from rltui.ui.actions import PANES, SCREENS, KeyContext, Use, key_of, remap, uses, with_keys
from rltui.ui.dialogs.help import _WORDS, HelpContext, HelpScreen, all_rows, here_rows, page


def situation(screen: KeyContext, pane: KeyContext | None = None, *, readonly: bool = False) -> HelpContext:
    return HelpContext(screen, pane, lambda _: True, readonly)


def shown(pilot: Pilot[None]) -> str:
    screen = pilot.app.screen
    assert isinstance(screen, HelpScreen)
    return str(screen.query_one(VerticalScroll).query_one(Static).render())


def make_experiment() -> FakeExperiment:
    return FakeExperiment(running_status(), gpu_report(), knob_table())


@pytest.mark.parametrize("place", SCREENS)
def test_here_is_all_that_works_on_a_screen_and_nothing_else(place: KeyContext) -> None:
    told = {(row.keys, row.text) for row in here_rows(situation(place))}
    assert told == {(use.shown_keys, use.help) for use in uses(place)}
    assert len(told) < len(all_rows(readonly=False)) / 2


def test_the_pane_comes_first_and_its_keys_hide_those_of_the_screen() -> None:
    rows = here_rows(situation(KeyContext.OVERVIEW, KeyContext.LOG))
    assert rows[0].heading == "This pane: log pane"
    assert rows[-1].heading == "Screens"
    back = [row.text for row in rows if row.keys == key_of("back")]
    assert back == [use.help for use in uses(KeyContext.LOG) if use.id == "back"]


def test_what_does_not_work_now_is_told_faintly() -> None:
    def can(use: Use) -> bool:
        return use.id != "undo"

    rows = here_rows(HelpContext(KeyContext.OVERVIEW, None, can, readonly=False))
    assert [row.faint for row in rows if row.keys == key_of("undo")] == [True]
    assert sum(row.faint for row in rows) == 1
    lacking = [row for row in here_rows(situation(KeyContext.OVERVIEW, readonly=True)) if row.faint]
    assert lacking
    assert all(row.text.endswith("(not while read-only)") for row in lacking)


def test_every_place_says_in_a_line_what_it_is() -> None:
    assert _WORDS.keys() == {*SCREENS, *(pane for panes in PANES.values() for pane in panes)}
    for place, words in _WORDS.items():
        told = with_keys(words)
        assert "{" not in told
        assert len(told) <= 92, place


def test_words_find_keys_and_what_they_do() -> None:
    rows = here_rows(situation(KeyContext.OVERVIEW, KeyContext.LOG))
    lines = page(rows, ("ctrl+k",), 90).plain.splitlines()
    assert [line.split() for line in lines[1:]] == [["ctrl+k", "Go", "to", "the", "knobs"]]
    assert "Stop everything" in page(rows, ("everything", "stop"), 90).plain
    assert page(rows, ("xyzzy",), 90).plain == "No matching key."


@pytest.mark.parametrize("width", [30, 60, 94])
def test_long_texts_go_on_in_their_own_column(width: int) -> None:
    for line in page(all_rows(readonly=False), (), width).split("\n"):
        assert line.cell_length <= width or not line.plain.startswith(" ")


@pytest.mark.slow
async def test_the_help_is_of_the_pane_with_the_focus(open_app: Opener) -> None:
    async with open_app(make_experiment()) as pilot:
        await press(pilot, "question_mark")
        assert "This pane: log pane" in shown(pilot)
        assert "A log. It follows" in shown(pilot)
        await press(pilot, "escape", "ctrl+k", "question_mark")
        assert "This pane: knob table" in shown(pilot)
        await press(pilot, "escape", "4", "question_mark")
        assert "This screen, metrics screen: charts" in shown(pilot)
        assert "This pane" not in shown(pilot)


@pytest.mark.slow
async def test_typing_searches_and_a_question_mark_shows_all_screens(open_app: Opener) -> None:
    async with open_app(make_experiment()) as pilot:
        await press(pilot, "question_mark", *"baseline")
        assert shown(pilot) == "No matching key."
        await press(pilot, "question_mark")
        assert "Compare all with this one" in shown(pilot)
        assert pilot.app.screen.query_one(Input).value == "baseline"
        await press(pilot, "escape")
        assert "In the knob editor" in shown(pilot)
        assert "never started, or stopped on request" in shown(pilot)
        await press(pilot, "escape")
        assert not isinstance(pilot.app.screen, HelpScreen)


async def test_the_page_scrolls_while_one_types(open_app: Opener) -> None:
    async with open_app(make_experiment(), size=(80, 24)) as pilot:
        await press(pilot, "question_mark", "pagedown", "down")
        scroll = pilot.app.screen.query_one(VerticalScroll)
        assert scroll.scroll_y == 18
        await press(pilot, "pageup", "up")
        assert scroll.scroll_y == 0


async def test_keys_are_told_as_they_are_mapped(open_app: Opener) -> None:
    try:
        async with open_app(make_experiment(), keys={"component.start": "f12"}) as pilot:
            await press(pilot, "question_mark", *"start the")
            assert "f12  Start the selected component" in shown(pilot)
    finally:
        remap({})
