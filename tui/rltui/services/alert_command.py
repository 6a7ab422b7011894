"""Run the user's command for an alert: a desktop notification, a webhook, a pager."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator, Mapping, Sequence

from rltui.errors import RltuiError
from rltui.services.outside_command import failure_text, outside_environment, runnable

TIMEOUT_S = 10.0
MOST_OUTPUT_BYTES = 4096
"""Of its stderr, the newest so many bytes are kept to say what went wrong."""


async def run_command(
    command: Sequence[str], document: bytes, variables: Mapping[str, str], *, timeout_s: float = TIMEOUT_S
) -> None:
    """Run `command` with `document` on its stdin and `variables` in its environment. Its output goes nowhere.

    It gets a process group of its own, which is killed when the time is over.

    Raises:
        RltuiError: It cannot be run, fails, or takes longer than `timeout_s`; says what it printed last.
    """
    words = runnable(command)
    with _newest_output() as (write_end, output):
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=write_end,
                env={**outside_environment(), **variables},
                start_new_session=True,
            )
        except OSError as error:
            raise RltuiError(f"cannot run {words[0]}: {error.strerror}") from error
        finally:
            os.close(write_end)
        try:
            async with asyncio.timeout(timeout_s):
                await _hand_over(process, document)
                await process.wait()
        except TimeoutError:
            raise RltuiError(f"{words[0]} took longer than {timeout_s:g} s and was ended") from None
        finally:
            if process.returncode is None:
                await _end(process)
    if failure := failure_text(process.returncode or 0, bytes(output)):
        raise RltuiError(f"{words[0]} {failure}")


async def _hand_over(process: asyncio.subprocess.Process, document: bytes) -> None:
    """Write and close its stdin, which it may not care to read."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(document)
        await process.stdin.drain()
    process.stdin.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


@contextlib.contextmanager
def _newest_output() -> Iterator[tuple[int, bytearray]]:
    """The end to write to, which the caller closes, and what came through so far.

    A pipe of our own: asyncio would wait for what the command leaves in the background to close it.
    """
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    output = bytearray()
    loop = asyncio.get_running_loop()

    def take() -> None:
        try:
            data = os.read(read_end, 65536)
        except BlockingIOError:
            return
        if not data:
            loop.remove_reader(read_end)
        output.extend(data)
        del output[:-MOST_OUTPUT_BYTES]

    loop.add_reader(read_end, take)
    try:
        yield write_end, output
    finally:
        take()
        loop.remove_reader(read_end)
        os.close(read_end)
