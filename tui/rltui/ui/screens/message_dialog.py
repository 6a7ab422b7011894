"""Says something that must not be missed."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Static

from rltui.core.api import Alert
from rltui.errors import RltuiError
from rltui.ui.alerts import alert_mark
from rltui.ui.screens.dialog import Dialog
from rltui.ui.text import age, clean, clean_line

_JUST_NOW_S = 5


class MessageDialog(Dialog[None]):
    """A heading, lines of evidence, and what to do."""

    def __init__(
        self,
        title: str,
        lines: tuple[str, ...],
        hint: str = "",
        *,
        note: str = "",
        style: str = "",
        is_error: bool = False,
    ) -> None:
        """`note` is what matters least, `style` colours the title."""
        super().__init__()
        self.heading = clean_line(title)
        self.heading_style = f"bold {style}".strip()
        self.lines = lines
        self.hint = hint
        self.note = clean_line(note)
        self.set_class(is_error, "-danger")

    @classmethod
    def for_error(cls, error: RltuiError) -> MessageDialog:
        """What happened, the evidence, what to do about it."""
        return cls(f"✗ {error.title}", error.details, error.hint, is_error=True)

    @classmethod
    def for_alert(cls, alert: Alert, age_s: float) -> MessageDialog:
        """An alert, to read again, and how long ago it came."""
        mark, style = alert_mark(alert)
        when = f"{age(age_s)} ago" if age_s >= _JUST_NOW_S else "just now"
        return cls(
            f"{mark} {alert.title}",
            (alert.text,),
            note=f"{alert.component} · {when}" if alert.component else when,
            style=style,
            is_error=alert.severity == "error",
        )

    def compose(self) -> ComposeResult:
        """The words and one button."""
        parts = [
            Content.styled(self.heading, self.heading_style),
            *(Content(clean(line)) for line in self.lines),
        ]
        if self.hint:
            parts.append(Content.assemble(("\n→ ", "$text-accent"), clean(self.hint)))
        if self.note:
            parts.append(Content.styled(f"\n{self.note}", "$foreground 60%"))
        with Vertical(classes="box"):
            with VerticalScroll(classes="scroll", can_focus=False):
                yield Static(Content("\n").join(parts), classes="body")
            with Horizontal(classes="buttons"):
                yield Button("Close", id="no", compact=True)

    @on(Button.Pressed)
    def _close(self) -> None:
        self.dismiss(None)
