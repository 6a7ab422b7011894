"""The palette: a line to type in, and everything that can be done, opened or changed, the likeliest first.

Textual's own `CommandPalette` lists a text and a line of help for each hit: no columns of kinds and keys,
and no theme that is tried while the cursor is on it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input

from rltui.base import fuzzy
from rltui.base.text import truncate
from rltui.errors import RltuiError
from rltui.ui.actions import KeyContext, Scope
from rltui.ui.background import in_background
from rltui.ui.base_screen import BaseScreen
from rltui.ui.dialogs.base import TypingScreen
from rltui.ui.key_bindings import keys, own
from rltui.ui.palette.entries import EntryKind, PaletteEntry, ranked, split_prefix
from rltui.ui.palette.providers import PROVIDERS, SLOW_PROVIDERS, log_search, step_entry
from rltui.ui.styles import FAINT
from rltui.ui.text import clean_line
from rltui.ui.widgets.virtual_list import VirtualList

Source = Callable[[], Coroutine[Any, Any, list[PaletteEntry]]]
_HINT = "> action @ component = knob ~ run # checkpoint * theme , setting / logs"
_KIND_WIDTH = max(map(len, EntryKind)) + 2
_LABEL_WIDTH = 18
"""Descriptions begin in one column behind labels up to this."""
_MIN_DETAIL_WIDTH = 12


def entry_line(entry: PaletteEntry, tokens: Sequence[str], width: int) -> Content:
    """`knob  trainer.optim.lr  1e-6 · learning rate        e`: the letters that answer `tokens` are set off.

    Where it is too narrow, the description gives way first, then the end of the label.
    """
    room = max(1, width - _KIND_WIDTH - (len(entry.keys) + 2 if entry.keys else 0) - 1)
    text = truncate(entry.label, room)
    label = Content(text)
    for position in fuzzy.matched_positions(tokens, fuzzy.folded(text)):
        label = label.stylize("bold $text-accent", position, position + 1)
    detail_start = max(_LABEL_WIDTH, len(text)) + 2
    detail_width = room - detail_start
    detail = ""
    if entry.detail and detail_width >= _MIN_DETAIL_WIDTH:
        detail = f"{' ' * (detail_start - len(text))}{truncate(entry.detail, detail_width)}"
    gap = " " * max(0, room - len(text) - len(detail))
    return Content.assemble(
        (f" {entry.kind}".ljust(_KIND_WIDTH), FAINT),
        label,
        (detail, FAINT),
        (f"{gap}  {entry.keys}" if entry.keys else "", "bold $accent"),
    )


class Palette(TypingScreen[PaletteEntry]):
    """Answers the chosen entry, or `None`. Paints what is known at once; the rest joins when it is there.

    Nothing that is typed is lost, and what has come late moves no cursor that a person has moved.
    """

    CSS_PATH: ClassVar = ["palette.tcss"]
    BINDINGS = keys(
        KeyContext.PALETTE,
        own("palette.choose", "enter", "choose", "choose", "", Scope.DIALOG),
        own("palette.cancel", "escape", "cancel", "cancel", "", Scope.DIALOG),
        own("palette.down", "down,ctrl+n", "cursor(1)", "down", "", Scope.DIALOG),
        own("palette.up", "up,ctrl+p", "cursor(-1)", "up", "", Scope.DIALOG),
        own("palette.page-down", "pagedown", "page(1)", "page down", "", Scope.DIALOG),
        own("palette.page-up", "pageup", "page(-1)", "page up", "", Scope.DIALOG),
    )  # fmt: skip

    def __init__(
        self,
        entries: Sequence[PaletteEntry],
        sources: Sequence[Source] = (),
        *,
        recent: Sequence[str] = (),
        query: str = "",
        log_search: Callable[[str], PaletteEntry] | None = None,
        step_entry: Callable[[int], PaletteEntry] | None = None,
    ) -> None:
        """`sources`: of entries that come later. `recent`: names of entries, the one used last first.
        `log_search`: makes an entry of any text; `step_entry`: of a number.
        """
        super().__init__(Input(query, placeholder=_HINT, select_on_focus=False))
        self._entries = list(entries)
        self._sources = sources
        self._recent = recent
        self._log_search = log_search
        self._step_entry = step_entry
        self._loading = len(sources)
        self._results: tuple[PaletteEntry, ...] = ()
        self._query: str | None = None
        """The query that `_results` is the answer to."""
        self._is_moved = False
        """A person has put the cursor where it is."""
        self._chooses_first = False
        """Enter was pressed while nothing was listed yet."""
        self._list = VirtualList(self._line, id="palette-list")
        self._list.can_focus = False
        self._theme = ""
        """The theme to come back to, while another is tried."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield self.line
            yield self._list

    def on_mount(self) -> None:
        self._theme = self.app.theme
        for source in self._sources:
            in_background(self, partial(self._load, source), group="load", exclusive=False)
        self.call_later(self._show)

    async def _load(self, source: Source) -> None:
        try:
            self._entries += await source()
        except RltuiError as error:
            self.notify(clean_line(error.title), severity="warning", markup=False)
        self._loading -= 1
        self._show(has_more=True)
        if self._chooses_first and (self._results or not self._loading):
            self.action_choose()

    # what is listed

    @on(Input.Changed)
    def _show_typed(self) -> None:
        self._chooses_first = False
        self._show()

    def _show(self, *, has_more: bool = False) -> None:
        """List what answers. The cursor is on the best, or stays on what a person has put it on."""
        if self.entered_text == self._query and not has_more:
            return
        previous = self._cursor_entry
        if self.entered_text != self._query:
            self._is_moved = False
        self._query = self.entered_text
        results = ranked(self._entries, self.entered_text, self._recent)
        kind, text = split_prefix(self.entered_text)
        if self._log_search is not None and text.strip() and kind in (None, EntryKind.LOG):
            results += (self._log_search(text.strip()),)
        if self._step_entry is not None and kind is None and text.strip().isdecimal():
            results = (self._step_entry(int(text)), *results)
        self._results = results
        cursor = results.index(previous) if self._is_moved and previous in results else 0
        self._list.show(len(results), cursor)
        box = self.query_one(".box")
        box.border_subtitle = "loading…" if self._loading else f"{len(results):,}"
        self._try_theme()

    def _line(self, index: int, width: int) -> Content:
        tokens = fuzzy.query_words(split_prefix(self._query or "")[1])
        return entry_line(self._results[index], tokens, width)

    @property
    def _cursor_entry(self) -> PaletteEntry | None:
        return (
            self._results[self._list.cursor_index] if self._list.cursor_index < len(self._results) else None
        )

    def _try_theme(self) -> None:
        """Show the theme under the cursor where themes are what is searched, and the usual one elsewhere."""
        entry = self._cursor_entry
        is_tried = self._is_moved or split_prefix(self.entered_text)[0] is EntryKind.THEME
        theme = (
            entry.target if entry is not None and entry.kind is EntryKind.THEME and is_tried else self._theme
        )
        if self.app.theme != theme:
            self.app.theme = theme

    # keys

    def action_cursor(self, rows: int) -> None:
        self._show()
        self._is_moved = True
        self._list.go_to(self._list.cursor_index + rows)
        self._try_theme()

    def action_page(self, pages: int) -> None:
        self._show()
        self._is_moved = True
        self._list.move_pages(pages)
        self._try_theme()

    def action_choose(self) -> None:
        """The entry under the cursor; while there is none, the first that comes."""
        self._show()
        if (entry := self._cursor_entry) is not None:
            self._leave(entry)
        else:
            self._chooses_first = self._loading > 0

    @on(Input.Submitted)
    def _choose(self, submitted: Input.Submitted) -> None:
        with self.prevent(Input.Changed):
            self.line.value = submitted.value
        self.action_choose()

    def action_cancel(self) -> None:
        self._leave(None)

    def on_click(self, event: events.Click) -> None:
        """Choose what is clicked; beside the box, nothing."""
        if event.widget is self._list:
            if event.y + self._list.scroll_offset.y < len(self._results):
                self.action_choose()
        elif event.widget is self:
            self.action_cancel()

    def _leave(self, entry: PaletteEntry | None) -> None:
        self.app.theme = self._theme
        self.dismiss(entry)


def open_palette(screen: BaseScreen, query: str) -> None:
    """The chosen entry's action is done on `screen`, and remembered."""

    def choose(entry: PaletteEntry | None) -> None:
        if entry is not None:
            screen.app_state.remember_used(entry.name)
            entry.choose()
            screen.keep()

    has_run = screen.app_state.current is not None
    palette = Palette(
        [entry for provider in PROVIDERS for entry in provider(screen)],
        [partial(provider, screen) for provider in SLOW_PROVIDERS],
        recent=screen.app_state.recent,
        query=query,
        log_search=partial(log_search, screen) if has_run else None,
        step_entry=partial(step_entry, screen) if has_run and not screen.is_of_all_runs else None,
    )
    screen.app.push_screen(palette, choose)
