"""Edits that were applied by a restart, and whether every component survives its start with them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from rltui.core.api import Alert, ComponentState, Plan, Request, RollbackOffer
from rltui.core.edit_log import EditRecord
from rltui.core.layout import ComponentSpec
from rltui.core.lifecycle import Life
from rltui.core.text import duration
from rltui.services.intent import AppliedEdit
from rltui.services.processes import AttemptRecord

START_WINDOW_S = 60.0
"""A component that dies this soon after it was ready has not survived its start."""
_DIED = (ComponentState.FAILED, ComponentState.BACKOFF)


class Watched(Protocol):
    """What is looked at in a component."""

    @property
    def spec(self) -> ComponentSpec:
        """Its entry in the layout."""
        ...

    @property
    def life(self) -> Life:
        """Its life now."""
        ...

    @property
    def record(self) -> AttemptRecord | None:
        """What its shim last wrote."""
        ...


class RollbackWatch:
    """Watches the newest applied edit. Clocks are the wall's, since a next supervisor may go on with it."""

    def __init__(self, *, alert: Callable[[Alert], None], clock: Callable[[], float] = time.time) -> None:
        self._alert = alert
        self._clock = clock
        self.applied: AppliedEdit | None = None
        """What the next supervisor must go on watching, should this one be killed now."""

    @property
    def offer(self) -> RollbackOffer | None:
        """The edit that a component did not survive, and that nobody touched since."""
        return self.applied.offer if self.applied is not None else None

    def begin(self, record: EditRecord, plan: Plan) -> None:
        """`record` was written, and `plan` is about to be carried out with it."""
        self.applied = AppliedEdit(words=record.words, components=plan.start)

    def withdraw(self) -> None:
        """Somebody went on with something else."""
        self.applied = None

    def restore(self, applied: AppliedEdit | None) -> None:
        """Go on with what an earlier supervisor watched."""
        self.applied = applied

    def with_components(self, request: Request) -> Request:
        """An undo that accepts the offer also starts what died, whether or not that reads what is undone."""
        if self.offer is None or self.applied is None or request.action != "undo" or not request.restart:
            return request
        named = dict.fromkeys((*request.components, self.offer.component))
        return request.model_copy(update={"components": tuple(named)})

    def life_changed(self, component: Watched, before: Life) -> None:
        """Call after every transition."""
        applied, life, name = self.applied, component.life, component.spec.id
        if applied is None or name not in applied.components:
            return
        now = self._clock()
        if life.state is ComponentState.READY and before.state is not life.state:
            recovered = applied.offer is not None and applied.offer.component == name
            self.applied = applied.model_copy(
                update={
                    "ready_at": {**applied.ready_at, name: now},
                    "offer": None if recovered else applied.offer,
                }
            )
            return
        is_starting = now - applied.ready_at.get(name, now) <= START_WINDOW_S
        if applied.offer is None and is_starting and life.state in _DIED and before.state not in _DIED:
            self._make_offer(applied, component, now)

    def _make_offer(self, applied: AppliedEdit, component: Watched, now: float) -> None:
        name, record, life = component.spec.id, component.record, component.life
        started_at = record.started_at if record is not None else None
        after = f" after {duration(now - started_at)}" if started_at is not None else ""
        reason = f"{name} died{after}: {life.reason or life.state}"
        offer = RollbackOffer(edit=applied.words, component=name, reason=reason)
        self.applied = applied.model_copy(update={"offer": offer})
        self._alert(
            Alert(
                kind="config",
                severity="error",
                title=f"{name} did not survive an edit",
                text=f"{applied.words}: {reason}. Undo and restart? rltui undo --restart",
                component=name,
            )
        )
