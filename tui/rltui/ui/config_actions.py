"""The config keys, which the overview and the config screen have in common."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from rltui.core.api import Request
from rltui.core.config_report import KnobInfo
from rltui.core.states import ALIVE_STATES
from rltui.core.toml.values import format_value
from rltui.ui import verbs
from rltui.ui.actions import Footer, Scope
from rltui.ui.base_screen import BaseScreen
from rltui.ui.copying import CopyRequested
from rltui.ui.key_bindings import bind, own
from rltui.ui.requests import ConfirmableRequest

if TYPE_CHECKING:
    from rltui.ui.config_work import ConfigWork


CONFIG_KEYS = (
    own("knob.apply", "A", "apply_knobs", "apply",
        "Write what was collected and restart what reads the changed knobs, so that they count", Scope.KNOBS,
        footer=Footer.YES, changes=True),
    bind(verbs.UNDO, "undo_edit", footer=Footer.YES),
    own("redo", "U,ctrl+y", "redo_edit", "redo", "Make the edit again that was taken back", Scope.KNOBS,
        changes=True),
    own("knob.roll-back", "B", "roll_back", "roll back",
        "Take back the edit that a component or the run did not survive, and restart: after a collapse "
        "from the last good checkpoint", Scope.KNOBS, footer=Footer.YES, changes=True),
    own("knob.editor", "dollar_sign", "edit_outside", "editor",
        "Edit a config file in $VISUAL or $EDITOR; what comes back is checked first", Scope.KNOBS,
        changes=True),
    bind(verbs.COPY, help="Copy the knob under the cursor, as a line of a TOML file"),
    bind(verbs.WRITE, "review_edits", help="Review the collected edits as one diff, and write them",
         footer=Footer.YES, changes=True),
    bind(verbs.REMOVE, "drop_edit", "drop", "Forget the collected edit under the cursor", footer=Footer.YES),
)  # fmt: skip
"""What the overview and the config screen both have."""


class ConfigActions(BaseScreen):
    """Turns keys into work. A screen of it says which knob is under its cursor."""

    @cached_property
    def config_work(self) -> ConfigWork:
        """Loaded when first used: the first frame needs no dialogs."""
        from rltui.ui.config_work import ConfigWork

        return ConfigWork(self.app, self.shared)

    @property
    def cursor_knob(self) -> KnobInfo | None:
        raise NotImplementedError

    def copied(self) -> CopyRequested | None:
        """The knob under the cursor, as a line of a TOML file."""
        if (knob := self.cursor_knob) is None:
            return super().copied()
        value = knob.value if knob.is_set else knob.default
        return CopyRequested(knob.key if value is None else f"{knob.key} = {format_value(value)}")

    def edit(self, knob: KnobInfo) -> None:
        self.work(self.config_work.edit(knob))

    @property
    def pending_readers(self) -> tuple[str, ...]:
        """Living components that were started with other values than the files have now."""
        status = self.shared.status
        alive = {item.id for item in status.components if item.state in ALIVE_STATES} if status else set()
        changed = [knob for knob in self.shared.knobs if knob.changed]
        return tuple(dict.fromkeys(name for knob in changed for name in knob.readers if name in alive))

    def action_apply_knobs(self) -> None:
        """What was collected, or else what is in the files already: make it count."""
        if self.shared.staged:
            self.work(self.config_work.review(apply=True))
        elif readers := self.pending_readers:
            request = Request(action="restart", components=readers)
            self.commands.request(
                ConfirmableRequest(request, "Restart so that the changed knobs count?", danger=True)
            )

    def action_review_edits(self) -> None:
        self.work(self.config_work.review())

    def action_drop_edit(self) -> None:
        if (knob := self.cursor_knob) is not None:
            self.shared.drop(knob.key)

    def action_undo_edit(self) -> None:
        self.work(self.config_work.undo())

    def action_redo_edit(self) -> None:
        """Asks, default no."""
        self.work(self.config_work.redo())

    def action_roll_back(self) -> None:
        """Asks, default no."""
        if self.shared.status is not None and self.shared.status.rollback is not None:
            self.work(self.config_work.roll_back(self.shared.status.rollback))

    def action_edit_outside(self) -> None:
        """The file of the knob under the cursor, where there is one; else it is asked for."""
        knob = self.cursor_knob
        self.work(self.config_work.edit_outside(knob.file if knob is not None else None))

    def action_convert_batch(self) -> None:
        self.work(self.config_work.convert())

    def action_show_pending(self) -> None:
        """Changes nothing, so everybody may."""
        self.work(self.config_work.show_pending(self.pending_readers), changes=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._config_allows(action) and super().check_action(action, parameters)

    def _config_allows(self, action: str) -> bool:
        table, staged = self.shared.table, self.shared.staged
        match action:
            case "edit_knob":
                return bool(self.shared.knobs)
            case "apply_knobs":
                return bool(staged or self.pending_readers)
            case "review_edits":
                return bool(staged)
            case "drop_edit":
                return self.cursor_knob is not None and self.cursor_knob.key in staged.edits
            case "undo_edit":
                return table.undo is not None
            case "redo_edit":
                return table.redo is not None
            case "roll_back":
                return self.shared.status is not None and self.shared.status.rollback is not None
            case "edit_outside":
                return bool(table.files)
            case "convert_batch":
                return table.converts_to is not None
            case "show_pending":
                return bool(self.pending_readers or table.since_origin)
            case _:
                return True
