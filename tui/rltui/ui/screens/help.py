"""All keys, derived from the table of actions, and what the symbols mean."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from rltui.ui.actions import Action, Scope, in_scope, key_text
from rltui.ui.screens.dialogs import Dialog
from rltui.ui.states import BADGES, MEANINGS, STALLED
from rltui.ui.widgets.log_pane import LogPane

_KEY_WIDTH = 12


def _row(keys: str, text: str) -> Content:
    return Content.assemble((keys.rjust(_KEY_WIDTH), "bold $accent"), (f"  {text}", ""))


def _section(heading: str, rows: list[Content]) -> Content:
    return Content("\n").join([Content.styled(heading, "bold underline"), *rows])


def _log_rows() -> list[Content]:
    found = [binding for binding in LogPane.BINDINGS if isinstance(binding, Binding)]
    return [_row(key_text(binding.key), binding.tooltip or binding.description) for binding in found]


def _action_row(action: Action, *, readonly: bool) -> Content:
    row = _row(key_text(action.keys), action.help)
    if not (readonly and action.changes):
        return row
    return Content.styled(f"{row.plain} (not while read-only)", "$foreground 60%")


def help_content(*, readonly: bool = False) -> Content:
    """The whole page."""
    sections = [
        _section(scope.value, [_action_row(action, readonly=readonly) for action in in_scope(scope)])
        for scope in Scope
    ]
    sections.insert(3, _section("Logs", _log_rows()))
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

    CSS_PATH: ClassVar = ["dialogs.tcss"]

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

    def key_question_mark(self) -> None:
        """The same key closes."""
        self.dismiss(None)
