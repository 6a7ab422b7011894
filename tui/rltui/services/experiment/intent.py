"""The supervisor's pending work on disk: if it is killed, the next one finishes it.

Failures are stored by the wall clock, since a monotonic one means nothing to another process.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import field

from rltui.base.values import InvalidValueError, Value
from rltui.core.experiment.actor import Actor
from rltui.core.experiment.api import Down, Plan, Request, RollbackOffer
from rltui.core.experiment.lifecycle import Lifecycle
from rltui.errors import RltuiError
from rltui.services.own_files import file_fingerprint, read_own, write_atomically
from rltui.services.processes import boot_identity

logger = logging.getLogger(__name__)


class Pending(Value):
    """A transaction whose starts have not all been executed."""

    request: Request
    plan: Plan
    automatic: bool = False
    actor: Actor | None = None
    """Who requested it; `None`: a restart policy, or an earlier version wrote this."""


class AppliedEdit(Value):
    """An edit that components were restarted for."""

    number: int = 0
    words: str
    components: tuple[str, ...]
    ready_at: dict[str, float] = field(default_factory=dict)
    """Component → time at which it became ready, in seconds since the epoch."""
    offer: RollbackOffer | None = None
    """Set if one of the components failed after the edit."""


class Intent(Value):
    """The content of `intent.json`."""

    boot: str = ""
    """Boot and container in which it was written. In another one it is void."""
    alive: tuple[str, ...] = ()
    """Components that had a process: one without a process now ended unseen."""
    waiting: tuple[str, ...] = ()
    """Components whose start was in progress."""
    backoff: tuple[str, ...] = ()
    """Components that their restart policy was about to start again."""
    failed_at: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Component → failures that count, in seconds since the epoch, oldest first."""
    actors: dict[str, Actor] = field(default_factory=dict)
    """Component of these → who started it."""
    transaction: Pending | None = None
    rollback: AppliedEdit | None = None
    down: Down | None = None
    """Set once the experiment is asked to go down. The next supervisor finishes that, or starts again."""

    @property
    def is_unfinished(self) -> bool:
        """True if a start or stop is pending that no process reveals."""
        return bool(self.transaction or self.waiting or self.backoff)


def intent_of(
    lives: Mapping[str, Lifecycle],
    transaction: Pending | None,
    rollback: AppliedEdit | None,
    down: Down | None,
) -> Intent:
    from_monotonic = time.time() - time.monotonic()
    return Intent(
        boot=boot_identity(),
        alive=tuple(name for name, life in lives.items() if life.alive),
        waiting=tuple(name for name, life in lives.items() if life.busy and not life.alive),
        backoff=tuple(name for name, life in lives.items() if life.expected and not life.busy),
        failed_at={
            name: tuple(float(round(moment + from_monotonic)) for moment in life.failures)
            for name, life in lives.items()
            if life.failures
        },
        transaction=transaction,
        rollback=rollback,
        down=down,
    )


def failures(intent: Intent, component: str) -> tuple[float, ...]:
    """Failures of a component by this process's monotonic clock; none in the future."""
    to_monotonic = time.monotonic() - time.time()
    return tuple(
        min(moment + to_monotonic, time.monotonic()) for moment in intent.failed_at.get(component, ())
    )


class IntentFile:
    """The file `intent.json`, written when the intent changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: Intent | None = None
        self._fingerprint: tuple[int, int, int] | None = None
        """Fingerprint of the file as it was written."""
        self._problem = ""
        """The last error that was logged."""

    def read(self) -> Intent:
        """Empty if there is no valid file. Of another boot only who took the run down: nothing of that is
        pending any more.
        """
        try:
            intent = Intent.from_json(read_own(self._path))
        except (FileNotFoundError, NotADirectoryError):
            return Intent()
        except (OSError, InvalidValueError) as error:
            logger.error("%s cannot be read: %s", self._path, error)
            return Intent()
        if intent.boot == boot_identity():
            return intent
        return Intent(down=intent.down and intent.down.replace(complete=True, left=()))

    def write(self, intent: Intent) -> None:
        """Store it; again if the file was damaged. A full disk has no other effect, unless we are killed."""
        if intent == self._written and self._fingerprint == file_fingerprint(self._path):
            return
        try:
            write_atomically(self._path, intent.to_json())
        except RltuiError as error:
            if str(error) != self._problem:
                logger.error("%s", error)
            self._problem = str(error)
        else:
            self._written, self._fingerprint, self._problem = intent, file_fingerprint(self._path), ""
