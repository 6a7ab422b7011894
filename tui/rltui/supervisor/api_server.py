"""The supervisor's API: one JSON document per line over a unix socket.

The first line says who speaks, or `{"error": ErrorReply}` where the client is not taken. Request
`{"id", "method", "params"}`; answer `{"id", "result"}` or `{"id", "error": ErrorReply}`. After `subscribe`,
changes arrive as `{"event": kind, "data": …}` until the client hangs up. After `readonly`, which cannot be
taken back, the connection is refused everything that changes anything. `identify` takes an `Actor`: who asks
on this connection, as far as its process bears that out.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from rltui.base.protocol import PROTOCOL_VERSION
from rltui.base.questions import questions_of
from rltui.base.values import InvalidValueError, Value
from rltui.core.experiment.actor import Actor
from rltui.core.experiment.actor_names import clean_name
from rltui.core.experiment.api import ErrorReply
from rltui.core.experiment.questions import SupervisorApi
from rltui.errors import ExitCode, RltuiError, UsageError
from rltui.services.actor import acting_as, user_name, witnessed
from rltui.services.experiment import heartbeat
from rltui.services.installation import LoadedCode
from rltui.supervisor.answers import SupervisorAnswers
from rltui.supervisor.supervisor import Supervisor

logger = logging.getLogger(__name__)

LINE_LIMIT = 1 << 20
"""Longest request, in bytes. A longer one is refused and its connection closed."""
MAX_CLIENTS = 256
"""Most connections. One more replaces the one that has been idle for longest; where none is idle, it is
refused with an error.
"""
_DRAIN_TIMEOUT_S = 2.0
"""Longest time at the end for clients to read what they were sent."""
_UCRED = struct.Struct("3i")
"""`struct ucred` of unix(7): pid, uid, gid."""
SEND_TIMEOUT_S = 10.0
"""A client that reads nothing for so long, while data waits for it, is dropped."""
_NUL = re.compile(rb"\\u0000")
"""The escaped NUL character, which no name, path or value may hold."""
_LONGEST_NAME = 200
"""Longest name of a method that is repeated in its refusal."""
_MAX_ID_CHARS = 100
"""Longest id of a request that is repeated in its refusal."""


class _Call(Value):
    id: int | str | None = None
    method: str
    params: dict[str, Any] | None = None


def _parse_call(line: bytes) -> _Call:
    """The request in a line.

    Raises:
        UsageError: if it cannot be understood; says what is wrong.
    """
    if _NUL.search(line):
        raise UsageError("invalid request: a NUL character")
    try:
        return _Call.from_json(line)
    except InvalidValueError as error:
        raise UsageError(f"invalid request: {error}") from None


def _id_of(line: bytes) -> int | str | None:
    """The id in a line that is no valid request, for its refusal; `None` where there is none."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    id_ = message.get("id") if isinstance(message, dict) else None
    is_valid = isinstance(id_, int | str) and not isinstance(id_, bool) and len(str(id_)) <= _MAX_ID_CHARS
    return id_ if is_valid else None


class _SlowClientError(Exception):
    """The client does not read. Its connection has been ended."""


class _BoundedWriter:
    """Sends whole messages; each sender waits until its own has gone into asyncio's buffer (64 KiB)."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._accepted_bytes = 0

    async def send(self, data: bytes) -> None:
        """Return when there is room for more.

        Raises:
            SlowClientError: if nothing was read for `SEND_TIMEOUT_S`; what had not been sent is thrown away.
            ConnectionError: if the client has hung up.
        """
        self._writer.write(data)
        self._accepted_bytes += len(data)
        sent = self._sent_bytes()
        while True:
            try:
                async with asyncio.timeout(SEND_TIMEOUT_S):
                    await self._writer.drain()
                return
            except TimeoutError:
                if self._sent_bytes() == sent:
                    self.hang_up()
                    raise _SlowClientError(f"no read for {SEND_TIMEOUT_S:g} s") from None
                sent = self._sent_bytes()

    def close(self) -> None:
        """End the connection once all is sent."""
        self._writer.close()

    def hang_up(self) -> None:
        """End the connection; unsent data is thrown away."""
        self._writer.transport.abort()

    def _sent_bytes(self) -> int:
        """Bytes that have left asyncio's buffer for the kernel's."""
        return self._accepted_bytes - self._writer.transport.get_write_buffer_size()


class ApiServer:
    """Serves one supervisor on the socket `path`."""

    def __init__(self, supervisor: Supervisor, path: Callable[[], Path]) -> None:
        """`path` returns the path of the socket, and makes its folder."""
        self._supervisor = supervisor
        self.agents = supervisor.agents
        self.answers = SupervisorAnswers(supervisor)
        self.code = LoadedCode()
        self._find_path = path
        self._path = path()
        self._inode: int | None = None
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], _Client] = {}
        self.is_closing = False
        """True once nobody is answered any more but those who wait for it."""

    async def open(self) -> None:
        """Listen. A socket left by a dead supervisor is replaced: the caller holds the experiment's lock.

        May be called again where the socket vanished; connections go on.
        """
        self._path = self._find_path()
        if self._server is not None:
            self._server.close()
        self._path.unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._accept, path=self._path, limit=LINE_LIMIT)
        finally:
            os.umask(mask)
        self._inode = self._path.stat().st_ino

    def beat(self) -> bool:
        """Show on the socket that the supervisor works. False if the socket at the path is not this
        server's.
        """
        try:
            if self._path.stat().st_ino != self._inode:
                return False
            heartbeat.beat(self._path)
        except OSError:
            return False
        return True

    @property
    def has_clients(self) -> bool:
        return bool(self._connections)

    async def close(self) -> None:
        """Remove the socket, and hang up on every client once it has been sent all that is pending."""
        self.is_closing = True
        if self._server is not None:
            self._server.close()
        self._path.unlink(missing_ok=True)
        self._supervisor.runtime.events.broadcast.close()
        for task, client in self._connections.items():
            if client.idle_since is not None:
                task.cancel()
        for timeout_s in (_DRAIN_TIMEOUT_S, _DRAIN_TIMEOUT_S):
            if self._connections:
                await asyncio.wait(self._connections, timeout=timeout_s)
            for task in self._connections:
                task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or _credentials(writer)[1] != os.getuid():
            writer.close()
            return
        client = _Client(self, reader, writer)
        is_full = len(self._connections) >= MAX_CLIENTS and not self._drop_idle()
        self._connections[task] = client
        try:
            if is_full:
                await client.turn_away(
                    f"the supervisor already has {MAX_CLIENTS} clients", "close some, or end those that hang"
                )
            else:
                await client.serve()
        except (ConnectionError, _SlowClientError) as error:
            logger.info("a client was dropped: %s", error)
        except asyncio.CancelledError:
            logger.debug("hung up on a client")  # by `close`; nobody else has this task
        finally:
            self._connections.pop(task, None)
            writer.close()

    def _drop_idle(self) -> bool:
        """Hang up on the client that has asked for nothing for longest; false where none is idle."""
        idle = [(c.idle_since, task) for task, c in self._connections.items() if c.idle_since is not None]
        if not idle:
            return False
        _, task = min(idle, key=lambda entry: entry[0])
        self._connections.pop(task)
        task.cancel()
        return True

    async def stream(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Send the current state, then every change, until the server closes or `send` fails."""
        subscription = self._supervisor.runtime.events.broadcast.subscribe(self._supervisor.current_state())
        try:
            async for kind, data in subscription:
                await send(b'{"event":"%s","data":%s}\n' % (kind.encode(), data))
        finally:
            self._supervisor.runtime.events.broadcast.unsubscribe(subscription)


class _Client:
    """One connection. Requests are answered in order; events are interleaved."""

    def __init__(self, server: ApiServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._server = server
        self._reader = reader
        self._out = _BoundedWriter(writer)
        self._readonly = False
        pid, _ = _credentials(writer)
        self.actor = witnessed(Actor(kind="cli", user=user_name(), pid=pid))
        """Who asks on this connection."""
        self._streaming: asyncio.Task[None] | None = None
        self.idle_since: float | None = time.monotonic()
        """Monotonic time; `None` while a request is answered, or the client is subscribed."""

    async def turn_away(self, title: str, hint: str) -> None:
        """Send the reason of the refusal, instead of hello."""
        reply = ErrorReply(title=title, hint=hint, code="busy")
        await self._out.send(b'{"error":' + reply.to_json() + b"}\n")

    async def serve(self) -> None:
        """Answer requests until the client hangs up, or does not read what it asked for."""
        is_outdated = self._server.code.is_replaced
        hello = {"hello": "rltui", "protocol": PROTOCOL_VERSION, "pid": os.getpid(), "outdated": is_outdated}
        await self._out.send(json.dumps(hello).encode() + b"\n")
        try:
            while line := await self._next_line():
                self.idle_since = None
                await self._handle(line)
                if self._streaming is None:  # else the stream ends the connection, with the last that it has
                    if self._server.is_closing:
                        return
                    self.idle_since = time.monotonic()
        finally:
            self._server.agents.disconnect(self)
            if self._streaming is not None:
                self._streaming.cancel()

    async def _next_line(self) -> bytes:
        """The next request; empty at the end, and where a request is too long to go on after it."""
        try:
            return await self._reader.readline()
        except ValueError:  # what asyncio makes of a line beyond its limit
            title = f"a request of more than {LINE_LIMIT} bytes"
            await self._reply(None, "error", ErrorReply(exit_code=int(ExitCode.USAGE), title=title))
            return b""

    async def _handle(self, line: bytes) -> None:
        request_id: int | str | None = None
        try:
            try:
                call = _parse_call(line)
            except UsageError:
                request_id = _id_of(line)
                raise
            request_id = call.id
            if call.method == "subscribe":
                if self._streaming is not None:
                    raise UsageError("already subscribed", hint="one subscription per connection")
                self._streaming = asyncio.create_task(self._stream(), name="stream")
                return
            with acting_as(self.actor):
                result = await self._answer(call.method, call.params)
        except RltuiError as error:
            await self._reply(request_id, "error", ErrorReply.of(error))
        except (ConnectionError, _SlowClientError):
            raise
        except Exception as error:  # a bug, or a disk in trouble: the client gets an error, and may go on
            logger.exception("the request %s failed", request_id)
            reply = ErrorReply(exit_code=1, title=f"internal error: {error!r}", code="internal")
            await self._reply(request_id, "error", reply)
        else:
            await self._reply(request_id, "result", result)

    async def _answer(self, method: str, params: dict[str, Any] | None) -> Value:
        if method == "readonly":
            self._readonly = True
            return Value()
        if method == "identify":
            self._identify(params)
            return Value()
        question = questions_of(SupervisorApi).get(method)
        if self._readonly and (question is None or question.changes):
            raise RltuiError(
                f"read-only client: {method!r} is refused",
                hint="open the experiment without --readonly to make changes",
                code="read_only",
            )
        if question is None:
            raise UsageError(
                f"this supervisor has no method {method[:_LONGEST_NAME]!r}",
                hint="it may be an older version",
            )
        if question.changes:
            self._server.agents.act(self.actor)
        return await self._server.answers.respond(question, params or {})

    def _identify(self, params: object) -> None:
        """Raises UsageError for what is no actor."""
        try:
            claimed = Actor.from_plain(params)
        except InvalidValueError as error:
            raise UsageError(f"identify: {error}") from None
        texts = {key: clean_name(text) for key, text in claimed.part("name", "terminal", "ssh").items()}
        own = self.actor.part("user", "pid")
        actor = witnessed(claimed.replace(**texts, **own))
        if self.actor.is_agent and not actor.is_agent:  # its process has ended meanwhile
            actor = actor.replace(**self.actor.part("kind", "name"))
        self.actor = actor
        self._server.agents.connect(self, actor)

    async def _stream(self) -> None:
        """Send events until an error. Without them the connection is of no use: hanging up makes the client
        connect again.
        """
        try:
            await self._server.stream(self._out.send)
            self._out.close()
        except (ConnectionError, _SlowClientError) as error:
            logger.info("a subscriber was dropped: %s", error)
            self._out.hang_up()
        except BaseException:
            self._out.hang_up()
            raise

    async def _reply(self, request_id: int | str | None, kind: str, value: Value) -> None:
        head = f'{{"id":{json.dumps(request_id)},"{kind}":'
        await self._out.send(head.encode() + value.to_json() + b"}\n")


def _credentials(writer: asyncio.StreamWriter) -> tuple[int, int]:
    """Process and user at the other end."""
    connection: socket.socket = writer.get_extra_info("socket")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _ = _UCRED.unpack(credentials)
    return pid, uid
