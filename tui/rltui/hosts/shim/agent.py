# ruff: noqa: PTH103, PTH110, PTH118, PTH120, PTH123, PTH208
"""The agent on a node: it starts a shim there, sends what that writes, and passes stops on.

The other side is the runner in `hosts/node.py`. The agent lives as long as its connection; the shim
goes on without it, and the next agent finds it by its folder. If a shim was killed, the agent starts another
one, which takes up with the processes that are left.

Input, on stdin: a JSON object per line. The first has the attempt's `spec` and `id`, `may_start`, the `ports`
that must be free and `wait_s` for that, the `offset` of the output that the runner has already. Then, by
`do`: `stop`, `kill`, `received` for each piece of output, `done` once the end was received, and `beat`.

Output, on stdout, behind all that a login shell may print: frames of a kind, the length of the payload in 4
bytes, and the payload. OUTPUT: 8 bytes of offset, and the bytes that are there. STATUS: JSON with the values
of a `JobStatus` that are known here. REFUSED: JSON with the `reason` why it cannot be started, and the `pid`
in the way. ELSEWHERE: a text that says on which other node it was started. BEAT: nothing. Highest bytes
come first.

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

from rltui.hosts.shim.leftovers import Leftovers
from rltui.hosts.shim.oom import oom_kills
from rltui.hosts.shim.ports import NodePortHolder, port_holder, read_proc
from rltui.hosts.shim.record import ADOPTS, read_record
from rltui.hosts.shim.spawn import CANNOT_RUN, ForeignFileError, Spec, read_own
from rltui.hosts.shim.stop import TERMINATING, StopSequence
from rltui.hosts.shim.tree import boot_identity, is_alive, pids, send_signal, start_ticks

TYPE_CHECKING = False  # the one of `typing`, as in `spawn`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TextIO

OUTPUT, STATUS, REFUSED, ELSEWHERE, BEAT = b"L", b"S", b"R", b"E", b"."
BEAT_INTERVAL_S = 5.0
"""Longest silence of either side."""
LOST_TIMEOUT_S = 45
"""An agent that has received nothing for so long has lost its runner."""

_CHUNK_BYTES = (8 << 10, 1 << 20)
"""Least and most of the output that is on its way at a time: what a slow link has still to carry delays all
that is sent behind it.
"""
_CHUNK_S = 1.0
"""A piece of output that takes longer to be received is followed by a smaller one."""
_OUTPUT_POLLS_S = (0.02, 0.5)
"""First and longest pause between two reads of the output."""
_POLL_S = 0.25
"""Pause between two reads of the shim's record."""
_COMPONENT_TAGS = ("RLTUI_EXPERIMENT", "RLTUI_COMPONENT")
"""Variables that all attempts of a component share."""
_SPAWN_TIMEOUT_S = 20.0
"""Longest time from the fork of a shim to its first record."""
_ADOPTION_TIMEOUT_S = 5.0
"""Longest wait for the record of one that adopts: on a full disk it writes none, and does its work."""


class RefusedError(Exception):
    """The attempt cannot be started here; the text says why."""

    def __init__(self, text: str, pid: int | None = None) -> None:
        """`pid`: the process that is in the way, if it is known."""
        super().__init__(text)
        self.pid = pid


class OtherNodeError(Exception):
    """The attempt was started on another node; the text says on which."""


class Channel:
    """Requests in, frames out. The agent ends with it, also if nothing comes for too long."""

    def __init__(self) -> None:
        self._unread = b""
        self._sent_at = time.monotonic()
        signal.alarm(LOST_TIMEOUT_S)

    def send(self, kind: bytes, payload: bytes = b"") -> None:
        frame = kind + len(payload).to_bytes(4, "big") + payload
        try:
            while frame:
                frame = frame[os.write(1, frame) :]
        except OSError:
            sys.exit(1)
        self._sent_at = time.monotonic()

    def receive(self, wait_s: float) -> list[dict[str, Any]]:
        """The requests that have come, waiting for up to `wait_s`."""
        if time.monotonic() - self._sent_at > BEAT_INTERVAL_S:
            self.send(BEAT)
        if not select.select([0], [], [], wait_s)[0]:
            return []
        data = os.read(0, 65536)
        if not data:
            sys.exit(1)
        signal.alarm(LOST_TIMEOUT_S)
        *lines, self._unread = (self._unread + data).split(b"\n")
        return [json.loads(line) for line in lines]


class Agent:
    def __init__(self, channel: Channel, base: str, root: str, request: dict[str, Any]) -> None:
        self._channel, self._root = channel, root
        self._folder = os.path.join(base, "attempts", request["id"])
        self._log = os.path.join(self._folder, "output.log")
        self._spec: dict[str, Any] = {**request["spec"], "log": self._log}
        self._may_start: bool = request["may_start"]
        self._ports: list[int] = request["ports"]
        self._wait_s: float = request["wait_s"]
        self._offset: int = request["offset"]
        self._chunk_bytes = _CHUNK_BYTES[0]
        self._chunk_sent_at: float | None = None
        """The monotonic time of sending; `None` once all output that was sent has been received."""
        self._node_record: dict[str, Any] = {}
        """Written when it was started: the node's name, and its kernel's count of kills for want of memory.
        """
        self._record: dict[str, Any] | None = None
        self._stop_request = ""
        """`stop`, `kill`, or empty while neither was asked for."""
        self._status: dict[str, Any] = {}
        """The values that were last reported."""
        self._is_acknowledged = False

    def run(self) -> None:
        """Start the attempt, or find it; stay until its end was reported and acknowledged.

        Raises:
            RefusedError: It cannot be started, and nothing of it is left here.
            OtherNodeError: It was started on another node.
        """
        if not self._is_started_here():
            self._start()
        self._pass_stop_on()
        end: dict[str, Any] | None = None
        pause_s, next_poll = _OUTPUT_POLLS_S[0], 0.0
        while not self._is_acknowledged:
            if end is None and time.monotonic() >= next_poll:
                end = self._poll()
                next_poll = time.monotonic() + _POLL_S
            has_more = self._send_output()  # at the end, what it wrote before that is all there is
            pause_s = _OUTPUT_POLLS_S[0] if has_more else min(_OUTPUT_POLLS_S[1], 1.5 * pause_s)
            if end is not None and not has_more:
                self._report(phase="ended", reason="", **end)
            elif end is not None and time.monotonic() > next_poll + BEAT_INTERVAL_S:
                self._report(phase="running", starts=1, reason="it ended; its last output is on the way")
            self._receive(_POLL_S if has_more else pause_s)
        shutil.rmtree(self._folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # other attempts lie beside it
            os.removedirs(os.path.dirname(self._folder))

    def handle(self, request: dict[str, Any]) -> None:
        command = request["do"]
        if command == "done":
            self._is_acknowledged = True
        elif command == "received":
            self._fit_chunk()
        elif command in ("stop", "kill"):
            self._stop_request = command
            self._pass_stop_on()

    def _receive(self, wait_s: float) -> None:
        for request in self._channel.receive(wait_s):
            self.handle(request)

    def _report(self, **status: object) -> None:
        if status != self._status:
            self._status = status
            self._channel.send(STATUS, json.dumps(status).encode())

    # --- its start ----------------------------------------------------------------------------------------

    def _is_started_here(self) -> bool:
        """True if it was started, on this node. Raises `OtherNodeError` where it was on another."""
        with contextlib.suppress(OSError, ValueError, ForeignFileError):  # it was not started yet
            self._node_record = read_own(os.path.join(self._folder, "node.json"))
        host = self._node_record.get("host", os.uname().nodename)
        if host != os.uname().nodename:
            raise OtherNodeError(f"it was started on {host}, and this is {os.uname().nodename}")
        self._read_record()
        return not self._may_start or self._record is not None or self._shim() is not None

    def _start(self) -> None:
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with self._open_lock() as lock:
                self._wait_for(lambda: None if _is_locked(lock) else "another connection that is starting it")
                if not self._is_started_here():  # as long as nobody else has started it
                    self._end_earlier_attempts()
                    self._wait_for(lambda: port_holder(self._ports))
                    if self._stop_request:
                        raise RefusedError("stopped before it was started")
                    kills = oom_kills()
                    self._node_record = {"host": os.uname().nodename, "oom_kills": kills and kills[0]}
                    self._write("node.json", self._node_record)
                    self._spawn_shim()
        except OSError as error:
            raise RefusedError(f"{error.filename or self._folder}: {error.strerror}") from None
        if self._record is None:
            raise RefusedError(f"the shim did not start: {self._shim_error()}")

    def _wait_for(self, find_obstacle: Callable[[], NodePortHolder | str | None]) -> None:
        deadline = time.monotonic() + self._wait_s
        while (obstacle := find_obstacle()) is not None and not self._stop_request:
            if time.monotonic() > deadline:
                raise RefusedError(
                    str(obstacle), obstacle.pid if isinstance(obstacle, NodePortHolder) else None
                )
            self._report(phase="pending", reason=f"waiting for {obstacle}")
            self._receive(_OUTPUT_POLLS_S[1])

    def _end_earlier_attempts(self) -> None:
        """End the leftovers of earlier attempts of this component. Raises RefusedError where one of them
        still runs.
        """
        component_dir = os.path.dirname(self._folder)
        folders = [os.path.join(component_dir, name) for name in os.listdir(component_dir)]
        records = [record for folder in folders if (record := read_record(folder)) is not None]
        for record in records:
            if (shim := _recorded_shim(record)) is not None:
                raise RefusedError(f"an unknown attempt ({record['attempt']}) is running there", shim[0])
        tags = {name: value for name, value in Spec(self._spec).tags.items() if name in _COMPONENT_TAGS}
        self._end(
            Leftovers(tags, records), phase="pending", reason="ending leftovers of an earlier attempt there"
        )
        for folder in folders:
            if folder != self._folder:
                shutil.rmtree(folder, ignore_errors=True)

    def _end(self, leftovers: Leftovers, **status: str) -> None:
        sequence = StopSequence(Spec(self._spec), leftovers)
        sequence.enter(TERMINATING)
        sequence.advance(time.monotonic())
        while leftovers.members:
            self._report(**status)
            self._receive(_OUTPUT_POLLS_S[1])
            sequence.advance(time.monotonic())

    def _spawn_shim(self, *, adopts: str = "") -> None:
        """Start a shim that survives this process and its connection, and return when it has written a
        record, or will write none.
        """
        if not os.path.exists(os.path.join(self._folder, "spec.json")):
            self._write("spec.json", self._spec)
        program = os.path.join(self._root, "rltui", "hosts", "shim", "__main__.py")
        argv = [sys.executable, "-I", "-S", program, self._folder]
        environment = {**os.environ, ADOPTS: adopts} if adopts else os.environ
        errors = os.open(os.path.join(self._folder, "shim.err"), os.O_WRONLY | os.O_CREAT, 0o600)
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                if os.fork() == 0:
                    null = os.open(os.devnull, os.O_RDWR)
                    for source, number in ((null, 0), (null, 1), (errors, 2)):
                        os.dup2(source, number)
                    os.execve(sys.executable, argv, environment)  # noqa: S606
            finally:
                os._exit(CANNOT_RUN)
        os.close(errors)
        os.waitpid(pid, 0)
        earlier = self._record
        deadline = time.monotonic() + (_ADOPTION_TIMEOUT_S if adopts else _SPAWN_TIMEOUT_S)
        while self._record in (earlier, None) and time.monotonic() < deadline:
            time.sleep(_OUTPUT_POLLS_S[0])
            self._read_record()

    def _shim_error(self) -> str:
        try:
            with open(os.path.join(self._folder, "shim.err"), encoding="utf-8", errors="replace") as file:
                return file.read().strip().rpartition("\n")[2] or "no output"
        except OSError as error:
            return str(error.strerror)

    def _open_lock(self) -> TextIO:
        return open(os.path.join(self._folder, "lock"), "w", encoding="utf-8")

    def _write(self, name: str, values: dict[str, Any]) -> None:
        descriptor = os.open(
            os.path.join(self._folder, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600
        )
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(values, file)

    # --- while it lives -----------------------------------------------------------------------------------

    def _poll(self) -> dict[str, Any] | None:
        """Report that it runs; or return the values that say how it ended, once nothing of it is left."""
        self._read_record()
        record = self._record
        if record is not None and record["state"] == "exited":
            return self._outcome()
        if record is not None and record["boot"] != boot_identity():
            return {"starts": 1, "error": "the node was rebooted"}
        if self._shim() is None:
            reason = "its folder there is gone" if record is None else "its shim there was killed"
            if not self._leftovers().members:
                self._read_record()  # what the shim wrote last
                return self._outcome(unknown=reason)
            self._adopt(reason)
        elif record is not None and (record["pid"] is not None or "adopted" in record):
            # else it could not be run, and the shim is about to end
            self._report(phase="running", starts=1, reason=record.get("adopted", ""))
        return None

    def _adopt(self, reason: str) -> None:
        """Start a shim in place of the one that is gone, unless another agent does. Where the folder cannot
        be written to, the agent can at least end what is left.
        """
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with self._open_lock() as lock:
                if _is_locked(lock) and self._shim() is None:
                    self._spawn_shim(adopts=reason)
        except OSError:
            self._report(phase="running", starts=1, reason=reason)
            if self._stop_request:
                self._end(self._leftovers(), phase="running", reason=reason)
        self._pass_stop_on()

    def _leftovers(self) -> Leftovers:
        leftovers = Leftovers(Spec(self._spec).tags, [] if self._record is None else [self._record])
        leftovers.refresh()
        return leftovers

    def _outcome(self, *, unknown: str = "") -> dict[str, Any]:
        """`unknown`: the reason why its end may not be on record."""
        record = self._record or {}
        if record.get("error"):  # it could not be run at all
            return {"exit_code": record["exit_code"], "error": record["error"]}
        end = {"starts": 1, "exit_code": record.get("exit_code"), "signal": record.get("signal")}
        kills_before, (kills, is_own_cgroup) = self._node_record.get("oom_kills"), oom_kills() or (0, False)
        has_killed = kills_before is not None and kills > kills_before
        unknown = record.get("adopted", unknown)
        if unknown and end["exit_code"] is None and end["signal"] is None:
            end["error"] = f"{unknown}; how it ended is unknown"
        elif has_killed and end["signal"] == "SIGKILL" and not record["stop_requested"]:
            scope = "out of memory (node or job)" if is_own_cgroup else "the node ran out of memory"
            end["error"] = f"killed{'' if is_own_cgroup else ', possibly'} by the kernel: {scope}"
        return end

    def _send_output(self) -> bool:
        """Send the next piece of the log, once the last one was received. True where more may follow."""
        if self._chunk_sent_at is not None:
            return True
        try:
            log = os.open(self._log, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:  # not made yet, or removed
            return False
        try:
            self._offset = min(self._offset, os.fstat(log).st_size)  # somebody has cut it
            data = os.pread(log, self._chunk_bytes, self._offset)
        finally:
            os.close(log)
        if data:
            self._chunk_sent_at = time.monotonic()
            self._channel.send(OUTPUT, self._offset.to_bytes(8, "big") + data)
            self._offset += len(data)
        return bool(data)

    def _fit_chunk(self) -> None:
        """The last piece of output was received: the next one is larger or smaller, as that took."""
        if self._chunk_sent_at is not None:
            took_s, self._chunk_sent_at = time.monotonic() - self._chunk_sent_at, None
            if took_s > _CHUNK_S:
                self._chunk_bytes = max(_CHUNK_BYTES[0], self._chunk_bytes // 2)
            elif took_s < _CHUNK_S / 2:
                self._chunk_bytes = min(_CHUNK_BYTES[1], 2 * self._chunk_bytes)

    def _pass_stop_on(self) -> None:
        if self._stop_request and (shim := self._shim()) is not None:
            send_signal(*shim, signal.SIGUSR1 if self._stop_request == "kill" else signal.SIGTERM)
            send_signal(*shim, signal.SIGCONT)

    def _shim(self) -> tuple[int, int] | None:
        """Pid and start of its living shim: by its record, or else, if that was removed, by its arguments."""
        if self._record is not None and (shim := _recorded_shim(self._record)) is not None:
            return shim
        # the second name is that of shims of before December 2026
        programs = ("rltui/hosts/shim/__main__.py", "rltui/daemon/shim/__main__.py")
        endings = tuple(os.fsencode(f"{program}\0{self._folder}\0") for program in programs)
        pid = next((pid for pid in pids() if read_proc(pid, "cmdline").endswith(endings)), None)
        start = None if pid is None else start_ticks(pid)
        return None if pid is None or start is None else (pid, start)

    def _read_record(self) -> None:
        self._record = read_record(self._folder) or self._record


def _recorded_shim(record: dict[str, Any]) -> tuple[int, int] | None:
    pid, start = record["shim_pid"], record["shim_start"]
    is_of_this_boot = record["boot"] == boot_identity()
    return (pid, start) if start is not None and is_of_this_boot and is_alive(pid, start) else None


def _is_locked(lock: TextIO) -> bool:
    """Lock the file for as long as it is open. False where somebody else has it."""
    with contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def main(base: str, root: str) -> int:
    """Exit status: 0 when the end was acknowledged; 1 when the runner hung up before."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    channel = Channel()
    requests: list[dict[str, Any]] = []
    while not requests:
        requests = channel.receive(BEAT_INTERVAL_S)
    agent = Agent(channel, base, root, requests[0])
    for request in requests[1:]:
        agent.handle(request)
    try:
        agent.run()
        return 0
    except RefusedError as error:
        channel.send(REFUSED, json.dumps({"reason": str(error), "pid": error.pid}).encode())
    except OtherNodeError as error:
        channel.send(ELSEWHERE, str(error).encode())
    while True:  # until the runner, which then knows, hangs up
        channel.receive(BEAT_INTERVAL_S)
