"""A command whose output is read while it runs, and of which nothing is left when it is over."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from typing import BinaryIO

from rltui.errors import RltuiError
from rltui.services.outside_command import failure_text, outside_environment, runnable
from rltui.services.processes.ending import end_session

GRACE_S = 2.0
"""From SIGTERM to SIGKILL."""
LINGER_S = 1.0
"""How long the rest of its output is read once it has ended: others may hold the pipe open, as the master of
ssh's `ControlPersist` does."""
READ_BYTES = 1 << 16
READ_PAUSE_S = 0.2
"""Between two pieces: a command that floods its output is slowed down, not its reader."""
MOST_WORDS_BYTES = 4096
"""Of its stderr, the newest so many bytes are kept to say what went wrong."""


async def follow(command: Sequence[str], take: Callable[[bytes], None]) -> str | None:
    """Run `command` until it ends, giving its stdout to `take` in pieces.

    It reads nothing and has a session of its own, of which nothing lives when this returns or is cancelled.

    Returns how it failed, with its last words on stderr; `None` where it ended with code 0.

    Raises:
        RltuiError: It cannot be run.
    """
    words = bytearray()

    def take_words(data: bytes) -> None:
        words.extend(data)
        del words[:-MOST_WORDS_BYTES]

    async with _pipe() as (output, output_end), _pipe() as (errors, errors_end):
        with output_end, errors_end:
            process = await _start(command, output_end, errors_end)
        pumps = [asyncio.create_task(_pump(output, take)), asyncio.create_task(_pump(errors, take_words))]
        try:
            await process.wait()
            await asyncio.wait(pumps, timeout=LINGER_S)
        finally:
            for pump in pumps:
                pump.cancel()
            await end_session(process.pid, grace_s=GRACE_S)
    return failure_text(process.returncode or 0, bytes(words))


@contextlib.asynccontextmanager
async def _pipe() -> AsyncIterator[tuple[asyncio.StreamReader, BinaryIO]]:
    """The end to read and the end to write. One of our own: asyncio's would make `wait` wait for its end."""
    read_end, write_end = os.pipe()
    reader = asyncio.StreamReader(limit=READ_BYTES)
    with os.fdopen(write_end, "wb", buffering=0) as file:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
        )
        try:
            yield reader, file
        finally:
            transport.close()


async def _start(command: Sequence[str], stdout: BinaryIO, stderr: BinaryIO) -> asyncio.subprocess.Process:
    words = runnable(command)
    try:
        return await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=outside_environment(),
            start_new_session=True,
        )
    except OSError as error:
        raise RltuiError(f"cannot run {words[0]}: {error.strerror}") from error


async def _pump(reader: asyncio.StreamReader, take: Callable[[bytes], None]) -> None:
    while data := await reader.read(READ_BYTES):
        take(data)
        await asyncio.sleep(READ_PAUSE_S)
