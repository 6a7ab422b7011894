"""A config file changed since the person looked: the three sides, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Static

from rltui.core.api import Plan
from rltui.core.config_report import KeyConflict
from rltui.core.text import shortened
from rltui.ui.plan_view import changed_lines
from rltui.ui.screens.dialog import Dialog
from rltui.ui.text import clean_line, value_text

Choice = Literal["mine", "theirs"]

_FAINT = "$foreground 60%"
_MOST_CELLS = 22
"""For a value, so that three of them stand side by side on 80 columns."""


def _key_table(keys: Sequence[KeyConflict]) -> list[Content]:
    """Each key with what was seen, what is there now, and what is wanted."""
    lines = []
    for key in keys:
        lines.append(Content.styled(f"  {clean_line(key.key)}", "bold"))
        sides = (
            ("you saw", key.base, _FAINT),
            ("now", key.theirs, "$text-error"),
            ("yours", key.yours, "$text-success"),
        )
        spans = [
            (f"{word} {shortened(value_text(value), _MOST_CELLS)}", style) for word, value, style in sides
        ]
        lines.append(Content("    ") + Content("  ").join([Content.styled(*span) for span in spans]))
    return lines


_WITHOUT_CLASH = {
    "set": "yours fits onto the new file",
    "write": "your text takes the place of theirs",
}


def conflict_content(plan: Plan) -> Content:
    """The keys both sides changed, then what each side changed."""
    parts: list[Content] = []
    for conflict in plan.conflicts:
        name = clean_line(conflict.file.rpartition("/")[2])
        if conflict.keys:
            head = f"{name}: both sides changed"
            lines = [Content.styled(head, "bold $text-warning"), *_key_table(conflict.keys)]
        else:
            fits = f", {_WITHOUT_CLASH[plan.action]}" if plan.action in _WITHOUT_CLASH else ""
            lines = [Content.styled(f"{name}: no key is changed by both sides{fits}", "bold")]
        parts.append(Content("\n").join(lines))
        for word, diff in (("changed meanwhile", conflict.theirs), ("your change", conflict.yours)):
            if changed := [line for line in changed_lines(diff) if not line.plain.startswith("─")]:
                parts.append(Content("\n").join([Content.styled(word, _FAINT), *changed]))
    return Content("\n\n").join(parts)


class ConflictDialog(Dialog[Choice]):
    """`None`, the default: nothing is written, and nothing that was decided is forgotten."""

    def __init__(self, plan: Plan) -> None:
        """`plan`: with its conflicts. What undo and redo bring back cannot be forced onto a new file."""
        super().__init__()
        self.plan = plan
        self.add_class("-danger")

    def compose(self) -> ComposeResult:
        """Three sides and three buttons."""
        with Vertical(classes="box") as box:
            box.border_title = "The file was changed by somebody else"
            box.border_subtitle = "enter presses · ←→ other button · esc cancels"
            with VerticalScroll(classes="scroll", can_focus=False):
                yield Static(conflict_content(self.plan), classes="body")
            with Horizontal(classes="buttons"):
                yield Button("Cancel", id="no", compact=True)
                if self.plan.action in _WITHOUT_CLASH:
                    yield Button("Write mine", id="mine", compact=True, variant="error")
                    yield Button("Take theirs", id="theirs", compact=True)

    def on_mount(self) -> None:
        """Cancel is the default."""
        self.query_one("#no", Button).focus()

    @on(Button.Pressed)
    def _press(self, event: Button.Pressed) -> None:
        match event.button.id:
            case "mine" | "theirs" as choice:
                self.dismiss(choice)
            case _:
                self.dismiss(None)
