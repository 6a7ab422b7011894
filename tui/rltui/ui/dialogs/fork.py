"""A dialog with the fields of `rltui fork` previews and starts a fork."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar

from textual import on
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from rltui.base.text import join_words
from rltui.core.config.knobs import split_assignments
from rltui.core.runs.forks import ForkPlan, ForkRequest, parse_checkpoint
from rltui.core.runs.row import RunRow
from rltui.errors import RltuiError, UsageError
from rltui.ui.actions import KeyContext
from rltui.ui.background import in_background
from rltui.ui.dialogs.base import FIELDS_KEYS, Field, FieldsDialog, KeyHint
from rltui.ui.key_bindings import keys
from rltui.ui.messages import waiting
from rltui.ui.styles import FAINT
from rltui.ui.text import clean, clean_line
from rltui.views.run import fork_lines

_PAUSE_S = 0.3
"""The preview asks the framework: it waits so long after the last key."""
_STYLES = {"+": "$text-success", "-": "$text-error", "@": FAINT}
"""The keys are the signs that lines of a diff begin with."""
_EDITS, _BEGIN, _NAME, _START = "edits", "begin", "name", "start"

_NOW, _QUEUE = "now", "queue"
FindParent = Callable[[], Awaitable[RunRow]]
Plan = Callable[[RunRow, ForkRequest], Awaitable[ForkPlan]]
Start = Callable[[RunRow, ForkRequest], Awaitable[str]]


def fork_request(entries: Mapping[str, str]) -> ForkRequest:
    """The fork that the fields of the dialog say.

    Raises:
        UsageError: where a field cannot be understood.
    """
    try:
        edits = split_assignments(shlex.split(entries[_EDITS]))
    except ValueError as error:
        raise UsageError(f"set: {error}") from None
    begin = parse_checkpoint(entries[_BEGIN]) if entries[_BEGIN] else None
    start = entries[_START].casefold() or _NOW
    if start not in (_NOW, _QUEUE):
        raise UsageError(f"start: not {_NOW} or {_QUEUE}: {entries[_START]}")
    return ForkRequest(edits=edits, begin=begin, name=entries[_NAME] or None, is_queued=start == _QUEUE)


def _begin_text(steps: Sequence[str]) -> str:
    """The placeholder; `steps` of the checkpoints, the newest first."""
    return f"{join_words(steps[:3], 'or') or 'last'} (↑↓); empty: step 0"


class ForkDialog(FieldsDialog):
    """Shows what it comes to, and asks until it is done or cancelled."""

    BINDINGS: ClassVar = keys(KeyContext.FORK, *FIELDS_KEYS)

    def __init__(
        self, name: str, find_parent: FindParent, plan: Plan, start: Start, *, begin: str = ""
    ) -> None:
        """`name` of the parent. `find_parent`: asked until it answers. `begin`: the checkpoint, as a person
        types it.
        """
        fields = {
            _EDITS: Field("set", "lr=1e-3 batch_size=64 …"),
            _BEGIN: Field("from checkpoint", _begin_text(()), begin),
            _NAME: Field("name", "empty: named after the changes"),
            _START: Field("start", f"{_NOW}, or {_QUEUE}: when resources are free"),
        }
        self._preview = Static(id="fork-words", classes="body")
        below = VerticalScroll(self._preview, classes="scroll")
        super().__init__(clean_line(f"Fork {name}"), fields, below, _BEGIN)
        self._find_parent = find_parent
        self._forked_run: RunRow | None = None
        self._plan = plan
        self._start = start
        self._is_busy = False

    def footer_hints(self) -> Sequence[KeyHint]:
        return ("enter", "fork"), ("tab", "next field"), ("evaluate.cancel", "")

    def on_mount(self) -> None:
        self.fields[_EDITS].focus()
        self._look(0.0)

    @on(Input.Changed)
    def _schedule_preview(self) -> None:
        self._look(_PAUSE_S)

    def _look(self, pause_s: float) -> None:
        if not self._is_busy:
            in_background(self, partial(self._show_plan, pause_s), group="plan")

    async def _show_plan(self, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        try:
            parent = await self._run_to_fork()
            async with waiting(self.app, "Planning the fork"):
                lines = fork_lines(await self._plan(parent, fork_request(self.entries)))
        except RltuiError as error:
            self._refuse(error)
            return
        rows = [Content.styled(clean_line(line), _STYLES.get(line[:1], "")) for line in lines]
        self._preview.update(Content("\n").join(rows))

    async def _run_to_fork(self) -> RunRow:
        if self._forked_run is None:
            async with waiting(self.app, "Updating the run list"):
                self._forked_run = await self._find_parent()
            steps = [*map(str, sorted(self._forked_run.checkpoints, reverse=True))]
            self.choices = ("", *steps)
            self.choice_field.placeholder = _begin_text(steps)
        return self._forked_run

    def _refuse(self, error: RltuiError) -> None:
        lines = [error.title, *error.details, *([f"→ {error.hint}"] if error.hint else [])]
        self._preview.update(Content.styled(clean("\n".join(lines)), "$text-warning"))

    @on(Input.Submitted)
    def _submit(self) -> None:
        if not self._is_busy:
            self._is_busy = True
            self.workers.cancel_group(self, "plan")
            in_background(self, self._carry_out, group="fork")

    async def _carry_out(self) -> None:
        try:
            request = fork_request(self.entries)
            self._preview.update("Creating the fork; copying a large checkpoint can take minutes …")
            async with waiting(self.app, "Creating the fork"):
                answer = await self._start(await self._run_to_fork(), request)
            self.dismiss(answer)
        except RltuiError as error:
            self._refuse(error)
            self.app.bell()
        finally:
            self._is_busy = False

    def action_cancel(self) -> None:
        """Leave all as it is. What is being made is waited for."""
        if not self._is_busy:
            self.dismiss(None)
