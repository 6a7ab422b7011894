"""How a log view paints, and that it takes keys and the mouse."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from tests.fakes.log import FakeLog
from textual import events
from textual.app import App, ComposeResult
from textual.content import Content
from textual.geometry import Region
from textual.pilot import Pilot
from textual.screen import Screen

from rltui.ui.logs import view
from rltui.ui.logs.view import LogView


class PaneApp(App[None]):
    CSS = "LogView { border: solid $primary; }"

    def __init__(self, source: Any = None, placeholder: str = "not started") -> None:
        super().__init__()
        self.pane = LogView()
        self.pane.set_source(source, placeholder)

    def compose(self) -> ComposeResult:
        yield self.pane

    def on_mount(self) -> None:
        self.pane.border_title = "trainer ● running"
        self.pane.focus()


@pytest.fixture(autouse=True)
def _no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "POLL_INTERVAL_S", 3600.0)


@asynccontextmanager
async def running(
    source: Any = None, placeholder: str = "not started"
) -> AsyncIterator[tuple[LogView, Pilot[None]]]:
    app = PaneApp(source, placeholder)
    async with app.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        yield app.pane, pilot


def shown(pane: LogView) -> list[str]:
    rows = [pane.render_line(y).text.rstrip() for y in range(pane.size.height)]
    while rows and not rows[-1]:
        rows.pop()
    return rows


def numbers(first: int, last: int) -> list[str]:
    return [f"line {number}" for number in range(first, last)]


async def test_placeholder_until_there_is_a_log() -> None:
    async with running(None, "waiting for inference") as (pane, _):
        assert [row.strip() for row in shown(pane) if row] == ["waiting for inference"]
        pane.set_source(None, "[b]not[/b] \x1b[31mstarted")
        assert [row.strip() for row in shown(pane) if row] == ["[b]not[/b] started"]
        pane.set_source(FakeLog(), "no output yet")
        assert [row.strip() for row in shown(pane) if row] == ["no output yet"]
        pane.set_source(FakeLog("a"))
        assert shown(pane) == ["a"]
        pane.set_source(FakeLog(problem="Permission denied"))
        assert "Permission denied" in "".join(shown(pane))


async def test_keys_move() -> None:
    async with running(FakeLog(*numbers(0, 100))) as (pane, pilot):
        for keys, first in (
            ("pageup", 81), ("end", 90), ("ctrl+u", 86), ("G", 90), ("g", 0), ("pagedown", 9), ("home", 0),
            ("down", 1), ("up", 0), ("ctrl+d", 4), ("G", 90), ("up", 89), ("down", 90),
        ):  # fmt: skip
            await pilot.press(keys)
            assert shown(pane) == numbers(first, first + 10), keys
        assert pane.model.window.follow


async def test_wheel_moves() -> None:
    async with running(FakeLog(*numbers(0, 100))) as (pane, pilot):
        await pilot._post_mouse_events([events.MouseScrollUp], pane)
        await pilot.pause()
        assert shown(pane) == numbers(87, 97)
        await pilot._post_mouse_events([events.MouseScrollDown], pane)
        await pilot.pause()
        assert pane.model.window.follow


async def test_long_lines_are_cut_scrolled_sideways_or_wrapped() -> None:
    long = "".join(str(digit) * 10 for digit in range(10))
    async with running(FakeLog("start", long)) as (pane, pilot):
        assert shown(pane)[1] == long[:37] + "›"
        await pilot.press("right")
        assert shown(pane)[1] == long[8:45] + "›"
        for _ in range(20):
            pane.action_command("window.scroll_sideways", 1)
        assert shown(pane)[1] == long[62:]
        for _ in range(20):
            pane.action_command("window.scroll_sideways", -1)
        await pilot.press("w")
        assert shown(pane) == ["start", long[:38], long[38:76], long[76:]]
        await pilot.resize_terminal(60, 12)
        assert shown(pane) == ["start", long[:58], long[58:]]
        await pilot.press("w")
        assert shown(pane)[1] == long[:57] + "›"


async def test_nothing_is_repainted_without_news() -> None:
    log = FakeLog(*numbers(0, 5))
    async with running(log) as (pane, _):
        with counted_refreshes(pane) as regions:
            pane.poll()
            assert regions == []
            log.append("12%")
            pane.poll()
            assert [region.y for region in regions] == [5]


async def test_a_new_title_paints_its_row_alone() -> None:
    async with running(FakeLog(*numbers(0, 5))) as (pane, pilot):
        with counted_refreshes(pane) as regions:
            pane.show_title(Content("trainer ✓ exited 0"))
        assert regions == [Region(-1, -1, 40, 1)]
        await pilot.pause()
        assert "trainer ✓ exited 0" in painted_row(pilot, 0)


async def test_a_new_position_paints_its_row_alone() -> None:
    log = FakeLog(*numbers(0, 100))
    async with running(log) as (pane, pilot):
        await pilot.press("up")
        log.append("line 100")
        with counted_refreshes(pane) as regions:
            pane.poll()
        assert regions == [Region(-1, 10, 40, 1)]
        await pilot.pause()
        assert "2 lines below" in painted_row(pilot, 11)


async def test_without_colour_log_lines_keep_the_text_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(FakeLog("plain", "\x1b[1;31mred\x1b[0m", "ERROR: no")) as (pane, _):
        styles = [pane.render_line(y)._segments[0].style for y in range(3)]
        assert all(
            style is not None and styles[0] is not None and style.color == styles[0].color for style in styles
        )
        assert [style.bold for style in styles if style is not None] == [None, True, True]


async def test_pane_that_cannot_be_seen_does_not_poll() -> None:
    log = FakeLog("a")
    async with running(log) as (pane, pilot):
        pane.display = False
        await pilot.pause()
        pane.poll()
        assert log.polls == 0
        pane.display = True
        await pilot.pause()
        pane.poll()
        assert log.polls == 1
        await pilot.app.push_screen(Screen())
        await pilot.pause()
        pane.poll()
        assert log.polls == 1


def painted_row(pilot: Pilot[None], y: int) -> str:
    """What the terminal shows in a row, borders included."""
    return pilot.app.screen._compositor.render_strips()[y].text


@contextmanager
def counted_refreshes(pane: LogView) -> Iterator[list[Any]]:
    regions: list[Any] = []
    original = pane.refresh

    def refresh(*args: Any, **kwargs: Any) -> LogView:
        regions.extend(args or [None])
        return original(*args, **kwargs)

    pane.refresh = refresh  # type: ignore[method-assign]
    try:
        yield regions
    finally:
        pane.refresh = original  # type: ignore[method-assign]
