"""The keys of a log view, over real files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.ui.conftest import press, until
from tests.ui.logs.conftest import search_file
from textual import on
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widgets import Input

from rltui.services.logs.index import LogFile
from rltui.ui.copying import CopyRequested
from rltui.ui.dialogs.search_line import SearchLine
from rltui.ui.logs import view
from rltui.ui.logs.view import LogView


class SearchApp(App[None]):
    CSS = "LogView { border: solid $primary; }"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.pane = LogView()
        self.taken: list[CopyRequested] = []
        self.show()

    def show(self) -> None:
        search = partial(search_file, self.path)
        self.pane.log_name = "trainer"
        self.pane.set_source(LogFile(self.path), search=search)

    def compose(self) -> ComposeResult:
        yield self.pane

    def on_mount(self) -> None:
        self.pane.focus()

    @on(CopyRequested)
    def _take(self, message: CopyRequested) -> None:
        self.taken.append(message)


@pytest.fixture(autouse=True)
def _no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "POLL_INTERVAL_S", 3600.0)


@asynccontextmanager
async def running(path: Path) -> AsyncIterator[tuple[LogView, Pilot[None]]]:
    app = SearchApp(path)
    async with app.run_test(size=(60, 14)) as pilot:
        await pilot.pause()
        yield app.pane, pilot


def shown(pane: LogView) -> list[str]:
    rows = [pane.render_line(y).text.rstrip() for y in range(pane.size.height)]
    return [row for row in rows if row]


def subtitle(pane: LogView) -> str:
    subtitle = pane._border_subtitle
    return "" if subtitle is None else subtitle.plain


async def search(pilot: Pilot[None], text: str, key: str = "slash") -> None:
    await press(pilot, key)
    pilot.app.screen.query_one(Input).value = text
    await press(pilot, "enter")


def write(path: Path, text: str) -> None:
    path.write_text(text)


def words(pane: LogView, *texts: str) -> Callable[[], bool]:
    return lambda: all(text in subtitle(pane) for text in texts)


async def test_keys_show_matches_alone_and_levels(path: Path) -> None:
    async with running(path) as (pane, pilot):
        await search(pilot, "line 1[0-9]+3$", key="ampersand")
        await until(pilot, words(pane, "only “line 1[0-9]+3$”: 110"))
        await press(pilot, "ampersand")
        await until(pilot, lambda: "only" not in subtitle(pane))
        await press(pilot, "n")
        place = subtitle(pane)
        await press(pilot, "n")
        assert subtitle(pane) != place
        await press(pilot, "N")
        assert subtitle(pane) == place
        await press(pilot, "escape", "f")
        await until(pilot, words(pane, "only warnings: 4"))
        await press(pilot, "escape", "E")
        await until(pilot, words(pane, "errors 2 of 2"))
        await press(pilot, "E")
        assert "errors 1 of 2" in subtitle(pane)


async def test_keys_unfold(path: Path) -> None:
    write(path, "12:00:00    INFO a\n" * 3 + "12:00:01    INFO b\n")
    async with running(path) as (pane, pilot):
        assert shown(pane) == ["12:00:00 I ×3 a", "12:00:01 I b"]
        await press(pilot, "T")
        assert shown(pane) == ["×3 12:00:00    INFO a", "12:00:01    INFO b"]
        await press(pilot, "b")
        assert shown(pane) == [*["12:00:00    INFO a"] * 3, "12:00:01    INFO b"]


async def test_keys_mark_select_and_copy(path: Path) -> None:
    async with running(path) as (pane, pilot):
        app = pilot.app
        assert isinstance(app, SearchApp)
        await press(pilot, "m", "g", "m", "G", "apostrophe")
        await until(pilot, lambda: any(row.endswith("line 11") for row in shown(pane)))
        await press(pilot, "G", "v", "up", "up", "y")
        (copied,) = app.taken
        assert copied.text.splitlines()[0] == "12:00:17    INFO line 1997"
        assert (copied.what, copied.name) == ("3 lines", "")
        await press(pilot, "W")
        assert app.taken[-1].name == "trainer.log"
        await press(pilot, "v", "escape", "up")
        assert "selected" not in subtitle(pane)


async def test_escape_ends_a_search_that_goes_on(path: Path) -> None:
    write(path, "x\n" * 2_000_000)
    async with running(path) as (pane, pilot):
        searching = asyncio.create_task(search(pilot, "x"))  # returns only when nothing goes on any more
        is_said = words(pane, "esc cancels")
        for _ in range(1000):
            if is_said() and not isinstance(pilot.app.screen, SearchLine):
                break
            await asyncio.sleep(0.01)
        assert is_said()
        pilot.app.simulate_key("escape")
        await searching
        assert "esc cancels" not in subtitle(pane)
        assert pane.model.search is not None
        assert len(pane.model.search.offsets) < 1_000_000
