# ruff: noqa: PTH100, PTH118
"""The program: its place among the processes, and the loop that watches its attempt to the end."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import signal
import sys
import time

from rltui.hosts.shim.leftovers import Leftovers
from rltui.hosts.shim.pane import Pane, open_pane, open_screen
from rltui.hosts.shim.record import ADOPTS, Record, adopted_record, first_record
from rltui.hosts.shim.spawn import (
    CANNOT_RUN,
    CannotRunError,
    ForeignFileError,
    Spec,
    open_log,
    read_own,
    spawn,
)
from rltui.hosts.shim.stop import KILLING, RUNNING, STOPPING, TERMINATING, StopSequence
from rltui.hosts.shim.terminal import Terminal
from rltui.hosts.shim.tree import Tree, is_alive, start_ticks

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
_HANDLED_SIGNALS = (*_STOP_SIGNALS, signal.SIGCHLD, signal.SIGALRM, signal.SIGIO, signal.SIGWINCH)
"""These are blocked and waited for, so each is handled between two steps and never within one. SIGALRM is
our clock.
"""
_MIN_TIMER_S = 1e-4
"""A timer of 0 would never go off."""
_TREE_INTERVALS_S = (0.125, 2.0)
"""First and longest pause between two scans of the tree, which grows most in its first seconds."""
_ADOPTED_INTERVAL_S = 0.5
"""Pause between two looks for adopted processes, whose end nobody reports."""
_RETRY_S = 0.2
"""Pause after running out of descriptors or memory."""


class _Shim:
    def __init__(self, folder: str, spec: Spec, *, adopts: str) -> None:
        """`adopts`: why it takes up with an attempt that was started; empty where it starts it."""
        self._spec = spec
        self._adopts = bool(adopts)
        values = adopted_record(folder, spec, adopts) if adopts else first_record(spec)
        self._record = Record(folder, values)
        self._reported_problem: str | None = None
        self._tree = Leftovers(spec.tags, [values]) if adopts else Tree()
        self._stop = StopSequence(spec, self._tree)
        self._pane: Pane | Terminal | None = None
        self._main: int | None = None
        """Pid of the main process until it is reaped."""
        self._reported_leftovers = False
        self._next_tree = self._next_pane = 0.0
        self._tree_interval_s = _TREE_INTERVALS_S[0]

    def run(self) -> None:
        """Return when every descendant has been reaped and the record says so."""
        if self._adopts:
            self._adopt()
        else:
            self._start()
        while self._find_ended():
            try:
                self._tick(time.monotonic())
                self._wait()
            except OSError as error:  # out of descriptors or memory: the component must not lose its shim
                self._print(f"shim: {error}")
                time.sleep(_RETRY_S)
        self._finish()

    def _start(self) -> None:
        values = self._record.values
        try:
            log = open_log(self._spec.log)
            try:
                if self._spec.tty:
                    self._main = self._start_in_terminal(log)
                else:
                    self._pane = open_pane(self._spec.log)
                    self._main = spawn(self._spec, log)
            finally:
                os.close(log)
        except CannotRunError as error:
            values["error"], values["exit_code"] = str(error), CANNOT_RUN
        else:
            values.update(pid=self._main, pid_start=start_ticks(self._main), session=self._main)
        self._save()
        self._record.reserve_room()

    def _start_in_terminal(self, log: int) -> int:
        try:
            terminal = self._pane = Terminal(log, open_screen(os.O_RDWR))
        except OSError as error:
            raise CannotRunError(f"cannot open a terminal: {error.strerror}") from None
        try:
            return spawn(self._spec, log, terminal=terminal.component)
        finally:
            terminal.close_component_end()

    def _adopt(self) -> None:
        """Take up with what is left of it. If its main process was not seen to end, nobody will know how it
        did.
        """
        values = self._record.values
        if values["ended_at"] is None:
            self._main = values["pid"]
        else:
            self._stop.enter(TERMINATING)
        self._save()

    def _find_ended(self) -> bool:
        """Take note of the dead; False when nothing is left."""
        if not self._adopts:
            return self._reap()
        self._tree.refresh()
        if self._main is not None and not is_alive(self._main, self._record.values["pid_start"]):
            self._main_exited(None)
        return bool(self._tree.members)

    def _reap(self) -> bool:
        """Collect the dead; False when no child is left."""
        with contextlib.suppress(ChildProcessError):  # the normal end: no child is left
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self._main:
                    self._main_exited(os.waitstatus_to_exitcode(status))
        return False

    def _main_exited(self, exit_code: int | None) -> None:
        self._main = None
        values = self._record.values
        values["ended_at"] = time.time()
        values["exit_code"], values["signal"] = (
            (exit_code, None) if exit_code is None or exit_code >= 0 else (None, signal_name(-exit_code))
        )
        values["leftovers_kept"] = self._spec.keeps_leftovers and self._stop.stage == RUNNING
        self._save()
        if values["leftovers_kept"]:
            self._next_tree, self._tree_interval_s = 0.0, _TREE_INTERVALS_S[0]
        else:
            self._stop.enter(TERMINATING)

    def _tick(self, now: float) -> None:
        if now >= self._next_tree:
            self._next_tree = now + self._tree_interval_s
            longest = _ADOPTED_INTERVAL_S if self._adopts else _TREE_INTERVALS_S[1]
            self._tree_interval_s = min(2 * self._tree_interval_s, longest)
            self._record_tree()
        if now >= self._next_pane:
            self._next_pane = math.inf if self._pane is None else now + self._pane.show()
        self._stop.advance(now)

    def _wait(self) -> None:
        """Sleep until something is due or a signal arrives, and handle that signal.

        `sigtimedwait` would not do: where a stop, a debugger or SIGCONT interrupts it as its time runs out,
        CPython (3.11 to 3.13) returns a signal that nobody sent, which would pass for a request to stop.
        """
        wake_at = min(self._next_tree, self._next_pane, self._stop.due_at)
        signal.setitimer(signal.ITIMER_REAL, max(_MIN_TIMER_S, wake_at - time.monotonic()))
        received = signal.sigwaitinfo(_HANDLED_SIGNALS)
        if received.si_signo == signal.SIGWINCH and isinstance(self._pane, Terminal):
            self._pane.resize()
        if received.si_signo == signal.SIGIO:
            self._next_pane = 0.0
        if received.si_signo not in _STOP_SIGNALS:
            return
        if received.si_signo == signal.SIGINT:  # a key in the attached pane, where people press it to leave
            name = self._spec.experiment.partition("@")[0]
            self._print(f"ctrl+c does nothing here; rltui stop {name}/{self._spec.component} stops it")
            return
        if self._adopts:  # its pid may be another's by now
            self._find_ended()
        gentle_stage = STOPPING if self._main is not None else TERMINATING
        requested_stage = KILLING if received.si_signo == signal.SIGUSR1 else gentle_stage
        if self._stop.stage >= requested_stage:
            return
        if self._main is not None:
            self._record.values["stop_requested"] = True
        self._stop.enter(requested_stage, self._main)
        self._save()

    def _record_tree(self) -> None:
        self._tree.refresh()
        members = self._tree.members.items()
        self._record.values["descendants"] = [{"pid": pid, "start": start} for pid, start in members]
        self._save(durable=False)
        if self._record.values["leftovers_kept"] and self._tree.members and not self._reported_leftovers:
            self._reported_leftovers = True
            pids = ", ".join(f"pid {pid}" for pid in self._tree.members)
            if self._pane is not None:
                self._pane.show()
            self._print(f"{self._record.outcome()}; still running: {pids}; a stop ends them, too")

    def _save(self, *, durable: bool = True) -> None:
        self._record.save(durable=durable)
        if self._record.problem not in (None, self._reported_problem):
            self._print(str(self._record.problem))
        self._reported_problem = self._record.problem

    def _print(self, text: str) -> None:
        if self._pane is not None:
            self._pane.note(text)

    def _finish(self) -> None:
        values = self._record.values
        values.update(state="exited", descendants=[], ended_at=values["ended_at"] or time.time())
        self._record.save_last()
        if self._pane is not None:
            suffix = "; leftovers have ended" if self._reported_leftovers else ""
            self._pane.finish(self._record.outcome() + suffix)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no name of their own
        return f"SIG{number}"


_PR_SET_CHILD_SUBREAPER = 36
"""The number is that of `linux/prctl.h`."""

_IGNORED = (signal.SIGHUP, signal.SIGPIPE, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
"""A lost terminal, or a key pressed in the attached pane, must not end or freeze a trainer's supervision."""


def main(arguments: list[str]) -> int:
    """Exit status: 0 when the attempt is recorded to its end, 2 when there was nothing to run."""
    # orphans below us become our children; signals wait until they are handled
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored by a parent, it would swallow exit codes
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED_SIGNALS)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    if len(arguments) != 1:
        sys.stderr.write("usage: shim ATTEMPT_DIR\n")
        return 2
    folder = os.path.abspath(arguments[0])
    try:
        spec = Spec(read_own(os.path.join(folder, "spec.json")))
        shim = _Shim(folder, spec, adopts=os.environ.get(ADOPTS, ""))
    except (OSError, ValueError, TypeError, LookupError, ForeignFileError, RecursionError) as error:
        sys.stderr.write(f"shim: {folder}/spec.json: {error!r}\n")
        return 2
    shim.run()
    return 0
