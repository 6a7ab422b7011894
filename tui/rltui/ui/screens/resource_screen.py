"""A screen that shows the rows of a resource, asked for again and again while they are seen."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.widget import Widget
from textual.widgets import Static

from rltui.errors import RltuiError
from rltui.ui.background import in_background
from rltui.ui.base_screen import BaseScreen
from rltui.ui.dialogs.search_line import SearchLine
from rltui.ui.state import AppState
from rltui.ui.widgets.bars import KeyBar, TitleLine
from rltui.ui.widgets.row_list import LazyRows, Row, RowList, matching
from rltui.views.table import Arranged

STYLE_SHEET = "resource_screen.tcss"


class ResourceScreen(BaseScreen):
    """Title, rows, notes. Made once: it stays when it is left. A subclass asks, and says what they show."""

    CSS_PATH: ClassVar = [STYLE_SHEET]
    part: ClassVar[str]
    """Begins the ids of its widgets."""
    interval_s: ClassVar[float | None] = None
    """The resource is asked for this often; `None`: once it is opened, and as `hurry` says."""
    search_labels: ClassVar = ("words from rows", "row")
    """Placeholder of the search line, and the name of a row that it counts."""

    def __init__(self, app_state: AppState, arranged: Arranged[Any] | None = None) -> None:
        """`arranged`: what `action_sort` and `action_narrow` turn, where there is something to."""
        super().__init__(app_state)
        if not self.is_of_all_runs:
            self.state.watch("connection", self.update_title)
        self.problem = ""
        """The reason why the rows are old or incomplete."""
        self.hurry = asyncio.Event()
        """Set it to have the next question asked at once."""
        self._arranged = arranged
        self._search_text = ""
        self.above: Sequence[Widget] = ()
        """Widgets between the title and the rows."""
        self.title_line = TitleLine(id=f"{self.part}-title")
        self.rows = RowList(self._matching_rows, id=f"{self.part}-rows", classes="resource-rows")
        self.notes = Static(id=f"{self.part}-notes", classes="resource-notes", markup=False)

    @property
    def reading(self) -> str:
        """The announcement of a slow reading: `Reading the checkpoints`."""
        raise NotImplementedError

    async def begin(self) -> None:
        """Done before the first question, each time it is opened."""

    async def ask(self) -> None:
        """Take over what there is now, `problem` too.

        Raises:
            RltuiError: as the client; it is told in the title.
        """
        raise NotImplementedError

    def make_rows(self, width: int, selected: str | None) -> tuple[Row, ...] | LazyRows:
        """The arguments are those of `MakeRows`."""
        raise NotImplementedError

    def _matching_rows(self, width: int, selected: str | None) -> tuple[Row, ...] | LazyRows:
        return matching(self.make_rows(width, selected), self._search_text)

    def update_title(self) -> None:
        """Write what stands above and below the rows anew."""
        raise NotImplementedError

    @property
    def can_change(self) -> bool:
        """Another question may have another answer."""
        return True

    def compose(self) -> ComposeResult:
        yield self.title_line
        yield KeyBar()
        yield from self.above
        yield self.rows
        yield self.notes

    def on_mount(self) -> None:
        self.rows.focus()

    def on_screen_resume(self) -> None:
        self.show()
        in_background(self, self._follow, group="follow")

    def left(self) -> None:
        self.workers.cancel_group(self, "follow")

    def show(self) -> None:
        """Repaints; a row that somebody wanted to see comes into view."""
        self.update_title()
        self.rows.reload()
        self.refresh_bindings()
        if self.aim and self.aim in self.rows.keys:
            self.rows.go_to(self.aim)
            self.aim = ""

    async def look(self) -> None:
        try:
            async with self.waiting(self.reading):
                await self.ask()
        except RltuiError as error:
            self.problem = error.title
        self.show()

    async def _follow(self) -> None:
        """Ask again and again. An answer that takes long delays the next question."""
        await self.begin()
        while True:
            self.hurry.clear()
            await self.look()
            if not self.can_change:
                return
            try:
                async with asyncio.timeout(self.interval_s):
                    await self.hurry.wait()
            except TimeoutError:
                continue

    @property
    def moved_list(self) -> RowList:
        return self.rows

    @on(RowList.Moved)
    def _look_at_row(self) -> None:
        self.refresh_bindings()

    def action_search(self) -> None:
        line = SearchLine.of_rows(self.rows, self.search_text, *self.search_labels, show=self.search_for)
        self.app.push_screen(line)

    @property
    def search_text(self) -> str:
        """The words that a row must have to be listed."""
        return self._search_text

    def search_for(self, text: str) -> None:
        self._search_text = text
        self.show()

    def end_search(self) -> bool:
        """End the search; returns whether there was one."""
        was_searched = bool(self.search_text)
        if was_searched:
            self.search_for("")
        return was_searched

    def action_back(self) -> None:
        if not self.end_search():
            self.action_show_overview()

    def action_sort(self, step: int) -> None:
        if self._arranged is not None:
            self._arranged.sort(step)
            self.show()

    def action_narrow(self) -> None:
        """The next filter holds; after the last one all rows are listed again."""
        if self._arranged is not None:
            self._arranged.narrow()
            self.show()
