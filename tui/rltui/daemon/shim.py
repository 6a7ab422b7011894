# pathlib costs two megabytes:
# ruff: noqa: PTH100, PTH103, PTH104, PTH108, PTH115, PTH118, PTH120, PTH123, PTH208
"""Runs one attempt of a component and outlives everything but SIGKILL.

    python -I -S shim.py ATTEMPT_DIR

Reads `ATTEMPT_DIR/spec.json`, keeps `ATTEMPT_DIR/attempt.json` true, and mirrors the log to its own terminal.
The component writes straight to its log file, so nothing here can slow it. As sub-reaper the shim inherits
every orphan below it: no child left means no descendant left, whatever they forked, renamed or detached.

SIGTERM, SIGINT: graceful stop. SIGUSR1: kill the tree at once. SIGHUP and terminal signals are ignored.

One file of the standard library on purpose: a shim is as small as Python gets (12 MB) and goes on
working while the package around it is upgraded. `dataclasses`, `typing`, `subprocess`, `asyncio` would each
cost megabytes.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import math
import os
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
"""From `linux/prctl.h`."""

WAKING = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGCHLD)
"""Blocked and waited for, so each is handled between two steps and never within one."""
IGNORED = (signal.SIGHUP, signal.SIGPIPE, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
"""A lost terminal, or a key pressed in the attached pane, must not end or freeze a trainer's supervision."""

CANNOT_RUN = 127
"""Exit code of a component that could not be started, as shells have it."""
RESERVED_BYTES = 1024
"""What the last record can be longer than the first."""
TREE_INTERVALS_S = (0.125, 2.0)
"""First and longest pause between two looks at the tree, which grows most in its first seconds."""
FULL_SCAN_EVERY = 30
"""Scans between two that forget who is a stranger, should a stranger's pid have been reused in between."""
SWEEP_INTERVAL_S = 0.2
SWEEP_GRACE_S = 5.0
"""From SIGTERM to SIGKILL, for whatever is left below the main process."""
KILL_INTERVALS_S = (0.05, 2.0)
"""First and longest pause between two rounds of SIGKILL: one stuck in a driver can take minutes to die."""
PANE_INTERVALS_S = (0.5, 2.0)
"""Between two looks at the log: while it grows, and when it has been quiet for a while."""
PANE_BYTES = 64 * 1024
"""Most log bytes shown per interval."""
PANE_FAREWELL_S = 0.5
"""Longest time spent on showing the last lines."""

RUNNING, ASKED, ENDING, KILLING = range(4)
"""Stages of a shim: nothing asked; main process asked to stop; SIGTERM to all; SIGKILL to all."""


def read_stat(pid: int) -> list[bytes] | None:
    """Fields of `/proc/PID/stat` from the third on (state, ppid, …), None where there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:  # gone, or hidden by hidepid: not ours in either case
        return None
    return text[text.rindex(b")") + 2 :].split()


def start_ticks(pid: int) -> int | None:
    """Start time in clock ticks since boot; with the pid it names a process for good."""
    fields = read_stat(pid)
    return int(fields[19]) if fields else None


def boot_identity() -> str:
    """Names this boot and pid namespace: pids and sessions recorded elsewhere mean nothing here."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # some sandboxes hide both; the record then says "unknown"
        return ""


def send_signal(pid: int, start: int, number: int) -> None:
    """Signal that very process, never another one that got its pid."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # died meanwhile; runs as another user
        try:
            handle = os.pidfd_open(pid)
        except OSError as error:
            if error.errno != errno.ENOSYS:
                raise
            if start_ticks(pid) == start:  # Linux before 5.3
                os.kill(pid, number)
            return
        try:
            if start_ticks(pid) == start:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


class Tree:
    """The living descendants of this process.

    Found by parent pid: `/proc/PID/task/*/children` is missing from many kernels and costs a read per thread,
    of which vLLM has hundreds. A stranger never becomes a descendant, so each one is read only once.
    """

    def __init__(self) -> None:
        self.members: dict[int, int] = {}
        """Start ticks by pid."""
        self._strangers: set[int] = set()
        self._scans = 0

    def refresh(self) -> None:
        self._scans += 1
        if self._scans % FULL_SCAN_EVERY == 0:
            self._strangers.clear()
        listed = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        self._strangers &= listed
        parents: dict[int, int] = {}
        starts: dict[int, int] = {}
        for pid in listed - self._strangers - {os.getpid()}:
            fields = read_stat(pid)
            if fields is not None and fields[0] not in b"ZX":
                parents[pid], starts[pid] = int(fields[1]), int(fields[19])
        family = _take_below({os.getpid()}, parents)
        self.members = {pid: starts[pid] for pid in sorted(family)}
        # The rest whose parent vanished during the scan stays undecided and is read again.
        self._strangers |= _take_below(self._strangers | {0, os.getppid()}, parents)

    def wake(self) -> None:
        """SIGCONT to all, as systemd sends it beside SIGTERM: a stopped process takes no signal but SIGKILL.

        Looking for the stopped ones instead would miss one whose SIGSTOP is still on its way.
        """
        for pid, start in self.members.items():
            send_signal(pid, start, signal.SIGCONT)


def _take_below(roots: set[int], parents: dict[int, int]) -> set[int]:
    """Move everything below `roots` out of `parents` (parent by pid) and return it."""
    taken: set[int] = set()
    layer = roots
    while layer:
        layer = {pid for pid, parent in parents.items() if parent in layer}
        for pid in layer:
            del parents[pid]
        taken |= layer
    return taken


class Pane:
    """Shows the log in the shim's own terminal, without ever waiting for that terminal."""

    def __init__(self, log: str) -> None:
        self._log = log
        self._reader = os.open(log, os.O_RDONLY)
        self._offset = os.fstat(self._reader).st_size
        self._screen = _reopen_stdout()

    def has_news(self) -> bool:
        return os.fstat(self._reader).st_size != self._offset

    def pump(self) -> bool:
        """Show what is new, at most `PANE_BYTES`; True when there is more to show."""
        if self._screen is None:
            return False
        size = os.fstat(self._reader).st_size
        self._offset = min(self._offset, size)
        if size - self._offset > PANE_BYTES and not self._skip_to(size - PANE_BYTES):
            return True
        data = os.pread(self._reader, PANE_BYTES, self._offset)
        self._offset += self._write(data)
        return self._offset < size

    def note(self, text: str) -> None:
        self._write(f"\n— {text} —\n".encode())

    def finish(self, text: str) -> None:
        """Show the rest of the log and a last line, for at most `PANE_FAREWELL_S`."""
        deadline = time.monotonic() + PANE_FAREWELL_S
        while self.pump() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.note(text)

    def _skip_to(self, offset: int) -> bool:
        cut = os.pread(self._reader, PANE_BYTES, offset).find(b"\n") + 1
        skipped = offset + cut - self._offset
        if not self._write(f"\n… skipped {skipped} bytes, see {self._log}\n".encode()):
            return False
        self._offset += skipped
        return True

    def _write(self, data: bytes) -> int:
        if self._screen is None or not data:
            return 0
        try:
            return os.write(self._screen, data)
        except BlockingIOError:  # scroll lock, or a terminal slower than the log
            return 0
        except OSError:  # the terminal is gone: the log file has it all
            os.close(self._screen)
            self._screen = None
            return 0


def _reopen_stdout() -> int | None:
    """A non-blocking descriptor of our own: the flag set on stdout would hold for all who share it."""
    with contextlib.suppress(OSError):  # closed, or a socket: then nothing is shown
        return os.open("/proc/self/fd/1", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_APPEND)
    return None


class Record:
    """`attempt.json`: replaced as a whole, so a reader always finds a true one, and only when it changed."""

    def __init__(self, folder: str, values: dict[str, object]) -> None:
        self.values = values
        self._reserve = os.path.join(folder, "attempt.reserve")
        self.problem: str | None = None
        """Why the last write failed."""
        self._path = os.path.join(folder, "attempt.json")
        self._written = ""

    def save(self, *, durable: bool = True) -> None:
        """Write if changed. A failure is kept in `problem` and the next call tries again.

        `durable` waits for the disk, which takes long while a checkpoint is being written.
        """
        text = json.dumps(self.values)
        if text == self._written:
            return
        try:
            self._replace(text, durable=durable)
        except OSError as error:
            self.problem = f"cannot write {self._path}: {error.strerror}"
        else:
            self._written, self.problem = text, None

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
            open(self._reserve, "w", encoding="utf-8") as file,
        ):  # as good as it gets
            file.write(" " * (len(json.dumps(self.values)) + RESERVED_BYTES))

    def _replace(self, text: str, *, durable: bool) -> None:
        temporary = f"{self._path}.tmp"
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.rename(temporary, self._path)


class CannotRunError(Exception):
    """The component could not be started; the text says why."""


def spawn(argv: list[str], cwd: str, environment: dict[str, str], log: int) -> int:
    """Start the component in its own session and return its pid once it runs.

    Raises:
        CannotRunError: Its program or folder cannot be used. The child is left to be reaped.
    """
    failed, failure = os.pipe()  # closed by a successful exec
    pid = os.fork()
    if pid == 0:
        _become(argv, cwd, environment, log, failure)
    os.close(failure)
    with os.fdopen(failed, "rb") as pipe:
        problem = pipe.read().decode()
    if problem:
        raise CannotRunError(problem)
    return pid


def _become(argv: list[str], cwd: str, environment: dict[str, str], log: int, failure: int) -> None:
    """Turn the forked child into the component. Does not return."""
    doing = f"enter {cwd!r}"
    try:
        os.setsid()
        os.chdir(cwd)
        doing = f"run {argv[0]!r}"
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvpe(argv[0], argv, environment)  # noqa: S606 - a shell is what we avoid
    except OSError as error:
        os.write(failure, f"cannot {doing}: {error.strerror}".encode())
    except ValueError as error:  # a NUL in an argument
        os.write(failure, f"cannot {doing}: {error}".encode())
    finally:
        os._exit(CANNOT_RUN)


def component_environment(spec: dict) -> dict[str, str]:  # type: ignore[type-arg]
    """The shim's own, with the additions and removals of the spec."""
    environment = dict(os.environ)
    for name, value in dict(spec["env"]).items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    environment["RLTUI_EXPERIMENT"] = spec["experiment"]
    environment["RLTUI_COMPONENT"] = spec["component"]
    environment["RLTUI_ATTEMPT"] = str(spec["attempt"])
    return environment


class Shim:
    """One component from its start until nothing of it is left."""

    def __init__(self, folder: str, spec: dict) -> None:  # type: ignore[type-arg] # typing.Any costs a megabyte
        """Raises TypeError, ValueError or LookupError where the spec is not one."""
        self._argv, self._cwd, self._log = list(spec["argv"]), str(spec["cwd"]), str(spec["log"])
        self._environment = component_environment(spec)
        self._stop_signal = signal.Signals[spec["stop"]["signal"]]
        self._stop_grace_s = float(spec["stop"]["grace_s"])
        self._stop_group = spec["stop"].get("target", "main") == "group"
        self._record = Record(folder, first_record(spec))
        self._tree = Tree()
        self._main: int | None = None
        self._pane: Pane | None = None
        self._stage = RUNNING
        self._stage_end = self._next_step = math.inf
        """When the stage gives way to the next, and when it has something to do again (monotonic clock)."""
        self._next_tree = self._next_pane = 0.0
        self._tree_interval_s, self._pane_interval_s = TREE_INTERVALS_S[0], PANE_INTERVALS_S[0]
        self._kill_interval_s = KILL_INTERVALS_S[0]
        self._asked: set[tuple[int, int]] = set()
        """Who got SIGTERM in the sweep, by pid and start."""

    def run(self) -> None:
        """Returns when every descendant has been reaped and the record says so."""
        self._start()
        while self._reap():
            try:
                self._tick(time.monotonic())
                self._wait()
            except OSError as error:  # out of descriptors or memory: the component must not lose its keeper
                self._say(f"shim: {error}")
                time.sleep(SWEEP_INTERVAL_S)
        self._finish()

    def _start(self) -> None:
        values = self._record.values
        try:
            log = open_log(self._log)
            self._pane = Pane(self._log)
            self._main = spawn(self._argv, self._cwd, self._environment, log)
            os.close(log)
        except CannotRunError as error:
            values["error"], values["exit_code"] = str(error), CANNOT_RUN
        else:
            values.update(pid=self._main, pid_start=start_ticks(self._main), session=self._main)
        self._record.save()
        self._record.reserve_room()

    def _tick(self, now: float) -> None:
        if now >= self._next_tree:
            self._next_tree = now + self._tree_interval_s
            self._tree_interval_s = min(2 * self._tree_interval_s, TREE_INTERVALS_S[1])
            self._record_tree()
        if now >= self._next_pane:
            self._show_log()
            self._next_pane = now + self._pane_interval_s
        if now >= self._stage_end and self._stage < KILLING:
            self._enter(self._stage + 1)
        if now >= self._next_step:
            self._step(now)

    def _wait(self) -> None:
        """Sleep until something is due or a signal arrives, and take that signal."""
        until = min(self._next_tree, self._next_pane, self._next_step, self._stage_end)
        received = signal.sigtimedwait(WAKING, max(0.0, until - time.monotonic()))
        if received is None or received.si_signo == signal.SIGCHLD:
            return
        wanted = KILLING if received.si_signo == signal.SIGUSR1 else ASKED
        if self._stage >= wanted:
            return
        if self._main is not None:
            self._record.values["stop_requested"] = True
        self._enter(wanted)
        self._record.save()

    def _reap(self) -> bool:
        """Collect the dead; False when no child is left."""
        with contextlib.suppress(ChildProcessError):  # the normal end: no child is left
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self._main:
                    self._main_ended(os.waitstatus_to_exitcode(status))
        return False

    def _main_ended(self, code: int) -> None:
        self._main = None
        values = self._record.values
        values["ended_at"] = time.time()
        values["exit_code"], values["signal"] = (code, None) if code >= 0 else (None, signal_name(-code))
        self._record.save()
        if self._stage < ENDING:
            self._enter(ENDING)

    def _enter(self, stage: int) -> None:
        """Begin a stage; ENDING and KILLING take their first step at the next tick."""
        now = time.monotonic()
        self._stage = stage
        if stage == ASKED:
            self._stage_end = now + self._stop_grace_s
            self._ask_main()
            return
        self._stage_end = now + SWEEP_GRACE_S if stage == ENDING else math.inf
        self._next_step = now

    def _ask_main(self) -> None:
        """The main process alone is told to stop: it knows best in which order its own children may end."""
        if self._main is None:
            return
        with contextlib.suppress(PermissionError, ProcessLookupError):  # setuid, or its group was changed
            if self._stop_group:
                os.killpg(self._main, self._stop_signal)
            else:
                os.kill(self._main, self._stop_signal)
        self._tree.refresh()
        self._tree.wake()

    def _step(self, now: float) -> None:
        self._tree.refresh()
        if self._stage == ENDING:
            self._next_step = now + SWEEP_INTERVAL_S
            self._sweep()
        else:
            self._next_step = now + self._kill_interval_s
            self._kill_interval_s = min(2 * self._kill_interval_s, KILL_INTERVALS_S[1])
            for pid, start in self._tree.members.items():
                send_signal(pid, start, signal.SIGKILL)

    def _sweep(self) -> None:
        """SIGTERM to each descendant once, also to those that were born since the last sweep."""
        for pid, start in self._tree.members.items():
            if (pid, start) not in self._asked:
                self._asked.add((pid, start))
                send_signal(pid, start, signal.SIGTERM)
        self._tree.wake()

    def _record_tree(self) -> None:
        self._tree.refresh()
        members = self._tree.members.items()
        self._record.values["descendants"] = [{"pid": pid, "start": start} for pid, start in members]
        known_problem = self._record.problem
        self._record.save(durable=False)
        if self._record.problem not in (None, known_problem):
            self._say(str(self._record.problem))

    def _show_log(self) -> None:
        grew = self._pane is not None and self._pane.has_news()
        self._pane_interval_s = (
            PANE_INTERVALS_S[0] if grew else min(2 * self._pane_interval_s, PANE_INTERVALS_S[1])
        )
        if self._pane is not None:
            self._pane.pump()

    def _say(self, text: str) -> None:
        if self._pane is not None:
            self._pane.note(text)

    def _finish(self) -> None:
        values = self._record.values
        values.update(state="exited", descendants=[], ended_at=values["ended_at"] or time.time())
        self._record.save_last()
        if self._pane is not None:
            how = values["error"] or (f"ended by {values['signal']}" if values["signal"] else None)
            how = how or f"exited {values['exit_code']}"
            self._pane.finish(f"{how} at {time.strftime('%H:%M:%S')}")


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no name of their own
        return f"SIG{number}"


def open_log(path: str) -> int:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    except OSError as error:
        raise CannotRunError(f"cannot open log {path!r}: {error.strerror}") from None


def first_record(spec: dict) -> dict[str, object]:  # type: ignore[type-arg]
    return {
        "experiment": spec["experiment"],
        "component": spec["component"],
        "attempt": spec["attempt"],
        "state": "running",
        "boot": boot_identity(),
        "shim_pid": os.getpid(),
        "shim_start": start_ticks(os.getpid()),
        "pid": None,
        "pid_start": None,
        "session": None,
        "argv": [spec["argv"][0], *spec["argv"][1:]],
        "cwd": spec["cwd"],
        "log": spec["log"],
        "started_at": time.time(),
        "ended_at": None,
        "exit_code": None,
        "signal": None,
        "error": None,
        "stop_requested": False,
        "descendants": [],
    }


def become_reaper() -> None:
    """Orphans below us become our children; signals wait until we look at them."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored by a parent, it would swallow exit codes
    signal.pthread_sigmask(signal.SIG_BLOCK, WAKING)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def main(arguments: list[str]) -> int:
    """Exit status: 0 when the attempt is recorded to its end, 2 when there was nothing to run."""
    become_reaper()
    if len(arguments) != 1:
        sys.stderr.write("usage: shim.py ATTEMPT_DIR\n")
        return 2
    folder = os.path.abspath(arguments[0])
    try:
        with open(os.path.join(folder, "spec.json"), encoding="utf-8") as file:
            shim = Shim(folder, json.load(file))
    except (OSError, ValueError, TypeError, LookupError) as error:
        sys.stderr.write(f"shim: {folder}/spec.json: {error!r}\n")
        return 2
    shim.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
