"""The evaluation screen: base, SFT, checkpoints and runs beside each other. Binds and forwards."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from textual.content import Content

from rltui.core import hints
from rltui.core.evals import EvalReport, Evaluation, QueuedEval, baseline, difference
from rltui.core.text import duration, shortened
from rltui.errors import RltuiError
from rltui.ui.actions import KeyContext, bindings, key_of
from rltui.ui.messages import waiting
from rltui.ui.screens.eval_dialog import EvaluateActions
from rltui.ui.screens.report_screen import ReportScreen
from rltui.ui.screens.rollouts import RolloutScreen
from rltui.ui.shared import AppState
from rltui.ui.text import clean_line, progress_bar
from rltui.ui.widgets.gpu_words import FAINT, hanging, labelled
from rltui.ui.widgets.row_list import Row, cells_line, fitting_columns
from rltui.views.evaluation import EVAL_HEAD, eval_cells

_WHAT, _ENV, _DIFFERENCE, _NOTE = (EVAL_HEAD.index(word) for word in ("what", "on", "difference", "note"))
_FIRST_TO_GO = tuple(map(EVAL_HEAD.index, ("spread", "when", "asked", "id", "failed", "cut off", "on")))
"""Columns of `eval_cells` where there is no room for all: the row under the cursor tells of them."""
_CURSOR = "▸ "
_LABEL = 12
_LABEL_CELLS = 28
_BAR = 12
_QUEUED = "queue:"
"""Begins the keys of rows that have not ended."""
Order = Literal["kind", "newest", "best"]
_ORDERS: dict[Order, str] = {
    "kind": "from base to the last step",
    "newest": "newest first",
    "best": "highest first",
}
_KINDS = ("base", "sft", "checkpoint", "model")
_OF_RUN = ("checkpoint", "now")
_VERDICTS = {"▲": "$text-success", "▼": "$text-error"}


def in_order(evaluations: Sequence[Evaluation], order: Order) -> list[Evaluation]:
    """By environment, and there from base to the last step or by the mean; or by time alone."""
    runs = list(_run_numbers(evaluations))

    def place(each: Evaluation) -> tuple[object, ...]:
        if order == "newest":
            return (-each.at,)
        if order == "best":
            return (each.env, not each.is_sound, -(each.mean or 0.0), each.at)
        kind = "checkpoint" if each.kind in _OF_RUN else each.kind
        run = runs.index(each.run) if each.run else -1
        return (each.env, _KINDS.index(kind), run, each.step or 0, each.at)

    return sorted(evaluations, key=place)


def _run_numbers(evaluations: Sequence[Evaluation]) -> Mapping[str, int]:
    """The runs by their ids, counted from 1 in the order of their first evaluation."""
    runs = dict.fromkeys(each.run for each in sorted(evaluations, key=lambda each: each.at) if each.run)
    return {run: number for number, run in enumerate(runs, start=1)}


def eval_rows(
    report: EvalReport | None, chosen: str | None, order: Order, width: int, selected: str | None, now: float
) -> tuple[Row, ...]:
    """The queue, then a row per evaluation; the selected one says more. `chosen`: the baseline's id."""
    if report is None:
        return (Row(None, (Content.styled("reading…", FAINT),)),)
    rows = [_queued_row(each, width, f"{_QUEUED}{each.id}" == selected, now) for each in report.queue]
    if rows:
        rows = [Row(None, (Content.styled("  queue", FAINT),)), *rows, Row(None, (Content(""),))]
    if not report.evaluations:
        text = f"no evaluation yet: {key_of('component.start')} asks for one, {hints.EVAL} does the same"
        return (*rows, Row(None, tuple(hanging(text, width, FAINT))))
    runs = _run_numbers(report.evaluations)
    shown = in_order(report.evaluations, order)
    envs = {each.env for each in shown}
    cells = []
    for each in shown:
        to = _baseline(each, report.evaluations, chosen)
        told = list(eval_cells(each, None, None, now))
        run = f" (run {runs[each.run]})" if len(runs) > 1 and each.run else ""
        told[_WHAT] = shortened(each.label.rpartition("/")[2], _LABEL_CELLS) + run
        told[_ENV] = each.env.rpartition("/")[2] if len(envs) > 1 else ""
        told[_DIFFERENCE] = _compared(each, to, chosen)
        told[_NOTE] = ""
        cells.append(tuple(map(clean_line, told)))
    room = width - len(_CURSOR)
    columns = fitting_columns([EVAL_HEAD, *cells], room, _FIRST_TO_GO)
    taken = sum(cells + 2 for _, cells in columns)
    bar = _BAR if taken + _BAR <= room else 0
    head = shortened(f"  {cells_line(EVAL_HEAD, columns)}", width)
    rows.append(Row(None, (Content.styled(head, FAINT),)))
    most = max([1.0, *(each.mean for each in shown if each.mean is not None)])
    for each, row in zip(shown, cells, strict=True):
        is_selected = each.id == selected
        line = _evaluation_line(each, row, columns, is_selected=is_selected, width=width)
        if bar and each.mean is not None:
            filled, empty = progress_bar(max(0.0, each.mean) / most, bar)
            line = line.pad_right(max(0, taken + len(_CURSOR) - line.cell_length))
            line = Content.assemble(line, (filled, "$primary"), (empty, FAINT))
        below = _details(each, report, chosen, width - 4) if is_selected else []
        rows.append(Row(each.id, (line, *(Content("    ") + more for more in below))))
    return tuple(rows)


def _evaluation_line(
    each: Evaluation, row: Sequence[str], columns: Sequence[tuple[int, int]], *, is_selected: bool, width: int
) -> Content:
    text = shortened(f"{_CURSOR if is_selected else '  '}{cells_line(row, columns)}", width)
    line = Content.styled(text, "" if each.is_sound else "$text-warning")
    said = row[_DIFFERENCE]
    style = _VERDICTS.get(said[-1:])
    at = text.find(said) if style else -1
    return line if style is None or at < 0 else line.stylize(style, at, at + len(said))


def _compared(each: Evaluation, to: Evaluation | None, chosen: str | None) -> str:
    """What to say of its difference."""
    if not each.is_sound:
        return f"⚠ {each.verdict}"
    if each.id == chosen:
        return "baseline"
    found = None if to is None else difference(each, to)
    return "" if found is None else found.words


def _baseline(each: Evaluation, others: Sequence[Evaluation], chosen: str | None) -> Evaluation | None:
    """The one that a person chose, else what suggests itself."""
    if chosen is None:
        return baseline(others, each)
    return next((other for other in others if other.id == chosen), None)


def _queued_row(each: QueuedEval, width: int, is_selected: bool, now: float) -> Row:
    is_running = each.state == "running"
    sign = "◐" if is_running else "◌"
    since = each.started_at if is_running else each.at
    parts = [clean_line(each.label), clean_line(each.words)]
    parts += [f"asked for by {clean_line(each.by)}"] if each.by != "you" else []
    parts += [duration(max(0.0, now - since))] if since else []
    text = f"{_CURSOR if is_selected else '  '}{sign} {' · '.join(filter(None, parts))}"
    line = Content.styled(shortened(text, width), "$text-accent" if is_running else FAINT)
    if is_running and each.done and line.cell_length + _BAR + 2 <= width:
        filled, empty = progress_bar(each.done / each.request.rollouts, _BAR)
        line = Content.assemble(line, "  ", (filled, "$primary"), (empty, FAINT))
    return Row(f"{_QUEUED}{each.id}", (line,))


def _details(each: Evaluation, report: EvalReport, chosen: str | None, width: int) -> list[Content]:
    rows = [
        ("because", each.words),
        ("compared", _comparison(each, report.evaluations, chosen)),
        ("model", each.model),
        ("rewards", _spread(each)),
        ("asked", f"{each.num_examples} examples of {each.env}, {each.rollouts_per_example} rollouts each"),
        ("took", duration(each.seconds) if each.seconds else ""),
        ("samples", each.results),
        ("command", shlex.join(each.command)),
    ]
    lines = [(label, hanging(clean_line(text), width - _LABEL, "")) for label, text in rows if text]
    return [line for label, below in lines for line in labelled(label, below, _LABEL)]


def _comparison(each: Evaluation, others: Sequence[Evaluation], chosen: str | None) -> str:
    to = None if each.id == chosen else _baseline(each, others, chosen)
    if to is None or not each.is_sound:
        return ""
    found = difference(each, to)
    if found is None:
        return f"not with {to.label}: that one was of {to.env}"
    how = f"example by example, over {found.examples}" if found.examples else "by the means"
    return f"with {to.label} (#{to.id}): {found.words}, {how}"


def _spread(each: Evaluation) -> str:
    if each.mean is None:
        return ""
    std = "" if each.std is None else f", spread {each.std:.3f}"
    rates = ((each.truncated_frac, "cut off"), (each.failed_frac, "failed"))
    bad = "".join(f", {100 * part:.0f} % {word}" for part, word in rates if part)
    return f"mean {each.mean:.3f} of {each.rollouts}{std}{bad}"


class EvalScreen(ReportScreen, EvaluateActions):
    CSS_PATH: ClassVar = ["evals.tcss"]
    BINDINGS = bindings(KeyContext.EVALS)
    place = KeyContext.EVALS

    part = "evals"
    interval_s = 2.0

    def __init__(self, home: AppState) -> None:
        super().__init__(home)
        self.shared.watch("journal", self.hurry.set)  # something happened: it may have been an evaluation
        self._report: EvalReport | None = None
        self._chosen: str | None = None
        """The baseline's id."""
        self._order: Order = "kind"

    async def ask(self) -> None:
        self._report, self.problem = await self.experiment.evals(), ""

    def update_title(self) -> None:
        report, parts = self._report, []
        if report is not None and report.evaluations:
            envs = {clean_line(each.env) for each in report.evaluations}
            parts += [*envs] if len(envs) == 1 else []
            parts.append(_ORDERS[self._order])
        if report is not None and report.every:
            parts.append("every checkpoint" if report.every == 1 else f"one of {report.every} checkpoints")
        words = [(part, FAINT) for part in parts]
        self.title_line.update(self.shared.heading("Evaluations", *words, problem=self.problem))
        chosen = self._ended(self._chosen)
        to = f"base, else SFT ({key_of('compare')}: this one)" if chosen is None else chosen.label
        text = f"against {to} · ▲ ▼ beyond 95 %, same examples"
        self.notes.update(Content.styled(clean_line(text), FAINT))

    def make_rows(self, width: int, selected: str | None) -> tuple[Row, ...]:
        now = self.shared.clock()
        return eval_rows(self._report, self._chosen, self._order, width, selected, now)

    # keys

    def _ended(self, key: str | None) -> Evaluation | None:
        found = () if self._report is None else self._report.evaluations
        return next((each for each in found if each.id == key), None)

    @property
    def _queued(self) -> QueuedEval | None:
        found = () if self._report is None else self._report.queue
        return next((each for each in found if f"{_QUEUED}{each.id}" == self.rows.key), None)

    def action_read_samples(self) -> None:
        if (each := self._ended(self.rows.key)) is None:
            return
        if not each.results:
            self.notify("It left no samples", markup=False)
            return
        self.show_instead(RolloutScreen(self.home, folder=each.results, of=each.label, back_to="evals"))

    def action_evaluate(self) -> None:
        """What was evaluated in the row under the cursor, or anything else."""
        each = self._ended(self.rows.key)
        target = "now" if each is None else each.model if each.kind == "model" else each.kind
        if each is not None and each.kind == "checkpoint":
            target = str(each.step)
        self.evaluate(target)

    def action_choose_baseline(self) -> None:
        each = self._ended(self.rows.key)
        if each is not None and (each.mean is None or each.verdict == "failed"):
            why = clean_line(each.words or each.verdict)
            self.notify(f"It says nothing of the model: {why}", markup=False)
        elif each is not None:
            self._chosen = None if self._chosen == each.id else each.id
            self.show()
            if not each.is_sound:
                self.notify(f"To be compared with care: {clean_line(each.words)}", markup=False)

    def action_sort(self, step: int) -> None:
        orders = list(_ORDERS)
        self._order = orders[(orders.index(self._order) + step) % len(orders)]
        self.show()

    def action_cancel_eval(self) -> None:
        """At once: it can be asked for again."""
        if (queued := self._queued) is not None:
            self.work(self._cancel(queued))

    async def _cancel(self, queued: QueuedEval) -> None:
        try:
            async with waiting(self.app, "Cancelling the evaluation"):
                self._report = await self.experiment.cancel_eval(queued.id)
        except RltuiError as error:
            await self.show_error(error)
            return
        self.notify(f"Cancelled: {clean_line(queued.label)}", markup=False)
        self.show()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        possible = True
        match action:
            case "cancel_eval":
                possible = self._queued is not None
            case "read_samples" | "choose_baseline":
                possible = self._ended(self.rows.key) is not None
            case "sort":
                possible = self._report is not None and len(self._report.evaluations) > 1
        return possible and super().check_action(action, parameters)
