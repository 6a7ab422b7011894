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

RECORD_PATIENCE_S = 5.0
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
            await self._wait(record)
            last = processes.read_attempt(self._folder) or record
            info = exit_info(last)
            if info == ExitInfo() and (code := await status) is not None:
                return _from_status(code)
            return info
        finally:
            status.cancel()

    async def _wait(self, record: processes.AttemptRecord) -> None:
        main, shim = record.living_main, record.shim if record.is_supervised else None
        if shim is not None and main is not None:
            await _first(processes.wait_for_exit(main), processes.wait_for_exit(shim))
            record = await self._record_of_end(record, shim)
            if self._keeps and record.ended_at is not None and not record.stop_requested:
                return
        if shim is not None:
            await self._until_cleared_up(record, shim)
        if main is not None and processes.is_alive(main):  # the shim was killed, the component goes on
            self._keeper_lost()
            await processes.wait_for_exit(main)

    async def _until_cleared_up(self, record: processes.AttemptRecord, shim: processes.ProcessId) -> None:
        gone = asyncio.create_task(processes.wait_for_exit(shim), name="shim")
        try:
            await asyncio.wait([gone], timeout=CLEARING_UP_S)
            if not gone.done() and record.ended_at is not None:
                self._main_ended(exit_info(record))
            await gone
        finally:
            gone.cancel()

    async def _record_of_end(
        self, record: processes.AttemptRecord, shim: processes.ProcessId
    ) -> processes.AttemptRecord:
        """What the shim wrote when it had reaped the main process."""
        with contextlib.suppress(TimeoutError):  # a full disk: the kernel's word has to do
            async with asyncio.timeout(RECORD_PATIENCE_S):
                while record.ended_at is None and processes.is_alive(shim):
                    await asyncio.sleep(RECORD_POLL_S)
                    record = processes.read_attempt(self._folder) or record
        return record


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
