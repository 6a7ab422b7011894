"""What came out of the editor cannot be read: the place, and the way back."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Static

from rltui.errors import RltuiError
from rltui.ui.screens.dialog import Dialog
from rltui.ui.text import clean, clean_line


class EditAgain(Dialog[bool]):
    """True: back into the editor, the default. Else the text is kept for later."""

    def __init__(self, error: RltuiError) -> None:
        super().__init__()
        self.error = error
        self.add_class("-danger")

    def compose(self) -> ComposeResult:
        """The place and two buttons."""
        parts = [
            Content.styled(f"✗ {clean_line(self.error.title)}", "bold"),
            *(Content(clean(line)) for line in self.error.details),
        ]
        if self.error.hint:
            parts.append(Content.assemble(("\n→ ", "$text-accent"), clean(self.error.hint)))
        with Vertical(classes="box") as box:
            box.border_title = "Nothing was written"
            box.border_subtitle = "enter presses · esc keeps the text for later"
            with VerticalScroll(classes="scroll", can_focus=False):
                yield Static(Content("\n").join(parts), classes="body")
            with Horizontal(classes="buttons"):
                yield Button("Edit again", id="yes", compact=True, variant="primary")
                yield Button("Later", id="no", compact=True)

    @on(Button.Pressed)
    def _press(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def action_yes(self) -> None:
        """Back into the editor."""
        self.dismiss(True)
