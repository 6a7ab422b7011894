"""A list whose rows are made anew while a person moves through it."""

from __future__ import annotations

from tests.fakes.experiment import FakeExperiment
from tests.ui.conftest import Opener, press
from textual.app import App, ComposeResult
from textual.content import Content

from rltui.ui.widgets.row_list import Row, RowList


class Listing(App[None]):
    """Shows a row for every word of `words`."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words = words

    def compose(self) -> ComposeResult:
        yield RowList(lambda _width, _key: tuple(Row(word, (Content(word),)) for word in self.words.split()))


async def test_the_row_to_go_to_has_just_gone() -> None:
    """Random keys found it: `j` in the config screen, while the file loses that key, ended the TUI."""
    app = Listing("one two three")
    async with app.run_test() as pilot:
        rows = app.query_one(RowList)
        rows.reload()
        assert rows.key == "one"
        app.words = "one three"
        rows.move(1)
        await pilot.pause()
        assert rows.key == "three"
        app.words = ""
        rows.move(-1)
        await pilot.pause()
        assert rows.key is None


async def test_keys_move_the_cursor_of_a_list_that_could_scroll(open_app: Opener) -> None:
    """Textual's own keys scrolled the config screen below its cursor where it was longer than the screen."""
    async with open_app(FakeExperiment(), (80, 14)) as pilot:
        await press(pilot, "6")
        rows = pilot.app.screen.query_one("#config-rows", RowList)
        assert rows.max_scroll_y > 0
        keys = rows.keys
        await press(pilot, "down")
        assert rows.key == keys[1]
        await press(pilot, "pagedown")
        assert keys.index(rows.key or "") > 3
        await press(pilot, "end")
        assert rows.key == keys[-1]
        assert rows.scroll_offset.y == rows.max_scroll_y
        await press(pilot, "home")
        assert rows.key == keys[0]
        assert rows.scroll_offset.y == 0


async def test_a_page_of_a_list_that_only_says_why_it_is_empty() -> None:
    """Random keys found it: `pgdn` on the checkpoint screen, before there was one, ended the TUI."""

    class Empty(App[None]):
        def compose(self) -> ComposeResult:
            yield RowList(lambda _width, _key: (Row(None, (Content("no checkpoint yet"),)),))

    app = Empty()
    async with app.run_test():
        rows = app.query_one(RowList)
        rows.reload()
        rows.move_pages(1)
        rows.move_pages(-1)
        assert rows.key is None
