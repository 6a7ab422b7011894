"""A dialog with the fields of `rltui eval run` puts an evaluation into the queue."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import ClassVar

from textual import on
from textual.content import Content
from textual.widgets import Input, Static

from rltui.base.text import parse_whole_number
from rltui.core.runs.evals import EvalReport, EvalRequest, EvalTarget, TargetKind
from rltui.errors import RltuiError, UsageError
from rltui.ui.actions import KeyContext
from rltui.ui.background import in_background
from rltui.ui.dialogs.base import FIELDS_KEYS, Field, FieldsDialog, KeyHint
from rltui.ui.key_bindings import keys
from rltui.ui.messages import waiting
from rltui.ui.styles import FAINT
from rltui.ui.text import clean, clean_line
from rltui.views.evaluation import order_text

_WORDS: Mapping[str, TargetKind] = {"now": "now", "base": "base", "sft": "sft"}
_FIELDS = {
    "target": ("target", "now, base, sft, a checkpoint's step, a folder or a model's name"),
    "env": ("environment", "empty: as in training"),
    "examples": ("examples", ""),
    "rollouts": ("per example", ""),
    "tokens": ("max tokens", "per answer; empty: as in the config"),
    "arguments": ("arguments", "passed to the evaluator as they are"),
    "every": ("every", "N checkpoints from now on; empty: once"),
    "when": ("when", "done: after the run; empty: as soon as possible"),
}
"""Labels and placeholders of the fields, by id."""
_MEANINGS = {
    "now": "the newest weights, on the run's own server",
    "base": "the model that the run starts from, on a separate server",
    "sft": "the SFT model of this experiment, on a separate server",
}

ListTargets = Callable[[], Awaitable[Sequence[str]]]
Ask = Callable[[EvalRequest, int | None], Awaitable[str]]
"""Has it done, and returns what to say of it; a number: of every so many checkpoints, from now on."""


def targets(steps: Iterable[int], report: EvalReport | None, *, has_sft: bool) -> tuple[str, ...]:
    """Targets that are known, in the form that a person types."""
    models = (
        ()
        if report is None
        else (evaluation.model for evaluation in report.evaluations if evaluation.kind == "model")
    )
    names = ("now", "base", *(("sft",) if has_sft else ()), *map(str, sorted(steps, reverse=True)), *models)
    return tuple(dict.fromkeys(filter(None, names)))


def target_of(text: str) -> EvalTarget:
    name = text.strip().removeprefix("checkpoint ").strip()
    if (step := parse_whole_number(name)) is not None:
        return EvalTarget(kind="checkpoint", step=step)
    if (kind := _WORDS.get(name)) is not None:
        return EvalTarget(kind=kind)
    return EvalTarget(kind="model", model=name) if name else EvalTarget()


def _number(name: str, text: str, *, least: int = 1) -> int:
    if (number := parse_whole_number(text)) is None or number < least:
        raise UsageError(f"{name}: not a whole number ≥ {least}: {text}")
    return number


def eval_request(entries: Mapping[str, str]) -> tuple[EvalRequest, int | None]:
    """Parse the fields of the dialog; the number is the interval of a standing order, if it is one.

    Raises:
        UsageError: where a field cannot be understood.
    """
    try:
        arguments = tuple(shlex.split(entries["arguments"]))
    except ValueError as error:
        raise UsageError(f"arguments: {error}") from None
    if entries["when"] not in ("", "done"):
        raise UsageError(f"when: neither 'done' nor empty: {entries['when']}")
    every = None if not entries["every"] else _number("every", entries["every"], least=0)
    request = EvalRequest(
        target=target_of(entries["target"]),
        env=entries["env"],
        num_examples=_number("examples", entries["examples"]),
        rollouts_per_example=_number("per example", entries["rollouts"]),
        max_tokens=None if not entries["tokens"] else _number("max tokens", entries["tokens"]),
        arguments=arguments,
        when_done=entries["when"] == "done",
    )
    return request, every


class EvalDialog(FieldsDialog):
    BINDINGS: ClassVar = keys(KeyContext.EVALUATE, *FIELDS_KEYS)

    def __init__(self, list_targets: ListTargets, ask: Ask, *, target: str = "now") -> None:
        """`list_targets`: those that up and down go through, as `targets`."""
        plain = EvalRequest()
        values = {
            "target": target,
            "examples": str(plain.num_examples),
            "rollouts": str(plain.rollouts_per_example),
        }
        fields = {name: Field(*texts, values.get(name, "")) for name, texts in _FIELDS.items()}
        self._summary_text = Static(id="eval-words", classes="body")
        super().__init__("Evaluate", fields, self._summary_text, "target")
        self._list_targets = list_targets
        self._ask = ask
        self._refusal = ""

    def footer_hints(self) -> Sequence[KeyHint]:
        choices = ("evaluate.previous evaluate.next", "choices")
        return ("enter", "evaluate"), choices, ("tab", "next field"), ("evaluate.cancel", "")

    def on_mount(self) -> None:
        self.fields["target"].focus()
        self._show()
        in_background(self, self._find_choices, group="choices")

    async def _find_choices(self) -> None:
        try:
            async with waiting(self.app, "Listing the models to evaluate"):
                self.choices = await self._list_targets()
        except RltuiError as error:
            self._refuse(error)

    def _show(self) -> None:
        lines = []
        try:
            request, every = eval_request(self.entries)
            lines.append(Content.styled(clean_line(_summary(request, every)), FAINT))
        except UsageError as error:
            lines.append(Content.styled(clean_line(error.title), "$text-warning"))
        if self._refusal:
            lines.append(Content.styled(f"✗ {self._refusal}", "$text-error"))
        self._summary_text.update(Content("\n").join(lines))

    @on(Input.Changed)
    def _clear_refusal(self) -> None:
        self._refusal = ""
        self._show()

    @on(Input.Submitted)
    def _submit(self) -> None:
        in_background(self, self._carry_out, group="ask")

    async def _carry_out(self) -> None:
        try:
            async with waiting(self.app, "Requesting the evaluation"):
                answer = await self._ask(*eval_request(self.entries))
            self.dismiss(answer)
        except RltuiError as error:
            self._refuse(error)
            self.app.bell()

    def _refuse(self, error: RltuiError) -> None:
        self._refusal = clean(str(error))
        self._show()


def _summary(request: EvalRequest, every: int | None) -> str:
    """`60 rollouts · the newest weights, asked of the run's own server`."""
    if every == 0:
        return "automatic evaluation is off"
    kind = request.target.kind
    if every is not None:
        return f"{request.rollouts} rollouts of {order_text(every)} from now on"
    meaning = _MEANINGS.get(kind, f"{request.target.label}, on a separate server")
    return f"{request.rollouts} rollouts · {meaning}"
