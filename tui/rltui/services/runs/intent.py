"""What the supervisor has in hand, on disk: should it be killed, the next one finishes it.

Clocks: failures are kept by the wall clock, since a monotonic one means nothing to another process.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from rltui.core.api import Down, Plan, Request, RollbackOffer
from rltui.core.lifecycle import Lifecycle
from rltui.errors import RltuiError
from rltui.services.own_files import read_own, write_atomically
from rltui.services.processes import boot_identity

logger = logging.getLogger(__name__)


class Pending(BaseModel):
    """A transaction whose starts have not all been handed over."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    request: Request
    plan: Plan
    automatic: bool = False


class AppliedEdit(BaseModel):
    """An edit that components were restarted for."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    number: int = 0
    """Of its record."""
    words: str
    components: tuple[str, ...]
    ready_at: dict[str, float] = {}
    """When each became ready, in seconds since the epoch."""
    offer: RollbackOffer | None = None
    """One of them did not survive it."""


class Intent(BaseModel):
    """The state of `intent.json`."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    boot: str = ""
    """Of the machine and container it was written in. In another one, nothing of it holds any more."""
    alive: tuple[str, ...] = ()
    """Components that had a process: one that has none now ended unseen."""
    waiting: tuple[str, ...] = ()
    """Components whose start had begun."""
    backoff: tuple[str, ...] = ()
    """Components that were to be started again by their restart policy."""
    failed_at: dict[str, tuple[float, ...]] = {}
    """Failures that count, in seconds since the epoch, oldest first."""
    transaction: Pending | None = None
    rollback: AppliedEdit | None = None
    down: Down | None = None
    """Set from the moment it is asked to be taken down. The next supervisor finishes that, or begins anew."""

    @property
    def is_unfinished(self) -> bool:
        """Something was to be started, or is to be stopped, that no process reminds of."""
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
            name: tuple(round(moment + from_monotonic) for moment in life.failures)
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
    """`intent.json`, written when it changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: Intent | None = None
        self._stamp: tuple[int, int, int] | None = None
        """Of the file as it was written."""
        self._problem = ""
        """Told last."""

    def read(self) -> Intent:
        """What an earlier supervisor had in hand; nothing where there is no sound file of this boot."""
        try:
            intent = Intent.model_validate_json(read_own(self._path))
        except (FileNotFoundError, NotADirectoryError):
            return Intent()
        except (OSError, ValidationError) as error:
            logger.error("%s cannot be read: %s", self._path, error)
            return Intent()
        return intent if intent.boot == boot_identity() else Intent()

    def write(self, intent: Intent) -> None:
        """Keep it; again where the file was damaged. A full disk costs only that, should we die now."""
        if intent == self._written and self._stamp == self._file_stamp():
            return
        try:
            write_atomically(self._path, intent.model_dump_json().encode())
        except RltuiError as error:
            if str(error) != self._problem:
                logger.error("%s", error)
            self._problem = str(error)
        else:
            self._written, self._stamp, self._problem = intent, self._file_stamp(), ""

    def _file_stamp(self) -> tuple[int, int, int] | None:
        try:
            info = self._path.lstat()
        except OSError:
            return None
        return info.st_ino, info.st_size, info.st_mtime_ns
