"""The checkpoint screen: what the run can go back to, what that costs, what may go. Binds and forwards."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from rltui.core.api import JournalEntry, Publication, Request
from rltui.core.checkpoints import Checkpoint, CheckpointReport, Retention
from rltui.core.text import size_text
from rltui.errors import RltuiError
from rltui.ui import verbs
from rltui.ui.actions import Footer, KeyContext, key_of
from rltui.ui.base_screen import EXPERIMENT_KEYS
from rltui.ui.commands.evaluations import EvaluationCommands
from rltui.ui.commands.forks import ForkCommands
from rltui.ui.copying import CopyRequested
from rltui.ui.key_bindings import bind, keys
from rltui.ui.messages import waiting
from rltui.ui.requests import ConfirmableRequest
from rltui.ui.screens.dialogs import ButtonDialog, ChoiceMenu, MessageDialog, NoteDialog, button
from rltui.ui.screens.resource_screen import READING, ResourceScreen, note_row
from rltui.ui.shared import AppState
from rltui.ui.styles import FAINT, STYLES
from rltui.ui.text import clean_line
from rltui.ui.widgets.resource_table import ResourceTable, labelled_lines
from rltui.ui.widgets.row_list import Row, list_keys
from rltui.views.checkpoint import (
    VIEW,
    aside_text,
    checkpoint_details,
    checkpoint_note,
    checkpoint_summary,
    no_checkpoints_text,
    prune_rows,
    publication_text,
    restore_rows,
)
from rltui.views.table import Arranged

_LABEL = 10
_TABLE = ResourceTable(
    VIEW,
    VIEW.named(("step", "age", "reward", "eval", "parts", "size", "attempt", "note")),
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
        return (note_row(clean_line(no_checkpoints_text(report)), width),)
    listed = arranged.listed(report.checkpoints[::-1])
    if not listed:
        text = f"none of {len(report.checkpoints)}: {arranged.filter_title}; {key_of('filter')} shows others"
        return (Row(None, (Content.styled(text, FAINT),)),)

    def details(each: Checkpoint, room: int) -> list[Content]:
        return labelled_lines(checkpoint_details(each, report, edits, now), room, _LABEL)

    return _TABLE.rows(listed, width, selected, now, details)


class RowsDialog(ButtonDialog[bool]):
    """Shows a plan in rows and asks whether to carry it out; *no* is the default."""

    def __init__(self, title: str, rows: Sequence[tuple[str, str]], verb: str, *, is_danger: bool) -> None:
        lines = [
            Content.assemble((label.ljust(_LABEL), FAINT), (clean_line(text), _ROW_STYLES.get(label, "")))
            for label, text in rows
        ]
        super().__init__(
            title,
            Content("\n").join(lines),
            [button(verb, "yes", "error" if is_danger else "primary"), button("Cancel", "no")],
            {"yes": True},
            is_danger=is_danger,
        )


class PublishDialog(ButtonDialog[bool]):
    """Says what would be uploaded. Whether to a private repository; `None`: not at all, the default."""

    def __init__(self, published: Publication) -> None:
        made = "A repository that does not exist yet is made."
        lines = [clean_line(line) for line in (*publication_text(published).splitlines(), "", made)]
        super().__init__(
            f"Upload to {published.repo}?",
            Content("\n".join(lines)),
            [button("Private", "private", "primary"), button("Public", "public"), button("Cancel", "no")],
            {"private": True, "public": False, "yes": True},
            yes="Upload it, private",
        )


_ROW_STYLES = dict.fromkeys(("delete", "free", "restore"), "bold")


def retentions(report: CheckpointReport) -> dict[str, tuple[Retention, str, str]]:
    """What a person may want to keep: by id, with its words."""
    always = "and the best, and what the config names"
    choices = {
        "3": (Retention(), "Keep the newest 3", always),
        "1": (Retention(keep_last=1), "Keep only the newest", always),
    }
    complete = [each.step for each in report.complete]
    if len(complete) > len(choices):
        every = 10 * max(1, complete[1] - complete[0])
        kept = Retention(keep_every=every)
        choices["every"] = (kept, f"Keep the newest 3 and those of every {every} steps", always)
    if report.archive_bytes:
        freed = f"{size_text(report.archive_bytes)} in {report.archive}"
        kept = Retention(keep=tuple(each.step for each in report.checkpoints), archive=True)
        choices["aside"] = (kept, "Delete only what restarts have set aside", freed)
    return choices


class CheckpointScreen(ResourceScreen):
    BINDINGS = keys(
        KeyContext.CHECKPOINTS, *EXPERIMENT_KEYS, *list_keys("moved_list."),
        bind(verbs.OPEN, "go_back_to", "go back",
             "Restart the run from the checkpoint under the cursor, plan first", footer=Footer.YES,
             changes=True),
        bind(verbs.COMPONENT_START, "evaluate", "evaluate",
             "Start an evaluation of the checkpoint under the cursor", footer=Footer.YES),
        bind(verbs.UNDO, "bring_back", "bring back",
             "Bring back what a restart has set aside: choose which, plan first", footer=Footer.FIRST_TO_GO),
        bind(verbs.FILTER, "narrow",
             help="Only complete ones, only those that something is said of, and all again",
             footer=Footer.FIRST_TO_GO),
        bind(verbs.SORT, "sort(1)", help="The newest first, or the highest reward, evaluation or size first",
             footer=Footer.FIRST_TO_GO),
        bind(verbs.SORT_BACK, "sort(-1)"),
        bind(verbs.COPY, help="Copy the folder of what is under the cursor"),
        bind(verbs.WRITE, "publish", "publish",
             "Upload the weights of the step under the cursor to the hub: asks where, shows what",
             changes=True),
        bind(verbs.REMOVE, "prune", "prune", "Delete old checkpoints: choose what to keep, plan first",
             footer=Footer.YES),
        bind(verbs.FORK,
             help="Start another run from the checkpoint under the cursor; this one is left alone"),
        bind(verbs.BACK, "show_overview", "overview", "Back to the overview", footer=Footer.YES),
    )  # fmt: skip
    place = KeyContext.CHECKPOINTS

    part = "checkpoint"
    reading = "Reading the checkpoints"
    interval_s = 5.0

    def __init__(self, home: AppState) -> None:
        self._view = Arranged(VIEW)
        super().__init__(home, self._view)
        self.forks = ForkCommands(self, home)
        self.evaluations = EvaluationCommands(self, self.shared, names_screen=True)
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
        words = [(fact, FAINT) for fact in facts if fact]
        self.title_line.update(self.shared.heading("Checkpoints", *words, problem=self.problem))
        texts = [] if self._report is None else checkpoint_summary(self._report)
        self.notes.update(Content.styled(clean_line(" · ".join(texts)), FAINT))

    def make_rows(self, width: int, selected: str | None) -> tuple[Row, ...]:
        return checkpoint_rows(self._report, self._edits, width, selected, self.shared.clock(), self._view)

    # keys

    @property
    def _selected(self) -> Checkpoint | None:
        key = self.rows.key
        return self._report.of(int(key)) if self._report is not None and key is not None else None

    def copied(self) -> CopyRequested | None:
        chosen = self._selected
        if chosen is None or not chosen.path:
            return super().copied()
        return CopyRequested(chosen.path, f"the folder of checkpoint {chosen.step}")

    def action_go_back_to(self) -> None:
        """Plan it, and ask, default no; of one that is not complete, say why not."""
        if (chosen := self._selected) is None:
            return
        if not chosen.complete:
            self.notify(f"Checkpoint {chosen.step} is {checkpoint_note(chosen)}", markup=False)
            return
        request = Request(action="restart", resume_step=chosen.step)
        heading = f"Go back to checkpoint {chosen.step}?"
        self.commands.request(ConfirmableRequest(request, heading, verb="Go back", danger=True))

    def action_fork(self) -> None:
        """From this one; of one that is not complete, say why not."""
        chosen = self._selected
        if chosen is not None and not chosen.complete:
            self.notify(f"Checkpoint {chosen.step} is {checkpoint_note(chosen)}", markup=False)
            return
        self.forks.fork_open(str(chosen.step) if chosen is not None else "")

    def action_prune(self) -> None:
        """What to keep, then what that deletes; asks, default no."""
        if self._report is not None:
            self.work(self._prune(self._report))

    async def _prune(self, report: CheckpointReport) -> None:
        choices = retentions(report)
        words = {key: (label, meaning) for key, (_, label, meaning) in choices.items()}
        choice = await self.app.push_screen_wait(ChoiceMenu("Delete old checkpoints", words))
        if choice is None:
            return
        retention = choices[choice][0]
        try:
            async with waiting(self.app, "Looking what would go", cancels=True):
                plan = await self.experiment.plan_prune(retention)
            if plan.is_empty:
                self.notify("Nothing to delete", markup=False)
            elif await self.app.push_screen_wait(
                RowsDialog(
                    "Delete checkpoints? They do not come back.", prune_rows(plan), "Delete", is_danger=True
                )
            ):
                async with waiting(self.app, "Deleting checkpoints"):
                    done = await self.experiment.prune(retention, tuple(each.step for each in plan.delete))
                self.notify(f"Deleted; {size_text(done.frees_bytes)} are free again", markup=False)
                await self.look()
        except RltuiError as error:
            await self.show_error(error)

    def action_bring_back(self) -> None:
        """Ask which of the sets that restarts moved aside comes back, and show what that moves."""
        status = self.shared.status
        if status is not None and status.state == "running":
            self.notify(
                f"Stop everything first: {key_of('component.stop-all')} on the overview", markup=False
            )
        elif self._report is not None:
            self.work(self._bring_back(self._report))

    async def _bring_back(self, report: CheckpointReport) -> None:
        sets = {aside.name: aside for aside in report.set_aside}
        words = {name: (name, aside_text(aside)) for name, aside in sets.items()}
        name = await self.app.push_screen_wait(ChoiceMenu("Bring back what was set aside", words))
        if name is None:
            return
        dialog = RowsDialog(f"Bring {name} back?", restore_rows(sets[name]), "Bring back", is_danger=False)
        if not await self.app.push_screen_wait(dialog):
            return
        try:
            async with waiting(self.app, "Bringing it back"):
                await self.experiment.bring_back(name)
            self.notify(f"{name} is back; what the run had written since is set aside", markup=False)
            await self.look()
        except RltuiError as error:
            await self.show_error(error)

    def action_publish(self) -> None:
        """Where to, then what; asks, default no."""
        if (chosen := self._selected) is not None:
            self.work(self._publish(chosen.step))

    async def _publish(self, step: int) -> None:
        repo = ""
        while repo := await self._ask_repo(step, repo):
            try:
                async with waiting(self.app, "Looking what would be uploaded", cancels=True):
                    published = await self.experiment.publication(str(step), repo)
                private = await self.app.push_screen_wait(PublishDialog(published))
                if private is not None:
                    async with waiting(self.app, "Starting the upload"):
                        await self.experiment.publish(published, private=private)
                    self.notify(f"Uploading to {published.repo}; its end tells the address", markup=False)
            except RltuiError as error:
                await self.app.push_screen_wait(MessageDialog.for_error(error))
                continue
            return

    async def _ask_repo(self, step: int, text: str) -> str:
        """Empty: nowhere."""
        dialog = NoteDialog(
            text,
            title=f"Upload the weights of step {step} to the hub as",
            placeholder="USER/NAME",
            done="show what would be uploaded",
        )
        return await self.app.push_screen_wait(dialog) or ""

    def action_evaluate(self) -> None:
        if (chosen := self._selected) is not None:
            self.evaluations.evaluate(str(chosen.step))

    def enabled(self, command: str, *arguments: object) -> bool:
        report = self._report
        match command:
            case "evaluate" | "publish":
                return self._selected is not None
            case "bring_back":
                return report is not None and bool(report.set_aside)
            case "sort" | "narrow":
                return report is not None and len(report.checkpoints) > 1
            case "go_back_to":
                return report is not None and bool(report.checkpoints)
            case "prune":
                return report is not None and (bool(report.checkpoints) or report.archive_bytes > 0)
            case _:
                return super().enabled(command, *arguments)
