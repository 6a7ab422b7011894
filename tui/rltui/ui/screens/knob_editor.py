"""Edits one knob: what it is, the field, and at once what a new value would do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from rltui.core.api import KnobInfo, Plan, Request
from rltui.errors import RltuiError
from rltui.ui.actions import Scope, bindings
from rltui.ui.knob_values import parse_value
from rltui.ui.plan_view import changed_lines, plan_steps, problem_lines
from rltui.ui.screens.dialog import Dialog
from rltui.ui.text import clean, clean_line, value_text
from rltui.ui.widgets.knob_rows import origin_text
from rltui.ui.widgets.value_editor import ChosenValue, TypedValue, ValueEdited, WriteRequested, value_editor

PLAN_DELAY_S = 0.15
"""Typing is quicker than planning."""

Planner = Callable[[Request], Awaitable[Plan]]


@dataclass(frozen=True, slots=True)
class Draft:
    """A text in the field, and what came of it."""

    text: str
    value: Any = None
    plan: Plan | None = None
    refusal: Content | None = None
    """Why it is no value at all, or could not be planned."""

    @property
    def acceptable(self) -> bool:
        """May be written."""
        return self.plan is not None and not self.plan.blocked


def facts_text(knob: KnobInfo) -> str:
    """File, running and default value, bounds, readers."""
    in_file = value_text(knob.value) if knob.is_set else "nothing"
    running = f"running {value_text(knob.running)}" if knob.is_running else "nothing runs"
    rest = origin_text(knob).removeprefix("not in the file").removeprefix(" · ")
    return f"{clean_line(knob.file.rpartition('/')[2])} says {in_file} · {running} · {rest}"


def draft_content(draft: Draft) -> Content:
    """What is wrong, what changes in the file, what restarting would mean."""
    if draft.refusal is not None:
        return draft.refusal
    if draft.plan is None:
        return Content.styled("checking…", "$foreground 60%")
    plan = draft.plan
    parts = [
        Content("\n").join(lines)
        for lines in (problem_lines(plan.problems), changed_lines(plan.diff))
        if lines
    ]
    if not parts:
        parts.append(Content.styled("No change.", "$foreground 60%"))
    if steps := plan_steps(plan):
        heading = Content.styled("To make it count (ctrl+r):", "$foreground 60%")
        parts.append(Content("\n").join([heading, *steps]))
    return Content("\n\n").join(parts)


class KnobEditor(Dialog[Request]):
    """The request to carry out: with `restart` for ctrl+r, without for enter. `None` when left."""

    CSS_PATH: ClassVar = ["dialog.tcss", "knob_editor.tcss"]
    BINDINGS = bindings(Scope.EDITOR)

    def __init__(self, knob: KnobInfo, plan: Planner) -> None:
        super().__init__()
        self.knob = knob
        self._plan = plan
        self._timer: Timer | None = None
        self._field = value_editor(knob)
        self.draft = Draft(self._field.value)

    def compose(self) -> ComposeResult:
        """Help, facts, field, consequences."""
        with Vertical(classes="box") as box:
            box.border_title = clean_line(self.knob.key).replace("[", r"\[")
            yield Static(clean(self.knob.help or "No description."), markup=False)
            yield Static(facts_text(self.knob), id="facts", markup=False)
            yield self._field
            with VerticalScroll(classes="scroll", can_focus=False):
                yield Static(id="draft", classes="body")

    def on_mount(self) -> None:
        """Say what the present value means."""
        self._field.focus()
        self._show(self.draft)
        self._start_check()

    @on(ValueEdited)
    def _edited(self, event: ValueEdited) -> None:
        event.stop()
        if event.text == self.draft.text:
            return
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(PLAN_DELAY_S, self._start_check, name="plan edit")
        self.draft = Draft(event.text)

    def _start_check(self) -> None:
        self.run_worker(self._check(self._field.value), group="plan", exclusive=True)

    async def _check(self, text: str) -> Draft:
        """Plan what `text` would mean, and show it."""
        try:
            value = parse_value(self.knob, text)
            plan = await self._plan(Request(action="set", edits={self.knob.key: value}, restart=True))
            draft = Draft(text, value, plan)
        except ValueError as error:
            draft = Draft(text, refusal=Content.styled(f"✗ {clean_line(str(error))}", "$text-error"))
        except RltuiError as error:
            draft = Draft(text, refusal=Content.styled(f"✗ {clean(str(error))}", "$text-error"))
        self._show(draft)
        return draft

    def _show(self, draft: Draft) -> None:
        self.draft = draft
        self.query_one("#draft", Static).update(draft_content(draft))
        self.set_class(draft.refusal is not None or bool(draft.plan and draft.plan.blocked), "-danger")
        self.query_one(".box").border_subtitle = self._keys(draft)

    def _keys(self, draft: Draft) -> str:
        steps = "↑↓ choose" if isinstance(self._field, ChosenValue) else "↑↓ step · * / ×2 ÷2"
        if not isinstance(self._field, ChosenValue) and self.knob.kind == "str":
            steps = ""
        parts = [steps] if steps else []
        if draft.acceptable:
            parts.append("enter writes")
            if draft.plan and draft.plan.start:
                parts.append("ctrl+r restarts too")
        return " · ".join([*parts, "esc cancels"])

    @on(WriteRequested)
    def _write_typed(self, event: WriteRequested) -> None:
        event.stop()
        self._start_confirm(event.text, restart=event.restart)

    def action_write(self) -> None:
        """Write the file; what runs keeps running with the old value."""
        self._start_confirm(self._field.value, restart=False)

    def action_write_and_restart(self) -> None:
        """Write the file and restart what reads it."""
        self._start_confirm(self._field.value, restart=True)

    def _start_confirm(self, text: str, *, restart: bool) -> None:
        """In a group of its own: a late check must not cancel it."""
        self.run_worker(self._confirm(text, restart=restart), group="confirm", exclusive=True)

    async def _confirm(self, text: str, *, restart: bool) -> None:
        draft = self.draft
        if draft.text != text or (draft.plan is None and draft.refusal is None):
            draft = await self._check(text)
        if not draft.acceptable or draft.plan is None:
            self.app.bell()
        elif not draft.plan.diff and not (restart and draft.plan.start):
            self.dismiss(None)
        else:
            edits = {self.knob.key: draft.value}
            self.dismiss(Request(action="set", edits=edits, restart=restart))

    def action_step(self, steps: int) -> None:
        """Up or down."""
        self._field.step(steps)

    def action_scale(self, factor: float) -> None:
        """Twice or half."""
        self._field.scale(factor)

    def action_cancel(self) -> None:
        """Leave the file as it is."""
        self.dismiss(None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Letters are text here; choices have no double."""
        del parameters
        if action in ("no", "yes", "other"):
            return False
        if action == "scale":
            return isinstance(self._field, TypedValue) and self._field.is_number
        return True
