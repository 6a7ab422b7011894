"""Components on a node: a shim and, for as long as a connection lasts, its agent run there."""

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

from rltui.daemon.hosts.remote_runner import HostError, RemoteRunner, UnreachedError, is_set_within
from rltui.daemon.shim.agent import BEAT_INTERVAL_S, OUTPUT, STATE
from rltui.services.nodes import reach_words, shell_input, shim_program, tag_there

_PAUSES_S = (0.5, 15.0)
"""First and longest pause before the next connection; each is twice the one before."""
_GREETING_S = 60.0
"""From the start of a connection until the node's Python answers; profiles of some clusters take long."""
_SILENT_S = 20.0
"""A connection over which nothing has come for so long is lost."""
_UNREACHED_S = 20.0
"""A stop that cannot be passed on for so long has failed."""
_FAREWELL_S = 2.0
"""For the other side to clear away and hang up."""
_NOT_FOUND = (126, 127)
"""Exit codes of shells where there is no such program."""
_LONGEST_LINE = 1 << 16
_OLDEST_PYTHON = (3, 9)
_DIGITS = 9
"""Of the size of what is sent first, before it."""
_BECOME = """\
from rltui.daemon.shim.agent import main
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
"""Any Python 3 understands it. What it reads is sent once it has answered, for `sh` may read ahead."""


class _LostError(Exception):
    """Nobody answers; the text says why."""


class _UselessError(_LostError):
    """Nor will anybody, by what is said."""


async def run(follower: RemoteRunner) -> None:
    """See `ProcessHost`. A stop before anything was sent there ends it at once."""
    node = _Node(follower)
    began, pause_s = time.monotonic(), _PAUSES_S[0]
    stop_asked_at: float | None = None
    while True:
        try:
            async with _Connection(node.words, node.program) as connection:
                pause_s = _PAUSES_S[0]
                if await node.converse(connection):
                    return
        except _LostError as error:
            if isinstance(error, _UselessError) and not follower.remote.id:
                raise HostError(f"{node.name}: {error}") from None
            follower.lose(str(error), since=node.heard_at)
        now = time.monotonic()
        if not follower.remote.id:
            if follower.stop_asked.is_set():
                follower.tell(replace(follower.remote, phase="ended"))
                return
            if now - began > node.wait_s:
                raise HostError(f"{node.name} cannot be reached: {follower.remote.problem}")
        if follower.stop_asked.is_set():
            stop_asked_at = stop_asked_at or now
            if now - stop_asked_at > _UNREACHED_S:
                raise UnreachedError
            pause_s = _PAUSES_S[0]
        if stop_asked_at:
            await asyncio.sleep(pause_s)
        else:
            await is_set_within(follower.stop_asked, pause_s)
        pause_s = min(_PAUSES_S[1], 2 * pause_s)


class _Node:
    """The component there, and what the follower is to know of it."""

    def __init__(self, follower: RemoteRunner) -> None:
        host = follower.host
        self.name: str = host["name"]
        self.wait_s: float = host["wait_s"]
        self.words = [*reach_words(host["reach"], forward=host["forward"]), "sh"]
        self.program = shell_input(_HELLO, python=host["python"], login=host["login"])
        self._follower = follower
        self._tag = tag_there(follower.experiment)
        folder = hashlib.sha256(self._tag.encode()).hexdigest()[:12]
        self.heard_at: float | None = None
        """When the agent last said something."""
        self._id = f"{folder}/{follower.component}/attempt-{follower.attempt}"

    async def converse(self, connection: _Connection) -> bool:
        """Until it ended: true. Raises `_LostError`, `HostError`."""
        follower = self._follower
        packed = zlib.compress(shim_program(_BECOME).encode())
        await connection.send(b"%0*d" % (_DIGITS, len(packed)) + packed)
        if not follower.remote.id and follower.stop_asked.is_set():
            return False
        if not follower.remote.id:
            follower.tell(replace(follower.remote, id=self._id, where=self.name))
        await connection.ask(**self._request())
        speaking = asyncio.create_task(self._speak(connection), name="requests to the node")
        try:
            while True:
                kind, payload = await connection.frame()
                self.heard_at = time.time()
                follower.reach()
                if kind == OUTPUT:
                    offset = int.from_bytes(payload[:8], "big")
                    follower.write(payload[8 + max(0, follower.written - offset) :])
                elif kind == STATE and self._take(json.loads(payload)):
                    await connection.ask(do="done")
                    await connection.hung_up()
                    return True
        finally:
            speaking.cancel()

    def _request(self) -> dict[str, Any]:
        follower = self._follower
        host = follower.host
        sent = {name: os.environ[name] for name in host["send_env"] if name in os.environ}
        spec = {
            "experiment": self._tag,
            "component": follower.component,
            "attempt": follower.attempt,
            "argv": follower.argv,
            "cwd": follower.cwd,
            "env": {**sent, **host["env"], **follower.env},
            "stop": dict(follower.stop),
        }
        return {
            "spec": spec,
            "id": follower.remote.id,
            "may_start": follower.remote.starts == 0,
            "ports": host["ports"],
            "wait_s": self.wait_s,
            "offset": follower.written,
        }

    async def _speak(self, connection: _Connection) -> None:
        """Pass a stop on, again on every connection, and a kill; else something every few seconds."""
        follower = self._follower
        stop, kill = follower.stop_asked, follower.kill_asked
        is_stop_told = is_kill_told = False
        with contextlib.suppress(_LostError):  # told where the frames are read
            while True:
                if kill.is_set() and not is_kill_told:
                    is_kill_told = is_stop_told = True
                    await connection.ask(do="kill")
                elif stop.is_set() and not is_stop_told:
                    is_stop_told = True
                    await connection.ask(do="stop")
                else:
                    await connection.ask(do="beat")
                if is_kill_told:
                    await asyncio.sleep(BEAT_INTERVAL_S)
                else:
                    await is_set_within(kill if is_stop_told else stop, BEAT_INTERVAL_S)

    def _take(self, said: dict[str, Any]) -> bool:
        """What the agent says of it. True where it ended."""
        follower, remote = self._follower, self._follower.remote
        match said["state"]:
            case "waiting":
                follower.tell(replace(remote, phase="pending", reason=said["reason"]))
            case "running":
                follower.tell(replace(remote, phase="running", starts=1, reason=said.get("reason", "")))
            case "ended":
                follower.tell(
                    replace(
                        remote,
                        phase="ended",
                        starts=remote.starts if said.get("error") else 1,
                        reason="",
                        exit_code=said.get("exit_code"),
                        signal=said.get("signal"),
                        error=said.get("error") or said.get("cause"),
                    )
                )
                return True
            case "other":
                raise _LostError(said["reason"])
            case "refused":
                pid = said["pid"]
                how = f"; {shlex.join(self._follower.host['reach'])} kill {pid} ends it" if pid else ""
                raise HostError(f"on {self.name}: {said['reason']}{how}")
        return False


class _Connection:
    """A process that leads to the node, whose agent answers behind its greeting. Ends with its context."""

    def __init__(self, words: list[str], program: bytes) -> None:
        self._words, self._program = words, program
        self._process: asyncio.subprocess.Process | None = None
        self._errors = b""
        self._listening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> _Connection:
        """Raises `_LostError`."""
        pipe = asyncio.subprocess.PIPE
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RLTUI_")}
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._words, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, limit=_LONGEST_LINE,
            )  # fmt: skip
        except OSError as error:
            raise _UselessError(f"cannot run {self._words[0]}: {error.strerror}") from None
        self._listening = asyncio.create_task(self._listen(), name="errors of the way to the node")
        try:
            async with asyncio.timeout(_GREETING_S):
                await self.send(self._program)
                await self._greeted()
        except TimeoutError:
            await self._close()
            raise _LostError(f"no answer within {_GREETING_S:.0f} s") from None
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def send(self, data: bytes) -> None:
        """Raises `_LostError`."""
        stdin = self._running.stdin
        assert stdin is not None
        try:
            stdin.write(data)
            await stdin.drain()
        except OSError:
            raise await self._lost() from None

    async def ask(self, **request: object) -> None:
        """Raises `_LostError`."""
        await self.send(json.dumps(request).encode() + b"\n")

    async def frame(self) -> tuple[bytes, bytes]:
        """The next one, its kind and payload. Raises `_LostError`."""
        stdout = self._running.stdout
        assert stdout is not None
        try:
            async with asyncio.timeout(_SILENT_S):
                head = await stdout.readexactly(5)
                return head[:1], await stdout.readexactly(int.from_bytes(head[1:], "big"))
        except asyncio.IncompleteReadError:
            raise await self._lost() from None
        except TimeoutError:
            raise _LostError(f"silent for {_SILENT_S:.0f} s") from None

    async def hung_up(self) -> None:
        """Until the other side has nothing more to do, for a moment."""
        with contextlib.suppress(TimeoutError, _LostError):
            async with asyncio.timeout(_FAREWELL_S):
                while True:
                    await self.frame()

    @property
    def _running(self) -> asyncio.subprocess.Process:
        assert self._process is not None
        return self._process

    async def _greeted(self) -> None:
        """Leaves out what a login shell says before."""
        stdout = self._running.stdout
        assert stdout is not None
        while True:
            try:
                line = await stdout.readline()
            except ValueError:  # longer than a line may be
                continue
            if not line:
                code = await self._running.wait()
                lost = await self._lost()
                if code in _NOT_FOUND:
                    raise _UselessError(f"no Python can be run there: {lost}")
                raise lost
            text = line.decode(errors="replace").strip()
            if text.startswith(_GREETING):
                version = tuple(map(int, text.removeprefix(_GREETING).split(".")))
                if version < _OLDEST_PYTHON:
                    raise _UselessError(
                        f"its Python is {text.removeprefix(_GREETING)}, and 3.9 is the oldest that will do"
                    )
                return

    async def _listen(self) -> None:
        """Keep the newest of its stderr."""
        stderr = self._running.stderr
        assert stderr is not None
        while data := await stderr.read(4096):
            self._errors = (self._errors + data)[-4096:]

    async def _lost(self) -> _LostError:
        """Why, by its last words, for which it has a moment."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self._running.wait()
                if self._listening is not None:
                    await asyncio.wait([self._listening])
        words = self._errors.decode(errors="replace").strip().rpartition("\n")[2].strip()
        code = self._running.returncode
        said = "".join(letter for letter in words if letter.isprintable())
        return _LostError(
            said or ("the connection ended" if code is None else f"{self._words[0]} ended with code {code}")
        )

    async def _close(self) -> None:
        process = self._running
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if self._listening is not None:
            self._listening.cancel()
