"""Programs that are not rltui's: the one way to run them, and their failures in words.

Each gets a session of its own and this environment without the private tmux server; a limit of time ends it
with all that it started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from rltui.core.lines import decode_line, plain_text
from rltui.errors import RltuiError
from rltui.services.hiding import without_secrets
from rltui.services.processes.ending import end_session

OUTER_VARIABLES = frozenset({"TMUX", "TMUX_PANE", "RLTUI_EXPERIMENT", "RLTUI_COMPONENT", "RLTUI_ATTEMPT"})
"""Say where rltui was called from: the user's own tmux, or a component of another experiment."""
_GRACE_S = 2.0
"""From SIGTERM to SIGKILL."""
_LINGER_S = 1.0
"""How long the rest of its output is read once it has ended: others may hold the pipe open, as the master of
ssh's `ControlPersist` does."""
_KEPT_BYTES = 1 << 20
"""Of its output, the newest so many bytes are kept."""
KEPT_ERRORS_BYTES = 4096
"""Of its stderr, to say what went wrong."""
_READ_BYTES = 1 << 16
_READ_PAUSE_S = 0.2
"""Between two pieces: a command that floods its output is slowed down, not its reader."""

Take = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int | None
    """asyncio's: of a signal, its number below zero; `None`: its time was over, and it was ended."""
    output: bytes
    errors: bytes
    """Empty where they are among the output."""

    @property
    def failure(self) -> str | None:
        """`exited 255: ssh: connect to host …`; `None` where it ended with 0, or was ended."""
        return failure_text(self.code or 0, self.errors)


async def run(
    command: Sequence[str],
    *,
    timeout_s: float,
    stdin: bytes = b"",
    variables: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    mixed: bool = False,
    leaves_nothing: bool = False,
) -> Outcome:
    """Run `command` with `variables` in its environment to its end, at most for `timeout_s`.

    `mixed`: its stderr goes where its stdout goes. `leaves_nothing`: what it started ends with it, also where
    it ended in time. What goes on is not waited for.

    Raises:
        RltuiError: It cannot be run.
    """
    output, errors = _Newest(_KEPT_BYTES), _Newest(KEPT_ERRORS_BYTES)
    code: int | None = None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            code = await _run(
                command,
                output.take,
                None if mixed else errors.take,
                stdin=stdin,
                variables=variables,
                cwd=cwd,
                leaves_nothing=leaves_nothing,
            )
    return Outcome(code, bytes(output.data), bytes(errors.data))


async def follow(command: Sequence[str], take: Take, *, stdin: bytes = b"") -> str | None:
    """Run `command`, which may read `stdin`, until it ends, giving its stdout to `take` in pieces.

    Nothing of it lives when this returns or is cancelled.

    Returns how it failed, with its last words on stderr; `None` where it ended with code 0.

    Raises:
        RltuiError: It cannot be run.
    """
    errors = _Newest(KEPT_ERRORS_BYTES)
    code = await _run(command, take, errors.take, stdin=stdin, leaves_nothing=True)
    return failure_text(code, bytes(errors.data))


def ask(command: Sequence[str], *, timeout_s: float, stdin: bytes = b"") -> bytes:
    """What `command` prints, in this very environment, having read `stdin`. Blocks.

    Raises:
        RltuiError: It cannot be run, fails, or takes longer than `timeout_s`.
    """
    words = _runnable(command)
    with _start_errors(words):
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    with process:
        try:
            output, errors = process.communicate(stdin or None, timeout=timeout_s)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise RltuiError(f"{words[0]} took longer than {timeout_s:g} s and was ended") from None
            raise
    if failure := failure_text(process.returncode, errors):
        raise RltuiError(f"{words[0]} {failure}")
    return output


def converse(
    command: Sequence[str], *, cwd: Path, variables: Mapping[str, str], errors: BinaryIO
) -> subprocess.Popen[bytes]:
    """Start `command` to talk to over its stdin and stdout; it leads a process group, which the caller ends.

    Raises:
        OSError: It cannot be run.
    """
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        bufsize=0,
        cwd=cwd,
        env={**_environment(), **variables},
        start_new_session=True,
    )


def in_terminal(command: Sequence[str]) -> int:
    """Hand the terminal over until `command` ends, in the person's own environment. Returns its exit code.

    Raises:
        OSError: It cannot be run.
    """
    return subprocess.run(command, check=False).returncode


def failure_text(code: int, errors: bytes) -> str | None:
    """`exited 255: ssh: connect to host …`, with the last line of its stderr; `None` for code 0.

    `code` is asyncio's: of a signal, its number below zero.
    """
    if code == 0:
        return None
    said = without_secrets(plain_text(decode_line(errors.strip().rpartition(b"\n")[2])))
    name = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
    how = f"exited {code}" if code > 0 else f"was killed by {name}"
    return f"{how}: {said}" if said else how


class _Newest:
    """The newest bytes of an output."""

    def __init__(self, most: int) -> None:
        self.data = bytearray()
        self._most = most

    def take(self, data: bytes) -> None:
        self.data.extend(data)
        del self.data[: -self._most]


async def _run(
    command: Sequence[str],
    take: Take,
    take_errors: Take | None,
    *,
    stdin: bytes = b"",
    variables: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    leaves_nothing: bool,
) -> int:
    """Its exit code. Errors that nobody takes are among the output."""
    words, ended = _runnable(command), asyncio.Event()
    async with _pipe() as (output, output_end), _pipe() as (errors, errors_end):
        with output_end, errors_end, _input(stdin) as input_end, _start_errors(words):
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=input_end,
                stdout=output_end,
                stderr=output_end if take_errors is None else errors_end,
                cwd=cwd,
                env={**_environment(), **(variables or {})},
                start_new_session=True,
            )
        pumps = [
            asyncio.create_task(_pump(output, take, ended)),
            asyncio.create_task(_pump(errors, take_errors or take, ended)),
        ]
        try:
            code = await process.wait()
            ended.set()
            if leaves_nothing:
                await end_session(process.pid, grace_s=_GRACE_S)
            await asyncio.wait(pumps, timeout=_LINGER_S)
        finally:
            for pump in pumps:
                pump.cancel()
            if not ended.is_set():
                await end_session(process.pid, grace_s=_GRACE_S)
                with contextlib.suppress(TimeoutError):  # stuck in the kernel
                    async with asyncio.timeout(_LINGER_S):
                        await process.wait()
    return code


async def _pump(reader: asyncio.StreamReader, take: Take, ended: asyncio.Event) -> None:
    while data := await reader.read(_READ_BYTES):
        take(data)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_READ_PAUSE_S):
                await ended.wait()


@contextlib.asynccontextmanager
async def _pipe() -> AsyncIterator[tuple[asyncio.StreamReader, BinaryIO]]:
    """The end to read and the end to write. One of our own: asyncio's would make `wait` wait for its end."""
    read_end, write_end = os.pipe()
    reader = asyncio.StreamReader(limit=_READ_BYTES)
    with os.fdopen(write_end, "wb", buffering=0) as file:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
        )
        try:
            yield reader, file
        finally:
            transport.close()


@contextlib.contextmanager
def _input(content: bytes) -> Iterator[int]:
    """A file in memory: unlike of a pipe, nobody waits for the one who may not care to read it."""
    if not content:
        yield subprocess.DEVNULL
        return
    with os.fdopen(os.memfd_create("stdin"), "w+b") as file:
        file.write(content)
        file.seek(0)
        yield file.fileno()


@contextlib.contextmanager
def _start_errors(words: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RltuiError(f"cannot run {words[0]}: {error.strerror}") from error


def _runnable(command: Sequence[str]) -> list[str]:
    """With `~` of the program filled in."""
    return [os.path.expanduser(command[0]), *command[1:]]  # noqa: PTH111  (a name stays a name)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in OUTER_VARIABLES}
