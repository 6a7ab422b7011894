"""The dialogue around an edit, from the request to the written file: plan, show, ask, write, report."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Literal

from textual.app import SuspendNotSupported

from rltui.base.text import count_text
from rltui.core.config.report import KnobInfo
from rltui.core.experiment.api import Plan, Request, RollbackOffer
from rltui.core.experiment.consent import with_consent
from rltui.errors import ConflictError, RltuiError
from rltui.ui.actions import key_of
from rltui.ui.commands.frontend import Frontend
from rltui.ui.dialogs.base import ChoiceMenu, EditAgain, PendingDialog, PlanDialog
from rltui.ui.dialogs.config import ConfigReview, ConflictDialog, ConverterDialog, ReviewPrompt
from rltui.ui.dialogs.knob_editor import KnobEditor
from rltui.ui.requests import done_text
from rltui.ui.state import ExperimentState, TextDraft
from rltui.ui.text import clean, clean_line, file_name
from rltui.views.knob import change_text

ReviewOutcome = Literal["written", "dropped", "kept", "again"]
"""dropped: the person takes what somebody else wrote. kept: nothing is decided. again: back to the editor."""


class ConfigDialogue:
    """The coroutines behind the keys, for `Frontend.work`: what was typed is kept where one of them fails."""

    def __init__(self, frontend: Frontend, state: ExperimentState) -> None:
        self._frontend = frontend
        self._experiment = state.experiment
        self._state = state

    async def edit_one_of(self, knobs: Sequence[KnobInfo], reader: str) -> None:
        """Let a person choose the knob first, among those that `reader` has."""
        staged = self._state.staged.edits
        choices = {
            knob.key: (
                f"{clean_line(knob.key)} = {clean_line(change_text(knob, staged))}",
                clean_line(knob.help),
            )
            for knob in knobs
        }
        key = await self._frontend.prompt(ChoiceMenu(f"Knobs of {clean_line(reader)}", choices))
        if key is not None:
            await self.edit(next(knob for knob in knobs if knob.key == key))

    async def edit(self, knob: KnobInfo) -> None:
        state = self._state
        editor = KnobEditor(knob, self._experiment.plan, table=state.table, staged=state.staged)
        decision = await self._frontend.prompt(editor)
        if decision is None:
            return
        request = decision.request
        if decision.how == "collect":
            state.collect({knob.key: request.edits[knob.key]}, request.base)
            count = len(state.staged)
            self._notify(f"{count_text(count, 'edit')} collected: {key_of('write')} reviews and writes")
            return
        try:
            async with self._frontend.waiting(f"Writing {knob.key}"):
                plan = await self._experiment.execute(request)
        except ConflictError:
            if not await self._has_conflicts(request):
                raise
            await self._review(request, ReviewPrompt(f"Write {knob.key}?"))
        else:
            self._report_written(plan, request)

    async def review(self, *, apply: bool = False) -> None:
        """All collected edits as one diff. `apply`: with a restart, and *no* as the default."""
        count = len(self._state.staged)
        title = f"Write {count} edits" if count > 1 else "Write 1 edit"
        restarts = f" and restart {'their' if count > 1 else 'its'} readers" if apply else ""
        question = ReviewPrompt(f"{title}{restarts}?", prefers_restart=apply, danger=apply)
        await self._review(self._state.staged.request(), question)

    async def undo(self) -> None:
        await self._review(Request(action="undo"), ReviewPrompt(f"Undo: {self._state.table.undo}?"))

    async def redo(self) -> None:
        question = ReviewPrompt(f"Redo: {self._state.table.redo}?", danger=True)
        await self._review(Request(action="redo"), question)

    async def roll_back(self, offer: RollbackOffer) -> None:
        """Take back the edit that a component or the run did not survive, and restart."""
        if offer.resume_step is not None:
            await self._go_back(offer, offer.resume_step)
            return
        question = ReviewPrompt(
            f"Undo: {offer.edit}?",
            reason=f"{offer.component} ended right after this edit: {offer.reason}",
            prefers_restart=True,
            danger=True,
        )
        await self._review(Request(action="undo"), question)

    async def _go_back(self, offer: RollbackOffer, step: int) -> None:
        """Restart from the last good checkpoint, without the edit that is to blame, or with other values."""
        heading = f"Go back to checkpoint {step}"
        if not offer.edit and not offer.edits:
            request = Request(action="restart", resume_step=step)
            async with self._frontend.waiting(f"Planning the restart from checkpoint {step}", cancels=True):
                plan = await self._experiment.plan(request)
            dialog = PlanDialog(plan, f"{heading}?", verb="Go back")
            if await self._frontend.prompt(dialog):
                async with self._frontend.waiting(f"Going back to checkpoint {step}"):
                    plan = await self._experiment.execute(with_consent(request, plan))
                self._notify(done_text(plan))
            return
        edits = ", ".join(f"{key} = {value}" for key, value in offer.edits.items())
        suffix = " before that edit" if offer.edit else ""
        question = ReviewPrompt(
            f"{heading} and undo: {offer.edit}?" if offer.edit else f"{heading} with {edits}?",
            reason=f"{offer.reason}; checkpoint {step} is the last good one{suffix}",
            prefers_restart=True,
        )
        action: Literal["set", "undo"] = "set" if offer.edits else "undo"
        await self._review(Request(action=action, edits=offer.edits, resume_step=step), question)

    async def convert(self) -> None:
        """The batch counted the other way, reviewed like every edit."""
        if (generation := self._state.table.converts_to) is None:
            return
        dialog = ConverterDialog(generation, partial(self._experiment.convert, generation))
        conversion = await self._frontend.prompt(dialog)
        if conversion is not None:
            staged = self._state.staged.adding(conversion.edits, {})
            await self._review(staged.request(), ReviewPrompt(f"Count the batch in {generation}?"))

    async def show_pending(self, readers: tuple[str, ...]) -> None:
        """Shows how files and running values differ, and the cost of a restart.

        For a copy of the run's own, also how it differs from the original.
        """
        plan = None
        if readers:
            async with self._frontend.waiting("Planning the restart", cancels=True):
                plan = await self._experiment.plan(Request(action="restart", components=readers))
        dialog = PendingDialog(self._state.knobs, plan, self._state.table.since_origin)
        await self._frontend.prompt(dialog)

    async def edit_outside(self, path: str | None) -> None:
        """A whole file in the person's own editor; what comes back is reviewed before it is written.

        `path`: which of the files; `None` asks where there are several.
        """
        if (path := path or await self._choose_file()) is None:
            return
        draft = await self._draft_of(path)
        while draft is not None:
            draft = await self._edit_draft(draft)

    async def _draft_of(self, path: str) -> TextDraft | None:
        """The file as it is, or what was left unwritten the last time."""
        draft = self._state.drafts.get(path)
        file = await asyncio.to_thread(self._experiment.read_config, path)
        if draft is None:
            return TextDraft(file, file.text)
        choices = {
            "kept": ("Your edit", "The text that you did not write last time"),
            "file": ("The file", "As it is on disk; your edit is discarded"),
        }
        choice = await self._frontend.prompt(ChoiceMenu("Edit which text?", choices))
        if choice == "file":
            self._state.drafts.pop(path)
        return {"kept": draft, "file": TextDraft(file, file.text)}.get(choice or "")

    async def _edit_draft(self, draft: TextDraft) -> TextDraft | None:
        """One round with the editor; the text to go on with, `None` when done."""
        original = draft.seen
        try:
            with self._frontend.suspend():
                text = self._experiment.edit_text(original.path, draft.text)
        except SuspendNotSupported:
            self._notify(
                f"Cannot open an editor here. Edit the file in another terminal:\n{clean(original.path)}"
            )
            return None
        self._state.drafts.pop(original.path, None)
        if text == original.text:
            self._notify("Unchanged; nothing written")
            return None
        name = file_name(original.path)
        request = Request(action="write", texts={original.path: text}, base={original.path: original.sha256})
        outcome = await self._review(request, ReviewPrompt(f"Write {name}?", may_edit_again=True))
        draft = TextDraft(original, text)
        if outcome == "kept":
            self._state.drafts[original.path] = draft
            self._notify("Not written. Your text is kept; $ resumes the edit")
        return draft if outcome == "again" else None

    async def _choose_file(self) -> str | None:
        files = self._state.table.files
        if len(files) == 1:
            return files[0]
        choices = {path: (file_name(path), clean_line(path)) for path in files}
        menu = ChoiceMenu("Which file?", choices)
        return await self._frontend.prompt(menu)

    async def _review(self, request: Request, question: ReviewPrompt) -> ReviewOutcome:
        """Plan with everything that can be checked, show, ask, write. Conflicts are asked about, too."""
        while True:
            try:
                # The framework's own validators take their time: it is said what is waited for.
                thorough_request = request.replace(restart=True, thorough=True)
                async with self._frontend.waiting("Validating with the framework", cancels=True):
                    plan = await self._experiment.plan(thorough_request)
            except RltuiError as error:
                if not question.may_edit_again:
                    raise
                # A text that is no TOML can be mended, and is not lost meanwhile.
                return "again" if await self._frontend.prompt(EditAgain(error)) else "kept"
            if plan.conflicts:
                if (settled := await self._ask_whose(plan, request)) is not None:
                    return settled
                request = request.replace(base={})
                continue
            if not (plan.diff or plan.blocked):
                self._notify("Nothing to write: the files already have these values")
                return self._drop_edits(request)
            answer = await self._frontend.prompt(ConfigReview(plan, question, self._state.table))
            if answer is None:
                return "kept"
            if answer == "again":
                return answer
            request = request.replace(base=plan.base, restart=answer == "restart")
            result = await self._execute(with_consent(request, plan))
            if result is not None:
                return result

    async def _execute(self, request: Request) -> ReviewOutcome | None:
        """`None` where the files changed while the review was open: it is asked about again."""
        try:
            async with self._frontend.waiting("Writing and restarting" if request.restart else "Writing"):
                plan = await self._experiment.execute(request)
            self._report_written(plan, request)
        except RltuiError as error:
            if isinstance(error, ConflictError) and await self._has_conflicts(request):
                return None
            await self._frontend.show_error(error)
            return "kept"
        return "written"

    async def _has_conflicts(self, request: Request) -> bool:
        try:
            return bool((await self._experiment.plan(request)).conflicts)
        except RltuiError:
            return False

    async def _ask_whose(self, plan: Plan, request: Request) -> ReviewOutcome | None:
        """`None`: mine, onto the new file."""
        choice = await self._frontend.prompt(ConflictDialog(plan))
        if choice == "mine":
            return None
        if choice is None:
            return "kept"
        self._notify("Edit discarded; the file is unchanged")
        return self._drop_edits(request)

    def _report_written(self, plan: Plan, request: Request) -> None:
        self._drop_edits(request)
        self._notify(done_text(plan, restarts=request.restart))

    def _drop_edits(self, request: Request) -> ReviewOutcome:
        """Edits that are written, or given up, are collected no more."""
        for key in request.edits:
            self._state.drop(key)
        return "dropped"

    def _notify(self, text: str) -> None:
        self._frontend.notify(text, markup=False)
