"""Edits one knob: what it is, the field, and at once what a new value would do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from rltui.core.config.report import KnobInfo, KnobTable
from rltui.core.experiment.api import Plan, Request
from rltui.core.experiment.consent import is_warned, with_consent
from rltui.errors import RltuiError
from rltui.ui.actions import KeyContext, Scope
from rltui.ui.background import in_background
from rltui.ui.dialogs.base import DialogBase, KeyHint, PlanDialog, keys_line
from rltui.ui.key_bindings import keys, own
from rltui.ui.knob_values import typed_value
from rltui.ui.messages import waiting
from rltui.ui.paragraphs import blocks
from rltui.ui.plan_view import changed_lines, effect_lines, figures, placed_text, problem_lines
from rltui.ui.state import StagedEdits, edit_request
from rltui.ui.styles import FAINT
from rltui.ui.text import clean, clean_line, file_name, value_text
from rltui.ui.widgets.value_fields import (
    FractionBar,
    FractionValue,
    How,
    ValueEdited,
    ValueSubmitted,
    value_editor,
)
from rltui.views.knob import origin_text

PLAN_DELAY_S = 0.15
"""Typing is quicker than planning."""
LAST_WORD_S = 2.0
"""A value is not written before the framework's own models have spoken, unless they take longer."""


Planner = Callable[[Request], Awaitable[Plan]]


@dataclass(frozen=True, slots=True)
class EditCheck:
    text: str
    value: Any = None
    plan: Plan | None = None
    refusal: Content | None = None
    """The reason why the text is no value, or could not be planned."""

    @property
    def acceptable(self) -> bool:
        return self.plan is not None and not self.plan.blocked


@dataclass(frozen=True, slots=True)
class EditDecision:
    request: Request
    """Holds all edits: what was collected before, and this one."""
    how: How


def _facts_text(knob: KnobInfo) -> str:
    in_file = value_text(knob.value) if knob.is_set else "not set"
    running = f"running {value_text(knob.running)}" if knob.is_running else "not running"
    rest = clean_line(origin_text(knob)).removeprefix("not in the file").removeprefix(" · ")
    return " · ".join(fact for fact in (f"{file_name(knob.file)}: {in_file}", running, rest) if fact)


def _draft_content(draft: EditCheck, table: KnobTable) -> Content:
    if draft.refusal is not None:
        return draft.refusal
    if draft.plan is None:
        return Content.styled("checking…", FAINT)
    plan = draft.plan
    changes = changed_lines(plan.diff)
    if location := placed_text(plan.diff):
        changes.append(Content.styled(location, FAINT))
    problems = problem_lines(plan.problems)
    if plan.asks_more:
        problems.append(Content.styled("validating with the framework…", FAINT))
    conflict = [Content.styled("⚠ The file has changed on disk.", "$text-warning")] if plan.conflicts else []
    changes = changes or [Content.styled("No change.", FAINT)]
    derived = figures(plan.derived, table.derived)
    return blocks(conflict, problems, derived, changes, effect_lines(plan))


class KnobEditor(DialogBase[EditDecision]):
    """The answer: write, write and restart, or collect; `None` when it is cancelled."""

    CSS_PATH: ClassVar = ["dialogs.tcss", "knob_editor.tcss"]
    BINDINGS = keys(
        KeyContext.EDITOR,
        own("editor.cancel", "escape", "cancel", "cancel", "Leave the file unchanged", Scope.EDITOR),
    )  # fmt: skip

    def __init__(
        self,
        knob: KnobInfo,
        plan: Planner,
        *,
        table: KnobTable | None = None,
        staged: StagedEdits | None = None,
    ) -> None:
        """`table`: what is known of the files. `staged`: edits collected so far, written with this one."""
        super().__init__()
        self._table = table or KnobTable()
        self._staged = (staged or StagedEdits()).dropping(knob.key)
        if staged and knob.key in staged.edits:
            value = staged.edits[knob.key]
            knob = knob.replace(value=value, is_set=value is not None)
        self.knob = knob
        self._plan = plan
        self._first_plan: Plan | None = None
        """The first plan: it tells which content of the files the person looks at."""
        self._timer: Timer | None = None
        self._field = value_editor(knob)
        self._bar = FractionBar() if isinstance(self._field, FractionValue) else None
        self.draft = EditCheck(self._field.value)

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = clean_line(self.knob.key).replace("[", r"\[")
            yield Static(clean(self.knob.help or "No description."), markup=False)
            yield Static(_facts_text(self.knob), id="facts", markup=False)
            yield self._field
            if self._bar is not None:
                yield self._bar
            keys = [self._field.keys, keys_line([("editor.unset", "")])]
            yield Static(" · ".join(filter(None, keys)), id="field-keys", markup=False)
            with VerticalScroll(classes="scroll", can_focus=False):
                yield Static(id="draft", classes="body")

    def on_mount(self) -> None:
        self._field.focus()
        self._show(self.draft)
        self._show_fraction(self._field.value)
        self._start_check()

    @on(ValueEdited)
    def _take_edit(self, event: ValueEdited) -> None:
        event.stop()
        if event.text == self.draft.text:
            return
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(PLAN_DELAY_S, self._start_check, name="plan edit")
        self.draft = EditCheck(event.text)
        self._show_fraction(event.text)

    def _show_fraction(self, text: str) -> None:
        """The bar follows at once, the metrics with the plan."""
        if self._bar is None:
            return
        try:
            value = typed_value(self.knob, text)
        except RltuiError:
            value = None
        fraction = self.knob.default if value is None and not text else value
        self._bar.fraction = float(fraction) if isinstance(fraction, int | float) else None

    def _start_check(self) -> None:
        in_background(self, partial(self._check, self._field.value), group="plan")

    async def _check(self, text: str, *, timeout_s: float | None = None) -> EditCheck:
        """Plan what `text` would mean, and show it: at once, and again when the framework has had its say,
        which is waited for so long.
        """
        try:
            value = typed_value(self.knob, text)
            request = edit_request(self._staged, self.knob.key, value, self._first_plan)
            request = request.replace(restart=True)
            async with waiting(self.app, "Checking the edit"):
                plan = await self._plan(request)
            self._first_plan = self._first_plan or plan
            if plan.asks_more:
                self._show(EditCheck(text, value, plan))
                thorough = self._plan(request.replace(thorough=True))
                async with waiting(self.app, "Validating with the framework"):
                    with suppress(TimeoutError):
                        plan = await asyncio.wait_for(thorough, timeout_s)
            draft = EditCheck(text, value, plan)
        except RltuiError as error:
            draft = EditCheck(text, refusal=Content.styled(f"✗ {clean(str(error))}", "$text-error"))
        self._show(draft)
        return draft

    def _show(self, draft: EditCheck) -> None:
        self.draft = draft
        self.query_one("#draft", Static).update(_draft_content(draft, self._table))
        self.set_class(draft.refusal is not None or bool(draft.plan and draft.plan.blocked), "-danger")
        self.tell_keys()
        if self._bar is not None and draft.plan is not None:
            self._bar.verdict = next(iter(draft.plan.memory), None)

    def footer_hints(self) -> Sequence[KeyHint]:
        hints: list[KeyHint] = []
        if self.draft.acceptable:
            hints.append(("editor.write", f"write all {len(self._staged) + 1}" if self._staged else ""))
            if self.draft.plan and self.draft.plan.start:
                hints.append(("editor.write-restart", ""))
        if self.draft.plan is not None:
            hints.append(("editor.collect", ""))
        return [*hints, ("editor.cancel", "")]

    @on(ValueSubmitted)
    def _take_answer(self, event: ValueSubmitted) -> None:
        event.stop()
        # In a group of its own: a late check must not cancel it.
        in_background(self, partial(self._confirm, event.text, event.how), group="confirm")

    async def _confirm(self, text: str, mode: How) -> None:
        draft = self.draft
        is_known = draft.refusal is not None or (draft.plan is not None and not draft.plan.asks_more)
        if draft.text != text or not is_known:
            draft = await self._check(text, timeout_s=LAST_WORD_S)
        plan = draft.plan
        if plan is None or not (draft.acceptable or mode == "collect"):
            self.app.bell()
        elif not (plan.diff or plan.blocked or plan.conflicts or (mode == "restart" and plan.start)):
            self._leave(None)
        elif mode == "collect" or await self._is_meant(plan):
            request = edit_request(self._staged, self.knob.key, draft.value, self._first_plan)
            request = request.replace(restart=mode == "restart")
            self._leave(EditDecision(with_consent(request, plan), mode))

    async def _is_meant(self, plan: Plan) -> bool:
        """Ask where the edit brings warnings that were not there before."""
        if not is_warned(plan):
            return True
        new = (problem for problem in plan.problems if not problem.standing)
        warnings = tuple(problem for problem in new if problem.severity == "warning")
        question = Plan(action="set", problems=warnings, diff=plan.diff)
        dialog = PlanDialog(question, "Write anyway?", danger=True)
        answer = await self.app.push_screen_wait(dialog)
        return answer is True

    def action_cancel(self) -> None:
        self.workers.cancel_group(self, "confirm")
        self._leave(None)

    def _leave(self, decision: EditDecision | None) -> None:
        """Ends the checks first: they would report to a screen that is gone."""
        if self._timer is not None:
            self._timer.stop()
        self.workers.cancel_group(self, "plan")
        self.dismiss(decision)
