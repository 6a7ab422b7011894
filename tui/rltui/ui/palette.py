"""The palette: a line to type in, and everything that can be done, opened or changed, the likeliest first."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input

from rltui.core import fuzzy
from rltui.core.text import shortened
from rltui.errors import RltuiError
from rltui.ui.actions import KeyContext, Scope
from rltui.ui.background import in_background
from rltui.ui.base_screen import SEARCH_AIM, BaseScreen
from rltui.ui.key_bindings import keys, own
from rltui.ui.palette_entries import Kind, PaletteEntry, at_once, carry_out, narrowed, ranked, sources
from rltui.ui.screens.dialogs import TypingScreen
from rltui.ui.styles import FAINT
from rltui.ui.text import clean_line
from rltui.ui.widgets.virtual_list import VirtualList

Source = Callable[[], Coroutine[Any, Any, list[PaletteEntry]]]
_HINT = "> action @ component = knob ~ run # checkpoint * theme , setting / logs"
_KIND_WIDTH = max(map(len, Kind)) + 2
_LABEL_WIDTH = 18
"""Descriptions begin in one column behind labels up to this."""
_SHORTEST_DETAIL = 12


def entry_line(entry: PaletteEntry, words: Sequence[str], width: int) -> Content:
    """`knob  trainer.optim.lr  1e-6 · learning rate        e`: the letters that answer `words` are set off.

    Where it is too narrow, the description gives way first, then the end of the label.
    """
    room = max(1, width - _KIND_WIDTH - (len(entry.keys) + 2 if entry.keys else 0) - 1)
    label = shortened(entry.label, room)
    shown = Content(label)
    for place in fuzzy.places(words, fuzzy.folded(label)):
        shown = shown.stylize("bold $text-accent", place, place + 1)
    begin = max(_LABEL_WIDTH, len(label)) + 2
    left = room - begin
    detail = ""
    if entry.detail and left >= _SHORTEST_DETAIL:
        detail = f"{' ' * (begin - len(label))}{shortened(entry.detail, left)}"
    gap = " " * max(0, room - len(label) - len(detail))
    return Content.assemble(
        (f" {entry.kind}".ljust(_KIND_WIDTH), FAINT),
        shown,
        (detail, FAINT),
        (f"{gap}  {entry.keys}" if entry.keys else "", "bold $accent"),
    )


class Palette(TypingScreen[PaletteEntry]):
    """Answers the chosen entry, or `None`. Paints what is known at once; the rest joins when it is there.

    Nothing that is typed is lost, and what has come late moves no cursor that a person has moved.
    """

    CSS_PATH: ClassVar = ["screens/palette.tcss"]
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
        typed: str = "",
        searches_logs: bool = True,
    ) -> None:
        """`recent`: names of entries, the one used last first. `searches_logs`: for what is typed."""
        super().__init__(Input(typed, placeholder=_HINT, select_on_focus=False))
        self._entries = list(entries)
        self._sources = sources
        self._recent = recent
        self._searches_logs = searches_logs
        self._loading = len(sources)
        self._found: tuple[PaletteEntry, ...] = ()
        self._asked: str | None = None
        """For which `_found` is the answer."""
        self._is_moved = False
        """A person has put the cursor where it is."""
        self._wants_first = False
        """Enter was pressed while nothing was found yet."""
        self._list = VirtualList(self._line, id="palette-list")
        self._list.can_focus = False
        self._theme = ""
        """To come back to, while another is tried."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield self.line
            yield self._list

    def on_mount(self) -> None:
        """What is known is shown; the rest is asked for."""
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
        self._show(anew=True)
        if self._wants_first and (self._found or not self._loading):
            self.action_choose()

    # what is shown

    @on(Input.Changed)
    def _look_again(self) -> None:
        self._wants_first = False
        self._show()

    def _show(self, *, anew: bool = False) -> None:
        """What answers, `anew` where more is known. The cursor is on the best, or stays on what it is on."""
        if self.typed == self._asked and not anew:
            return
        before = self._cursor_entry
        if self.typed != self._asked:
            self._is_moved = False
        self._asked = self.typed
        found = ranked(self._entries, self.typed, self._recent)
        kind, wanted = narrowed(self.typed)
        if self._searches_logs and wanted.strip() and kind in (None, Kind.LOG):
            text = wanted.strip()
            found += (PaletteEntry(Kind.LOG, text, f"search all logs for {text}", "", SEARCH_AIM),)
        self._found = found
        at = found.index(before) if self._is_moved and before in found else 0
        self._list.show(len(found), at)
        box = self.query_one(".box")
        box.border_subtitle = "loading…" if self._loading else f"{len(found):,}"
        self._try_theme()

    def _line(self, at: int, width: int) -> Content:
        return entry_line(self._found[at], fuzzy.words_of(narrowed(self._asked or "")[1]), width)

    @property
    def _cursor_entry(self) -> PaletteEntry | None:
        return self._found[self._list.at] if self._list.at < len(self._found) else None

    def _try_theme(self) -> None:
        """Show the one under the cursor, where themes are what is looked for, and the usual one elsewhere."""
        entry = self._cursor_entry
        looked_for = self._is_moved or narrowed(self.typed)[0] is Kind.THEME
        wanted = entry.target if entry is not None and entry.kind is Kind.THEME and looked_for else ""
        if self.app.theme != (wanted or self._theme):
            self.app.theme = wanted or self._theme

    # keys

    def action_cursor(self, rows: int) -> None:
        self._show()
        self._is_moved = True
        self._list.go_to(self._list.at + rows)
        self._try_theme()

    def action_page(self, pages: int) -> None:
        self._show()
        self._is_moved = True
        self._list.move_pages(pages)
        self._try_theme()

    def action_choose(self) -> None:
        """The one under the cursor; while nothing is found, the first that comes."""
        self._show()
        if (entry := self._cursor_entry) is not None:
            self._leave(entry)
        else:
            self._wants_first = self._loading > 0

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
            if event.y + self._list.scroll_offset.y < len(self._found):
                self.action_choose()
        elif event.widget is self:
            self.action_cancel()

    def _leave(self, entry: PaletteEntry | None) -> None:
        self.app.theme = self._theme
        self.dismiss(entry)


def open_palette(screen: BaseScreen, typed: str) -> None:
    """On a main screen, with `typed` in its line; what is chosen is done there."""

    def chosen(entry: PaletteEntry | None) -> None:
        if entry is not None:
            carry_out(entry, screen)
            screen.keep()

    palette = Palette(
        at_once(screen),
        sources(screen),
        recent=screen.home.recent,
        typed=typed,
        searches_logs=screen.home.shared is not None,
    )
    screen.app.push_screen(palette, chosen)
