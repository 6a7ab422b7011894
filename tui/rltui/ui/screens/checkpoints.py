"""The checkpoint screen: what the run can go back to, what that costs, what may go. Binds and forwards."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from rltui.core.experiment.dashboard import DashboardPlace
from rltui.core.experiment.journal import JournalEntry
from rltui.core.runs.checkpoints import Checkpoint, CheckpointReport
from rltui.ui import verbs
from rltui.ui.actions import Footer, KeyContext, Scope, key_of
from rltui.ui.base_screen import EXPERIMENT_KEYS
from rltui.ui.commands.checkpoints import CheckpointCommands
from rltui.ui.commands.dashboard import DashboardCommands
from rltui.ui.commands.evaluations import EvaluationCommands
from rltui.ui.commands.forks import ForkCommands
from rltui.ui.copying import CopyRequested
from rltui.ui.key_bindings import bind, keys, own
from rltui.ui.paragraphs import flow
from rltui.ui.screens.resource_screen import ResourceScreen
from rltui.ui.state import AppState
from rltui.ui.styles import FAINT, STYLES
from rltui.ui.text import clean_line
from rltui.ui.widgets.resource_table import ResourceTable
from rltui.ui.widgets.row_list import READING, Row, list_keys, note_row
from rltui.views.checkpoint import (
    VIEW,
    checkpoint_details,
    checkpoint_note,
    checkpoint_summary,
    no_checkpoints_text,
)
from rltui.views.table import Arranged

_TABLE = ResourceTable(
    VIEW,
    VIEW.named(("step", "age", "reward", "eval", "size", "attempt", "note")),
    style=lambda each: "" if each.complete else STYLES["busy"],
)


def checkpoint_rows(
    report: CheckpointReport | None,
    edits: Sequence[JournalEntry],
    width: int,
    selected: str | None,
    now: float,
    arranged: Arranged[Checkpoint],
) -> tuple[Row, ...]:
    """A heading, and a row per checkpoint, keyed by its step; the selected one says more."""
    if report is None:
        return READING
    if not report.checkpoints:
        text = f"{no_checkpoints_text(report)}. {key_of('screen.config')} opens the config."
        return (note_row(clean_line(text), width),)
    listed = arranged.listed(report.checkpoints[::-1])
    if not listed:
        text = f"No checkpoint matches ({arranged.filter_title}). {key_of('filter')} shows others."
        return (note_row(text, width),)

    def details(checkpoint: Checkpoint) -> list[tuple[str, str]]:
        return checkpoint_details(checkpoint, report, edits, now)

    return _TABLE.rows(listed, width, selected, now, details)


class CheckpointScreen(ResourceScreen):
    BINDINGS = keys(
        KeyContext.CHECKPOINTS, *EXPERIMENT_KEYS, *list_keys("moved_list."),
        bind(verbs.OPEN, "checkpoints.go_back", "Restart from this checkpoint, plan first",
             label="restart from", footer=Footer.YES, changes=True),
        bind(verbs.COMPONENT_START, "evaluate", "Start an evaluation of this checkpoint",
             label="start eval", footer=Footer.YES),
        bind(verbs.UNDO, "checkpoints.bring_back", "Undo a restart: restore what it set aside, plan first",
             label="undo restart", footer=Footer.FIRST_TO_GO),
        bind(verbs.FILTER, "narrow", "Filter: complete, with a note, or all", footer=Footer.YES),
        bind(verbs.SORT, "sort(1)", "Sort by age, reward, evaluation or size", footer=Footer.YES),
        bind(verbs.SORT_BACK, "sort(-1)"),
        bind(verbs.DASHBOARD, "dashboard.show", "Show the step in the web dashboard of the framework"),
        bind(verbs.COPY, "copy", "Copy the folder of the checkpoint"),
        own("checkpoint.upload", "", "checkpoints.publish", "upload",
            "Upload the weights of this checkpoint to the hub; asks first", Scope.PICKING, changes=True),
        bind(verbs.REMOVE, "checkpoints.prune", "Remove old checkpoints (prune); choose which to keep",
             footer=Footer.YES),
        bind(verbs.FORK, "fork", "Fork: start another run from this checkpoint"),
        bind(verbs.SEARCH, "search", "Search the rows", footer=Footer.FIRST_TO_GO),
        bind(verbs.BACK, footer=Footer.YES),
    )  # fmt: skip
    place = KeyContext.CHECKPOINTS

    part = "checkpoint"
    reading = "Reading the checkpoints"
    interval_s = 5.0

    def __init__(self, app_state: AppState) -> None:
        self._view = Arranged(VIEW)
        super().__init__(app_state, self._view)
        self.forks = ForkCommands(self, app_state)
        self.evaluations = EvaluationCommands(self, self.state, names_screen=True)
        self.checkpoints = CheckpointCommands(
            self,
            self.state,
            self.commands,
            lambda: self._report,
            lambda: self._selected_checkpoint,
            self.look,
        )
        self.dashboard = DashboardCommands(self, self.state, self.commands, self._place)
        self._report: CheckpointReport | None = None
        self._edits: list[JournalEntry] = []

    async def ask(self) -> None:
        self._report = await self.experiment.checkpoints()
        self._edits = [entry for entry in await self.experiment.journal() if entry.kind == "edit"]
        self.problem = self._report.problem

    def update_title(self) -> None:
        step = None if self._report is None else self._report.step
        facts = ["" if step is None else f"step {step}", self._view.filter_title]
        facts += [self._view.order_title] if self._view.order != "newest" else []
        fragments = [(fact, FAINT) for fact in facts if fact]
        self.title_line.update(self.state.heading("Checkpoints", *fragments, problem=self.problem))
        self._update_notes()

    def on_resize(self) -> None:
        self.call_after_refresh(self._update_notes)

    def _update_notes(self) -> None:
        report = self._report
        is_told = report is not None and (report.checkpoints or report.archive_bytes)
        texts = checkpoint_summary(report) if report is not None and is_told else []
        entries = [Content.styled(clean_line(text), FAINT) for text in texts]
        self.notes.update(Content("\n").join(flow(entries, self.size.width - 2, gap=" · ")))
        self.notes.display = bool(texts)

    def make_rows(self, width: int, selected: str | None) -> tuple[Row, ...]:
        return checkpoint_rows(self._report, self._edits, width, selected, self.state.clock(), self._view)

    # keys

    @property
    def _selected_checkpoint(self) -> Checkpoint | None:
        key = self.rows.key
        return self._report.of(int(key)) if self._report is not None and key is not None else None

    async def _place(self) -> DashboardPlace:
        checkpoint = self._selected_checkpoint
        return DashboardPlace(tab="metrics", step=None if checkpoint is None else checkpoint.step)

    def show_step(self, step: int) -> None:
        """The cursor goes to the newest checkpoint up to that step."""
        report = self._report
        steps = [] if report is None else [item.step for item in report.checkpoints if item.step <= step]
        if steps:
            self.rows.go_to(str(max(steps)))
        else:
            self.notify(f"no checkpoint up to step {step}", severity="warning", markup=False)

    def copied(self) -> CopyRequested | None:
        checkpoint = self._selected_checkpoint
        if checkpoint is None or not checkpoint.path:
            return super().copied()
        return CopyRequested(checkpoint.path, f"the folder of checkpoint {checkpoint.step}")

    def action_fork(self) -> None:
        """A checkpoint that is not complete gives a reason instead."""
        checkpoint = self._selected_checkpoint
        if checkpoint is not None and not checkpoint.complete:
            self.notify(f"Checkpoint {checkpoint.step} is {checkpoint_note(checkpoint)}", markup=False)
            return
        self.forks.fork_open(str(checkpoint.step) if checkpoint is not None else "")

    def action_evaluate(self) -> None:
        if (checkpoint := self._selected_checkpoint) is not None:
            self.evaluations.evaluate(str(checkpoint.step))

    def enabled(self, command: str, *arguments: object) -> bool:
        match command:
            case "evaluate":
                return self._selected_checkpoint is not None
            case "sort" | "narrow":
                return self._report is not None and len(self._report.checkpoints) > 1
            case _:
                return super().enabled(command, *arguments)
