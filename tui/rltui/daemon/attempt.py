"""One attempt of a component: its folder, its processes, and how they are told to end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from pathlib import Path

from rltui.core.layout import ComponentSpec
from rltui.daemon.attempt_spec import read_launch, spec_age_s, write_spec
from rltui.errors import RltuiError
from rltui.services import processes
from rltui.services.launch import Launch
from rltui.services.runs.experiment_files import ControlFolder
from rltui.services.shell import read_shell

SPAWN_TIMEOUT_S = 20.0
"""From the tmux window to a running process; includes the start of the shim's interpreter."""
SPAWN_POLL_S = 0.02


class Attempt:
    """Attempt `number` of the component `spec`, whose processes carry `tag`."""

    def __init__(self, control: ControlFolder, spec: ComponentSpec, tag: str, number: int) -> None:
        self.spec = spec
        self.number = number
        self.folder = control.attempt_dir(spec.id, number)
        self.log = control.log_file(spec.id, number)
        self.launch = read_launch(self.folder)
        """What it was started with; `None` until that is written."""
        self.record = processes.read_attempt(self.folder)
        """What its shim last wrote; `None` before that."""
        self._tag, self._control = tag, control

    # --- its files ----------------------------------------------------------------------------------------

    def write_spec(self, launch: Launch) -> None:
        """Say what the shim is to run.

        Raises:
            RltuiError: if that cannot be written.
        """
        self.launch = launch
        write_spec(
            self.folder,
            launch,
            spec=self.spec,
            tag=self._tag,
            attempt=self.number,
            log=self.log,
            shell=read_shell(self._control),
        )

    def refresh(self) -> None:
        """Read again what the shim wrote. An unreadable record leaves the one known."""
        self.record = processes.read_attempt(self.folder) or self.record

    def recover(self, traces: processes.Traces) -> None:
        """Where its record is gone or damaged, take what its living processes tell for it."""
        self.record = traces.attempt(self.folder, self._tag)

    @property
    def launch_age_s(self) -> float | None:
        """Seconds since it was said what to run; `None` where that never happened."""
        return spec_age_s(self.folder) if self.launch is not None else None

    @property
    def was_ready(self) -> bool:
        """A supervisor has seen it ready."""
        return self._ready_file.exists()

    def mark_ready(self) -> None:
        """Let the next supervisor know. On a full disk, that one probes again."""
        with contextlib.suppress(OSError):
            self._ready_file.touch()

    def ready_since(self) -> float:
        """Monotonic time of the mark; now where there is none."""
        try:
            age_s = time.time() - self._ready_file.stat().st_mtime
        except OSError:
            age_s = 0.0
        return time.monotonic() - max(0.0, age_s)

    @property
    def _ready_file(self) -> Path:
        return self.folder / "ready"

    # --- its processes ------------------------------------------------------------------------------------

    @property
    def shim(self) -> processes.ProcessId | None:
        """Its shim, if that lives."""
        return self.record.shim if self.record is not None and self.record.is_supervised else None

    @property
    def main(self) -> processes.ProcessId | None:
        """Its main process, if that lives."""
        return self.record.living_main if self.record is not None else None

    @property
    def runs(self) -> bool:
        """It has not ended: its main process lives, or its shim has not seen that end."""
        unseen = self.shim is not None and self.record is not None and self.record.ended_at is None
        return self.main is not None or unseen

    @property
    def is_cleared_up(self) -> bool:
        """Nothing is left of it, or a shim looks after that."""
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
                    hint=f"look at it: rltui attach {self.spec.id}",
                )
            await asyncio.sleep(SPAWN_POLL_S)
        self.record = record

    async def signal(self, number: signal.Signals) -> None:
        """Tell its shim, also a stopped one, or end its processes from here where there is none."""
        if (shim := self.shim) is not None:
            processes.send_signal(shim, number)
            processes.send_signal(shim, signal.SIGCONT)
        else:
            await self.end_leftovers(grace_s=self.spec.stop.grace_s)

    async def kill(self) -> None:
        """End it and return when nothing is left of it."""
        await self.signal(signal.SIGUSR1)
        if (shim := self.shim) is not None:
            await processes.wait_for_exit(shim)
        self.refresh()

    async def end_tree(self, *, grace_s: float) -> tuple[processes.ProcessId, ...]:
        """End all of it from here, also below a living shim that does not do it, and that shim.

        Returns what still lives: stuck in the kernel, or another user's.
        """
        self.refresh()
        if (shim := self.shim) is not None:
            await processes.end_all(lambda: processes.descendants(shim.pid), grace_s=grace_s)
            await processes.end_processes([shim], grace_s=0.0)
        return await self.end_leftovers(grace_s=0.0 if shim is not None else grace_s)

    async def end_leftovers(self, *, grace_s: float) -> tuple[processes.ProcessId, ...]:
        """End what no shim looks after. Returns what still lives."""
        return await processes.end_all(self._leftovers, grace_s=grace_s)

    def _leftovers(self) -> set[processes.ProcessId]:
        """With all that descends from them, whatever session and environment that has."""
        records = [self.record] if self.record is not None else []
        found = processes.leftovers(self._tag, records)
        own = {leftover.id for leftover in found if leftover.component == self.spec.id}
        return own.union(*(processes.descendants(process.pid) for process in own))
