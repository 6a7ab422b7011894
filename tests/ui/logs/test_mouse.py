"""Selecting in a log pane with the mouse."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.fakes.experiment import FakeExperiment, running_status
from tests.ui.conftest import Opener, press, said, settle, until
from tests.ui.logs.test_keys import SearchApp, running, shown, subtitle, write
from textual.events import MouseDown, MouseMove, MouseUp
from textual.pilot import Pilot

from rltui.ui.copying import CopyRequested
from rltui.ui.logs.view import LogView
from rltui.ui.widgets.panes import ReaderPane

TEXT = "".join(f"line {number} says a/b.py:{number} and more\n" for number in range(40))
BORDER = 1
"""Cells at the left, and rows above."""


class Mouse:
    """Holds the button over a pane, whose text begins at 0, 0."""

    def __init__(self, pane: LogView, pilot: Pilot[None]) -> None:
        self.pane, self.pilot = pane, pilot

    async def _post(
        self, kind: type[MouseDown | MouseMove | MouseUp], x: int, y: int, *, shift: bool
    ) -> None:
        at = (x + BORDER, y + BORDER)
        await self.pilot._post_mouse_events([kind], self.pane, at, button=1, shift=shift)
        await settle(self.pilot)

    async def drag(self, start: tuple[int, int], *to: tuple[int, int], up: bool = True) -> None:
        await self._post(MouseDown, *start, shift=False)
        for x, y in to:
            await self._post(MouseMove, x, y, shift=False)
        if up:
            await self._post(MouseUp, *(to or (start,))[-1], shift=False)

    async def shift_click(self, x: int, y: int) -> None:
        await self._post(MouseDown, x, y, shift=True)
        await self._post(MouseUp, x, y, shift=True)

    async def click(self, x: int, y: int, times: int = 1) -> None:
        await self.pilot.click(self.pane, offset=(x + BORDER, y + BORDER), times=times)
        await settle(self.pilot)


@pytest.fixture
async def open_pane(tmp_path: Path) -> AsyncIterator[tuple[LogView, Mouse, Pilot[None]]]:
    path = tmp_path / "log"
    write(path, TEXT)
    async with running(path) as (pane, pilot):
        await settle(pilot)
        yield pane, Mouse(pane, pilot), pilot


async def copied(pilot: Pilot[None], key: str = "y") -> CopyRequested:
    app = pilot.app
    assert isinstance(app, SearchApp)
    before = len(app.taken)
    await press(pilot, key)
    await until(pilot, lambda: len(app.taken) > before)
    return app.taken[-1]


RemoteHandle = tuple[LogView, Mouse, Pilot[None]]


async def test_a_drag_selects_characters_and_copies_what_is_shown(open_pane: RemoteHandle) -> None:
    pane, mouse, pilot = open_pane
    top = shown(pane)[0]
    await mouse.drag((5, 0), (8, 0), (11, 0))
    assert subtitle(pane) == "7 characters selected: y copies, W writes, esc cancels"
    strip = pane.render_line(0)
    reverse = [piece.text for piece in strip if piece.style is not None and piece.style.reverse]
    assert "".join(reverse) == top[5:12]
    assert (await copied(pilot)).text == top[5:12]
    assert not pane.has_selection
    await mouse.drag((11, 0), (5, 0))
    assert (await copied(pilot)).text == top[5:12], "the other way round"


async def test_a_drag_over_lines_joins_them_and_stops_following(open_pane: RemoteHandle) -> None:
    pane, mouse, pilot = open_pane
    rows = shown(pane)
    await mouse.drag((8, 1), (3, 3))
    assert not pane.model.window.follow
    taken = await copied(pilot, "W")
    assert taken.text == "\n".join([rows[1][8:], rows[2], rows[3][:4]])
    assert (taken.what, taken.name) == ("parts of 3 lines", "trainer.log")


async def test_beyond_an_edge_the_log_scrolls(open_pane: RemoteHandle) -> None:
    pane, mouse, pilot = open_pane
    top = pane.model.window.first_line
    await mouse.drag((0, 5), (0, -1), up=False)
    await until(pilot, lambda: pane.model.window.first_line < top - 3)
    await mouse._post(MouseMove, 0, 2, shift=False)
    assert pane._mouse._scroll_timer is None
    first = pane.model.window.visible[2].position.line
    await mouse._post(MouseUp, 0, 2, shift=False)
    text = (await copied(pilot)).text
    assert text.splitlines()[0].startswith(f"line {first} ")
    assert text.splitlines()[-1] == "l", "the character that it began with"


async def test_a_log_that_is_written_stands_still_below_the_button(
    open_pane: RemoteHandle, tmp_path: Path
) -> None:
    pane, mouse, pilot = open_pane
    row = shown(pane)[3]
    await mouse.drag((0, 3), up=False)
    with (tmp_path / "log").open("a") as log:
        log.write("new\n" * 30)
    pane.poll()
    await mouse._post(MouseMove, 3, 3, shift=False)
    await mouse._post(MouseUp, 3, 3, shift=False)
    assert (await copied(pilot)).text == row[:4]
    await press(pilot, "G")
    await mouse.click(0, 3)
    assert pane.model.window.follow, "a mere click stops nothing"


async def test_clicks_take_words_and_lines_and_shift_extends(open_pane: RemoteHandle) -> None:
    pane, mouse, pilot = open_pane
    row = shown(pane)[2]
    await mouse.click(row.index("a/b") + 1, 2, times=2)
    assert (await copied(pilot)).text == f"a/b.py:{row.split()[1]}"
    await mouse.click(3, 2, times=3)
    assert subtitle(pane).startswith("1 line selected")
    assert (await copied(pilot)).text == row
    await mouse.drag((0, 2), (3, 2))
    await mouse.shift_click(6, 2)
    assert (await copied(pilot)).text == row[:6]
    await mouse.drag((0, 2), (3, 2))
    await mouse.click(9, 4)
    assert not pane.has_selection, "a click elsewhere lets it go"


async def test_ctrl_c_copies_what_is_selected_and_a_double_click_does_not_zoom(
    experiment: FakeExperiment, open_app: Opener
) -> None:
    async with open_app(experiment) as pilot:
        experiment.push(running_status())
        await settle(pilot)
        pane = pilot.app.screen.query(LogView).first()
        await Mouse(pane, pilot).click(14, 0, times=2)
        assert pane.has_selection
        assert len(pilot.app.screen.query(ReaderPane).filter(".-zoom")) == 0
        await press(pilot, "ctrl+c")
        await until(pilot, lambda: said(pilot))
        assert said(pilot)[-1].startswith("Copied “")
        assert not pane.has_selection
