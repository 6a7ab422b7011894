"""All keys, derived from the table of actions, and what the symbols mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from rltui.ui.actions import ACTIONS, Action, Place, Scope, Use, bindings
from rltui.ui.screens.dialogs import Dialog
from rltui.ui.states import BADGES, MEANINGS, STALLED

_KEY_WIDTH = 12


def _row(keys: str, text: str) -> Content:
    return Content.assemble((keys.rjust(_KEY_WIDTH), "bold $accent"), (f"  {text}", ""))


def _section(heading: str, rows: list[Content]) -> Content:
    return Content("\n").join([Content.styled(heading, "bold underline"), *rows])


def _rows_of(action: Action, *, readonly: bool) -> Iterator[Content]:
    """What it means everywhere, and what it is done to where that is not all."""
    own = [use for use in action.uses if use.help != action.help]
    alone = own[0].help if len(own) == len(action.uses) == 1 else ""
    yield _told(
        _row(action.shown_keys, alone or action.help), readonly and all(use.changes for use in action.uses)
    )
    for use in () if alone else own:
        yield _told(_row("", f"· {_where(use)}: {use.help}"), readonly and use.changes)


def _where(use: Use) -> str:
    return ", ".join(place.value for place in use.places)


def _told(row: Content, lacks: bool) -> Content:
    return Content.styled(f"{row.plain} (not while read-only)", "$foreground 60%") if lacks else row


def help_content(*, readonly: bool = False) -> Content:
    """The whole page."""
    told = [action for action in ACTIONS if action.help]
    sections = [
        _section(
            scope.value,
            [row for action in told if action.scope is scope for row in _rows_of(action, readonly=readonly)],
        )
        for scope in Scope
    ]
    states = [
        Content.assemble(
            (f"{badge.symbol} {badge.word}".rjust(_KEY_WIDTH), badge.style), f"  {MEANINGS[state]}"
        )
        for state, badge in BADGES.items()
    ]
    stalled = f"{STALLED.symbol} {STALLED.word}".rjust(_KEY_WIDTH)
    states.append(Content.assemble((stalled, STALLED.style), "  alive, but nothing has happened for long"))
    sections.append(_section("States", states))
    note = Content.styled(
        "Lower case is reversible or shows its plan first; upper case asks. Leaving stops nothing.",
        "$foreground 60%",
    )
    return Content("\n\n").join([note, *sections])


class HelpScreen(Dialog[None]):
    """Scrolls; esc closes."""

    BINDINGS: ClassVar = bindings(Place.HELP)

    def __init__(self, *, readonly: bool = False) -> None:
        super().__init__()
        self._readonly = readonly

    def compose(self) -> ComposeResult:
        """The page."""
        with Vertical(classes="box help") as box:
            box.border_title = "Keys"
            box.border_subtitle = "↑ ↓ scroll · esc closes"
            with VerticalScroll():
                yield Static(help_content(readonly=self._readonly))
