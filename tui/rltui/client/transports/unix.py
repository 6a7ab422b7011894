"""A blocking connection to a supervisor, for the command line. Light: the start of `rltui status` counts."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from rltui.base.protocol import PROTOCOL_VERSION, plain
from rltui.core.runs.state import no_answer
from rltui.errors import ERROR_TYPES, ExitCode, RltuiError
from rltui.services.actor import claim

_Parameters = ParamSpec("_Parameters")
_Answer = TypeVar("_Answer")
CONNECT_TIMEOUT_S = 5.0
END_TIMEOUT_S = 60.0
"""From the end of the last component to that of the supervisor: it closes its files and its terminals, and
hangs up on clients that do not read.
"""
IDENTIFY = "identify"
"""Method that says who asks, and the id of that request. An earlier supervisor refuses it, which is passed
over like the answer."""
_UCRED = struct.Struct("3i")
"""Format of `struct ucred` of unix(7): pid, uid, gid."""


class SupervisorGoneError(RltuiError):
    """Nobody listens on the experiment's socket, or the supervisor died while we waited."""

    code = "supervisor_gone"

    def __init__(self, title: str = "the supervisor ended during the request") -> None:
        super().__init__(title)


class Wire:
    """Connection to a supervisor; a context manager.

    Raises:
        SupervisorGoneError: if nobody listens.
        RltuiError: if the supervisor is of another version, has too many clients, or does not answer.
    """

    def __init__(self, path: Path, *, timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        self._file = self._socket.makefile("rb")
        try:
            self._socket.connect(str(path))
            hello = message_of(self._file.readline())
            check_hello(hello)
            with suppress(ConnectionError):  # it tells that to whoever asks something
                self._socket.sendall(identification())
        except TimeoutError:
            pid = self.server_pid()
            self.close()
            raise RltuiError(
                no_answer(pid).text,
                hint=(
                    f"if it was stopped by a signal, resume it: kill -CONT {pid}; else end it (components"
                    " keep"
                    f" running): kill -9 {pid}"
                ),
            ) from None
        except OSError as error:
            self.close()
            raise SupervisorGoneError(f"no supervisor listens on {path}") from error
        except RltuiError:
            self.close()
            raise
        self._socket.settimeout(None)  # a shutdown takes as long as the components do
        self.is_outdated = is_outdated(hello)
        self._next_id = 0
        self._interrupted = False

    def call(
        self, method: str, params: dict[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Ask and wait for the answer, for ever where `timeout_s` is `None`.

        Raises:
            SupervisorGoneError: if it dies meanwhile.
            RltuiError: what the supervisor refused it with, or that it does not answer in time.
        """
        self._socket.settimeout(timeout_s)
        try:
            self.ask(method, params)
            return self.answer()
        except TimeoutError:
            raise RltuiError(f"the supervisor did not answer {method!r} in {timeout_s:g} s") from None

    def request(
        self,
        method: Callable[Concatenate[Any, _Parameters], Coroutine[Any, Any, _Answer]],
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> _Answer:
        """Like `call`, with a question of `SupervisorApi`, whose types its answer and arguments have."""
        from rltui.base.questions import question_of

        question = question_of(method)
        arguments = question.arguments(self, *args, **kwargs)
        answer: _Answer = question.decode_answer(self.call(question.name, question.encode(arguments)))
        return answer

    def ask(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Ask without waiting for the answer."""
        self._next_id += 1
        request = {"id": self._next_id, "method": method, "params": params or {}}
        with suppress(ConnectionError):  # it may have hung up with a refusal, which is there to be read
            self._socket.sendall(json.dumps(request, default=plain).encode() + b"\n")

    def answer(self) -> dict[str, Any]:
        """The answer to the oldest question that has none yet.

        Raises:
            SupervisorGoneError: if it dies meanwhile.
            RltuiError: what the supervisor refused it with.
        """
        try:
            while (message := message_of(self._file.readline())).get("id") == IDENTIFY:
                continue
            return result_of(message)
        except ConnectionError as error:
            raise SupervisorGoneError from error

    def events(self, kind: Literal["status", "journal", "gpus"]) -> Iterator[dict[str, Any]]:
        """Subscribe to what is told of one kind, the current state first. Ends when the supervisor does.

        Raises:
            TimeoutError: after `interrupt`.
        """
        self._socket.settimeout(None)
        self._socket.sendall(b'{"id":0,"method":"subscribe"}\n')
        while line := self._file.readline():
            message = json.loads(line)
            if message.get("event") == kind:
                yield message["data"]
        if self._interrupted:
            raise TimeoutError

    def interrupt(self) -> None:
        """End a wait in `events`, from another thread."""
        self._interrupted = True
        self._socket.shutdown(socket.SHUT_RDWR)

    def wait_for_end(self) -> None:
        """Return once the supervisor's process has ended, so that another may start.

        Raises:
            RltuiError: if it lives on for `END_TIMEOUT_S`.
        """
        pid = self.server_pid()
        try:
            process = os.pidfd_open(pid)
        except OSError:  # it has ended already, or the kernel knows no pidfd
            return
        try:
            has_ended, _, _ = select.select([process], [], [], END_TIMEOUT_S)
        finally:
            os.close(process)
        if not has_ended:
            raise RltuiError(
                f"the supervisor, pid {pid}, does not exit after stopping everything",
                hint=f"to end it: kill -9 {pid}",
            )

    def end_supervisor(self) -> bool:
        """End it, and return once its process has ended. Its components keep running; the next supervisor
        finishes what it had in hand. False if it is out of reach, in another PID namespace.

        Raises:
            RltuiError: as `wait_for_end`.
        """
        if (pid := self.server_pid()) <= 0:
            return False
        with suppress(ProcessLookupError):  # somebody else ended it
            os.kill(pid, signal.SIGTERM)
        self._socket.settimeout(END_TIMEOUT_S)
        with suppress(OSError):
            while self._file.readline():  # until it hangs up, which also tells its end without a pidfd
                continue
        self.wait_for_end()
        return True

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def server_pid(self) -> int:
        """The process that made the socket."""
        return peer_pid(self._socket)


def identification() -> bytes:
    """The request that says who asks. Nobody waits for its answer."""
    request = {"id": IDENTIFY, "method": IDENTIFY, "params": claim()}
    return json.dumps(request, default=plain).encode() + b"\n"


def peer_pid(connection: socket.socket) -> int:
    """The process at the other end of a unix socket."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    return int(_UCRED.unpack(credentials)[0])


def message_of(line: bytes) -> dict[str, Any]:
    """The message in a line that was read.

    Raises:
        SupervisorGoneError: if it is empty, the end of the stream.
    """
    if not line:
        raise SupervisorGoneError
    message: dict[str, Any] = json.loads(line)
    return message


def check_hello(message: dict[str, Any]) -> None:
    """The first line of a supervisor: go on if it takes us and speaks like us.

    Raises:
        RltuiError: what it refused us with, or both versions and what to do.
    """
    if "error" in message:
        result_of(message)
    peer_version = message.get("protocol")
    if peer_version != PROTOCOL_VERSION:
        raise RltuiError(
            f"the supervisor speaks protocol {peer_version}, this rltui {PROTOCOL_VERSION}",
            hint=(
                f"end it (components keep running): kill {message.get('pid')}; the next command"
                " starts a new one"
            ),
        )


def is_outdated(hello: dict[str, Any]) -> bool:
    """True if an update of rltui has replaced the code of this supervisor; of an earlier version, which does
    not say so, it always has.
    """
    return bool(hello.get("outdated", True))


def result_of(message: dict[str, Any]) -> dict[str, Any]:
    """The result of an answer.

    Raises:
        RltuiError: if it is a refusal, as the class that its exit code stands for.
    """
    if "error" not in message:
        result: dict[str, Any] = message["result"]
        return result
    reply = message["error"]
    kind = ERROR_TYPES.get(ExitCode(reply["exit_code"]), RltuiError)
    raise kind(reply["title"], details=reply["details"], hint=reply["hint"], code=reply.get("code", ""))
