# ruff: noqa: PTH103, PTH104, PTH108, PTH118, PTH120, PTH123
"""The record of the attempt, which others read: `attempt.json`."""

from __future__ import annotations

import contextlib
import json
import os
import time

from rltui.hosts.shim.spawn import ForeignFileError, Spec, read_own
from rltui.hosts.shim.tree import boot_identity, start_ticks

TYPE_CHECKING = False  # the one of `typing`, as in `spawn`
if TYPE_CHECKING:
    from typing import Any

ADOPTS = "RLTUI_ADOPTS"
"""Variable that makes a shim take up with an attempt whose own one is gone: it says how, for people."""
_RESERVED_BYTES = 1024
"""Most bytes by which the last record is longer than the first."""


def first_record(spec: Spec) -> dict[str, Any]:
    """All values of a record, before anything is started."""
    return {
        "experiment": spec.experiment,
        "component": spec.component,
        "attempt": spec.attempt,
        "state": "running",
        "boot": boot_identity(),
        "shim_pid": os.getpid(),
        "shim_start": start_ticks(os.getpid()),
        "pid": None,
        "pid_start": None,
        "session": None,
        "argv": spec.argv,
        "cwd": spec.cwd,
        "log": spec.log,
        "started_at": time.time(),
        "ended_at": None,
        "exit_code": None,
        "signal": None,
        "error": None,
        "stop_requested": False,
        "leftovers_kept": False,
        "descendants": [],
    }


def read_record(folder: str) -> dict[str, Any] | None:
    """The record of the attempt in `folder`; `None` if it has none that can be read."""
    try:
        return read_own(os.path.join(folder, "attempt.json"))
    except (OSError, ValueError, ForeignFileError):
        return None


def adopted_record(folder: str, spec: Spec, reason: str) -> dict[str, Any]:
    """The record of an attempt that goes on under this shim, as its own one is gone: `reason` says how."""
    own = first_record(spec)
    shim = {key: own[key] for key in ("shim_pid", "shim_start")}
    return {**own, **(read_record(folder) or {}), **shim, "adopted": reason}


class Record:
    """`attempt.json`, always replaced as a whole, so a reader never finds half of it.

    Written only when it changed, or when the file is not what was written any more. A deleted folder is made
    again: whoever deleted it under a living attempt still wants to know how that ends.
    """

    def __init__(self, folder: str, values: dict[str, Any]) -> None:
        self.values = values
        self._reserve = os.path.join(folder, "attempt.reserve")
        self.problem: str | None = None
        """The error of the last write, `None` if it succeeded."""
        self._path = os.path.join(folder, "attempt.json")
        self._written_text = ""
        self._fingerprint: tuple[int, int, int] | None = None
        """Identifies the file as it was written: any other was written or damaged by somebody else."""

    def save(self, *, durable: bool = True) -> None:
        """Write if changed, deleted or damaged. A failure is kept in `problem` and the next call tries again.

        `durable` waits for the disk, which takes long while a checkpoint is being written.
        """
        text = json.dumps(self.values)
        if (
            text == self._written_text
            and self._fingerprint is not None
            and _read_fingerprint(self._path) == self._fingerprint
        ):
            return
        try:
            try:
                self._replace(text, durable=durable)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(self._path), exist_ok=True)
                self._replace(text, durable=durable)
                self.reserve_room()
        except OSError as error:
            self.problem = f"cannot write {self._path}: {error.strerror}"
        else:
            self._written_text, self.problem = text, None

    def save_last(self) -> None:
        """Write the outcome, even on a full disk: a checkpoint that fills it is a common way to end."""
        self.save()
        with contextlib.suppress(OSError):  # no reserve, or a folder gone read-only: nothing more can be done
            if self.problem is not None:
                with open(self._reserve, "r+", encoding="utf-8") as file:
                    file.write(json.dumps(self.values))
                    file.truncate()
                os.rename(self._reserve, self._path)
            else:
                os.unlink(self._reserve)

    def reserve_room(self) -> None:
        """Occupy the blocks that `save_last` overwrites if it must."""
        with (
            contextlib.suppress(OSError),
            open(self._reserve, "wb", opener=_private) as file,
        ):
            file.write(b" " * (len(json.dumps(self.values)) + _RESERVED_BYTES))

    def outcome(self) -> str:
        """How the main process ended, for people: `exited 3 at 12:00:00`. Only once it has."""
        values = self.values
        ended_at = values["ended_at"]
        local_time = time.localtime(ended_at if isinstance(ended_at, float) else None)
        exited = f"exited {values['exit_code']}"
        outcome = values["error"] or (f"ended by {values['signal']}" if values["signal"] else exited)
        return f"{outcome} at {time.strftime('%H:%M:%S', local_time)}"

    def _replace(self, text: str, *, durable: bool) -> None:
        temporary = f"{self._path}.tmp"
        with open(temporary, "w", encoding="utf-8", opener=_private) as file:
            file.write(text)
            file.flush()
            if durable:
                os.fsync(file.fileno())
            stamp = _fingerprint(os.fstat(file.fileno()))  # before others can reach it
        os.rename(temporary, self._path)
        self._fingerprint = stamp


def _private(path: str, flags: int) -> int:
    """Opener for `open`: the file is for the user alone, and no link is followed."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _read_fingerprint(path: str) -> tuple[int, int, int] | None:
    try:
        return _fingerprint(os.lstat(path))
    except OSError:
        return None


def _fingerprint(info: os.stat_result) -> tuple[int, int, int]:
    return info.st_ino, info.st_size, info.st_mtime_ns
