"""Shows a plan and asks."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Button, Static

from rltui.core.api import Plan
from rltui.ui.plan_view import plan_content
from rltui.ui.screens.dialog import Dialog
from rltui.ui.text import clean_line

_VERBS = {"start": "Start", "stop": "Stop", "restart": "Restart", "free": "End"}
_WRITE = "Write"


class PlanDialog(Dialog[bool]):
    """True when confirmed. A blocked plan cannot be.

    One that is dangerous, or will run out of memory, has *no* as its default.
    """

    def __init__(self, plan: Plan, heading: str, *, verb: str = "", danger: bool = False) -> None:
        super().__init__()
        self.plan = plan
        self.heading = clean_line(heading)
        self.verb = verb or _VERBS.get(plan.action, _WRITE)
        will_not_fit = any(verdict.is_bad for verdict in plan.memory)
        self.danger = danger or will_not_fit or plan.lost.steps > 0
        self.default_no = danger or will_not_fit
        self.set_class(self.danger or plan.blocked, "-danger")

    def compose(self) -> ComposeResult:
        """Plan and buttons."""
        with Vertical(classes="box") as box:
            box.border_title = self.heading.replace("[", r"\[")
            with VerticalScroll(classes="scroll", can_focus=False):
                yield Static(plan_content(self.plan), classes="body")
            with Horizontal(classes="buttons"):
                if not self.plan.blocked:
                    yield Button(
                        self.verb, id="yes", compact=True, variant="error" if self.danger else "primary"
                    )
                yield Button("Close" if self.plan.blocked else "Cancel", id="no", compact=True)

    def on_mount(self) -> None:
        """Enter presses the default button."""
        self.query_one("#no" if self.default_no or self.plan.blocked else "#yes", Button).focus()
        keys = "esc cancels" if self.plan.blocked else "enter presses · y yes · n no · esc cancels"
        self.query_one(".box").border_subtitle = keys

    @on(Button.Pressed, "#yes")
    def _confirm(self) -> None:
        self.dismiss(True)

    @on(Button.Pressed, "#no")
    def _cancel(self) -> None:
        self.dismiss(False)

    def action_yes(self) -> None:
        """Confirm, unless an error forbids it."""
        if not self.plan.blocked:
            self.dismiss(True)
