"""Dialogs: a box in the middle that says or asks something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, OptionList, Static
from textual.widgets.option_list import Option

from rltui.core.api import Alert, Plan
from rltui.core.config_report import KnobInfo, PendingKnob, Problem
from rltui.errors import RltuiError
from rltui.ui.actions import Scope, bindings
from rltui.ui.alerts import alert_mark
from rltui.ui.plan_view import pending_lines, plan_content, plan_steps
from rltui.ui.text import age, clean, clean_line

Answer = TypeVar("Answer")


class AnsweredOnce(ModalScreen[Answer], Generic[Answer]):
    """Is left once, while it is on top. A second key in haste would else leave what is below."""

    def dismiss(self, result: Answer | None = None) -> AwaitComplete:
        """Leave, unless that has happened or another screen lies on top."""
        return super().dismiss(result) if self.is_active else AwaitComplete()


class Dialog(AnsweredOnce[Answer], Generic[Answer]):
    """A box in the middle. `esc` leaves it without an answer."""

    CSS_PATH: ClassVar = ["dialogs.tcss"]
    BINDINGS = bindings(Scope.DIALOG)
    VERTICAL_BREAKPOINTS = [(0, "-short"), (36, "-tall")]  # noqa: RUF012 - as Textual declares it

    def __init__(self) -> None:
        super().__init__(classes="dialog")

    def action_no(self) -> None:
        """Leave things as they are."""
        self.dismiss(None)

    def action_yes(self) -> None:
        """A dialog that asks nothing has no yes."""

    def action_scroll_lines(self, lines: int) -> None:
        """A long plan."""
        for body in self.query(".scroll"):
            body.scroll_relative(y=lines, animate=False)

    def action_other(self) -> None:
        """To the other button."""
        self.focus_next("Button")


class Choices(OptionList):
    """Takes page keys once it is laid out, and not before, when Textual has no lines to go to."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether the list can answer yet."""
        if action in ("page_up", "page_down") and not self.scrollable_content_region:
            return False
        return super().check_action(action, parameters)


class ChoiceMenu(Dialog[str]):
    """The id of the choice, `None` for none."""

    def __init__(self, heading: str, choices: dict[str, tuple[str, str]]) -> None:
        """`choices`: id to what is done and what that means."""
        super().__init__()
        self.heading = heading
        self.choices = choices

    def compose(self) -> ComposeResult:
        """The list."""
        with Vertical(classes="box") as box:
            box.border_title = self.heading.replace("[", r"\[")
            box.border_subtitle = "enter chooses · esc cancels"
            yield Choices(
                *(
                    Option(
                        Content.assemble((f"{label}\n", "bold"), (f"  {meaning}", "$foreground 60%")),
                        id=choice,
                    )
                    for choice, (label, meaning) in self.choices.items()
                ),
                compact=True,
            )

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)


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


class LeaveDialog(PlanDialog):
    """True to leave all the same; *no* is the default."""

    def __init__(self, unwritten: tuple[str, ...]) -> None:
        """`unwritten`: what would be lost, a line each."""
        lost = tuple(Problem(severity="warning", message=f"not written: {line}") for line in unwritten)
        super().__init__(Plan(action="set", problems=lost), "Leave?", verb="Leave", danger=True)


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
