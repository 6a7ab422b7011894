"""The line at the foot of a screen: what is typed there is searched at once, with the number of matches."""

from __future__ import annotations

from collections.abc import Callable

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input, Static

from rltui.base.text import count_text
from rltui.ui.actions import KeyContext, Scope
from rltui.ui.dialogs.base import TypingScreen
from rltui.ui.key_bindings import keys, own
from rltui.ui.text import clean_line
from rltui.ui.widgets.row_list import RowList

_STATUS_INTERVAL_S = 0.2


class SearchLine(TypingScreen[None]):
    """Searches as a person types, and hides nothing of it: `enter` keeps the search, `esc` goes back."""

    DEFAULT_CSS = """
    SearchLine {
        align: left bottom;
        background: transparent;
        & > Horizontal { height: 1; background: $surface; }
        & > Horizontal > .search-sign { width: 3; padding: 0 1; color: $accent; text-style: bold; }
        & > Horizontal > Input { width: 1fr; }
        & > Horizontal > .search-status { width: auto; max-width: 80%; padding: 0 1; color: $text-muted; }
    }
    """
    BINDINGS = keys(
        KeyContext.SEARCH,
        own("search.keep", "enter", "keep", "keep", "Keep the search", Scope.DIALOG),
        own("search.cancel", "escape", "cancel", "cancel", "Cancel the search and go back", Scope.DIALOG),
        own("search.next", "down", "move(1)", "next", "Go to the next match", Scope.DIALOG),
        own("search.previous", "up", "move(-1)", "previous", "Go to the previous match", Scope.DIALOG),
    )  # fmt: skip

    def __init__(
        self,
        text: str,
        placeholder: str,
        *,
        show: Callable[[str], object],
        status: Callable[[], str],
        move: Callable[[int], object],
        go_back: Callable[[], object] = lambda: None,
    ) -> None:
        """`text`: the line begins with it, and it is searched again where the typing is cancelled.

        `show` shows what matches a text; empty: everything. `status` says how much matches, or why a text
        cannot be searched. `move` goes to the next match or row (1), or to the one before (-1), while the
        line is open, `go_back` to the place where the typing began.
        """
        super().__init__(Input(text, placeholder=placeholder, compact=True))
        self._former_text = self._shown_text = text
        self._search, self._tell, self._move, self._go_back = show, status, move, go_back
        self._status = Static(classes="search-status", markup=False)

    @classmethod
    def of_rows(
        cls, rows: RowList, text: str, placeholder: str, row_name: str, *, show: Callable[[str], object]
    ) -> SearchLine:
        """A search that leaves the rows that match; `row_name`: what one of them is."""
        key = rows.key
        return cls(
            text,
            placeholder,
            show=show,
            status=lambda: count_text(len(rows.keys), row_name),
            move=rows.move,
            go_back=lambda: rows.go_to(key or ""),
        )

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Static("/", classes="search-sign", markup=False)
            yield self.line
            yield self._status

    def on_mount(self) -> None:
        self.set_interval(_STATUS_INTERVAL_S, self._show_status)
        self._show_status()

    @on(Input.Changed)
    def _look_soon(self) -> None:
        """Letters that come in one burst are searched once."""
        self.call_later(self._look)

    def _look(self) -> None:
        if self.entered_text != self._shown_text:
            self._shown_text = self.entered_text
            self._search(self.entered_text)
        self._show_status()

    def _show_status(self) -> None:
        self._status.update(clean_line(self._tell()) if self.entered_text else "")

    def action_move(self, step: int) -> None:
        self._look()
        self._move(step)

    @on(Input.Submitted)
    def action_keep(self) -> None:
        self._look()
        self.dismiss(None)

    def action_cancel(self) -> None:
        if self._shown_text != self._former_text:
            self._search(self._former_text)
        self._go_back()
        self.dismiss(None)
