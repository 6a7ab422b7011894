"""Presence of programs in an output folder: a locked file per role, with the session that holds it.

Hand-over goes through files, and files outlive their writers. Orchestrator and trainer therefore stamp their
files with their session, and accept only those of the peer that is alive now (or was last seen alive).
A lock is released by the kernel with its process, so a crash leaves nothing to clean up.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from rltui.tinyrl import TinyrlError, log_lines

_LOCK_TIMEOUT_S = 2.0
"""A reader's look holds the lock for microseconds; a rival holds it for good."""


@dataclass(frozen=True, slots=True)
class Session:
    id: str
    pid: int
    start_step: int
    """Steps finished before this session's first."""


class Presence:
    """Announces this process in its role until it ends or `close` is called."""

    def __init__(self, output_dir: Path, role: str, start_step: int) -> None:
        self.session = Session(uuid.uuid4().hex, os.getpid(), start_step)
        path = _path(output_dir, role)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] = path.open("a+", encoding="utf-8")
        deadline = time.monotonic() + _LOCK_TIMEOUT_S
        while not _try_lock(self._file, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                self._file.close()
                raise TinyrlError(
                    f"another {role} is running in {output_dir} (see {path}): stop it, or set another"
                    " output_dir"
                )
            time.sleep(0.01)
        self._file.truncate(0)
        self._file.write(json.dumps(asdict(self.session)))
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class Peer:
    def __init__(self, output_dir: Path, role: str) -> None:
        self._path = _path(output_dir, role)
        self.last_seen: Session | None = None
        """The session most recently found alive; it may have ended since."""
        self.is_alive = False

    def look(self) -> Session | None:
        """Refresh, and return `last_seen`."""
        session = self._read_live()
        self.is_alive = session is not None
        self.last_seen = session or self.last_seen
        return self.last_seen

    def _read_live(self) -> Session | None:
        try:
            with self._path.open(encoding="utf-8") as file:
                if _try_lock(file, fcntl.LOCK_SH):
                    return None
                return Session(**json.loads(file.read()))
        except (FileNotFoundError, json.JSONDecodeError):
            return None  # not started, or locked and about to write


def _path(output_dir: Path, role: str) -> Path:
    return output_dir / "control" / f"{role}.json"


def _try_lock(file: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


POLL_S = 0.02
"""Interval between two looks at the file system: short compared to a step, and next to nothing in CPU."""

_MISMATCH_TIMEOUT_S = 20.0
"""A peer that does not fit may be one that is just being stopped."""


class PairingGuard:
    """Checks that the peer's history is the one this process continues."""

    def __init__(self, peer: Peer, role: str) -> None:
        self._peer, self._role = peer, role
        self._accepted: Session | None = None
        self._mismatch_since_s: float | None = None

    def session(self, finished_steps: int) -> Session | None:
        """The peer to accept files from, `None` while there is none that fits.

        A new session fits if it starts exactly after `finished_steps`, the steps of this process.

        Raises:
            TinyrlError: the peer has been at another step for a while.
        """
        peer = self._peer.look()
        if peer is None or peer == self._accepted:
            return self._accepted
        if peer.start_step == finished_steps:
            self._accepted, self._mismatch_since_s = peer, None
            log_lines.info(f"Paired with the {self._role} (pid {peer.pid})")
            return peer
        now = time.monotonic()
        message = (
            f"The {self._role} (pid {peer.pid}) starts after step {peer.start_step}, but this process"
            " is at step"
            f" {finished_steps}. Restart both with the same --ckpt.resume-step"
        )
        if self._mismatch_since_s is None:
            self._mismatch_since_s = now
            log_lines.warning(message)
        elif self._peer.is_alive and now - self._mismatch_since_s > _MISMATCH_TIMEOUT_S:
            raise TinyrlError(message)
        return None
