"""The evaluation screen: base, SFT, checkpoints and runs beside each other. Binds and forwards."""

from __future__ import annotations

from textual.content import Content

from rltui.base.text import truncate
from rltui.core.runs.evals import EvalReport, Evaluation, QueuedEval
from rltui.ui import verbs
from rltui.ui.actions import Footer, KeyContext, key_of
from rltui.ui.base_screen import EXPERIMENT_KEYS
from rltui.ui.commands.evaluations import EvaluationCommands
from rltui.ui.key_bindings import bind, keys
from rltui.ui.screens.resource_screen import ResourceScreen
from rltui.ui.screens.rollouts import RolloutScreen
from rltui.ui.state import AppState
from rltui.ui.styles import CURSOR, FAINT, STYLES
from rltui.ui.text import clean_line
from rltui.ui.widgets.resource_table import BAR, ResourceTable, bar_of
from rltui.ui.widgets.row_list import READING, Row, list_keys, note_row
from rltui.views.evaluation import (
    VIEW,
    ComparedEvaluation,
    compared,
    evaluation_details,
    order_text,
    queued_text,
    training_lines,
)
from rltui.views.table import Arranged

_QUEUED = "queue:"
"""Begins the keys of rows that have not ended."""
_COLUMNS = (
    "id", "what", "env", "examples", "reward", "std", "difference", "cut off", "failed", "when",
)  # fmt: skip
_FIRST_TO_GO = ("std", "examples", "failed", "id", "cut off", "when", "env")
"""A narrow screen drops these columns: the row under the cursor has their values."""


def eval_rows(
    report: EvalReport | None,
    reference: Evaluation | None,
    arranged: Arranged[ComparedEvaluation],
    width: int,
    selected: str | None,
    now: float,
) -> tuple[Row, ...]:
    """The queue, then a row per evaluation; the selected one says more. `reference`: the baseline."""
    if report is None:
        return READING
    rows = [_queued_row(queued, width, f"{_QUEUED}{queued.id}" == selected, now) for queued in report.queue]
    if rows:
        rows = [Row(None, (Content.styled("  queue", FAINT),)), *rows, Row(None, (Content(""),))]
    if lines := training_lines(report):
        texts = [truncate(f"  {clean_line(line)}", width) for line in lines]
        rows += [*(Row(None, (Content.styled(text, FAINT),)) for text in texts), Row(None, (Content(""),))]
    if not report.evaluations:
        none = "No other evaluations." if report.training else "No evaluations yet."
        text = "No results yet." if report.queue else f"{none} {key_of('component.start')} starts one."
        return (*rows, note_row(text, width))
    is_of_several = len({evaluation.env for evaluation in report.evaluations}) > 1
    names = [name for name in _COLUMNS if is_of_several or name != "env"]
    table = ResourceTable(
        VIEW,
        VIEW.named(names, first_to_go=_FIRST_TO_GO, is_brief=True),
        style=lambda row: "" if row.evaluation.is_sound else STYLES["busy"],
        bar=lambda row: row.evaluation.mean,
    )
    listed = arranged.listed(compared(report.evaluations, reference))
    return (*rows, *table.rows(listed, width, selected, now, evaluation_details))


def _queued_row(entry: QueuedEval, width: int, is_selected: bool, now: float) -> Row:
    text = f"{CURSOR if is_selected else '  '}{clean_line(queued_text(entry, now))}"
    is_running = entry.state == "running"
    line = Content.styled(truncate(text, width), "$text-accent" if is_running else FAINT)
    if is_running and entry.done and line.cell_length + BAR + 2 <= width:
        line += Content("  ") + bar_of(entry.done / entry.request.rollouts)
    return Row(f"{_QUEUED}{entry.id}", (line,))


class EvalScreen(ResourceScreen):
    BINDINGS = keys(
        KeyContext.EVALS, *EXPERIMENT_KEYS, *list_keys("moved_list."),
        bind(verbs.OPEN, "read_samples", "Read the samples of the evaluation", label="samples",
             footer=Footer.YES),
        bind(verbs.COMPONENT_START, "evaluate", "Start an evaluation of any weights",
             label="start eval", footer=Footer.YES),
        bind(verbs.COMPONENT_STOP, "cancel_eval", "Stop the evaluation, or cancel the queued one",
             label="stop eval", footer=Footer.YES),
        bind(verbs.SORT, "sort(1)", "Sort by target, age or reward", footer=Footer.YES),
        bind(verbs.SORT_BACK, "sort(-1)"),
        bind(verbs.COMPARE, "choose_baseline", "Compare all with this one; again: with the default baseline",
             footer=Footer.YES),
        bind(verbs.COPY),
        bind(verbs.SEARCH, "search", "Search the rows", footer=Footer.FIRST_TO_GO),
        bind(verbs.BACK, footer=Footer.YES),
    )  # fmt: skip
    place = KeyContext.EVALS

    part = "evals"
    reading = "Reading the evaluations"
    interval_s = 2.0

    def __init__(self, app_state: AppState) -> None:
        self._view = Arranged(VIEW)
        super().__init__(app_state, self._view)
        self.evaluations = EvaluationCommands(self, self.state, names_screen=False)
        self.state.watch("journal", self.hurry.set)  # something happened: it may have been an evaluation
        self._report: EvalReport | None = None
        self._baseline_id: str | None = None
        """The id of the baseline."""

    async def ask(self) -> None:
        self._report, self.problem = await self.experiment.evals(), ""

    def update_title(self) -> None:
        report, facts = self._report, []
        if report is not None and report.evaluations:
            envs = {clean_line(evaluation.env) for evaluation in report.evaluations}
            facts += [*envs] if len(envs) == 1 else []
            facts.append(self._view.order_title)
        if report is not None and report.every:
            facts.append(order_text(report.every))
        fragments = [(fact, FAINT) for fact in facts]
        self.title_line.update(self.state.heading("Evaluations", *fragments, problem=self.problem))
        reference = self._evaluation_of(self._baseline_id)
        reference_label = (
            f"base, else SFT ({key_of('compare')} selects another)" if reference is None else reference.label
        )
        text = f"baseline: {reference_label} · ▲ ▼ significant at 95 %, same examples"
        self.notes.update(Content.styled(clean_line(text), FAINT))
        self.notes.display = bool(report is not None and report.evaluations)

    def make_rows(self, width: int, selected: str | None) -> tuple[Row, ...]:
        now = self.state.clock()
        return eval_rows(
            self._report, self._evaluation_of(self._baseline_id), self._view, width, selected, now
        )

    # keys

    def _evaluation_of(self, key: str | None) -> Evaluation | None:
        evaluations = () if self._report is None else self._report.evaluations
        return next((evaluation for evaluation in evaluations if evaluation.id == key), None)

    @property
    def _selected_entry(self) -> QueuedEval | None:
        queue = () if self._report is None else self._report.queue
        return next((entry for entry in queue if f"{_QUEUED}{entry.id}" == self.rows.key), None)

    def action_read_samples(self) -> None:
        if (evaluation := self._evaluation_of(self.rows.key)) is None:
            return
        if not evaluation.results:
            self.notify("This evaluation has no samples", markup=False)
            return
        self.show_instead(
            RolloutScreen(
                self.app_state, folder=evaluation.results, subject=evaluation.label, back_to="evals"
            )
        )

    def action_evaluate(self) -> None:
        evaluation = self._evaluation_of(self.rows.key)
        if evaluation is None:
            target = "now"
        elif evaluation.kind == "checkpoint":
            target = str(evaluation.step)
        else:
            target = evaluation.model if evaluation.kind == "model" else evaluation.kind
        self.evaluations.evaluate(target)

    def action_choose_baseline(self) -> None:
        evaluation = self._evaluation_of(self.rows.key)
        if evaluation is not None and (evaluation.mean is None or evaluation.verdict == "failed"):
            reason = clean_line(evaluation.words or evaluation.verdict)
            self.notify(f"Not a usable result: {reason}", markup=False)
        elif evaluation is not None:
            self._baseline_id = None if self._baseline_id == evaluation.id else evaluation.id
            self.show()
            if not evaluation.is_sound:
                self.notify(f"Compare with care: {clean_line(evaluation.words)}", markup=False)

    def action_cancel_eval(self) -> None:
        """It asks nothing: the evaluation can be requested again."""
        if (queued := self._selected_entry) is not None:
            self.work(self._cancel(queued))

    async def _cancel(self, queued: QueuedEval) -> None:
        async with self.waiting("Cancelling the evaluation"):
            self._report = await self.experiment.cancel_eval(queued.id)
        self.notify(f"Cancelled: {clean_line(queued.label)}", markup=False)
        self.show()

    def enabled(self, command: str, *arguments: object) -> bool:
        match command:
            case "cancel_eval":
                return self._selected_entry is not None
            case "read_samples" | "choose_baseline":
                return self._evaluation_of(self.rows.key) is not None
            case "sort":
                return self._report is not None and len(self._report.evaluations) > 1
            case _:
                return super().enabled(command, *arguments)
