"""The offer to undo an edit that a component did not survive."""

from __future__ import annotations

import time
from collections.abc import Callable

from rltui.base.text import duration
from rltui.core import hints
from rltui.core.config.edit_log import EditRecord
from rltui.core.experiment.api import Alert, Plan, Request, RollbackOffer
from rltui.core.experiment.lifecycle import Lifecycle
from rltui.core.experiment.states import ComponentState
from rltui.services.experiment.intent import AppliedEdit
from rltui.services.experiment.registry import run_command
from rltui.supervisor.component import ComponentRunner

_START_WINDOW_S = 60.0
"""A component that dies this soon after it was ready has not survived its start."""
_DEAD_STATES = (ComponentState.FAILED, ComponentState.BACKOFF)


class RollbackWatch:
    """Watches whether every component survives its start with the newest applied edit.

    Times are those of the wall clock, since a next supervisor may go on with them.
    """

    def __init__(
        self, experiment: str, *, alert: Callable[[Alert], None], clock: Callable[[], float] = time.time
    ) -> None:
        self._experiment = experiment
        self._alert = alert
        self._clock = clock
        self.applied_edit: AppliedEdit | None = None
        """The edit that the next supervisor must go on watching, should this one be killed now."""

    @property
    def offer(self) -> RollbackOffer | None:
        """The edit that a component did not survive, and that nobody touched since."""
        return self.applied_edit.offer if self.applied_edit is not None else None

    def start(self, record: EditRecord, plan: Plan) -> None:
        """Watch the edit `record`, with which `plan` is about to be executed. After an undo there is nothing
        to watch: the next undo would take back another edit.
        """
        is_undo = record.action == "undo"
        self.applied_edit = (
            None if is_undo else AppliedEdit(number=record.number, words=record.words, components=plan.start)
        )

    def withdraw(self) -> None:
        """Stop watching: somebody went on with something else."""
        self.applied_edit = None

    def restore(self, applied_edit: AppliedEdit | None, undoable: EditRecord | None) -> None:
        """Go on watching an earlier supervisor's edit, if `undoable` is still that edit."""
        is_newest = (
            applied_edit is not None and undoable is not None and applied_edit.number == undoable.number
        )
        self.applied_edit = applied_edit if is_newest else None

    def with_components(self, request: Request) -> Request:
        """`request` with the component that died, if it is an undo that accepts the offer: that is started
        whether or not it reads what is undone.
        """
        if self.offer is None or self.applied_edit is None or request.action != "undo" or not request.restart:
            return request
        components = dict.fromkeys((*request.components, self.offer.component))
        return request.replace(components=tuple(components))

    def lifecycle_changed(self, component: ComponentRunner, previous: Lifecycle) -> None:
        applied_edit, lifecycle, name = self.applied_edit, component.lifecycle, component.spec.id
        if applied_edit is None or name not in applied_edit.components:
            return
        now = self._clock()
        if lifecycle.state is ComponentState.READY and previous.state is not lifecycle.state:
            recovered = applied_edit.offer is not None and applied_edit.offer.component == name
            self.applied_edit = applied_edit.replace(
                ready_at={**applied_edit.ready_at, name: now},
                offer=None if recovered else applied_edit.offer,
            )
            return
        is_starting = now - applied_edit.ready_at.get(name, now) <= _START_WINDOW_S
        if lifecycle.exit is not None and lifecycle.exit.from_outside:  # no edit's fault
            return
        if (
            applied_edit.offer is None
            and is_starting
            and lifecycle.state in _DEAD_STATES
            and previous.state not in _DEAD_STATES
        ):
            record = component.record
            after_text = f" after {duration(now - record.started_at)}" if record is not None else ""
            reason = f"{name} failed{after_text}: {lifecycle.reason or lifecycle.word}"
            offer = RollbackOffer(edit=applied_edit.words, component=name, reason=reason)
            self.applied_edit = applied_edit.replace(offer=offer)
            undo = run_command(hints.UNDO_RESTART, self._experiment)
            title = f"{name} failed after an edit"
            text = f"{applied_edit.words}: {reason}. To undo the edit: {undo}"
            self._alert(Alert(kind="config", severity="error", title=title, text=text, component=name))
