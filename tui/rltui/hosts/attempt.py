"""One attempt of a component: its folder, its processes, and how they are ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rltui.core import hints
from rltui.core.experiment.layout import ComponentSpec
from rltui.core.experiment.lifecycle import ExitInfo
from rltui.errors import RltuiError
from rltui.paths import ATTEMPT_RECORD, ATTEMPT_SPEC
from rltui.services import processes
from rltui.services.experiment.attempt_end import exit_info, note_oom_kills
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.launch import Launch, read_launch
from rltui.services.experiment.registry import run_command
from rltui.services.experiment.shell import read_shell
from rltui.services.own_files import write_atomically
from rltui.services.processes import termination

SPAWN_TIMEOUT_S = 20.0
"""Longest time from the tmux window to a running process; includes the start of the shim's interpreter."""
_SPAWN_POLL_S = 0.02
_RECORD_TIMEOUT_S = 1.0
"""Longest time from the end of a main process to its shim's record of it."""
_RECORD_POLL_S = 0.02
_CLEANUP_S = 0.5
"""A shim that takes longer than this over processes that a main process left is worth showing."""


class Attempt:
    def __init__(self, record: ExperimentRecord, spec: ComponentSpec, number: int) -> None:
        self.spec = spec
        self.number = number
        self.tag, self._control, self._experiment = record.tag, record.control, record.name
        self.folder = self._control.attempt_dir(spec.id, number)
        self.log = self._control.log_file(spec.id, number)
        self.launch = read_launch(self.folder)
        """The launch that it was started with; `None` until that is written."""
        self.record = processes.read_attempt(self.folder)
        """The record that its shim last wrote; `None` before that."""

    @property
    def has_begun(self) -> bool:
        """True if its shim has written a record, which may have been damaged since."""
        return self.record is not None or processes.has_record(self.folder)

    # --- its files ----------------------------------------------------------------------------------------

    def write_spec(self, launch: Launch, values: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Write the file that tells the shim what to run: `launch`, or `values` in place of its own.

        Raises:
            RltuiError: if that cannot be written.
        """
        self.launch = launch
        document = {
            "experiment": self.tag,
            "component": self.spec.id,
            "attempt": self.number,
            "shell": self.shell,
            **launch.spec,
            "stop": self.stop,
            "tty": self.spec.tty,
            "log": str(self.log),
            "created_at": time.time(),
            **values,
        }
        write_atomically(self.folder / ATTEMPT_SPEC, json.dumps(document, indent=1).encode())

    @property
    def stop(self) -> dict[str, Any]:
        return self.spec.stop.model_dump(include={"signal", "grace_s", "again_s", "leftovers"})

    @property
    def shell(self) -> Mapping[str, Any]:
        """The environment and the limits of the user's shell, which its processes get."""
        return read_shell(self._control)

    def refresh(self) -> None:
        """Read the shim's record again. An unreadable one leaves the last one."""
        self.record = processes.read_attempt(self.folder) or self.record

    def recover(self, traces: processes.ProcessOwners) -> None:
        """Rebuild the record from living processes where it is gone or damaged."""
        self.record = traces.attempt(self.folder, self.tag)

    def forget_shim(self) -> None:
        """Remove the record of its processes here: another shim will write one.

        Raises:
            RltuiError: if that cannot be removed.
        """
        self.record = None
        try:
            (self.folder / ATTEMPT_RECORD).unlink(missing_ok=True)
        except OSError as error:
            raise RltuiError(f"cannot remove the record in {self.folder}: {error.strerror}") from error

    @property
    def launch_age_s(self) -> float | None:
        """Seconds since its spec was written, at least 0; `None` where that never happened."""
        try:
            written_at = (self.folder / ATTEMPT_SPEC).stat().st_mtime
        except OSError:
            return None
        return max(0.0, time.time() - written_at) if self.launch is not None else None

    @property
    def was_ready(self) -> bool:
        """True if a supervisor has seen it ready."""
        return self._ready_file.exists()

    def mark_ready(self) -> None:
        """Leave a file for the next supervisor. On a full disk, that one probes again."""
        with contextlib.suppress(OSError):
            self._ready_file.touch()

    def ready_since(self) -> float:
        """Monotonic time at which it was marked ready; now where it was not."""
        try:
            age_s = time.time() - self._ready_file.stat().st_mtime
        except OSError:
            age_s = 0.0
        return time.monotonic() - max(0.0, age_s)

    @property
    def _ready_file(self) -> Path:
        return self.folder / "ready"

    # --- its end ------------------------------------------------------------------------------------------

    def note_started(self) -> None:
        """Record the kernel's count of kills for want of memory, as a process of it runs from now on."""
        note_oom_kills(self.folder)

    # --- its processes ------------------------------------------------------------------------------------

    @property
    def shim(self) -> processes.ProcessId | None:
        """The shim process, while it lives."""
        return self.record.shim if self.record is not None and self.record.is_supervised else None

    @property
    def main(self) -> processes.ProcessId | None:
        """The main process, while it lives."""
        return self.record.living_main if self.record is not None else None

    @property
    def is_running(self) -> bool:
        """True if it has not ended: its main process lives, or its shim has not seen that end."""
        is_end_unseen = self.shim is not None and self.record is not None and self.record.ended_at is None
        return self.main is not None or is_end_unseen

    @property
    def is_cleaned_up(self) -> bool:
        """True if nothing is left of it, or a shim looks after the rest."""
        return self.record is None or self.record.state == "exited" or self.shim is not None

    async def wait_for_shim(self, timeout_s: float = SPAWN_TIMEOUT_S) -> None:
        """Return when its shim has written its first record.

        Raises:
            RltuiError: if it does not within `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        while (record := processes.read_attempt(self.folder)) is None:
            if time.monotonic() > deadline:
                raise RltuiError(
                    f"the shim of {self.spec.id} did not start within {timeout_s:.0f} s",
                    hint=f"inspect it: {run_command(hints.ATTACH, self._experiment, component=self.spec.id)}",
                )
            await asyncio.sleep(_SPAWN_POLL_S)
        self.record = record

    async def signal(self, number: signal.Signals) -> None:
        """Signal its shim, also a stopped one; without a shim, end its processes from here."""
        if (shim := self.shim) is not None:
            processes.send_signal(shim, number)
            processes.send_signal(shim, signal.SIGCONT)
        else:
            await self.end_leftovers(grace_s=self.spec.stop.grace_s)

    async def wait_for_shim_exit(self) -> None:
        if (shim := self.shim) is not None:
            await termination.wait_for_exit(shim)
        self.refresh()

    async def end_tree(self, *, grace_s: float) -> tuple[processes.ProcessId, ...]:
        """End all of it from here, also below a living shim that does not do it, and that shim.

        Returns the survivors: stuck in the kernel, or another user's.
        """
        self.refresh()
        if (shim := self.shim) is not None:
            await termination.end_all(lambda: processes.descendants(shim.pid), grace_s=grace_s)
            await termination.end_processes([shim], grace_s=0.0)
        return await self.end_leftovers(grace_s=0.0 if shim is not None else grace_s)

    def rival(self) -> str | None:
        """Another process that listens on one of its ports, as text: one of another experiment, or one that
        is older than its main process. Blocks.
        """
        record, launch = processes.read_attempt(self.folder), self.launch
        main = None if record is None else record.main
        if launch is None or main is None:
            return None
        for holder in (holder for port in launch.local_ports for holder in processes.port_holders(port)):
            if holder.process is not None:
                tag = processes.attempt_tags(holder.process.pid).get("RLTUI_EXPERIMENT")
                if tag != self.tag if tag else holder.process.start < main.start:
                    return str(holder)
        return None

    async def end_leftovers(self, *, grace_s: float) -> tuple[processes.ProcessId, ...]:
        """End the processes that no shim looks after. Returns the survivors."""
        return await termination.end_all(self._leftovers, grace_s=grace_s)

    def _leftovers(self) -> set[processes.ProcessId]:
        """Return its processes with all descendants, whatever session and environment those have."""
        records = [self.record] if self.record is not None else []
        tagged = processes.leftovers(self.tag, records)
        own = {leftover.id for leftover in tagged if leftover.component == self.spec.id}
        return own.union(*(processes.descendants(process.pid) for process in own))


class Ending:
    """The end of an attempt. Where leftovers are kept, it has ended while the shim still runs."""

    def __init__(
        self,
        attempt: Attempt,
        *,
        main_ended: Callable[[ExitInfo], None],
        shim_lost: Callable[[], None],
    ) -> None:
        """`main_ended` is called where the shim is slow to end what the main process left, `shim_lost` where
        the shim is gone before the main process.
        """
        self._folder = attempt.folder
        self._record = attempt.record
        self._keeps = attempt.spec.stop.leftovers == "keep"
        self._main_ended = main_ended
        self._shim_lost = shim_lost

    async def wait(self) -> ExitInfo:
        """Return when the attempt has ended: its whole tree, or its main process where leftovers stay."""
        record = self._record
        if record is None:
            return ExitInfo()
        if record.is_supervised and record.shim is not None:
            await self._wait_with_shim(record.shim, record)
        if (main := record.living_main) is not None:
            self._shim_lost()
            await termination.wait_for_exit(main)
        return self._exit_info()

    async def _wait_with_shim(self, shim: processes.ProcessId, record: processes.AttemptRecord) -> None:
        """Return when the shim is gone, or stays only for leftovers that are kept."""
        if (main := record.living_main) is not None:
            await _wait_for_first(termination.wait_for_exit(main), termination.wait_for_exit(shim))
        if record.living_main is not None:
            return
        record = await self._record_of_end(record, shim)
        if self._keeps and not record.stop_requested:
            return
        shim_exit = asyncio.create_task(termination.wait_for_exit(shim), name="shim")
        try:
            await asyncio.wait([shim_exit], timeout=_CLEANUP_S)
            if not shim_exit.done():
                self._main_ended(self._exit_info())
            await shim_exit
        finally:
            shim_exit.cancel()

    async def _record_of_end(
        self, record: processes.AttemptRecord, shim: processes.ProcessId
    ) -> processes.AttemptRecord:
        """The record that the shim wrote after the end of the main process; a stopped shim is continued for
        that.
        """
        processes.send_signal(shim, signal.SIGCONT)
        with contextlib.suppress(TimeoutError):  # a full disk: how it ended stays unknown
            async with asyncio.timeout(_RECORD_TIMEOUT_S):
                while record.ended_at is None and processes.is_alive(shim):
                    await asyncio.sleep(_RECORD_POLL_S)
                    record = processes.read_attempt(self._folder) or record
        return record

    def _exit_info(self) -> ExitInfo:
        """The exit as the shim recorded it; unknown where it could not."""
        return exit_info(processes.read_attempt(self._folder) or self._record)


async def _wait_for_first(*waits: Coroutine[None, None, None]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
