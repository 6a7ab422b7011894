"""Commands on the config: edits, collected and written, taken back and made to count."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from rltui.base.toml.values import format_value
from rltui.core.config.report import KnobInfo
from rltui.core.experiment.api import Request
from rltui.core.experiment.states import ALIVE_STATES
from rltui.ui import verbs
from rltui.ui.actions import Footer, Scope
from rltui.ui.commands.experiment import ExperimentCommands
from rltui.ui.commands.frontend import Frontend
from rltui.ui.copying import CopyRequested
from rltui.ui.key_bindings import bind, own
from rltui.ui.requests import ConfirmableRequest
from rltui.ui.state import ExperimentState
from rltui.views.knob import is_worth_a_row

if TYPE_CHECKING:
    from rltui.ui.commands.config_dialogue import ConfigDialogue

CONFIG_KEYS = (
    own("knob.apply", "A", "config.apply", "apply",
        "Write the collected edits, then restart their readers", Scope.KNOBS, footer=Footer.YES,
        changes=True),
    bind(verbs.UNDO, "config.undo", "Undo the last edit of the config, plan first", footer=Footer.YES),
    own("redo", "U,ctrl+y", "config.redo", "redo", "Redo the edit that was undone", Scope.KNOBS,
        changes=True),
    own("knob.roll-back", "B", "config.roll_back", "roll back",
        "Roll back the edit that broke the run, and restart", Scope.KNOBS, footer=Footer.YES, changes=True),
    own("knob.editor", "dollar_sign", "config.edit_outside", "editor",
        "Edit a config file in $EDITOR; checked before it is written", Scope.KNOBS, changes=True),
    bind(verbs.COPY, "copy", "Copy the knob, as a line of TOML"),
    bind(verbs.WRITE, "config.review", "Write the collected edits, after a review of the diff",
         footer=Footer.YES,
         changes=True),
    bind(verbs.REMOVE, "config.drop", "Remove the collected edit under the cursor", footer=Footer.YES),
)  # fmt: skip
"""Keys of a screen whose `config` are `ConfigCommands`."""


class ConfigCommands:
    def __init__(
        self,
        frontend: Frontend,
        state: ExperimentState,
        commands: ExperimentCommands,
        cursor_knob: Callable[[], KnobInfo | None],
    ) -> None:
        """`cursor_knob`: the knob under the cursor of the screen."""
        self._frontend = frontend
        self._state = state
        self._commands = commands
        self._cursor_knob = cursor_knob

    @cached_property
    def _dialogue(self) -> ConfigDialogue:
        """Imported when first used: the first frame needs no dialogs."""
        from rltui.ui.commands.config_dialogue import ConfigDialogue

        return ConfigDialogue(self._frontend, self._state)

    def allows(self, command: str, *arguments: object) -> bool:
        del arguments
        table, staged, status = self._state.table, self._state.staged, self._state.status
        match command:
            case "apply":
                return bool(staged or self.pending_readers)
            case "review":
                return bool(staged)
            case "drop":
                return (knob := self._cursor_knob()) is not None and knob.key in staged.edits
            case "undo":
                return table.undo is not None
            case "redo":
                return table.redo is not None
            case "roll_back":
                return status is not None and status.rollback is not None
            case "edit_outside":
                return bool(table.files)
            case "convert":
                return table.converts_to is not None
            case "show_pending":
                return bool(self.pending_readers or table.since_origin)
            case _:
                return True

    def copied(self) -> CopyRequested | None:
        if (knob := self._cursor_knob()) is None:
            return None
        value = knob.value if knob.is_set else knob.default
        return CopyRequested(knob.key if value is None else f"{knob.key} = {format_value(value)}")

    def edit(self, knob: KnobInfo) -> None:
        self._frontend.work(self._dialogue.edit(knob))

    def edit_chosen(self, reader: str | None) -> bool:
        """Edit the knob under the cursor, or one that the component `reader` reads. False: there is none."""
        edits, knobs = self._state.staged.edits, self._state.table.knobs
        read = [knob for knob in knobs if reader in knob.readers and is_worth_a_row(knob, edits)]
        if (knob := self._cursor_knob()) is not None:
            self.edit(knob)
        elif reader is not None and read:
            self._frontend.work(self._dialogue.edit_one_of(read, reader))
        else:
            return False
        return True

    @property
    def pending_readers(self) -> tuple[str, ...]:
        """Living components that were started with other values than the files have now."""
        status = self._state.status
        alive = {item.id for item in status.components if item.state in ALIVE_STATES} if status else set()
        changes = [knob for knob in self._state.knobs if knob.changed]
        return tuple(dict.fromkeys(name for knob in changes for name in knob.readers if name in alive))

    def apply(self) -> None:
        """Make what was collected count, or else what is in the files already."""
        if self._state.staged:
            self._frontend.work(self._dialogue.review(apply=True))
        elif readers := self.pending_readers:
            request = Request(action="restart", components=readers)
            self._commands.request(
                ConfirmableRequest(request, "Restart to apply the changed knobs?", danger=True)
            )

    def review(self) -> None:
        self._frontend.work(self._dialogue.review())

    def drop(self) -> None:
        if (knob := self._cursor_knob()) is not None:
            self._state.drop(knob.key)

    def undo(self) -> None:
        self._frontend.work(self._dialogue.undo())

    def redo(self) -> None:
        self._frontend.work(self._dialogue.redo())

    def roll_back(self) -> None:
        status = self._state.status
        if status is not None and status.rollback is not None:
            self._frontend.work(self._dialogue.roll_back(status.rollback))

    def edit_outside(self) -> None:
        """Edit the file of the knob under the cursor; without one, ask which."""
        knob = self._cursor_knob()
        self._frontend.work(self._dialogue.edit_outside(knob.file if knob is not None else None))

    def convert(self) -> None:
        self._frontend.work(self._dialogue.convert())

    def show_pending(self) -> None:
        """Changes nothing, so everybody may."""
        self._frontend.work(self._dialogue.show_pending(self.pending_readers), changes=False)
