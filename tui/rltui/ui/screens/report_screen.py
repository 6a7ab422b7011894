"""Screens whose list is asked for again and again, while they are seen."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.widgets import Static

from rltui.errors import RltuiError
from rltui.ui.background import in_background
from rltui.ui.base_screen import BaseScreen
from rltui.ui.messages import waiting
from rltui.ui.shared import AppState
from rltui.ui.widgets.bars import KeyBar
from rltui.ui.widgets.row_list import CursorKeys, Row, RowList


class FollowingScreen(CursorKeys, BaseScreen):
    rows: RowList

    async def follow(self) -> None:
        """Ask, and show what is answered, again and again."""
        raise NotImplementedError

    @property
    def moved_list(self) -> RowList:
        return self.rows

    def on_mount(self) -> None:
        self.rows.focus()

    def on_screen_resume(self) -> None:
        in_background(self, self.follow, group="follow")

    def left(self) -> None:
        self.workers.cancel_group(self, "follow")

    @on(RowList.Moved)
    def _look_at_row(self) -> None:
        self.refresh_bindings()


class ReportScreen(FollowingScreen):
    """Lies on the overview, made once: title, rows, notes. A subclass asks and says what they show."""

    part: ClassVar[str]
    """Begins the ids of its widgets, for the style sheet."""
    interval_s: ClassVar[float]
    """Between two questions."""

    def __init__(self, home: AppState) -> None:
        super().__init__(home)
        self.shared.watch("connection", self.update_title)
        self.problem = ""
        """Why what is shown is not all there is, or old."""
        self.hurry = asyncio.Event()
        """Set it to have the next question asked at once."""
        self.title_line = Static(id=f"{self.part}-title", markup=False)
        self.rows = RowList(self.make_rows, id=f"{self.part}-rows")
        self.notes = Static(id=f"{self.part}-notes", markup=False)

    async def ask(self) -> None:
        """Take over what there is now, `problem` too.

        Raises:
            RltuiError: as the client; it is told in the title.
        """
        raise NotImplementedError

    def make_rows(self, width: int, selected: str | None) -> tuple[Row, ...]:
        """As `MakeRows`."""
        raise NotImplementedError

    def update_title(self) -> None:
        """Write what stands above and below the rows anew."""
        raise NotImplementedError

    def show(self) -> None:
        self.update_title()
        self.rows.reload()
        self.refresh_bindings()

    async def look(self) -> None:
        try:
            async with waiting(self.app, f"Reading the {self.part}s"):
                await self.ask()
        except RltuiError as error:
            self.problem = error.title
        self.show()

    def compose(self) -> ComposeResult:
        yield self.title_line
        yield KeyBar()
        yield self.rows
        yield self.notes

    def on_screen_resume(self) -> None:
        self.show()

    async def follow(self) -> None:
        """An answer that takes long delays the next question."""
        while True:
            self.hurry.clear()
            await self.look()
            try:
                async with asyncio.timeout(self.interval_s):
                    await self.hurry.wait()
            except TimeoutError:
                continue
