"""What the files say beside what runs."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Static

from rltui.core.api import Plan
from rltui.core.config_report import KnobInfo, PendingKnob
from rltui.ui.plan_view import pending_lines, plan_steps
from rltui.ui.screens.dialog import Dialog


def pending_content(knobs: Sequence[KnobInfo], plan: Plan) -> Content:
    """A line per knob whose value does not run yet, and what a restart of its readers means."""
    pending = [
        PendingKnob(key=knob.key, running=knob.running, value=knob.value, readers=knob.readers)
        for knob in knobs
        if knob.changed
    ]
    parts = [
        [Content.styled("running → file, and who reads it:", "$foreground 60%"), *pending_lines(pending)],
        [Content.styled("To make it count (A):", "$foreground 60%"), *plan_steps(plan)],
    ]
    return Content("\n\n").join([Content("\n").join(lines) for lines in parts])


class PendingDialog(Dialog[None]):
    """Changes nothing."""

    def __init__(self, knobs: Sequence[KnobInfo], plan: Plan) -> None:
        """`plan`: to restart the readers."""
        super().__init__()
        self._content = pending_content(knobs, plan)

    def compose(self) -> ComposeResult:
        """The lines and one button."""
        with Vertical(classes="box") as box:
            box.border_title = "File and running differ"
            box.border_subtitle = "esc closes"
            with VerticalScroll(classes="scroll", can_focus=False):
                yield Static(self._content, classes="body")
            with Horizontal(classes="buttons"):
                yield Button("Close", id="no", compact=True)

    @on(Button.Pressed)
    def _close(self) -> None:
        self.dismiss(None)
