"""Dialogs about edits of the config: the review, a conflict, and the batch counted the other way."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.validation import Number
from textual.widgets import Input, Static

from rltui.base.text import parse_number, truncate
from rltui.core.config.report import BatchUnit, Conversion, KeyConflict, KnobTable
from rltui.core.experiment.api import Plan
from rltui.errors import RltuiError
from rltui.ui.actions import KeyContext, Scope
from rltui.ui.background import in_background
from rltui.ui.dialogs.base import ButtonDialog, DialogBase, KeyHint, button
from rltui.ui.key_bindings import keys, own
from rltui.ui.messages import waiting
from rltui.ui.paragraphs import blocks
from rltui.ui.plan_view import changed_lines, derived_lines, diff_lines, effect_lines, problem_lines
from rltui.ui.styles import FAINT
from rltui.ui.text import clean, clean_line, file_name, value_text

Answer = Literal["write", "restart", "again"]
"""again: back into the editor, with the text as it is."""


@dataclass(frozen=True, slots=True)
class ReviewPrompt:
    heading: str
    reason: str = ""
    """Set where nobody pressed a key for the question."""
    may_edit_again: bool = False
    """The text came out of an editor, and can go back there."""
    prefers_restart: bool = False
    """The answer *yes* also restarts."""
    danger: bool = False
    """*No* is the default, as it is wherever there are warnings."""


def _review_content(plan: Plan, table: KnobTable, reason: str = "") -> Content:
    """The most important facts stand first."""
    return blocks(
        [Content.styled(clean_line(reason), "$text-warning")] if reason else [],
        problem_lines(plan.problems),
        diff_lines(plan.diff),
        derived_lines(plan.derived, table.derived),
        effect_lines(plan),
    )


class ConfigReview(ButtonDialog[Answer]):
    """`None`: leave the files as they are."""

    BINDINGS: ClassVar = keys(
        KeyContext.REVIEW,
        own("review.restart", "ctrl+r", "restart", "write + restart",
            "Write, then restart the readers of the change", Scope.DIALOG),
    )  # fmt: skip

    def __init__(self, plan: Plan, question: ReviewPrompt, table: KnobTable) -> None:
        """`table`: what the files say now."""
        restarts = question.prefers_restart and bool(plan.start)
        warns = any(problem.severity == "warning" for problem in plan.problems)
        default = "restart" if restarts else "write"
        asks_twice = question.danger or warns or plan.blocked
        if asks_twice:
            default = "again" if plan.blocked and question.may_edit_again else "no"
        answers: dict[str, Answer] = {"again": "again"}
        buttons = []
        if not plan.blocked:
            answers |= {"write": "write", "yes": "restart" if restarts else "write"}
            buttons.append(button("Write", "write", "primary"))
            if plan.start:
                answers["restart"] = "restart"
                buttons.append(button("Write + restart", "restart", "primary"))
        if question.may_edit_again:
            buttons.append(button("Edit again", "again"))
        super().__init__(
            question.heading,
            _review_content(plan, table, question.reason),
            [*buttons, button("Cancel", "no")],
            answers,
            yes="Write + restart" if restarts else "Write",
            default=default,
            is_danger=asks_twice,
        )

    def footer_hints(self) -> Sequence[KeyHint]:
        """Adds the key that writes and restarts, where y does not."""
        hints = [*super().footer_hints()]
        if self.answers.get("restart") not in (None, self.answers.get("yes")):
            hints.insert(2, ("review.restart", ""))
        return hints

    def action_restart(self) -> None:
        if "restart" in self.answers:
            self.dismiss("restart")


_Choice = Literal["mine", "theirs"]

_MOST_CELLS = 22
"""Three values of this width stand side by side on 80 columns."""


def _key_table(keys: Sequence[KeyConflict]) -> list[Content]:
    lines = []
    for key in keys:
        lines.append(Content.styled(f"  {clean_line(key.key)}", "bold"))
        sides = (
            ("you saw", key.base, FAINT),
            ("now", key.theirs, "$text-error"),
            ("yours", key.yours, "$text-success"),
        )
        spans = [
            (f"{label} {truncate(value_text(value), _MOST_CELLS)}", style) for label, value, style in sides
        ]
        lines.append(Content("    ") + Content("  ").join([Content.styled(*span) for span in spans]))
    return lines


_WITHOUT_CLASH = {"set": "your edit still applies", "write": "your text replaces theirs"}


def _conflict_content(plan: Plan) -> Content:
    blocks: list[Content] = []
    for conflict in plan.conflicts:
        name = file_name(conflict.file)
        if conflict.keys:
            head = f"{name}: changed on both sides"
            lines = [Content.styled(head, "bold $text-warning"), *_key_table(conflict.keys)]
        else:
            fits = f"; {_WITHOUT_CLASH[plan.action]}" if plan.action in _WITHOUT_CLASH else ""
            lines = [Content.styled(f"{name}: no key changed on both sides{fits}", "bold")]
        blocks.append(Content("\n").join(lines))
        for label, diff in (("their change", conflict.theirs), ("your change", conflict.yours)):
            if changes := [line for line in changed_lines(diff) if not line.plain.startswith("─")]:
                blocks.append(Content("\n").join([Content.styled(label, FAINT), *changes]))
    return Content("\n\n").join(blocks)


class ConflictDialog(ButtonDialog[_Choice]):
    """`None`, the default: nothing is written, and nothing that was decided is forgotten."""

    def __init__(self, plan: Plan) -> None:
        """`plan`: with its conflicts. What undo and redo bring back cannot be forced onto a new file."""
        buttons = [button("Cancel", "no")]
        if plan.action in _WITHOUT_CLASH:
            buttons += [button("Write mine", "mine", "error"), button("Take theirs", "theirs")]
        super().__init__(
            "The file has changed on disk",
            _conflict_content(plan),
            buttons,
            {"mine": "mine", "theirs": "theirs"},
            is_danger=True,
        )


Converter = Callable[[float | None], Awaitable[Conversion]]
"""It takes the mean tokens of a rollout; `None`: the measured mean."""


def _conversion_content(conversion: Conversion) -> Content:
    source = conversion.measured or (
        "mean as typed" if conversion.mean_tokens is not None else "nothing measured yet: type the mean"
    )
    blocks = [Content.styled(clean_line(source), FAINT)]
    if conversion.arithmetic:
        blocks.append(Content("\n").join([Content(clean_line(line)) for line in conversion.arithmetic]))
    if conversion.edits:
        blocks.append(
            Content("\n").join(
                Content.assemble(
                    (f"{clean_line(key)} ", ""),
                    ("removed" if value is None else f"= {value_text(value)}", "bold"),
                )
                for key, value in conversion.edits.items()
            )
        )
    return Content("\n\n").join(blocks)


_NUMBER_PREFIX = r"[-+]?[\d_]*(?:\.[\d_]*)?(?:(?<=\d)[eE][-+]?[\d_]*)?"
"""Matches every beginning of a number. Textual's own pattern of `type="number"` takes twice as long for each
further digit in front of a letter: a paste of thirty would never end.
"""


class ConverterDialog(DialogBase[Conversion]):
    """The conversion to review, with its edits. `None` when left."""

    BINDINGS = keys(
        KeyContext.CONVERTER,
        own("converter.cancel", "escape", "cancel", "cancel", "", Scope.DIALOG),
    )  # fmt: skip

    def __init__(self, to: BatchUnit, convert: Converter) -> None:
        super().__init__()
        self._to = to
        self.conversion: Conversion | None = None
        """The newest; the first one is from what was measured."""
        self._can_write = False
        self._convert = convert
        self._field = Input(
            placeholder="mean tokens per rollout", restrict=_NUMBER_PREFIX, validators=[Number()], id="mean"
        )
        self._field.cursor_blink = False
        self._measured_text = ""

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = f"Count the batch in {self._to}"
            yield Static("Mean tokens per accepted rollout:", markup=False)
            yield self._field
            with VerticalScroll(classes="scroll", can_focus=False):
                yield Static(id="arithmetic", classes="body")

    def footer_hints(self) -> Sequence[KeyHint]:
        cancel = ("converter.cancel", "")
        return (("enter", "review"), cancel) if self._can_write else (cancel,)

    def on_mount(self) -> None:
        self._field.focus()
        in_background(self, self._measure, group="convert")

    async def _measure(self) -> None:
        """Fill in the mean that was measured, unless a person types one meanwhile."""
        if await self._count(None) and self.conversion is not None and not self._field.value:
            self._measured_text = f"{self.conversion.mean_tokens:.6g}"
            self._field.value = self._measured_text

    def _show(self, refusal: str = "") -> None:
        if refusal:
            content = Content.styled(f"✗ {refusal}", "$text-error")
        else:
            content = Content() if self.conversion is None else _conversion_content(self.conversion)
        self.query_one("#arithmetic", Static).update(content)
        self._can_write = self.conversion is not None and bool(self.conversion.edits) and not refusal
        self.tell_keys()

    @on(Input.Changed, "#mean")
    def _take_input(self, event: Input.Changed) -> None:
        event.stop()
        in_background(self, partial(self._reckon, event.value), group="convert")

    async def _reckon(self, text: str) -> bool:
        """Returns whether there is something to write."""
        mean = None if text == self._measured_text else parse_number(text)
        if mean is not None and not 0 < mean < math.inf:
            self._show(f"not a number > 0: {text}" if text else "type the mean tokens per rollout")
            return False
        return await self._count(mean)

    async def _count(self, mean: float | None) -> bool:
        try:
            async with waiting(self.app, "Counting the batch"):
                self.conversion = await self._convert(mean)
        except RltuiError as error:
            self._show(clean(str(error)))
            return False
        self._show()
        return self._can_write

    @on(Input.Submitted, "#mean")
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        in_background(self, partial(self._take, event.value), group="take")

    async def _take(self, text: str) -> None:
        if await self._reckon(text):
            self.dismiss(self.conversion)
        else:
            self.app.bell()
