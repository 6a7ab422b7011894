from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.ui.conftest import until
from textual import events
from textual.app import App, ComposeResult
from textual.content import Content
from textual.geometry import Region
from textual.pilot import Pilot
from textual.screen import Screen

from rltui.core.lines import LogChange
from rltui.ui.widgets import log_scroll
from rltui.ui.widgets.log_pane import LogPane

DATA = Path(__file__).parent.parent / "data"


class FakeLog:
    """A log in memory whose first `hidden` lines are indexed on demand, 10 at a time."""

    is_waiting = False

    def __init__(self, *lines: str, hidden: int = 0, problem: str | None = None) -> None:
        self.text = list(lines)
        self.start = hidden
        self.stop = len(lines)
        self.problem = problem
        self.change = LogChange.NONE
        self.polls = 0
        self.reads: list[int] = []

    def line(self, number: int) -> str:
        self.reads.append(number)
        return self.text[number]

    def offset(self, number: int) -> int:
        return number

    def number_at(self, offset: int) -> int | None:
        return offset if self.start <= offset < self.stop else None

    def line_at(self, offset: int) -> str:
        return self.text[offset]

    def label(self, number: int) -> str:
        return ""

    def poll(self, *, may_skip: bool) -> LogChange:
        self.polls += 1
        change, self.change = self.change, LogChange.NONE
        if change is LogChange.RESET:
            self.start = 0
        self.stop = len(self.text)
        return change

    def close(self) -> None:
        raise AssertionError("closing is the owner's business")

    def load_older(self) -> bool:
        before = self.start
        self.start = max(0, before - 10)
        return self.start < before

    def append(self, *lines: str) -> None:
        self.text.extend(lines)
        self.change = LogChange.GREW

    def replace(self, *lines: str) -> None:
        self.text = list(lines)
        self.change = LogChange.RESET


class PaneApp(App[None]):
    CSS = "LogPane { border: solid $primary; }"

    def __init__(self, source: Any = None, placeholder: str = "not started") -> None:
        super().__init__()
        self.pane = LogPane()
        self.pane.set_source(source, placeholder)

    def compose(self) -> ComposeResult:
        yield self.pane

    def on_mount(self) -> None:
        self.pane.border_title = "trainer ● ready"
        self.pane.focus()


@pytest.fixture(autouse=True)
def _no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_scroll, "POLL_INTERVAL_S", 3600.0)


@asynccontextmanager
async def running(
    source: Any = None, placeholder: str = "not started"
) -> AsyncIterator[tuple[LogPane, Pilot[None]]]:
    app = PaneApp(source, placeholder)
    async with app.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        yield app.pane, pilot


def shown(pane: LogPane) -> list[str]:
    rows = [pane.render_line(y).text.rstrip() for y in range(pane.size.height)]
    while rows and not rows[-1]:
        rows.pop()
    return rows


def numbers(first: int, last: int) -> list[str]:
    return [f"line {number}" for number in range(first, last)]


async def test_placeholder_until_there_is_a_log() -> None:
    async with running(None, "waits for inference") as (pane, _):
        assert [row.strip() for row in shown(pane) if row] == ["waits for inference"]
        pane.set_source(None, "[b]not[/b] \x1b[31mstarted")
        assert [row.strip() for row in shown(pane) if row] == ["[b]not[/b] started"]
        pane.set_source(FakeLog(), "no output yet")
        assert [row.strip() for row in shown(pane) if row] == ["no output yet"]
        pane.set_source(FakeLog("a"))
        assert shown(pane) == ["a"]


async def test_problem_of_the_source_is_shown() -> None:
    async with running(FakeLog(problem="Permission denied")) as (pane, _):
        assert "Permission denied" in "".join(shown(pane))


async def test_follows_growth_and_the_live_last_line() -> None:
    log = FakeLog(*numbers(0, 100))
    async with running(log) as (pane, _):
        assert shown(pane) == numbers(90, 100)
        log.append("12%")
        pane.poll()
        log.text[-1] = "13%"
        log.append()
        pane.poll()
        assert shown(pane) == [*numbers(91, 100), "13%"]
        assert pane.border_subtitle == ""


async def test_scrolling_back_stops_following_and_the_end_resumes() -> None:
    log = FakeLog(*numbers(0, 100))
    async with running(log) as (pane, pilot):
        await pilot.press("up", "up")
        assert not pane.follow
        log.append(*numbers(100, 200))
        pane.poll()
        assert shown(pane) == numbers(88, 98)
        assert pane.border_subtitle == "102 lines below, G follows"
        await pilot.press("G")
        assert pane.follow
        assert shown(pane) == numbers(190, 200)


@pytest.mark.parametrize(
    ("keys", "first"),
    [
        (["pageup"], 81),
        (["ctrl+u"], 86),
        (["g"], 0),
        (["home", "down"], 1),
        (["g", "pagedown"], 9),
        (["g", "ctrl+d"], 4),
        (["g", "end"], 90),
        (["up", "down"], 90),
        (["ctrl+g", "up", "ctrl+g"], 90),
    ],
)
async def test_keys_move(keys: list[str], first: int) -> None:
    async with running(FakeLog(*numbers(0, 100))) as (pane, pilot):
        await pilot.press(*keys)
        assert shown(pane) == numbers(first, first + 10)
        assert pane.follow == (first == 90)


async def test_it_stays_while_lines_come() -> None:
    log = FakeLog(*numbers(0, 100))
    async with running(log) as (pane, pilot):
        await pilot.press("ctrl+g")
        assert pane.border_subtitle == ""
        log.append(*numbers(100, 105))
        pane.poll()
        assert shown(pane) == numbers(90, 100)
        await pilot.press("ctrl+g")
        assert shown(pane) == numbers(95, 105)


async def test_staying_says_at_once_what_has_come_since() -> None:
    log = FakeLog(*numbers(0, 100))
    async with running(log) as (pane, pilot):
        log.append(*numbers(100, 5100))
        await pilot.press("ctrl+g")
        assert shown(pane) == numbers(90, 100)
        assert pane.border_subtitle == "5,000 lines below, G follows"


async def test_wheel_moves() -> None:
    async with running(FakeLog(*numbers(0, 100))) as (pane, pilot):
        await pilot._post_mouse_events([events.MouseScrollUp], pane)
        await pilot.pause()
        assert shown(pane) == numbers(87, 97)
        await pilot._post_mouse_events([events.MouseScrollDown], pane)
        await pilot.pause()
        assert pane.follow


async def test_older_lines_are_indexed_when_the_view_comes_near() -> None:
    log = FakeLog(*numbers(0, 100), hidden=75)
    async with running(log) as (pane, pilot):
        await pilot.press("pageup", "pageup", "pageup")
        assert shown(pane) == numbers(63, 73)


async def test_a_line_cut_at_its_start_is_completed_by_older_text() -> None:
    log = FakeLog(*numbers(0, 20), hidden=10)
    log.text[10] = "ne 10"
    async with running(log) as (pane, _):
        assert shown(pane)[0] == "ne 10"
        log.text[10] = "line 10"
        pane.action_to_start()
        pane.action_move_rows(10)
        assert shown(pane)[0] == "line 10"


async def test_top_of_a_log_that_is_not_indexed_yet() -> None:
    log = FakeLog(*numbers(0, 100), hidden=75)
    async with running(log) as (pane, pilot):
        pane.action_to_start()
        assert pane.border_subtitle == "looking for the start"
        while pane.border_subtitle == "looking for the start":
            await pilot.pause(0.01)
        assert shown(pane) == numbers(0, 10)
        assert pane.border_subtitle == "90 lines below, G follows"


async def test_lines_that_were_under_way_are_painted_once_they_are_there() -> None:
    log = FakeLog(*([""] * 50))
    async with running(log) as (pane, pilot):
        await pilot.press("g")
        before = pane._viewport.top
        log.text = numbers(0, 50)
        pane.poll()
        assert shown(pane) == []
        log.change = LogChange.FILLED
        pane.poll()
        assert shown(pane) == numbers(0, 10)
        assert pane._viewport.top == before


async def test_a_place_that_another_machine_looks_for_is_shown_when_it_is_found() -> None:
    log = FakeLog(*numbers(0, 100), hidden=50)
    async with running(log) as (pane, _):
        log.is_waiting = True
        pane.show_offset(20)
        assert pane.border_subtitle == "looking for the line"
        log.start, log.is_waiting = 0, False
        pane._seek_offset()
        assert "line 20" in shown(pane)


async def test_truncation_while_scrolled_back_and_while_following() -> None:
    log = FakeLog(*numbers(0, 100))
    async with running(log) as (pane, pilot):
        log.replace("new 1", "new 2")
        pane.poll()
        assert shown(pane) == ["new 1", "new 2"]
        log.append(*numbers(0, 100))
        pane.poll()
        await pilot.press("pageup")
        log.replace("newer")
        pane.poll()
        assert shown(pane) == ["newer"]
        log.replace()
        pane.poll()
        assert "not started" in "".join(shown(pane))


async def test_a_short_log_has_nothing_below() -> None:
    async with running(FakeLog(*numbers(0, 3))) as (pane, pilot):
        await pilot.press("g")
        await until(pilot, lambda: pane.border_subtitle == "")
        await pilot.resize_terminal(40, 8)
        assert pane.border_subtitle == ""


async def test_a_jump_in_a_flood_is_painted_every_second_time() -> None:
    log = FakeLog(*numbers(0, 100))
    async with running(log) as (pane, _):
        for first in (10_000, 20_000, 30_000, 40_000):
            log.replace(*numbers(first, first + 5000))
            pane.poll()
        assert shown(pane) == numbers(44_990, 45_000)
        log.replace(*numbers(50_000, 55_000))
        pane.poll()
        assert shown(pane) == numbers(44_990, 45_000)
        pane.poll()
        assert shown(pane) == numbers(54_990, 55_000)


async def test_keys_do_not_wait_for_the_end_of_a_flood() -> None:
    log = FakeLog(*numbers(0, 100))
    async with running(log) as (pane, pilot):
        log.replace(*numbers(10_000, 15_000))
        pane.poll()
        await pilot.press("up")
        assert shown(pane) == numbers(14_989, 14_999)
        assert pane.border_subtitle == "1 line below, G follows"


async def test_new_source_is_followed_from_its_end() -> None:
    async with running(FakeLog(*numbers(0, 100))) as (pane, pilot):
        await pilot.press("g")
        pane.set_source(FakeLog(*numbers(200, 300)))
        assert pane.follow
        assert shown(pane) == numbers(290, 300)


async def test_long_lines_are_cut_scrolled_sideways_or_wrapped() -> None:
    long = "".join(str(digit) * 10 for digit in range(10))
    async with running(FakeLog("start", long)) as (pane, pilot):
        assert shown(pane)[1] == long[:37] + "›"
        await pilot.press("right")
        assert shown(pane)[1] == long[8:45] + "›"
        for _ in range(20):
            pane.action_move_sideways(1)
        assert shown(pane)[1] == long[62:]
        for _ in range(20):
            pane.action_move_sideways(-1)
        await pilot.press("w")
        assert shown(pane) == ["start", long[:38], long[38:76], long[76:]]
        await pilot.resize_terminal(60, 12)
        assert shown(pane) == ["start", long[:58], long[58:]]
        await pilot.press("w")
        assert shown(pane)[1] == long[:57] + "›"


async def test_wrapped_log_follows_the_last_row() -> None:
    log = FakeLog(*["x" * 38 * 4] * 20)
    async with running(log) as (pane, pilot):
        await pilot.press("b", "w")
        log.append("y" * 38 * 2)
        pane.poll()
        assert shown(pane) == ["x" * 38] * 8 + ["y" * 38] * 2
        await pilot.press("up", "up", "up")
        assert shown(pane) == ["x" * 38] * 10
        assert pane.border_subtitle == "every line · 1 line below, G follows"


async def test_only_lines_in_view_are_read() -> None:
    log = FakeLog(*numbers(0, 100_000))
    async with running(log) as (pane, _):
        assert set(log.reads) <= set(range(99_980, 100_000))
        log.reads.clear()
        log.append(*numbers(100_000, 200_000))
        pane.poll()
        assert log.reads == []
        pane.poll()
        assert sorted(log.reads) == list(range(199_989, 200_000))  # one more tells whether it is the same
        assert shown(pane) == numbers(199_990, 200_000)


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
def counted_refreshes(pane: LogPane) -> Iterator[list[Any]]:
    regions: list[Any] = []
    original = pane.refresh

    def refresh(*args: Any, **kwargs: Any) -> LogPane:
        regions.extend(args or [None])
        return original(*args, **kwargs)

    pane.refresh = refresh  # type: ignore[method-assign]
    try:
        yield regions
    finally:
        pane.refresh = original  # type: ignore[method-assign]
