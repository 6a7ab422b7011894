"""How an attempt ended: from what its shim wrote, or from the kernel where the shim was killed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path

from rltui.core.lifecycle import ExitInfo
from rltui.services import processes
from rltui.services.attempt_life import exit_info

RECORD_PATIENCE_S = 1.0
"""From the end of a main process to its shim's record of it."""
RECORD_POLL_S = 0.02
CLEARING_UP_S = 0.5
"""A shim that takes longer than this over what a main process left is worth telling of."""


class Ending:
    """The end of the attempt in `folder`, whose processes `record` names.

    `keeps`: after an end by itself, the shim stays with what is left of the tree, and the end counts.
    """

    def __init__(
        self,
        folder: Path,
        record: processes.AttemptRecord | None,
        *,
        keeps: bool,
        main_ended: Callable[[ExitInfo], None],
        keeper_lost: Callable[[], None],
    ) -> None:
        """`main_ended` is called where clearing up behind the main process takes long, `keeper_lost` where
        the shim is gone before the main process.
        """
        self._folder = folder
        self._record = record
        self._keeps = keeps
        self._main_ended = main_ended
        self._keeper_lost = keeper_lost

    async def wait(self) -> ExitInfo:
        """Return when the attempt has ended: its whole tree, or its main process where leftovers stay."""
        record = self._record
        if record is None:
            return ExitInfo()
        # Asked for while the process lives: a dead one cannot be opened any more.
        status = asyncio.create_task(_exit_status(record.living_main), name="exit status")
        try:
            if record.is_supervised and record.shim is not None:
                await self._wait_beside(record.shim, record, status)
            if (main := record.living_main) is not None:
                self._keeper_lost()
                await processes.wait_for_exit(main)
            return await self._exit_info(status)
        finally:
            status.cancel()

    async def _wait_beside(
        self, shim: processes.ProcessId, record: processes.AttemptRecord, status: asyncio.Task[int | None]
    ) -> None:
        """Return when the shim is gone, or stays only for what is kept."""
        if (main := record.living_main) is not None:
            await _first(processes.wait_for_exit(main), processes.wait_for_exit(shim))
        if record.living_main is not None:
            return
        record = await self._record_of_end(record, shim)
        if self._keeps and not record.stop_requested:
            return
        gone = asyncio.create_task(processes.wait_for_exit(shim), name="shim")
        try:
            await asyncio.wait([gone], timeout=CLEARING_UP_S)
            if not gone.done():
                self._main_ended(await self._exit_info(status))
            await gone
        finally:
            gone.cancel()

    async def _record_of_end(
        self, record: processes.AttemptRecord, shim: processes.ProcessId
    ) -> processes.AttemptRecord:
        """What the shim wrote when it had reaped the main process; a stopped one is woken for that."""
        processes.send_signal(shim, signal.SIGCONT)
        with contextlib.suppress(TimeoutError):  # a full disk: the kernel's word has to do
            async with asyncio.timeout(RECORD_PATIENCE_S):
                while record.ended_at is None and processes.is_alive(shim):
                    await asyncio.sleep(RECORD_POLL_S)
                    record = processes.read_attempt(self._folder) or record
        return record

    async def _exit_info(self, status: asyncio.Task[int | None]) -> ExitInfo:
        """As the shim wrote it; by the kernel where it could not."""
        info = exit_info(processes.read_attempt(self._folder) or self._record)
        if info == ExitInfo() and (code := await status) is not None:
            return _from_status(code)
        return info


async def _exit_status(main: processes.ProcessId | None) -> int | None:
    return None if main is None else await processes.wait_for_exit_status(main)


async def _first(*waits: Coroutine[None, None, None]) -> None:
    """Return when the first of them does."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _from_status(code: int) -> ExitInfo:
    """A return code as `subprocess` has it: negative for a signal."""
    if code >= 0:
        return ExitInfo(code=code)
    try:
        return ExitInfo(signal=signal.Signals(-code).name)
    except ValueError:  # real-time signals have no name of their own
        return ExitInfo(signal=f"SIG{-code}")
