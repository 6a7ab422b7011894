"""The runs screen: all runs there are, those that live first. Binds and forwards."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Self

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from rltui.core.runs import RunRow
from rltui.core.text import shortened
from rltui.errors import RltuiError
from rltui.ui.actions import Place, bindings
from rltui.ui.requests import READONLY_TEXT, MainScreen
from rltui.ui.shared import Home
from rltui.ui.text import clean_line
from rltui.ui.widgets.bars import KeyBar
from rltui.ui.widgets.virtual_list import VirtualList

_INTERVAL_S = 1.0
"""Between two looks at the index."""


class RunsScreen(MainScreen):
    """Lies on the overview, or at the bottom where no experiment is open."""

    BINDINGS = bindings(Place.RUNS)
    CSS_PATH: ClassVar = ["runs.tcss"]
    place = Place.RUNS

    def __init__(self, home: Home) -> None:
        super().__init__()
        self._home = home
        self._shown: list[RunRow] = []
        self._rows: tuple[RunRow, ...] = ()
        self._title = Static(id="runs-title", markup=False)
        self._list = VirtualList(self._line, id="runs-rows")

    @classmethod
    def made(cls, home: Home) -> Self:
        """Of all runs."""
        return cls(home)

    @property
    def home(self) -> Home:
        """What it shows."""
        return self._home

    @property
    def readonly_text(self) -> str:
        """As the client is."""
        return READONLY_TEXT if self._home.runs.readonly else ""

    def action_cursor(self, rows: int) -> None:
        """Up and down."""
        self._list.go_to(self._list.at + rows)

    def action_page(self, pages: int) -> None:
        """By what is visible."""
        self._list.move_pages(pages)

    def action_cursor_to_end(self, last: bool) -> None:
        """To the first run, or the last."""
        self._list.go_to(self._list.count - 1 if last else 0)

    def compose(self) -> ComposeResult:
        """Title, rows, keys."""
        yield self._title
        yield KeyBar()
        yield self._list

    def on_mount(self) -> None:
        """The keys are the list's."""
        self._list.focus()

    def on_screen_resume(self) -> None:
        """Catch up."""
        self.run_worker(self._follow(), name="follow", group="follow", exclusive=True)

    def left(self) -> None:
        """Nothing is asked any more."""
        self.workers.cancel_group(self, "follow")

    async def _follow(self) -> None:
        """What the index has at once, then with what the folders say, then whenever it changes."""
        await self._look()
        try:
            for sentence in await asyncio.to_thread(self._home.runs.catch_up):
                self.notify(clean_line(sentence), markup=False)
        except RltuiError as error:
            self.notify(clean_line(error.title), severity="error", markup=False)
        while True:
            await self._look()
            await asyncio.sleep(_INTERVAL_S)

    async def _look(self) -> None:
        problem = ""
        try:
            rows = await asyncio.to_thread(self._home.runs.rows)
        except RltuiError as error:
            rows, problem = self._rows, error.title
        if rows is not self._rows:
            self._rows = rows
            chosen = self._row.id if self._row is not None else None
            self._shown = sorted(rows, key=lambda row: (not row.is_running, -(row.started_at or 0.0)))
            at = next((at for at, row in enumerate(self._shown) if row.id == chosen), None)
            self._list.show(len(self._shown), at)
        trouble = f" · ⚠ {clean_line(problem)}" if problem else ""
        self._title.update(f" rltui · {len(self._shown)} runs{trouble}")
        self.refresh_bindings()

    @property
    def _row(self) -> RunRow | None:
        return self._shown[self._list.at] if self._list.at < len(self._shown) else None

    def _line(self, at: int, width: int) -> Content:
        row = self._shown[at]
        steps = "" if row.step is None else f"{row.step}/{row.max_steps or '?'}"
        reward = "" if row.reward is None else f"{row.reward:.3g}"
        return Content(shortened(f"{row.state:8} {clean_line(row.name):30} {steps:>12} {reward:>8}", width))

    def action_open_run(self) -> None:
        """In place of the one that is open."""
        if self._row is not None:
            screen = "rollouts" if self._row.kind == "evaluation" else ""
            self.post_message(self.RunWanted(self._row.id, screen=screen))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what makes sense now."""
        return (action != "open_run" or self._row is not None) and super().check_action(action, parameters)
