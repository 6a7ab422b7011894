"""An attempt whose processes run on this machine."""

from __future__ import annotations

import signal
from collections.abc import Callable

from rltui.core.experiment.lifecycle import ExitInfo
from rltui.hosts.attempt import Attempt, Ending
from rltui.hosts.base import HandleOwner
from rltui.services import processes
from rltui.services.experiment.launch import Launch
from rltui.services.gpu.other_hosts import GpuCommand
from rltui.services.hosts.job_status import JobStatus


class LocalHandle:
    stop_margin_s = 0.0
    status: JobStatus | None = None
    gpu_commands: tuple[GpuCommand, ...] = ()
    """There are none: the GPUs are among those of this machine."""

    def __init__(self, attempt: Attempt, owner: HandleOwner) -> None:
        self.attempt = attempt
        self._owner = owner

    @property
    def main(self) -> processes.ProcessId | None:
        return self.attempt.record.main if self.attempt.record is not None else None

    @property
    def is_ready(self) -> bool:
        launch = self.attempt.launch
        return launch is None or launch.ready is None or self.attempt.was_ready

    def write_spec(self, launch: Launch) -> None:
        self.attempt.write_spec(launch)

    async def wait_until_started(self) -> None:
        """Return at once: a shim starts it."""

    async def wait_until_ended(self, main_ended: Callable[[ExitInfo], None]) -> ExitInfo:
        return await Ending(self.attempt, main_ended=main_ended, shim_lost=self._owner.shim_lost).wait()

    async def stop(self, *, kill: bool) -> None:
        await self.attempt.signal(signal.SIGUSR1 if kill else signal.SIGTERM)

    def survival_reason(self) -> str | None:
        """Return `None`: this machine shows all of its processes."""
        return None
