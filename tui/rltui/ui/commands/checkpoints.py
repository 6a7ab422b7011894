"""Commands on checkpoints: go back to one, delete old ones, bring back what was set aside, upload one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rltui.base.text import size_text
from rltui.core.experiment.api import Request
from rltui.core.runs.checkpoints import Checkpoint, CheckpointReport
from rltui.errors import RltuiError
from rltui.ui.actions import key_of
from rltui.ui.commands.experiment import ExperimentCommands
from rltui.ui.commands.frontend import Frontend
from rltui.ui.dialogs.base import ChoiceMenu, MessageDialog, NoteDialog
from rltui.ui.dialogs.checkpoints import PublishDialog, RowsDialog, retentions
from rltui.ui.requests import ConfirmableRequest
from rltui.ui.state import ExperimentState
from rltui.views.checkpoint import aside_text, checkpoint_note, prune_rows, restore_rows


class CheckpointCommands:
    def __init__(
        self,
        frontend: Frontend,
        state: ExperimentState,
        commands: ExperimentCommands,
        report: Callable[[], CheckpointReport | None],
        selected_checkpoint: Callable[[], Checkpoint | None],
        on_change: Callable[[], Awaitable[None]],
    ) -> None:
        """`on_change` is awaited when there are other checkpoints than before."""
        self._frontend = frontend
        self._state = state
        self._experiment = state.experiment
        self._commands = commands
        self._report = report
        self._selected_checkpoint = selected_checkpoint
        self._on_change = on_change

    def allows(self, command: str, *arguments: object) -> bool:
        del arguments
        report = self._report()
        match command:
            case "publish":
                return self._selected_checkpoint() is not None
            case "bring_back":
                return report is not None and bool(report.set_aside)
            case "go_back":
                return report is not None and bool(report.checkpoints)
            case "prune":
                return report is not None and (bool(report.checkpoints) or report.archive_bytes > 0)
            case _:
                return True

    def go_back(self) -> None:
        """Restart the run from the selected one. Asks, default no; of one not complete, say why not."""
        if (checkpoint := self._selected_checkpoint()) is None:
            return
        if not checkpoint.complete:
            self._frontend.notify(
                f"Checkpoint {checkpoint.step} is {checkpoint_note(checkpoint)}", markup=False
            )
            return
        request = Request(action="restart", resume_step=checkpoint.step)
        heading = f"Restart from checkpoint {checkpoint.step}?"
        self._commands.request(ConfirmableRequest(request, heading, danger=True))

    def prune(self) -> None:
        """Ask what to keep, then show what that deletes. Asks, default no."""
        if (report := self._report()) is not None:
            self._frontend.work(self._prune(report))

    async def _prune(self, report: CheckpointReport) -> None:
        frontend, choices = self._frontend, retentions(report)
        labels = {key: (label, meaning) for key, (_, label, meaning) in choices.items()}
        choice = await frontend.prompt(ChoiceMenu("Delete old checkpoints", labels))
        if choice is None:
            return
        retention = choices[choice][0]
        async with frontend.waiting("Listing what would be deleted", cancels=True):
            plan = await self._experiment.plan_prune(retention)
        if plan.is_empty:
            frontend.notify("Nothing to delete", markup=False)
            return
        title = "Delete checkpoints? This cannot be undone."
        if await frontend.prompt(RowsDialog(title, prune_rows(plan), "Delete", is_danger=True)):
            steps = tuple(checkpoint.step for checkpoint in plan.delete)
            async with frontend.waiting("Deleting checkpoints"):
                result = await self._experiment.prune(retention, steps)
            frontend.notify(f"Checkpoints deleted; {size_text(result.frees_bytes)} freed", markup=False)
            await self._on_change()

    def bring_back(self) -> None:
        """Ask which of the sets that restarts moved aside comes back, and show what that moves."""
        status, report = self._state.status, self._report()
        if status is not None and status.alive:
            self._frontend.notify(
                f"Stop everything first: {key_of('component.stop-all')} on the overview", markup=False
            )
        elif report is not None:
            self._frontend.work(self._bring_back(report))

    async def _bring_back(self, report: CheckpointReport) -> None:
        frontend = self._frontend
        sets = {aside.name: aside for aside in report.set_aside}
        labels = {name: (name, aside_text(aside)) for name, aside in sets.items()}
        name = await frontend.prompt(ChoiceMenu("Restore what a restart set aside", labels))
        if name is None:
            return
        dialog = RowsDialog(f"Restore {name}?", restore_rows(sets[name]), "Restore", is_danger=False)
        if not await frontend.prompt(dialog):
            return
        async with frontend.waiting(f"Restoring {name}"):
            await self._experiment.bring_back(name)
        frontend.notify(f"{name} restored; files written since are set aside", markup=False)
        await self._on_change()

    def publish(self) -> None:
        """Ask where to upload the selected one, then show what that uploads. Asks, default no."""
        if (checkpoint := self._selected_checkpoint()) is not None:
            self._frontend.work(self._publish(checkpoint.step))

    async def _publish(self, step: int) -> None:
        frontend, repo = self._frontend, ""
        while repo := await self._ask_repo(step, repo):
            try:
                async with frontend.waiting("Listing what would be uploaded", cancels=True):
                    publication = await self._experiment.publication(step, repo)
                private = await frontend.prompt(PublishDialog(publication))
                if private is not None:
                    async with frontend.waiting("Starting the upload"):
                        await self._experiment.publish(publication, private=private)
                    frontend.notify(
                        f"Uploading to {publication.repo}; the URL is shown when it is done", markup=False
                    )
            except RltuiError as error:
                await frontend.prompt(MessageDialog.for_error(error))
                continue
            return

    async def _ask_repo(self, step: int, text: str) -> str:
        """`text` to begin with; empty: nowhere."""
        dialog = NoteDialog(
            text,
            title=f"Upload the weights of step {step} to the hub",
            placeholder="USER/NAME",
            purpose="show the files",
        )
        return await self._frontend.prompt(dialog) or ""
