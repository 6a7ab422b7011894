"""The stages in which a component is ended: its main process is asked, then SIGTERM to all, then SIGKILL."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time

from rltui.hosts.shim.leftovers import Leftovers
from rltui.hosts.shim.spawn import Spec
from rltui.hosts.shim.tree import Tree, send_signal

RUNNING, STOPPING, TERMINATING, KILLING = range(4)
"""Stages: nothing asked; main process asked to stop; SIGTERM to all; SIGKILL to all."""

_SWEEP_INTERVAL_S = 0.2
_SWEEP_GRACE_S = 5.0
"""Time from SIGTERM to SIGKILL for the processes below the main process."""
_KILL_INTERVALS_S = (0.05, 2.0)
"""First and longest pause between two rounds of SIGKILL: one stuck in a driver can take minutes to die."""

_FREEZE_ROUNDS = 20
"""Most scans of the tree until no new process turns up in it."""


class StopSequence:
    """The stage only ever advances: on request, when the main process ends, or when its time is up."""

    def __init__(self, spec: Spec, tree: Tree | Leftovers) -> None:
        self.stage = RUNNING
        self._spec = spec
        self._tree = tree
        self._stage_end = self._next_step = math.inf
        """Monotonic times: when the next stage begins, and when this one has its next step."""
        self._kill_interval_s = _KILL_INTERVALS_S[0]
        self._main: int | None = None
        """Pid of the main process while it is asked to stop."""
        self._terminated: set[tuple[int, int]] = set()
        """Processes that got SIGTERM in the sweep, by pid and start."""

    @property
    def due_at(self) -> float:
        """Monotonic time at which `advance` has something to do."""
        return min(self._next_step, self._stage_end)

    def enter(self, stage: int, main: int | None = None) -> None:
        """Enter a stage, unless it or a later one was entered before.

        STOPPING takes `main`, the pid of the main process unless it was reaped. The others act at the next
        `advance`.
        """
        if stage <= self.stage:
            return
        now = time.monotonic()
        self.stage = stage
        if stage == STOPPING:
            self._stage_end = now + self._spec.stop_grace_s
            if self._spec.stop_repeat_s is not None:
                self._next_step = now + self._spec.stop_repeat_s
            self._main = main
            self._signal_main()
            return
        self._stage_end = now + _SWEEP_GRACE_S if stage == TERMINATING else math.inf
        self._next_step = now

    def advance(self, now: float) -> None:
        if now >= self._stage_end:
            self.enter(self.stage + 1)
        if now >= self._next_step:
            self._step(now)

    def _signal_main(self) -> None:
        """Ask the main process alone to stop: it knows best in which order its own children may end."""
        if self._main is None:
            return
        with contextlib.suppress(PermissionError, ProcessLookupError):  # setuid
            os.kill(self._main, self._spec.stop_signal)
        self._tree.refresh()
        self._resume()

    def _step(self, now: float) -> None:
        if self.stage == STOPPING:
            self._next_step = math.inf
            self._signal_main()
            return
        self._tree.refresh()
        if self.stage == TERMINATING:
            self._next_step = now + _SWEEP_INTERVAL_S
            # SIGTERM to each descendant once, also to those that were born since the last sweep
            for pid, start in self._tree.members.items():
                if (pid, start) not in self._terminated:
                    self._terminated.add((pid, start))
                    send_signal(pid, start, signal.SIGTERM)
            self._resume()
        else:
            self._next_step = now + self._kill_interval_s
            self._kill_interval_s = min(2 * self._kill_interval_s, _KILL_INTERVALS_S[1])
            self._kill()

    def _resume(self) -> None:
        """Send SIGCONT to all, as systemd does beside SIGTERM: a stopped process handles no other signal but
        SIGKILL.

        Searching for the stopped ones instead would miss one whose SIGSTOP is still on its way.
        """
        for pid, start in self._tree.members.items():
            send_signal(pid, start, signal.SIGCONT)

    def _kill(self) -> None:
        """Kill by groups first: forking does not escape that, as it escapes one scan after the other."""
        for group in self._tree.groups:
            with contextlib.suppress(PermissionError, ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self._freeze()
        for pid, start in self._tree.members.items():
            send_signal(pid, start, signal.SIGKILL)

    def _freeze(self) -> None:
        """Send SIGSTOP to all, also to those that were forked into groups of their own meanwhile."""
        stopped: set[tuple[int, int]] = set()
        for _ in range(_FREEZE_ROUNDS):
            unstopped = self._tree.members.items() - stopped
            if not unstopped:
                return
            for pid, start in unstopped:
                send_signal(pid, start, signal.SIGSTOP)
            stopped |= unstopped
            self._tree.refresh()
