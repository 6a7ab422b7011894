"""The interface through which a component's runner sees and stops an attempt, wherever that runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rltui.core.experiment.lifecycle import ExitInfo
from rltui.hosts.attempt import Attempt
from rltui.services.experiment.launch import Launch
from rltui.services.gpu.other_hosts import GpuCommand
from rltui.services.hosts.job_status import JobStatus
from rltui.services.processes import ProcessId


class HandleOwner(Protocol):
    """The runner of the component, as the handle of its attempt needs it."""

    @property
    def is_asked_to_stop(self) -> bool: ...

    async def open_window(self, attempt: Attempt) -> None:
        """Run a shim for `attempt`, and return when it has begun.

        Raises:
            RltuiError: if it does not begin.
        """
        ...

    def shim_lost(self) -> None:
        """Called when the shim was killed and the component goes on."""
        ...

    def job_status_changed(self, previous: JobStatus | None, job_status: JobStatus) -> None: ...


class Handle(Protocol):
    """One attempt at its host: this machine, or another one that a remote runner here stands for."""

    attempt: Attempt
    """The files of the attempt, and its processes on this machine."""

    @property
    def stop_margin_s(self) -> float:
        """Beyond its grace, a request to stop takes up to so long to arrive and to come back."""
        ...

    @property
    def status(self) -> JobStatus | None:
        """Return the last read status at another host: `None` before a start there, and on this machine."""
        ...

    @property
    def main(self) -> ProcessId | None:
        """Return the main process, dead or alive, if it is one of this machine."""
        ...

    @property
    def is_ready(self) -> bool:
        """True if it was seen ready, or runs already and has no probe."""
        ...

    @property
    def gpu_commands(self) -> tuple[GpuCommand, ...]:
        """Commands that read the GPUs which it was given for the time that it runs."""
        ...

    def write_spec(self, launch: Launch) -> None:
        """Write the file that tells the shim what to run.

        Raises:
            RltuiError: if that cannot be written.
        """
        ...

    async def wait_until_started(self) -> None:
        """Return when its host has started it: a queue may come first."""
        ...

    async def wait_until_ended(self, main_ended: Callable[[ExitInfo], None]) -> ExitInfo:
        """Return when it has ended; keeps `status` true until then.

        `main_ended` is called where the main process has ended and the rest takes long. Where a stop was
        asked for and could not be passed on, it may live all the same, as `survival_reason` says.
        """
        ...

    async def stop(self, *, kill: bool) -> None:
        """Ask its shim to end it, at once with `kill`; without a shim, end its processes from here."""
        ...

    def survival_reason(self) -> str | None:
        """Say why it may live though no process of this machine shows it; `None` if it does not."""
        ...
