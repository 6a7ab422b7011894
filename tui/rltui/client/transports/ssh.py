"""The connection to the rltui of another machine, from here: made again by itself where it was lost.

Calls are refused while it is down, never kept for later. One thread receives; whoever is called by it must
not block.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from rltui import __version__
from rltui.base.kinds import INTEGER, TEXT, TEXTS, Kind, check_document
from rltui.base.protocol import PROTOCOL_VERSION
from rltui.base.text import duration
from rltui.client.experiment import ShutDownError
from rltui.client.transports.forwards import Forwards
from rltui.client.transports.frames import (
    LINK_VERSION,
    Frames,
    Hello,
    NoHelloError,
    Packet,
    PacketKind,
    decoding,
)
from rltui.client.transports.remote_machine import RemoteMachine
from rltui.core.logs.lines import decode_line, plain_text
from rltui.errors import (
    ERROR_TYPES,
    UNKNOWN_COMMAND,
    ConflictError,
    ExitCode,
    LinkDownError,
    NotFoundError,
    RltuiError,
)
from rltui.services.actor import actor

Take = Callable[[Packet | RltuiError], None]
"""Takes what answers a call: items, then the end or why there is none."""
PAUSES_S = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Pauses between two attempts to connect; the last one repeats."""
_HELLO_S = 20.0
"""Seconds for a connection that is made in the background."""
_END_S = 2.0
"""Seconds for the other end to end once it is told to."""
_ERROR_TAIL_BYTES = 4096
_MOST_LINES = 4
_REFUSAL_KINDS: Mapping[str, Kind] = {
    "exit_code": INTEGER, "title": TEXT, "details": TEXTS, "hint": TEXT, "kind": TEXT, "code": TEXT,
}  # fmt: skip
_NO_PROGRAM, _NO_CONNECTION = 127, 255
"""Exit codes of a shell that finds no such command, and of ssh for failures of its own."""
SHUT_DOWN, NOT_FOUND = "shut down", "not found"
"""Kinds of a refusal, besides what its exit code says."""
OURS = Hello(__version__, LINK_VERSION, PROTOCOL_VERSION)


@dataclass(slots=True)
class _Connection:
    """A program that carries the link, and what it says on its stderr."""

    process: subprocess.Popen[bytes]
    frames: Frames
    errors: _ErrorOutput


class _ErrorOutput:
    """Stderr of the ssh process: shown until it is connected, the last lines saved."""

    def __init__(self, process: subprocess.Popen[bytes], show: Callable[[str], None] | None) -> None:
        assert process.stderr is not None
        self._file = process.stderr
        self.show = show
        self._tail = b""
        self._thread = threading.Thread(target=self._read, name="stderr of the link", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._file:
            while data := os.read(self._file.fileno(), _ERROR_TAIL_BYTES):
                self._tail = (self._tail + data)[-_ERROR_TAIL_BYTES:]
                if self.show is not None:
                    lines = data.decode(errors="replace").replace("\r\n", "\n").split("\n")
                    self.show("\n".join(map(plain_text, lines)))

    def lines(self) -> list[str]:
        """The last lines, once the program has ended."""
        self._thread.join(_END_S)
        return [plain_text(decode_line(line)) for line in self._tail.splitlines() if line.strip()]


class HostLink:
    """Link to one machine. `open` or `begin` it, and `close` it."""

    def __init__(self, host: RemoteMachine) -> None:
        self.host = host
        self._lock = threading.Lock()
        self._waiting: dict[int, Take] = {}
        self._next_channel = 1
        self._connection: _Connection | None = None
        self._connecting: subprocess.Popen[bytes] | None = None
        self._lost_at: float | None = None
        self._problem = ""
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self.connections = 0
        self.forwards = Forwards(host)

    # --- coming and going ---------------------------------------------------------------------------------

    def open(self, show: Callable[[str], None], word: str = "", *, readonly: bool = False) -> Future[Packet]:
        """Connect; ssh may ask for a password. `show` gets what it says meanwhile. What `word` names there is
        asked for along with the hello: the answer is for `RemoteRuns.opened`.

        Raises:
            RltuiError: why that did not work, in words.
            ConflictError: if the rltui there is of a version that this one does not understand.
        """
        params = {"of": None, "arguments": {"word": word, "readonly": readonly}}
        question = Packet(self._next_channel, PacketKind.CALL, {"method": "server.open", "params": params})
        answer: Future[Packet] = Future()
        self._waiting[question.channel] = _taker(answer)
        self._next_channel += 1
        self._start(_connect(self.host, show, lambda _: None, question))
        return answer

    def begin(self) -> None:
        """Connect in the background, without a word. Again: nothing."""
        if self._thread is None:
            self._start(None)

    def _start(self, connection: _Connection | None) -> None:
        if connection is not None:
            self._connected(connection)
        self._thread = threading.Thread(
            target=self._stay_connected, args=(connection,), name="link", daemon=True
        )
        self._thread.start()

    def _started(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._connecting = process
            if self._closing.is_set():
                process.kill()

    def close(self) -> None:
        """End it. Nothing of it lives afterwards."""
        with self._lock:
            self._closing.set()
            connection = self._connection
            if connection is None and self._connecting is not None:
                self._connecting.kill()
        if connection is not None:
            connection.frames.stop()
        self.forwards.close()
        if self._thread is not None:
            self._thread.join()

    def _stay_connected(self, connection: _Connection | None) -> None:
        failures = 0
        while not self._closing.is_set():
            try:
                if connection is None:
                    connection = _connect(self.host, None, self._started)
                    self._connected(connection)
                failures = 0
                self._receive(connection)
            except RltuiError as error:
                self._problem = error.title
            if connection is not None:
                self._disconnected(connection)
                connection = None
            self._closing.wait(PAUSES_S[min(failures, len(PAUSES_S) - 1)])
            failures += 1

    def _connected(self, connection: _Connection) -> None:
        with self._lock:
            self._connection, self._lost_at, self._problem = connection, None, ""
            self.connections += 1

    def _disconnected(self, connection: _Connection) -> None:
        with self._lock:
            self._connection, self._lost_at = None, time.time()
            open_calls, self._waiting = self._waiting, {}
        connection.frames.close()
        _end(connection.process)
        error: RltuiError = LinkDownError(
            self.trouble(),
            hint="the connection was lost before the answer; check whether the request was carried out",
        )
        if not connection.frames.bytes_received:
            output = connection.errors.lines()
            if any(line.startswith("rltui: ") for line in output):  # it has ended by itself, and says why
                error = RltuiError(f"{self.host.name} does not respond", details=output[-_MOST_LINES:])
        for take in open_calls.values():
            take(error)

    def _receive(self, connection: _Connection) -> None:
        while (message := connection.frames.receive()) is not None:
            with self._lock:
                is_last = message.kind is not PacketKind.ITEM
                calls = self._waiting
                take = calls.pop(message.channel, None) if is_last else calls.get(message.channel)
            if take is not None:
                with decoding(self.host.name):
                    take(_refusal(message.data) if message.kind is PacketKind.ERROR else message)

    # --- how it is ----------------------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        return self._connection is not None

    def trouble(self) -> str:
        """The reason why it cannot be asked, as a sentence; empty while it is up."""
        if self._connection is not None:
            return ""
        problem = self._problem.removeprefix(f"{self.host.name} ").removeprefix("cannot be reached: ")
        reason = f" ({problem})" if problem else ""
        if self._lost_at is None:
            return self._problem or f"{self.host.name}: connecting"
        ago = duration(max(0.0, time.time() - self._lost_at))
        return f"{self.host.name}: connection lost {ago} ago, retrying{reason}"

    # --- what is asked ------------------------------------------------------------------------------------

    def ask(self, take: Take, method: str, params: object = None) -> int:
        """Ask, and have `take` called with each item and with the end, in another thread. Returns what
        `cancel` takes; 0 where the link is down, which `take` was told.
        """
        with self._lock:
            connection, channel = self._connection, self._next_channel
            if connection is not None:
                self._next_channel += 1
                self._waiting[channel] = take
        if connection is None:
            take(LinkDownError(self.trouble(), hint="nothing was done"))
            return 0
        connection.frames.send(Packet(channel, PacketKind.CALL, {"method": method, "params": params}))
        return channel

    def cancel(self, channel: int) -> None:
        """Nobody wants the rest of that answer any more."""
        with self._lock:
            connection = self._connection
            if self._waiting.pop(channel, None) is None or connection is None:
                return
        connection.frames.send(Packet(channel, PacketKind.CANCEL))

    def call(self, method: str, params: object = None) -> Packet:
        """Ask for one answer, and wait for it. Not for the event loop.

        Raises:
            LinkDownError: the link is down, or went down meanwhile.
            RltuiError: it was refused.
        """
        return self.future(method, params).result()

    def future(self, method: str, params: object = None) -> Future[Packet]:
        """Like `call`, without waiting."""
        answer: Future[Packet] = Future()
        self.ask(_taker(answer), method, params)
        return answer


def _taker(future: Future[Packet]) -> Take:
    """Completes the future, which nobody can cancel."""
    future.set_running_or_notify_cancel()

    def take(answer: Packet | RltuiError) -> None:
        if future.done():  # the other end says two answers
            return
        if isinstance(answer, RltuiError):
            future.set_exception(answer)
        else:
            future.set_result(answer)

    return take


def _refusal(data: Any) -> RltuiError:  # noqa: ANN401 - JSON of the other end
    try:
        reply = check_document(data, _REFUSAL_KINDS, frozenset(_REFUSAL_KINDS) - {"code"})
        kind = ERROR_TYPES.get(ExitCode(reply["exit_code"]), RltuiError)
    except ValueError:
        return RltuiError("the other end refused the request with an invalid message")
    if reply["kind"] == SHUT_DOWN:
        kind = ShutDownError
    elif reply["kind"] == NOT_FOUND:
        kind = NotFoundError
    return kind(reply["title"], details=reply["details"], hint=reply["hint"], code=reply.get("code", ""))


def _connect(
    host: RemoteMachine,
    show: Callable[[str], None] | None,
    on_start: Callable[[subprocess.Popen[bytes]], None],
    first: Packet | None = None,
) -> _Connection:
    """Raises as `HostLink.open`. Without `show`, nobody is asked anything, and it must not take long. `begun`
    gets the program, whose end makes it fail. `first` goes along with the hello.
    """
    command = host.serving(prompts=show is not None)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=show is None,
        )
    except OSError as error:
        raise RltuiError(
            f"cannot run {command[0]}: {error.strerror}",
            hint="install OpenSSH, which connects to the other machine" if host.is_ssh else "",
        ) from error
    errors = _ErrorOutput(process, show)
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended: its words say why
        own = actor()
        process.stdin.write(replace(OURS, is_agent=own.is_agent, name=own.name).line())
    frames = Frames(os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno()))
    for file in (process.stdin, process.stdout):
        file.close()
    if first is not None:
        frames.send(first)
    limit = threading.Timer(_HELLO_S, process.kill)
    if show is None:
        limit.start()
    try:
        on_start(process)
        peer = frames.read_hello_line()
        errors.show = None
        if (peer.link, peer.api) != (OURS.link, OURS.api):
            raise ConflictError(
                f"{host.name} has rltui {peer.version} (protocol {peer.link}.{peer.api}), but this machine"
                f" has {OURS.version} ({OURS.link}.{OURS.api}): incompatible",
                hint="install the same version at both ends",
            )
    except BaseException as error:
        frames.close()
        _end(process)
        if isinstance(error, NoHelloError):
            is_interactive = show is not None
            raise _no_hello_error(
                host, process.returncode, error.output, errors.lines(), is_asked=is_interactive
            ) from None
        raise
    finally:
        limit.cancel()
    return _Connection(process, frames, errors)


def _no_hello_error(
    host: RemoteMachine, code: int | None, output: bytes, errors: list[str], *, is_asked: bool
) -> RltuiError:
    """The error of a missing hello. `is_asked`: a person has seen the output of ssh, and could answer it."""
    last = errors[-1] if errors else ""
    if code == _NO_PROGRAM or "command not found" in last:
        return host.without_rltui(*errors[-1:])
    if any(UNKNOWN_COMMAND in line for line in errors):
        return ConflictError(
            f"the rltui on {host.name} is too old for this one",
            hint="install the same version at both ends",
        )
    if code == _NO_CONNECTION and host.is_ssh:
        if not is_asked and "Permission denied" in last:
            return RltuiError(f"{host.name} requires a password or another key: leave, and open it again")
        reason = "" if is_asked else f": {last}"  # it was shown as it came
        return RltuiError(
            f"{host.name} cannot be reached{reason}", hint=f"check that this works: ssh {host.name}"
        )
    last_lines = [plain_text(decode_line(line)) for line in output.splitlines() if line.strip()][-3:]
    return RltuiError(
        f"no answer from rltui on {host.name}: {last or f'the connection ended with code {code}'}",
        details=[*errors[-4:-1], *(f"it said: {line}" for line in last_lines)],
        hint=f"check that this works: {' '.join(host.running([host.rltui, '--version'], terminal=False))}",
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for its end, as its stdin is closed; by force where it does not come."""
    for end in (None, process.terminate, process.kill):
        if end is not None:
            end()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            continue
        return
