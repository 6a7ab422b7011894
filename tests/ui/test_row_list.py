"""A list whose rows are made anew while a person moves through it."""

from __future__ import annotations

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
