"""Components on a node: a shim runs there, and an agent for as long as a connection lasts."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shlex
import time
import zlib
from dataclasses import replace
from typing import Any

from rltui.hosts.remote_runner import HostError, RemoteRunner, is_set_within
from rltui.hosts.shim.agent import BEAT_INTERVAL_S, ELSEWHERE, OUTPUT, REFUSED, STATUS
from rltui.services.hosts.nodes import node_tag, reach_argv, sent_variables, shell_input, shim_program

_PAUSES_S = (0.5, 15.0)
"""First and longest pause before the next connection; each is twice the one before."""
_GREETING_TIMEOUT_S = 60.0
"""Longest time until the node's Python answers; profiles of some clusters take long."""
_SILENCE_TIMEOUT_S = 20.0
"""A connection over which nothing has come for so long is lost."""
_HANG_UP_S = 2.0
"""Longest wait for the other side to clear up and hang up."""
_NOT_FOUND = (126, 127)
"""Exit codes of shells where there is no such program."""
_LONGEST_LINE = 1 << 16
_OLDEST_PYTHON = (3, 9)
_DIGITS = 9
"""Digits of the size that precedes the program."""
_AGENT_PROGRAM = """\
from rltui.hosts.shim.agent import main
sys.exit(main(folder(), root))
"""
_GREETING = "rltui agent, python "
_HELLO = f"""\
import os, sys
os.environ.pop("RLTUI_PROGRAM")
sys.stdout.write("\\n{_GREETING}%d.%d\\n" % sys.version_info[:2])
sys.stdout.flush()
import zlib
def read(size):
    data = b""
    while len(data) < size:
        data += os.read(0, size - len(data)) or sys.exit("hung up")
    return data
exec(zlib.decompress(read(int(read({_DIGITS})))))
"""
"""A program for any Python 3. What it reads is sent once it has answered, for `sh` may read ahead."""


class _ConnectionLostError(Exception):
    """The connection failed; the text says why."""


class _PermanentError(_ConnectionLostError):
    """No later connection will succeed either."""


async def run(runner: RemoteRunner) -> None:
    """Run the component on its node, see `ProcessHost`. A stop before anything was sent there ends it at
    once.
    """
    node = _Node(runner)
    started_at, pause_s = time.monotonic(), _PAUSES_S[0]
    while runner.status.id or not runner.stop_requested.is_set():
        try:
            async with _Connection(node.argv, node.program) as connection:
                pause_s = _PAUSES_S[0]
                if await node.run_agent(connection):
                    return
        except _ConnectionLostError as error:
            if isinstance(error, _PermanentError) and not runner.status.id:
                raise HostError(f"{node.name}: {error}") from None
            runner.report_lost(str(error), since=node.heard_at)
            if not runner.status.id and time.monotonic() - started_at > node.wait_s:
                raise HostError(f"{node.name} cannot be reached: {error}") from None
            await runner.pause(pause_s)
            pause_s = min(_PAUSES_S[1], 2 * pause_s)
    runner.report_ended()


class _Node:
    """The node, the connection's argv and programs, and the id of the component there."""

    def __init__(self, runner: RemoteRunner) -> None:
        host = runner.host
        self.name: str = host["name"]
        self.wait_s: float = host["wait_s"]
        self.argv = [*reach_argv(host["reach"], forward=host["forward"]), "sh"]
        self.program = shell_input(_HELLO, python=host["python"], login=host["login"])
        self._runner = runner
        self._tag = node_tag(runner.experiment)
        folder = hashlib.sha256(self._tag.encode()).hexdigest()[:12]
        self.heard_at: float | None = None
        """Wall clock of the agent's last frame."""
        self._id = f"{folder}/{runner.component}/attempt-{runner.attempt}"

    async def run_agent(self, connection: _Connection) -> bool:
        """Serve one connection until the component ended: then True. False where nothing was started.

        Raises:
            _ConnectionLostError, HostError

        """
        runner = self._runner
        program = zlib.compress(shim_program(_AGENT_PROGRAM).encode())
        await connection.send(b"%0*d" % (_DIGITS, len(program)) + program)
        if not runner.status.id and runner.stop_requested.is_set():
            return False
        if not runner.status.id:
            runner.report(replace(runner.status, id=self._id, where=self.name))
        await connection.request(**self._first_request())
        sender = asyncio.create_task(self._send_requests(connection), name="requests to the node")
        try:
            while True:
                kind, payload = await connection.read_frame()
                self.heard_at = time.time()
                runner.report_reached()
                if kind == OUTPUT:
                    offset = int.from_bytes(payload[:8], "big")
                    runner.write(payload[8 + max(0, runner.written_bytes - offset) :])
                    await connection.request(do="received")
                elif kind == STATUS:
                    runner.report(replace(runner.status, **json.loads(payload)))
                    if runner.status.phase == "ended":
                        await connection.request(do="done")
                        await connection.wait_closed()
                        return True
                elif kind == ELSEWHERE:
                    raise _ConnectionLostError(payload.decode())
                elif kind == REFUSED:
                    raise self._refusal(**json.loads(payload))
        finally:
            sender.cancel()

    def _first_request(self) -> dict[str, Any]:
        runner = self._runner
        host = runner.host
        spec = {
            "experiment": self._tag,
            "component": runner.component,
            "attempt": runner.attempt,
            "argv": runner.argv,
            "cwd": runner.cwd,
            "env": {**sent_variables(host), **host["env"], **runner.env},
            "stop": dict(runner.stop),
        }
        return {
            "spec": spec,
            "id": runner.status.id,
            "may_start": runner.status.starts == 0,
            "ports": host["ports"],
            "wait_s": self.wait_s,
            "offset": runner.written_bytes,
        }

    async def _send_requests(self, connection: _Connection) -> None:
        """Pass a stop and a kill on, again on every connection; else send a beat every few seconds."""
        runner = self._runner
        stop, kill = runner.stop_requested, runner.kill_requested
        is_stop_sent = is_kill_sent = False
        with contextlib.suppress(_ConnectionLostError):  # raised where the frames are read
            while True:
                if kill.is_set() and not is_kill_sent:
                    is_kill_sent = is_stop_sent = True
                    await connection.request(do="kill")
                elif stop.is_set() and not is_stop_sent:
                    is_stop_sent = True
                    await connection.request(do="stop")
                else:
                    await connection.request(do="beat")
                if is_kill_sent:
                    await asyncio.sleep(BEAT_INTERVAL_S)
                else:
                    await is_set_within(kill if is_stop_sent else stop, BEAT_INTERVAL_S)

    def _refusal(self, reason: str, pid: int | None) -> HostError:
        how = f"; to end it: {shlex.join(self._runner.host['reach'])} kill {pid}" if pid else ""
        return HostError(f"on {self.name}: {reason}{how}")


class _Connection:
    """The process that leads to the node, whose agent answers behind its greeting. Ends with its context."""

    def __init__(self, argv: list[str], program: bytes) -> None:
        self._argv, self._program = argv, program
        self._process: asyncio.subprocess.Process | None = None
        self._errors = b""
        self._error_task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> _Connection:
        pipe = asyncio.subprocess.PIPE
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RLTUI_")}
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._argv, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, limit=_LONGEST_LINE,
            )  # fmt: skip
        except OSError as error:
            raise _PermanentError(f"cannot run {self._argv[0]}: {error.strerror}") from None
        self._error_task = asyncio.create_task(self._collect_errors(), name="errors of the way to the node")
        try:
            async with asyncio.timeout(_GREETING_TIMEOUT_S):
                await self.send(self._program)
                await self._read_greeting()
        except TimeoutError:
            await self._close()
            raise _ConnectionLostError(f"no answer within {_GREETING_TIMEOUT_S:.0f} s") from None
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def send(self, data: bytes) -> None:
        stdin = self._live_process.stdin
        assert stdin is not None
        try:
            stdin.write(data)
            await stdin.drain()
        except OSError:
            raise await self._lost_error() from None

    async def request(self, **request: object) -> None:
        await self.send(json.dumps(request).encode() + b"\n")

    async def read_frame(self) -> tuple[bytes, bytes]:
        """The next frame's kind and payload. Raises `_ConnectionLostError`."""
        stdout = self._live_process.stdout
        assert stdout is not None
        try:
            async with asyncio.timeout(_SILENCE_TIMEOUT_S):
                header = await stdout.readexactly(5)
                return header[:1], await stdout.readexactly(int.from_bytes(header[1:], "big"))
        except asyncio.IncompleteReadError:
            raise await self._lost_error() from None
        except TimeoutError:
            raise _ConnectionLostError(f"silent for {_SILENCE_TIMEOUT_S:.0f} s") from None

    async def wait_closed(self) -> None:
        """Wait for a moment until the other side hangs up."""
        with contextlib.suppress(TimeoutError, _ConnectionLostError):
            async with asyncio.timeout(_HANG_UP_S):
                while True:
                    await self.read_frame()

    @property
    def _live_process(self) -> asyncio.subprocess.Process:
        assert self._process is not None
        return self._process

    async def _read_greeting(self) -> None:
        """Skip output of a login shell before the greeting."""
        stdout = self._live_process.stdout
        assert stdout is not None
        while True:
            try:
                line = await stdout.readline()
            except ValueError:  # longer than a line may be
                continue
            if not line:
                code = await self._live_process.wait()
                error = await self._lost_error()
                if code in _NOT_FOUND:
                    raise _PermanentError(f"cannot run Python there: {error}")
                raise error
            text = line.decode(errors="replace").strip()
            if text.startswith(_GREETING):
                version = tuple(map(int, text.removeprefix(_GREETING).split(".")))
                if version < _OLDEST_PYTHON:
                    raise _PermanentError(
                        f"its Python is {text.removeprefix(_GREETING)}; 3.9 or newer is needed"
                    )
                return

    async def _collect_errors(self) -> None:
        """Keep the last 4 KiB of its stderr."""
        stderr = self._live_process.stderr
        assert stderr is not None
        while data := await stderr.read(4096):
            self._errors = (self._errors + data)[-4096:]

    async def _lost_error(self) -> _ConnectionLostError:
        """The error to raise, with the last line of its stderr, for which it has a second."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self._live_process.wait()
                if self._error_task is not None:
                    await asyncio.wait([self._error_task])
        last_line = self._errors.decode(errors="replace").strip().rpartition("\n")[2].strip()
        code = self._live_process.returncode
        printable = "".join(letter for letter in last_line if letter.isprintable())
        return _ConnectionLostError(
            printable
            or ("the connection ended" if code is None else f"{self._argv[0]} ended with code {code}")
        )

    async def _close(self) -> None:
        process = self._live_process
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if self._error_task is not None:
            self._error_task.cancel()
