"""Runs other programs, and describes their failures.

Each runs in a session of its own with this environment except the private tmux server; a timeout ends it with
all that it started.
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

from rltui.base.interpreter import OUTER_VARIABLES
from rltui.core.logs.lines import decode_line, plain_text
from rltui.errors import RltuiError
from rltui.services.processes.termination import end_session
from rltui.services.redaction import without_secrets

_GRACE_S = 2.0
"""Time between SIGTERM and SIGKILL."""
_OUTPUT_GRACE_S = 1.0
"""Time after the exit in which the rest of the output is read: others may hold the pipe open, as the master
of ssh's `ControlPersist` does.
"""
_MAX_OUTPUT_BYTES = 1 << 20
"""Size of the end of the output that is kept."""
MAX_ERRORS_BYTES = 4096
"""Size of the end of stderr that is kept for error messages."""
_READ_BYTES = 1 << 16
_READ_PAUSE_S = 0.2
"""Pause between two reads: a command that floods its output is slowed down, not its reader."""

OutputCallback = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int | None
    """Exit code as in asyncio: negative for a signal; `None`: it was killed at the timeout."""
    output: bytes
    errors: bytes
    """Empty if stderr is part of the output."""

    @property
    def failure(self) -> str | None:
        """Text like `exited 255: ssh: connect to host …`; `None` if it exited with 0, or was killed at the
        timeout.
        """
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
    """Run `command` with `variables` in its environment, at most for `timeout_s`.

    `mixed`: stderr goes to stdout. `leaves_nothing`: processes that it started are ended with it, even if it
    exits in time; otherwise they are not waited for.

    Raises:
        RltuiError: It cannot be run.
    """
    output, errors = _NewestBytes(_MAX_OUTPUT_BYTES), _NewestBytes(MAX_ERRORS_BYTES)
    code: int | None = None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            code = await _run(
                command,
                output.append,
                None if mixed else errors.append,
                stdin=stdin,
                variables=variables,
                cwd=cwd,
                leaves_nothing=leaves_nothing,
            )
    return Outcome(code, bytes(output.data), bytes(errors.data))


async def follow(command: Sequence[str], on_output: OutputCallback, *, stdin: bytes = b"") -> str | None:
    """Run `command`, which may read `stdin`, until it exits, passing its stdout to `on_output` in pieces.

    None of its processes lives when this returns or is cancelled.

    Returns an error text with the last line of stderr; `None` if it exited with code 0.

    Raises:
        RltuiError: It cannot be run.
    """
    errors = _NewestBytes(MAX_ERRORS_BYTES)
    code = await _run(command, on_output, errors.append, stdin=stdin, leaves_nothing=True)
    return failure_text(code, bytes(errors.data))


def check_output(
    command: Sequence[str],
    *,
    timeout_s: float,
    stdin: bytes = b"",
    variables: Mapping[str, str] | None = None,
) -> bytes:
    """Run `command` in this very environment and `variables`, with `stdin`, and return its output. Blocks.

    Raises:
        RltuiError: It cannot be run, fails, or takes longer than `timeout_s`.
    """
    argv = _expand_program(command)
    with _start_errors(argv):
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, **(variables or {})},
        )
    with process:
        try:
            output, errors = process.communicate(stdin or None, timeout=timeout_s)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise RltuiError(f"{argv[0]} took longer than {timeout_s:g} s and was ended") from None
            raise
    if failure := failure_text(process.returncode, errors):
        raise RltuiError(f"{argv[0]} {failure}")
    return output


def converse(
    command: Sequence[str], *, cwd: Path, variables: Mapping[str, str], errors: BinaryIO
) -> subprocess.Popen[bytes]:
    """Start `command` for a dialogue over stdin and stdout; it leads a process group, which the caller must
    end.

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
    """Run `command` in this terminal and in the person's own environment. Returns its exit code.

    Raises:
        OSError: It cannot be run.
    """
    return subprocess.run(command, check=False).returncode


def failure_text(code: int, errors: bytes) -> str | None:
    """Text like `exited 255: ssh: connect to host …`, with the last line of stderr; `None` for code 0.

    `code` is as in asyncio: negative for a signal.
    """
    if code == 0:
        return None
    last_line = without_secrets(plain_text(decode_line(errors.strip().rpartition(b"\n")[2])))
    name = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
    outcome = f"exited {code}" if code > 0 else f"was killed by {name}"
    return f"{outcome}: {last_line}" if last_line else outcome


class _NewestBytes:
    def __init__(self, most: int) -> None:
        self.data = bytearray()
        self._most = most

    def append(self, data: bytes) -> None:
        self.data.extend(data)
        del self.data[: -self._most]


async def _run(
    command: Sequence[str],
    on_output: OutputCallback,
    on_errors: OutputCallback | None,
    *,
    stdin: bytes = b"",
    variables: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    leaves_nothing: bool,
) -> int:
    """Run it and return its exit code. Without `on_errors`, stderr is part of the output."""
    argv, exited = _expand_program(command), asyncio.Event()
    async with _pipe() as (output, output_end), _pipe() as (errors, errors_end):
        with output_end, errors_end, _input(stdin) as input_end, _start_errors(argv):
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=input_end,
                stdout=output_end,
                stderr=output_end if on_errors is None else errors_end,
                cwd=cwd,
                env={**_environment(), **(variables or {})},
                start_new_session=True,
            )
        pumps = [
            asyncio.create_task(_pump(output, on_output, exited)),
            asyncio.create_task(_pump(errors, on_errors or on_output, exited)),
        ]
        try:
            code = await process.wait()
            exited.set()
            if leaves_nothing:
                await end_session(process.pid, grace_s=_GRACE_S)
            await asyncio.wait(pumps, timeout=_OUTPUT_GRACE_S)
        finally:
            for pump in pumps:
                pump.cancel()
            if not exited.is_set():
                await end_session(process.pid, grace_s=_GRACE_S)
                with contextlib.suppress(TimeoutError):  # stuck in the kernel
                    async with asyncio.timeout(_OUTPUT_GRACE_S):
                        await process.wait()
    return code


async def _pump(reader: asyncio.StreamReader, on_output: OutputCallback, exited: asyncio.Event) -> None:
    while data := await reader.read(_READ_BYTES):
        on_output(data)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_READ_PAUSE_S):
                await exited.wait()


@contextlib.asynccontextmanager
async def _pipe() -> AsyncIterator[tuple[asyncio.StreamReader, BinaryIO]]:
    """The read end and the write end. Our own pipe: asyncio's would make `wait` wait for its end."""
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
    """A file in memory: unlike a pipe, it needs no writer that waits for a reader."""
    if not content:
        yield subprocess.DEVNULL
        return
    with os.fdopen(os.memfd_create("stdin"), "w+b") as file:
        file.write(content)
        file.seek(0)
        yield file.fileno()


@contextlib.contextmanager
def _start_errors(argv: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RltuiError(f"cannot run {argv[0]}: {error.strerror}") from error


def _expand_program(command: Sequence[str]) -> list[str]:
    return [os.path.expanduser(command[0]), *command[1:]]  # noqa: PTH111  (a name stays a name)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in OUTER_VARIABLES}
