"""Waiting for the other side, with word of what is wrong when it takes long."""

from __future__ import annotations

import time

from rltui.tinyrl import log_lines
from rltui.tinyrl.errors import TinyrlError
from rltui.tinyrl.presence import Peer, Session

POLL_S = 0.02
"""Between two looks at the file system: short beside a step, and next to nothing in CPU."""

_MISMATCH_PATIENCE_S = 20.0
"""A peer that does not fit may be one that is just being stopped."""


class PairingGuard:
    """Checks that the peer's history is the one this process continues."""

    def __init__(self, peer: Peer, role: str) -> None:
        self._peer, self._role = peer, role
        self._accepted: Session | None = None
        self._mismatch_since_s: float | None = None

    def session(self, finished_steps: int) -> Session | None:
        """The peer to take hand-overs from, `None` while there is none that fits.

        A new session fits where it starts exactly after `finished_steps`, the steps this process has behind
        it.

        Raises:
            TinyrlError: the peer has been at another step for a while.
        """
        seen = self._peer.look()
        if seen is None or seen == self._accepted:
            return self._accepted
        if seen.start_step == finished_steps:
            self._accepted, self._mismatch_since_s = seen, None
            log_lines.info(f"Paired with the {self._role} (pid {seen.pid})")
            return seen
        self._complain(seen, finished_steps)
        return None

    def _complain(self, seen: Session, finished_steps: int) -> None:
        now = time.monotonic()
        message = (
            f"The {self._role} (pid {seen.pid}) starts after step {seen.start_step}, but this process"
            " is at step"
            f" {finished_steps}. Restart both with the same --ckpt.resume-step"
        )
        if self._mismatch_since_s is None:
            self._mismatch_since_s = now
            log_lines.warning(message)
        elif self._peer.is_alive and now - self._mismatch_since_s > _MISMATCH_PATIENCE_S:
            raise TinyrlError(message)
