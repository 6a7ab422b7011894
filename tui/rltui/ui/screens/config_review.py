"""Edits before they are written: problems, figures, restart set and losses, and the diff of the files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Static

from rltui.core.api import Plan
from rltui.core.config_report import KnobTable
from rltui.ui.actions import bindings_of
from rltui.ui.plan_view import derived_lines, diff_lines, plan_steps, problem_lines
from rltui.ui.screens.dialog import Dialog
from rltui.ui.text import clean_line

Answer = Literal["write", "restart", "again"]
"""again: back into the editor, with the text as it is."""

_FAINT = "$foreground 60%"


@dataclass(frozen=True, slots=True)
class Question:
    """How a person is asked about edits."""

    heading: str
    reason: str = ""
    """Why it is asked at all, where nobody pressed a key for it."""
    may_edit_again: bool = False
    """The text came out of an editor, and can go back there."""
    prefers_restart: bool = False
    """*Yes* also restarts."""
    danger: bool = False
    """*No* is the default, as it is wherever there are warnings."""


def review_content(plan: Plan, table: KnobTable, reason: str = "") -> Content:
    """What to know before writing, most important first."""
    steps = plan_steps(plan)
    if plan.start:
        steps.insert(0, Content.styled("To make it count (ctrl+r):", _FAINT))
    derived = derived_lines(plan.derived, table.derived)
    why = [Content.styled(clean_line(reason), "$text-warning")] if reason else []
    parts = [why, problem_lines(plan.problems), diff_lines(plan.diff), derived, steps]
    return Content("\n\n").join([Content("\n").join(lines) for lines in parts if lines])


class ConfigReview(Dialog[Answer]):
    """`None`: leave the files as they are."""

    BINDINGS: ClassVar = bindings_of("review.restart")

    def __init__(self, plan: Plan, question: Question, table: KnobTable) -> None:
        """`table`: what the files say now."""
        super().__init__()
        self.plan = plan
        self.question = question
        self._table = table
        self._prefers_restart = question.prefers_restart and bool(plan.start)
        warns = any(problem.severity == "warning" for problem in plan.problems)
        self._default_no = question.danger or warns or plan.blocked
        self.set_class(self._default_no, "-danger")

    def compose(self) -> ComposeResult:
        """The plan, and what can be done with it."""
        with Vertical(classes="box") as box:
            box.border_title = clean_line(self.question.heading).replace("[", r"\[")
            with VerticalScroll(classes="scroll", can_focus=False):
                yield Static(review_content(self.plan, self._table, self.question.reason), classes="body")
            with Horizontal(classes="buttons"):
                if not self.plan.blocked:
                    yield Button("Write", id="write", compact=True, variant="primary")
                    if self.plan.start:
                        yield Button("Write + restart", id="restart", compact=True, variant="primary")
                if self.question.may_edit_again:
                    yield Button("Edit again", id="again", compact=True)
                yield Button("Cancel", id="no", compact=True)

    def on_mount(self) -> None:
        """Enter presses the default button."""
        default = "restart" if self._prefers_restart else "write"
        if self._default_no:
            default = "again" if self.plan.blocked and self.question.may_edit_again else "no"
        self.query_one(f"#{default}", Button).focus()
        keys = ["enter presses"]
        if not self.plan.blocked:
            keys.append("y writes + restarts" if self._prefers_restart else "y writes")
            if self.plan.start and not self._prefers_restart:
                keys.append("ctrl+r restarts too")
        keys += ["←→ other button", "esc cancels"]
        self.query_one(".box").border_subtitle = " · ".join(keys)

    @on(Button.Pressed)
    def _press(self, event: Button.Pressed) -> None:
        match event.button.id:
            case "write" | "restart" | "again" as answer:
                self.dismiss(answer)
            case _:
                self.dismiss(None)

    def action_yes(self) -> None:
        """What the heading asks, unless an error forbids it."""
        if not self.plan.blocked:
            self.dismiss("restart" if self._prefers_restart else "write")

    def action_restart(self) -> None:
        """Write, and restart what reads it."""
        if not self.plan.blocked and self.plan.start:
            self.dismiss("restart")
