# ruff: noqa: PTH103, PTH115, PTH118, PTH120, PTH123, PTH208
"""Stands on a node for a follower elsewhere: starts a shim, says what becomes of it, passes stops on.

It lives as long as its connection; the shim goes on without it, and the next agent finds it by its folder.

In, on stdin: a JSON object per line. The first has the attempt's `spec` and `id`, `may_start`, the `ports`
that must be free and `wait_s` for that, the `offset` of the output that is there already. Then, by `do`:
`stop`, `kill`, `done` once the end was taken, and `beat`. Out, on stdout, behind all that a login shell may
say: frames of a kind, the length of the rest in 4 bytes, and that. OUTPUT: 8 bytes of offset, and the bytes
that are there. STATE: JSON with `state`, `reason` and more. BEAT: nothing. Highest bytes come first.

Standard library only, Python 3.9 or newer: a node need have nothing else.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import sys
import time

from rltui.daemon.shim.spawn import CANNOT_RUN, ForeignFileError, read_own
from rltui.daemon.shim.tree import boot_identity, read_stat, send_signal

TYPE_CHECKING = False  # the one of `typing`, as in `spawn`
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TextIO

OUTPUT, STATE, BEAT = b"L", b"S", b"."
BEAT_S = 5.0
"""Both sides say something at least so often."""
LOST_S = 45.0
"""An agent that has heard nothing for so long has lost its follower."""

_CHUNK_BYTES = 128 * 1024
_POLLS_S = (0.02, 0.5)
"""First and longest pause between two looks at the output."""
_LOOK_S = 0.25
"""Between two looks at the processes."""
_SPAWN_S = 20.0
"""From the fork of a shim to its first record."""
_SWEEP_S = 5.0
"""From SIGTERM to SIGKILL for what has no shim."""
_LISTEN = "0A"
"""TCP_LISTEN in the kernel's tables."""
_LONGEST_COMMAND = 80


class LostError(Exception):
    """The follower is gone."""


class OtherNodeError(Exception):
    """It runs somewhere else; the text says where."""


class RefusedError(Exception):
    """It cannot be started here; the text says why."""

    def __init__(self, text: str, pid: int | None = None) -> None:
        super().__init__(text)
        self.pid = pid
        """Of what is in the way."""


class Channel:
    """Requests in, frames out. Waits for neither side but in `exchange`."""

    def __init__(self, source: int, sink: int) -> None:
        self._source, self._sink = source, sink
        os.set_blocking(source, False)
        os.set_blocking(sink, False)
        self._unread, self._unsent = bytearray(), bytearray()
        self._heard = self._said = time.monotonic()

    @property
    def is_free(self) -> bool:
        """All that was said is on its way."""
        return not self._unsent

    def say(self, kind: bytes, payload: bytes = b"") -> None:
        self._unsent += kind + len(payload).to_bytes(4, "big") + payload

    def exchange(self, wait_s: float) -> list[dict[str, Any]]:
        """What is asked, at once where something is. Raises `LostError` where nobody is there any more."""
        now = time.monotonic()
        if now - self._heard > LOST_S:
            raise LostError
        if now - self._said > BEAT_S and self.is_free:
            self.say(BEAT)
        sinks = [self._sink] if self._unsent else []
        readable, writable, _ = select.select([self._source], sinks, [], wait_s)
        try:
            if writable:
                del self._unsent[: os.write(self._sink, self._unsent)]
                self._said = time.monotonic()
            if readable:
                data = os.read(self._source, 65536)
                if not data:
                    raise LostError
                self._unread += data
                self._heard = time.monotonic()
        except BlockingIOError:  # others read there, too: the next round tells
            pass
        except OSError:
            raise LostError from None
        *lines, rest = bytes(self._unread).split(b"\n")
        self._unread = bytearray(rest)
        return [json.loads(line) for line in lines]


class Agent:
    """One attempt, in its folder on this node."""

    def __init__(self, channel: Channel, base: str, root: str, request: dict[str, Any]) -> None:
        self._channel, self._root = channel, root
        self._spec: dict[str, Any] = request["spec"]
        self._may_start: bool = request["may_start"]
        self._ports: list[int] = request["ports"]
        self._wait_s: float = request["wait_s"]
        self._offset: int = request["offset"]
        self._folder = os.path.join(base, "attempts", request["id"])
        self._log = os.path.join(self._folder, "output.log")
        self._started: dict[str, Any] = {}
        """What was written down as it was started: the node, and its kernel's kills for want of memory."""
        self._record: dict[str, Any] | None = None
        self._asked = ""
        """`stop` or `kill`."""
        self._sweep: _Sweep | None = None
        self._end: dict[str, Any] | None = None
        """How it ended, once nothing of it is left."""
        self._told = b""
        self._is_taken = False
        self._next_look = 0.0

    def run(self) -> None:
        """Start it, or find it; stay until its end was told and taken.

        Raises:
            RefusedError: It cannot be started, and nothing of it is left here.
            OtherNodeError: It cannot be seen from here.
            LostError: Nobody wants to know any more. It goes on, unless its end had begun here.
        """
        if not self._is_here():
            self._start()
        if self._asked:
            self.take({"do": self._asked})
        try:
            self._follow()
        except LostError:
            while self._sweep is not None and not self._sweep.advance():
                time.sleep(_POLLS_S[1])
            raise
        shutil.rmtree(self._folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # other attempts lie beside it
            os.removedirs(os.path.dirname(self._folder))

    def _follow(self) -> None:
        pause_s = _POLLS_S[0]
        while not self._is_taken:
            if self._end is None and time.monotonic() >= self._next_look:
                self._look()
                self._next_look = time.monotonic() + _LOOK_S
            has_ended = self._end is not None  # what it wrote before is all there is
            has_more = self._send_output()
            pause_s = _POLLS_S[0] if has_more else min(_POLLS_S[1], 1.5 * pause_s)
            if has_ended and not has_more and self._channel.is_free and self._end is not None:
                self._tell("ended", **self._end)
            for request in self._channel.exchange(0.0 if has_more and self._channel.is_free else pause_s):
                self.take(request)

    # --- its start ----------------------------------------------------------------------------------------

    def _is_here(self) -> bool:
        """It was started, on this node. Raises `OtherNodeError` where it was on another."""
        with contextlib.suppress(OSError, ValueError, ForeignFileError):  # it was not started yet
            self._started = read_own(os.path.join(self._folder, "node.json"))
        host = self._started.get("host", os.uname().nodename)
        if host != os.uname().nodename:
            raise OtherNodeError(f"it was started on {host}, and this is {os.uname().nodename}")
        self._read_record()
        return self._record is not None

    def _start(self) -> None:
        if not self._may_start:
            self._await_record()
            return
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with open(os.path.join(self._folder, "lock"), "w") as lock:
                self._wait(lambda: _turn(lock))
                if not self._is_here():  # as long as nobody else has started it
                    self._end_earlier()
                    self._wait(lambda: port_holder(self._ports))
                    if self._asked:
                        raise RefusedError("stopped before it was started")
                    self._write("spec.json", {**self._spec, "log": self._log})
                    self._started = {"host": os.uname().nodename, "oom_kills": _oom_kills()[0]}
                    self._write("node.json", self._started)
                    self._spawn()
                    self._await_record()
        except OSError as error:
            raise RefusedError(f"{error.filename or self._folder}: {error.strerror}") from None
        if self._record is None:
            raise RefusedError(f"its shim did not start: {self._last_words()}")

    def _wait(self, hindrance: Callable[[], RefusedError | None]) -> None:
        until = time.monotonic() + self._wait_s
        while (found := hindrance()) is not None:
            if time.monotonic() > until:
                raise found
            self._tell("waiting", reason=f"waits for {found}")
            for request in self._channel.exchange(_POLLS_S[1]):
                self.take(request)
            if self._asked:
                break

    def _end_earlier(self) -> None:
        """Nothing of this component may live here; what outlived an earlier attempt is ended."""
        component = os.path.dirname(self._folder)
        earlier = [os.path.join(component, name) for name in os.listdir(component)]
        records = [record for folder in earlier if (record := _read_record(folder)) is not None]
        for record in records:
            if _is_alive(record, "shim_pid", "shim_start"):
                number, pid = record["attempt"], record["shim_pid"]
                raise RefusedError(f"attempt {number} of it, which nobody here knows of, runs there", pid)
        sweep = _Sweep(lambda: _left_of(self._tags(with_attempt=False), records), None, {}, kill=False)
        while not sweep.advance():
            self._tell("waiting", reason="ends what is left there of an earlier attempt")
            for request in self._channel.exchange(_POLLS_S[1]):
                self.take(request)
        for folder in earlier:
            if folder != self._folder:
                shutil.rmtree(folder, ignore_errors=True)

    def _spawn(self) -> None:
        """A shim that neither this process nor its connection takes along."""
        program = os.path.join(self._root, "rltui", "daemon", "shim", "__main__.py")
        errors = os.open(os.path.join(self._folder, "shim.err"), os.O_WRONLY | os.O_CREAT, 0o600)
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                if os.fork() == 0:
                    null = os.open(os.devnull, os.O_RDWR)
                    for source, number in ((null, 0), (null, 1), (errors, 2)):
                        os.dup2(source, number)
                    os.execv(sys.executable, [sys.executable, "-I", "-S", program, self._folder])  # noqa: S606
            finally:
                os._exit(CANNOT_RUN)
        os.close(errors)
        os.waitpid(pid, 0)

    def _await_record(self) -> None:
        """For as long as a shim of it may yet write one. Where none comes, there is none."""
        until = time.monotonic() + _SPAWN_S
        while self._record is None and (
            self._shim() is not None or (self._may_start and time.monotonic() < until)
        ):
            time.sleep(_POLLS_S[0])
            self._read_record()

    def _shim(self) -> int | None:
        """Pid of the shim of this folder."""
        ending = os.fsencode(f"rltui/daemon/shim/__main__.py\0{self._folder}\0")
        return next((pid for pid in _pids() if _proc(pid, "cmdline").endswith(ending)), None)

    def _last_words(self) -> str:
        try:
            with open(os.path.join(self._folder, "shim.err"), encoding="utf-8", errors="replace") as file:
                return file.read().strip().rpartition("\n")[2] or "it said nothing"
        except OSError as error:
            return str(error.strerror)

    def _write(self, name: str, values: dict[str, Any]) -> None:
        descriptor = os.open(
            os.path.join(self._folder, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600
        )
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(values, file)

    # --- while it lives -----------------------------------------------------------------------------------

    def _look(self) -> None:
        self._read_record()
        record = self._record
        if record is None:
            self._look_without_shim("its folder there is gone")
        elif record["state"] == "exited":
            self._end = self._outcome(record)
        elif record["boot"] != boot_identity():
            self._end = {"cause": "the node was started anew, and took it along"}
        elif _is_alive(record, "shim_pid", "shim_start"):
            if record["pid"] is not None:  # else it could not be run, and the shim is about to end
                self._tell("running")
        else:
            self._look_without_shim("its shim there was killed")

    def _look_without_shim(self, why: str) -> None:
        record = self._record
        main = None if record is None else _process(record, "pid", "pid_start")
        left = self._left()
        if not left:
            self._read_record()  # what the shim wrote last
            record = self._record
            is_known = record is not None and record["ended_at"] is not None
            self._end = (
                self._outcome(record)
                if record is not None and is_known
                else {"cause": f"{why}; how it ended is not known"}
            )
        elif self._asked or (record is not None and (main is None or main[0] not in left)):
            self._begin_sweep()
        else:
            self._tell("running", reason=why)
        if self._sweep is not None and self._end is None:
            self._sweep.advance()

    def _outcome(self, record: dict[str, Any]) -> dict[str, Any]:
        """`error`: why it could not be run at all; `cause`: why it ended, where the kernel tells."""
        end = {key: record[key] for key in ("exit_code", "signal", "error")}
        before, (kills, is_own) = self._started.get("oom_kills"), _oom_kills()
        has_killed = before is not None and kills is not None and kills > before
        if has_killed and end["signal"] == "SIGKILL" and not record["stop_requested"]:
            what = "out of memory, the node's or its job's" if is_own else "the node ran out of memory"
            end["cause"] = f"killed{'' if is_own else ', perhaps'} by the kernel: {what}"
        return end

    def _begin_sweep(self) -> None:
        if self._sweep is None:
            main = None if self._record is None else _process(self._record, "pid", "pid_start")
            self._sweep = _Sweep(self._left, main, self._spec["stop"], kill=self._asked == "kill")
        elif self._asked == "kill":
            self._sweep.kill()

    def _left(self) -> dict[int, int]:
        return _left_of(self._tags(with_attempt=True), [] if self._record is None else [self._record])

    def _tags(self, *, with_attempt: bool) -> set[bytes]:
        names = ("experiment", "component", "attempt")[: 3 if with_attempt else 2]
        return {f"RLTUI_{name.upper()}={self._spec[name]}".encode() for name in names}

    def _send_output(self) -> bool:
        """True where there is more than is on its way already."""
        if not self._channel.is_free:
            return True
        try:
            log = os.open(self._log, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:  # not made yet, or removed
            return False
        try:
            self._offset = min(self._offset, os.fstat(log).st_size)  # somebody has cut it
            data = os.pread(log, _CHUNK_BYTES, self._offset)
        finally:
            os.close(log)
        if data:
            self._channel.say(OUTPUT, self._offset.to_bytes(8, "big") + data)
            self._offset += len(data)
        return bool(data)

    def take(self, request: dict[str, Any]) -> None:
        what = request["do"]
        if what == "done":
            self._is_taken = True
        elif what in ("stop", "kill"):
            self._asked = what
            record = self._record
            shim = None if record is None else _process(record, "shim_pid", "shim_start")
            if shim is not None:
                send_signal(*shim, signal.SIGUSR1 if what == "kill" else signal.SIGTERM)
                send_signal(*shim, signal.SIGCONT)
            self._next_look = 0.0

    def _tell(self, state: str, **more: object) -> None:
        said = json.dumps({"state": state, **more}).encode()
        if said != self._told:
            self._told = said
            self._channel.say(STATE, said)

    def _read_record(self) -> None:
        self._record = _read_record(self._folder) or self._record


class _Sweep:
    """Ends what no shim looks after: the main process is asked, then all get SIGTERM, then SIGKILL."""

    def __init__(
        self,
        find: Callable[[], dict[int, int]],
        main: tuple[int, int] | None,
        stop: dict[str, Any],
        *,
        kill: bool,
    ) -> None:
        """`find`: what is to end, by pid and start. `stop` says how `main`, if there is one, is asked."""
        self._find, self._main = find, main
        self._told: set[tuple[int, int]] = set()
        self._term_at = self._kill_at = time.monotonic()
        if not kill:
            if main is not None:
                send_signal(*main, signal.Signals[stop["signal"]])
                self._term_at += stop["grace_s"]
            self._kill_at = self._term_at + _SWEEP_S

    def kill(self) -> None:
        """At once, from now on."""
        self._kill_at = time.monotonic()

    def advance(self) -> bool:
        """Do what is due. True when nothing is left."""
        left, now = self._find(), time.monotonic()
        if now < self._term_at and (self._main is None or self._main not in left.items()):
            self._term_at, self._kill_at = now, now + _SWEEP_S
        for process in left.items():
            if now >= self._kill_at:
                send_signal(*process, signal.SIGKILL)
            elif now >= self._term_at and process not in self._told:
                self._told.add(process)
                send_signal(*process, signal.SIGTERM)
                send_signal(*process, signal.SIGCONT)
        return not left


# --- what the kernel says ---------------------------------------------------------------------------------


def _read_record(folder: str) -> dict[str, Any] | None:
    try:
        return read_own(os.path.join(folder, "attempt.json"))
    except (OSError, ValueError, ForeignFileError):
        return None


def _process(record: dict[str, Any], pid: str, start: str) -> tuple[int, int] | None:
    is_known = record[pid] is not None and record[start] is not None
    return (record[pid], record[start]) if is_known and record["boot"] == boot_identity() else None


def _is_alive(record: dict[str, Any], pid: str, start: str) -> bool:
    process = _process(record, pid, start)
    fields = None if process is None else read_stat(process[0])
    return (
        fields is not None
        and process is not None
        and int(fields[19]) == process[1]
        and fields[0] not in b"ZX"
    )


def _left_of(tags: set[bytes], records: list[dict[str, Any]]) -> dict[int, int]:
    """Living processes, start by pid: recorded, of the session, with these tags, or below one of them."""
    known: set[tuple[int, int]] = set()
    sessions: dict[int, int] = {}
    for record in records:
        if record["boot"] == boot_identity():
            known |= {(each["pid"], each["start"]) for each in record["descendants"]}
            main = _process(record, "pid", "pid_start")
            if main is not None:
                known.add(main)
                if record["state"] != "exited":
                    sessions[main[0]] = main[1]
    stats = {
        pid: fields for pid in _pids() if (fields := read_stat(pid)) is not None and fields[0] not in b"ZX"
    }
    starts = {pid: int(fields[19]) for pid, fields in stats.items()}
    found = {
        pid
        for pid, fields in stats.items()
        if (pid, starts[pid]) in known
        or starts[pid] >= sessions.get(int(fields[3]), sys.maxsize)
        or tags <= set(_proc(pid, "environ").split(b"\0"))
    } - {os.getpid()}
    layer = found
    while layer:
        layer = {pid for pid, fields in stats.items() if int(fields[1]) in layer} - found
        found = found | layer
    return {pid: starts[pid] for pid in sorted(found)}


def _turn(lock: TextIO) -> RefusedError | None:
    """Taken for as long as the file is open; else why not."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return RefusedError("another connection that starts it")
    return None


def port_holder(ports: list[int]) -> RefusedError | None:
    """Who listens on the first of the ports that is taken."""
    wanted = {f"{port:04X}": port for port in ports}
    for table in ("tcp", "tcp6") if wanted else ():
        for line in _proc("net", table).decode("ascii").splitlines()[1:]:
            fields = line.split()
            port = wanted.get(fields[1].rpartition(":")[2])
            if port is not None and fields[3] == _LISTEN:
                pid = _owner_of(f"socket:[{fields[9]}]")
                who = "a process of another user" if pid is None else f"pid {pid} {_described(pid)}"
                return RefusedError(f"port {port}, held by {who}", pid)
    return None


def _owner_of(socket: str) -> int | None:
    for pid in _pids():
        with contextlib.suppress(OSError):  # gone, or another user's
            for name in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{name}") == socket:
                    return pid
    return None


def _described(pid: int) -> str:
    tags = [entry for entry in _proc(pid, "environ").split(b"\0") if entry.startswith(b"RLTUI_EXPERIMENT=")]
    whose = "".join(
        f" of the experiment {tag.decode(errors='replace')[17:].partition('@')[0]}" for tag in tags
    )
    words = _proc(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
    return f"{words[:_LONGEST_COMMAND].strip()}{whose}"


def _oom_kills() -> tuple[int | None, bool]:
    """How many ever, and whether in this control group, else on the machine; `None` where it is not told."""
    groups = [line.split(":", 2) for line in _proc("self", "cgroup").decode("utf-8", "replace").splitlines()]
    files = [f"/sys/fs/cgroup{path}/memory.events" for _, names, path in groups if not names]
    old = (path for _, names, path in groups if names == "memory")
    files += [f"/sys/fs/cgroup/memory{path}/memory.oom_control" for path in old]
    for file in (*files, "/sys/fs/cgroup/memory.events", "/proc/vmstat"):
        with contextlib.suppress(OSError), open(file, "rb") as opened:
            for line in opened:
                if line.startswith(b"oom_kill "):
                    return int(line.split()[1]), file != "/proc/vmstat"
    return None, False


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _proc(pid: int | str, name: str) -> bytes:
    """Empty where it is gone, or not for us to read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def main(base: str, root: str) -> int:
    """Exit status: 0 when the end was told and taken; 1 when nobody listens any more."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    channel = Channel(0, 1)
    try:
        asked: list[dict[str, Any]] = []
        while not asked:
            asked = channel.exchange(BEAT_S)
        agent = Agent(channel, base, root, asked[0])
        for request in asked[1:]:
            agent.take(request)
        try:
            agent.run()
            return 0
        except RefusedError as error:
            why = {"state": "refused", "reason": str(error), "pid": error.pid}
        except OtherNodeError as error:
            why = {"state": "other", "reason": str(error)}
        channel.say(STATE, json.dumps(why).encode())
        while True:  # until the follower, which then knows, hangs up
            channel.exchange(BEAT_S)
    except LostError:
        return 1
