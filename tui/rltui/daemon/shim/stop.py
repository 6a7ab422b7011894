"""How a component ends: asked, perhaps twice, then SIGTERM for all that is left, SIGKILL until nothing is."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time

from rltui.daemon.shim.spawn import Spec
from rltui.daemon.shim.tree import Tree, send_signal

RUNNING, ASKED, ENDING, KILLING = range(4)
"""Stages: nothing asked; main process asked to stop; SIGTERM to all; SIGKILL to all."""

_SWEEP_INTERVAL_S = 0.2
_SWEEP_GRACE_S = 5.0
"""From SIGTERM to SIGKILL, for whatever is left below the main process."""
_KILL_INTERVALS_S = (0.05, 2.0)
"""First and longest pause between two rounds of SIGKILL: one stuck in a driver can take minutes to die."""

_FREEZE_ROUNDS = 20
"""Looks at the tree, at most, until nothing new is found in it."""


class StopSequence:
    """Goes from stage to stage, never back: on request, when the main process ends, when time is up."""

    def __init__(self, spec: Spec, tree: Tree) -> None:
        self.stage = RUNNING
        self._spec = spec
        self._tree = tree
        self._stage_end = self._next_step = math.inf
        """When the stage gives way to the next, and when it has something to do again (monotonic clock)."""
        self._kill_interval_s = _KILL_INTERVALS_S[0]
        self._main: int | None = None
        """The main process, while it is asked to stop."""
        self._asked: set[tuple[int, int]] = set()
        """Who got SIGTERM in the sweep, by pid and start."""

    @property
    def due(self) -> float:
        """When `advance` has something to do (monotonic clock)."""
        return min(self._next_step, self._stage_end)

    def begin(self, stage: int, main: int | None = None) -> None:
        """Begin a stage, unless it or a later one has begun.

        ASKED takes `main`, the main process unless it was reaped. The others act at the next `advance`.
        """
        if stage <= self.stage:
            return
        now = time.monotonic()
        self.stage = stage
        if stage == ASKED:
            self._stage_end = now + self._spec.stop_grace_s
            if self._spec.stop_again_s is not None:
                self._next_step = now + self._spec.stop_again_s
            self._main = main
            self._ask()
            return
        self._stage_end = now + _SWEEP_GRACE_S if stage == ENDING else math.inf
        self._next_step = now

    def advance(self, now: float) -> None:
        if now >= self._stage_end:
            self.begin(self.stage + 1)
        if now >= self._next_step:
            self._step(now)

    def _ask(self) -> None:
        """The main process alone is told to stop: it knows best in which order its own children may end."""
        if self._main is None:
            return
        with contextlib.suppress(PermissionError, ProcessLookupError):  # setuid
            os.kill(self._main, self._spec.stop_signal)
        self._tree.refresh()
        self._tree.wake()

    def _step(self, now: float) -> None:
        if self.stage == ASKED:
            self._next_step = math.inf
            self._ask()
            return
        self._tree.refresh()
        if self.stage == ENDING:
            self._next_step = now + _SWEEP_INTERVAL_S
            # SIGTERM to each descendant once, also to those that were born since the last sweep
            for pid, start in self._tree.members.items():
                if (pid, start) not in self._asked:
                    self._asked.add((pid, start))
                    send_signal(pid, start, signal.SIGTERM)
            self._tree.wake()
        else:
            self._next_step = now + self._kill_interval_s
            self._kill_interval_s = min(2 * self._kill_interval_s, _KILL_INTERVALS_S[1])
            self._kill()

    def _kill(self) -> None:
        """Kill by groups first: nobody gets away from that by forking, as from one look after the other."""
        for group in self._tree.groups:
            with contextlib.suppress(PermissionError, ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self._freeze()
        for pid, start in self._tree.members.items():
            send_signal(pid, start, signal.SIGKILL)

    def _freeze(self) -> None:
        """Stop all, and those whom they forked into groups of their own meanwhile."""
        stopped: set[tuple[int, int]] = set()
        for _ in range(_FREEZE_ROUNDS):
            fresh = self._tree.members.items() - stopped
            if not fresh:
                return
            for pid, start in fresh:
                send_signal(pid, start, signal.SIGSTOP)
            stopped |= fresh
            self._tree.refresh()
