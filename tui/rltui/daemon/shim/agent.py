# ruff: noqa: PTH103, PTH115, PTH118, PTH120, PTH123, PTH208
"""The agent on a node: it starts a shim there, reports what becomes of it, and passes stops on.

The other side is the runner in `daemon/hosts/node.py`. The agent lives as long as its connection; the shim
goes on without it, and the next agent finds it by its folder.

Input, on stdin: a JSON object per line. The first has the attempt's `spec` and `id`, `may_start`, the `ports`
that must be free and `wait_s` for that, the `offset` of the output that the runner has already. Then, by
`do`: `stop`, `kill`, `done` once the end was received, and `beat`.

Output, on stdout, behind all that a login shell may print: frames of a kind, the length of the payload in 4
bytes, and the payload. OUTPUT: 8 bytes of offset, and the bytes that are there. STATE: JSON with `state`,
`reason` and more. BEAT: nothing. Highest bytes come first.

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
from rltui.daemon.shim.tree import boot_identity, pids, pop_descendants, read_stat, send_signal

TYPE_CHECKING = False  # the one of `typing`, as in `spawn`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TextIO

OUTPUT, STATE, BEAT = b"L", b"S", b"."
BEAT_INTERVAL_S = 5.0
"""Longest silence of either side."""
LOST_TIMEOUT_S = 45.0
"""An agent that has received nothing for so long has lost its runner."""

_CHUNK_BYTES = 128 * 1024
_OUTPUT_POLLS_S = (0.02, 0.5)
"""First and longest pause between two reads of the output."""
_POLL_S = 0.25
"""Pause between two polls of the processes."""
_SPAWN_TIMEOUT_S = 20.0
"""Longest time from the fork of a shim to its first record."""
_TERM_GRACE_S = 5.0
"""Time from SIGTERM to SIGKILL for processes without a shim."""
_LISTEN = "0A"
"""TCP_LISTEN in the kernel's tables."""
_MAX_COMMAND_CHARS = 80


class LostError(Exception):
    """The runner at the other end is gone."""


class OtherNodeError(Exception):
    """The attempt was started on another node; the text says on which."""


class RefusedError(Exception):
    """The attempt cannot be started here; the text says why."""

    def __init__(self, text: str, pid: int | None = None) -> None:
        """`pid`: the process that is in the way, if it is known."""
        super().__init__(text)
        self.pid = pid


class Channel:
    """Requests in, frames out. It blocks on neither side but in `exchange`."""

    def __init__(self, source: int, sink: int) -> None:
        self._source, self._sink = source, sink
        os.set_blocking(source, False)
        os.set_blocking(sink, False)
        self._unread, self._unsent = bytearray(), bytearray()
        self._received_at = self._sent_at = time.monotonic()

    @property
    def is_drained(self) -> bool:
        """True when all that was sent has left for the runner."""
        return not self._unsent

    def send(self, kind: bytes, payload: bytes = b"") -> None:
        self._unsent += kind + len(payload).to_bytes(4, "big") + payload

    def exchange(self, wait_s: float) -> list[dict[str, Any]]:
        """Send what is pending and return the requests that have come, waiting for up to `wait_s`.

        Raises:
            LostError: if the runner is gone.
        """
        now = time.monotonic()
        if now - self._received_at > LOST_TIMEOUT_S:
            raise LostError
        if now - self._sent_at > BEAT_INTERVAL_S and self.is_drained:
            self.send(BEAT)
        sinks = [self._sink] if self._unsent else []
        readable, writable, _ = select.select([self._source], sinks, [], wait_s)
        try:
            if writable:
                del self._unsent[: os.write(self._sink, self._unsent)]
                self._sent_at = time.monotonic()
            if readable:
                data = os.read(self._source, 65536)
                if not data:
                    raise LostError
                self._unread += data
                self._received_at = time.monotonic()
        except BlockingIOError:  # others read there, too: the next round tells
            pass
        except OSError:
            raise LostError from None
        *lines, incomplete = bytes(self._unread).split(b"\n")
        self._unread = bytearray(incomplete)
        return [json.loads(line) for line in lines]


class Agent:
    def __init__(self, channel: Channel, base: str, root: str, request: dict[str, Any]) -> None:
        self._channel, self._root = channel, root
        self._spec: dict[str, Any] = request["spec"]
        self._may_start: bool = request["may_start"]
        self._ports: list[int] = request["ports"]
        self._wait_s: float = request["wait_s"]
        self._offset: int = request["offset"]
        self._folder = os.path.join(base, "attempts", request["id"])
        self._log = os.path.join(self._folder, "output.log")
        self._node_record: dict[str, Any] = {}
        """Written when it was started: the node's name, and its kernel's count of kills for want of memory.
        """
        self._record: dict[str, Any] | None = None
        self._stop_request = ""
        """`stop`, `kill`, or empty while neither was asked for."""
        self._sweep: _Sweep | None = None
        self._end: dict[str, Any] | None = None
        """The outcome to report, once nothing of it is left."""
        self._last_state = b""
        self._is_acknowledged = False
        self._next_poll = 0.0

    def run(self) -> None:
        """Start the attempt, or find it; stay until its end was reported and acknowledged.

        Raises:
            RefusedError: It cannot be started, and nothing of it is left here.
            OtherNodeError: It was started on another node.
            LostError: The runner is gone. The attempt goes on, unless it was already being ended.
        """
        if not self._is_started_here():
            self._start()
        if self._stop_request:
            self.handle({"do": self._stop_request})
        try:
            self._serve()
        except LostError:
            while self._sweep is not None and not self._sweep.advance():
                time.sleep(_OUTPUT_POLLS_S[1])
            raise
        shutil.rmtree(self._folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # other attempts lie beside it
            os.removedirs(os.path.dirname(self._folder))

    def _serve(self) -> None:
        pause_s = _OUTPUT_POLLS_S[0]
        while not self._is_acknowledged:
            if self._end is None and time.monotonic() >= self._next_poll:
                self._poll()
                self._next_poll = time.monotonic() + _POLL_S
            has_ended = self._end is not None  # what it wrote before is all there is
            has_more = self._send_output()
            pause_s = _OUTPUT_POLLS_S[0] if has_more else min(_OUTPUT_POLLS_S[1], 1.5 * pause_s)
            if has_ended and not has_more and self._channel.is_drained and self._end is not None:
                self._send_state("ended", **self._end)
            for request in self._channel.exchange(0.0 if has_more and self._channel.is_drained else pause_s):
                self.handle(request)

    # --- its start ----------------------------------------------------------------------------------------

    def _is_started_here(self) -> bool:
        """True if it was started, on this node. Raises `OtherNodeError` where it was on another."""
        with contextlib.suppress(OSError, ValueError, ForeignFileError):  # it was not started yet
            self._node_record = read_own(os.path.join(self._folder, "node.json"))
        host = self._node_record.get("host", os.uname().nodename)
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
                self._wait_for(lambda: _try_lock(lock))
                if not self._is_started_here():  # as long as nobody else has started it
                    self._end_earlier_attempts()
                    self._wait_for(lambda: port_holder(self._ports))
                    if self._stop_request:
                        raise RefusedError("stopped before it was started")
                    self._write("spec.json", {**self._spec, "log": self._log})
                    self._node_record = {"host": os.uname().nodename, "oom_kills": _oom_kills()[0]}
                    self._write("node.json", self._node_record)
                    self._spawn()
                    self._await_record()
        except OSError as error:
            raise RefusedError(f"{error.filename or self._folder}: {error.strerror}") from None
        if self._record is None:
            raise RefusedError(f"the shim did not start: {self._shim_error()}")

    def _wait_for(self, find_obstacle: Callable[[], RefusedError | None]) -> None:
        deadline = time.monotonic() + self._wait_s
        while (obstacle := find_obstacle()) is not None:
            if time.monotonic() > deadline:
                raise obstacle
            self._send_state("waiting", reason=f"waiting for {obstacle}")
            for request in self._channel.exchange(_OUTPUT_POLLS_S[1]):
                self.handle(request)
            if self._stop_request:
                break

    def _end_earlier_attempts(self) -> None:
        """End the leftovers of earlier attempts of this component. Raises RefusedError where one of them
        still runs.
        """
        component_dir = os.path.dirname(self._folder)
        folders = [os.path.join(component_dir, name) for name in os.listdir(component_dir)]
        records = [record for folder in folders if (record := _read_record(folder)) is not None]
        for record in records:
            if _is_alive(record, "shim_pid", "shim_start"):
                number, pid = record["attempt"], record["shim_pid"]
                raise RefusedError(f"an unknown attempt ({number}) is running there", pid)
        sweep = _Sweep(
            lambda: _living_processes(self._tags(with_attempt=False), records), None, {}, kill=False
        )
        while not sweep.advance():
            self._send_state("waiting", reason="ending leftovers of an earlier attempt there")
            for request in self._channel.exchange(_OUTPUT_POLLS_S[1]):
                self.handle(request)
        for folder in folders:
            if folder != self._folder:
                shutil.rmtree(folder, ignore_errors=True)

    def _spawn(self) -> None:
        """Start a shim that survives this process and its connection."""
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
        """Return when the shim has written its first record, or none will come: it is not there any more."""
        deadline = time.monotonic() + _SPAWN_TIMEOUT_S
        while self._record is None and (
            self._shim() is not None or (self._may_start and time.monotonic() < deadline)
        ):
            time.sleep(_OUTPUT_POLLS_S[0])
            self._read_record()

    def _shim(self) -> int | None:
        """Pid of the shim of this folder, found by its command line."""
        ending = os.fsencode(f"rltui/daemon/shim/__main__.py\0{self._folder}\0")
        return next((pid for pid in pids() if _proc(pid, "cmdline").endswith(ending)), None)

    def _shim_error(self) -> str:
        try:
            with open(os.path.join(self._folder, "shim.err"), encoding="utf-8", errors="replace") as file:
                return file.read().strip().rpartition("\n")[2] or "no output"
        except OSError as error:
            return str(error.strerror)

    def _write(self, name: str, values: dict[str, Any]) -> None:
        descriptor = os.open(
            os.path.join(self._folder, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600
        )
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(values, file)

    # --- while it lives -----------------------------------------------------------------------------------

    def _poll(self) -> None:
        self._read_record()
        record = self._record
        if record is None:
            self._poll_without_shim("its folder there is gone")
        elif record["state"] == "exited":
            self._end = self._outcome(record)
        elif record["boot"] != boot_identity():
            self._end = {"cause": "the node was rebooted"}
        elif _is_alive(record, "shim_pid", "shim_start"):
            if record["pid"] is not None:  # else it could not be run, and the shim is about to end
                self._send_state("running")
        else:
            self._poll_without_shim("its shim there was killed")

    def _poll_without_shim(self, reason: str) -> None:
        record = self._record
        main_process = None if record is None else _process(record, "pid", "pid_start")
        living = self._living()
        if not living:
            self._read_record()  # what the shim wrote last
            record = self._record
            has_end_time = record is not None and record["ended_at"] is not None
            self._end = (
                self._outcome(record)
                if record is not None and has_end_time
                else {"cause": f"{reason}; how it ended is unknown"}
            )
        elif self._stop_request or (
            record is not None and (main_process is None or main_process[0] not in living)
        ):
            self._begin_sweep()
        else:
            self._send_state("running", reason=reason)
        if self._sweep is not None and self._end is None:
            self._sweep.advance()

    def _outcome(self, record: dict[str, Any]) -> dict[str, Any]:
        """The end to report. `error`: why it could not be run at all; `cause`: why it ended, where the
        kernel tells.
        """
        end = {key: record[key] for key in ("exit_code", "signal", "error")}
        kills_before, (kills, is_own_cgroup) = self._node_record.get("oom_kills"), _oom_kills()
        has_killed = kills_before is not None and kills is not None and kills > kills_before
        if has_killed and end["signal"] == "SIGKILL" and not record["stop_requested"]:
            scope = "out of memory (node or job)" if is_own_cgroup else "the node ran out of memory"
            end["cause"] = f"killed{'' if is_own_cgroup else ', possibly'} by the kernel: {scope}"
        return end

    def _begin_sweep(self) -> None:
        if self._sweep is None:
            main = None if self._record is None else _process(self._record, "pid", "pid_start")
            self._sweep = _Sweep(self._living, main, self._spec["stop"], kill=self._stop_request == "kill")
        elif self._stop_request == "kill":
            self._sweep.kill()

    def _living(self) -> dict[int, int]:
        return _living_processes(
            self._tags(with_attempt=True), [] if self._record is None else [self._record]
        )

    def _tags(self, *, with_attempt: bool) -> set[bytes]:
        names = ("experiment", "component", "attempt")[: 3 if with_attempt else 2]
        return {f"RLTUI_{name.upper()}={self._spec[name]}".encode() for name in names}

    def _send_output(self) -> bool:
        """Send the next piece of the log. True where more may follow."""
        if not self._channel.is_drained:
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
            self._channel.send(OUTPUT, self._offset.to_bytes(8, "big") + data)
            self._offset += len(data)
        return bool(data)

    def handle(self, request: dict[str, Any]) -> None:
        command = request["do"]
        if command == "done":
            self._is_acknowledged = True
        elif command in ("stop", "kill"):
            self._stop_request = command
            record = self._record
            shim = None if record is None else _process(record, "shim_pid", "shim_start")
            if shim is not None:
                send_signal(*shim, signal.SIGUSR1 if command == "kill" else signal.SIGTERM)
                send_signal(*shim, signal.SIGCONT)
            self._next_poll = 0.0

    def _send_state(self, state: str, **details: object) -> None:
        frame = json.dumps({"state": state, **details}).encode()
        if frame != self._last_state:
            self._last_state = frame
            self._channel.send(STATE, frame)

    def _read_record(self) -> None:
        self._record = _read_record(self._folder) or self._record


class _Sweep:
    """Ends processes that no shim looks after: the main process is asked, then all get SIGTERM, then
    SIGKILL.
    """

    def __init__(
        self,
        find: Callable[[], dict[int, int]],
        main: tuple[int, int] | None,
        stop: dict[str, Any],
        *,
        kill: bool,
    ) -> None:
        """`find` returns what is to end, start by pid. `stop` says how `main`, if there is one, is asked."""
        self._find, self._main = find, main
        self._terminated: set[tuple[int, int]] = set()
        self._term_at = self._kill_at = time.monotonic()
        if not kill:
            if main is not None:
                send_signal(*main, signal.Signals[stop["signal"]])
                self._term_at += stop["grace_s"]
            self._kill_at = self._term_at + _TERM_GRACE_S

    def kill(self) -> None:
        """Send SIGKILL from now on."""
        self._kill_at = time.monotonic()

    def advance(self) -> bool:
        """Do what is due. True when nothing is left."""
        living, now = self._find(), time.monotonic()
        if now < self._term_at and (self._main is None or self._main not in living.items()):
            self._term_at, self._kill_at = now, now + _TERM_GRACE_S
        for process in living.items():
            if now >= self._kill_at:
                send_signal(*process, signal.SIGKILL)
            elif now >= self._term_at and process not in self._terminated:
                self._terminated.add(process)
                send_signal(*process, signal.SIGTERM)
                send_signal(*process, signal.SIGCONT)
        return not living


# --- what the kernel says ---------------------------------------------------------------------------------


def _read_record(folder: str) -> dict[str, Any] | None:
    try:
        return read_own(os.path.join(folder, "attempt.json"))
    except (OSError, ValueError, ForeignFileError):
        return None


def _process(record: dict[str, Any], pid: str, start: str) -> tuple[int, int] | None:
    is_recorded = record[pid] is not None and record[start] is not None
    return (record[pid], record[start]) if is_recorded and record["boot"] == boot_identity() else None


def _is_alive(record: dict[str, Any], pid: str, start: str) -> bool:
    process = _process(record, pid, start)
    fields = None if process is None else read_stat(process[0])
    return (
        fields is not None
        and process is not None
        and int(fields[19]) == process[1]
        and fields[0] not in b"ZX"
    )


def _living_processes(tags: set[bytes], records: list[dict[str, Any]]) -> dict[int, int]:
    """Living processes, start by pid: recorded, of the session, with these tags, or below one of them."""
    recorded: set[tuple[int, int]] = set()
    sessions: dict[int, int] = {}
    for record in records:
        if record["boot"] == boot_identity():
            recorded |= {(descendant["pid"], descendant["start"]) for descendant in record["descendants"]}
            main = _process(record, "pid", "pid_start")
            if main is not None:
                recorded.add(main)
                if record["state"] != "exited":
                    sessions[main[0]] = main[1]
    stats = {
        pid: fields for pid in pids() if (fields := read_stat(pid)) is not None and fields[0] not in b"ZX"
    }
    starts = {pid: int(fields[19]) for pid, fields in stats.items()}
    members = {
        pid
        for pid, fields in stats.items()
        if (pid, starts[pid]) in recorded
        or starts[pid] >= sessions.get(int(fields[3]), sys.maxsize)
        or tags <= set(_proc(pid, "environ").split(b"\0"))
    } - {os.getpid()}
    members |= pop_descendants(members, {pid: int(fields[1]) for pid, fields in stats.items()})
    return {pid: starts[pid] for pid in sorted(members)}


def _try_lock(lock: TextIO) -> RefusedError | None:
    """Lock the file for as long as it is open; return the obstacle where somebody else has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return RefusedError("another connection that is starting it")
    return None


def port_holder(ports: list[int]) -> RefusedError | None:
    """The first process found listening on one of these ports, as the error to report; `None` where all are
    free.
    """
    ports_by_hex = {f"{port:04X}": port for port in ports}
    for table in ("tcp", "tcp6") if ports_by_hex else ():
        for line in _proc("net", table).decode("ascii").splitlines()[1:]:
            fields = line.split()
            port = ports_by_hex.get(fields[1].rpartition(":")[2])
            if port is not None and fields[3] == _LISTEN:
                pid = _socket_owner(f"socket:[{fields[9]}]")
                holder = "a process of another user" if pid is None else f"pid {pid} {_describe_process(pid)}"
                return RefusedError(f"port {port}, in use by {holder}", pid)
    return None


def _socket_owner(socket: str) -> int | None:
    for pid in pids():
        with contextlib.suppress(OSError):  # gone, or another user's
            for name in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{name}") == socket:
                    return pid
    return None


def _describe_process(pid: int) -> str:
    tags = [entry for entry in _proc(pid, "environ").split(b"\0") if entry.startswith(b"RLTUI_EXPERIMENT=")]
    owner = "".join(
        f" of the experiment {tag.decode(errors='replace')[17:].partition('@')[0]}" for tag in tags
    )
    command = _proc(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
    return f"{command[:_MAX_COMMAND_CHARS].strip()}{owner}"


def _oom_kills() -> tuple[int | None, bool]:
    """The kernel's count of kills for want of memory, `None` where unknown; and True if the count is of this
    control group, not of the whole machine.
    """
    groups = [line.split(":", 2) for line in _proc("self", "cgroup").decode("utf-8", "replace").splitlines()]
    files = [f"/sys/fs/cgroup{path}/memory.events" for _, names, path in groups if not names]
    old_groups = (path for _, names, path in groups if names == "memory")
    files += [f"/sys/fs/cgroup/memory{path}/memory.oom_control" for path in old_groups]
    for file in (*files, "/sys/fs/cgroup/memory.events", "/proc/vmstat"):
        with contextlib.suppress(OSError), open(file, "rb") as lines:
            for line in lines:
                if line.startswith(b"oom_kill "):
                    return int(line.split()[1]), file != "/proc/vmstat"
    return None, False


def _proc(pid: int | str, name: str) -> bytes:
    """The bytes of `/proc/PID/NAME`; empty where the process is gone, or the file is not for us to read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def main(base: str, root: str) -> int:
    """Exit status: 0 when the end was acknowledged; 1 when the runner hung up before."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    channel = Channel(0, 1)
    try:
        requests: list[dict[str, Any]] = []
        while not requests:
            requests = channel.exchange(BEAT_INTERVAL_S)
        agent = Agent(channel, base, root, requests[0])
        for request in requests[1:]:
            agent.handle(request)
        try:
            agent.run()
            return 0
        except RefusedError as error:
            state = {"state": "refused", "reason": str(error), "pid": error.pid}
        except OtherNodeError as error:
            state = {"state": "other", "reason": str(error)}
        channel.send(STATE, json.dumps(state).encode())
        while True:  # until the follower, which then knows, hangs up
            channel.exchange(BEAT_INTERVAL_S)
    except LostError:
        return 1
