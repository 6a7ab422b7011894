"""An attempt at another host, which a remote runner under the shim here stands for."""

from __future__ import annotations

import asyncio
import importlib
import logging
import math
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from rltui.base.interpreter import module_command
from rltui.base.tasks import Signal, spawn
from rltui.base.text import duration
from rltui.core.experiment.api import Alert
from rltui.core.experiment.lifecycle import ExitInfo
from rltui.errors import RltuiError
from rltui.hosts.attempt import Attempt, Ending
from rltui.hosts.base import HandleOwner
from rltui.hosts.kinds import KINDS
from rltui.services import processes
from rltui.services.experiment.launch import Launch
from rltui.services.gpu.other_hosts import GpuCommand
from rltui.services.hosts.job_status import JobStatus, read_job_status

logger = logging.getLogger(__name__)

_POLL_INTERVAL_S = 0.5
"""Pause between two reads of the status that the remote runner writes."""
_FOLLOW_INTERVALS_S = (1.0, 60.0)
"""First and longest pause before a runner that ended soon is replaced; each is twice the one before."""
_MARGIN_S = 60.0
"""Beyond its grace, a remote runner gets so long to have its component ended where that runs: SLURM waits for
half a minute between SIGTERM and SIGKILL.
"""


class RemoteHandle:
    stop_margin_s = _MARGIN_S
    main: processes.ProcessId | None = None
    """The processes here are those of its remote runner."""

    def __init__(self, attempt: Attempt, owner: HandleOwner) -> None:
        self.attempt = attempt
        self.status = read_job_status(attempt.folder)
        self._owner = owner
        self._changes = Signal()
        self._runner_started_at, self._pause_s = -math.inf, 0.0

    @property
    def is_ready(self) -> bool:
        return self.attempt.was_ready

    @property
    def gpu_commands(self) -> tuple[GpuCommand, ...]:
        attempt = self.attempt
        host = attempt.launch.host if attempt.launch is not None else None
        # one that was started before an upgrade has no such key
        if host is None or not host.get("gpus") or self.status is None or not self.status.nodes:
            return ()
        kind = KINDS.get(host["kind"])
        if kind is None or not kind.gpu_module:
            return ()
        commands: tuple[GpuCommand, ...] = importlib.import_module(kind.gpu_module).gpu_commands(
            attempt.spec.id, attempt.number, self.status.id, self.status.nodes, attempt.tag
        )
        return commands

    def write_spec(self, launch: Launch) -> None:
        """Make the shim run a remote runner here, which runs the command on its host.

        The limits of the shell are left out: a warning about them would be among the output.
        """
        attempt = self.attempt
        values: dict[str, Any] = {
            "argv": module_command("rltui.hosts", str(attempt.folder)),
            "cwd": str(attempt.folder),
            "env": {},
            "stop": {"signal": "SIGTERM", "grace_s": attempt.spec.stop.grace_s + _MARGIN_S},
            "elsewhere": {
                "argv": launch.argv,
                "cwd": launch.cwd,
                "env": dict(launch.env),
                "stop": attempt.stop,
                "host": {**(launch.host or {}), "ports": launch.all_ports},
            },
            "shell": {"environment": attempt.shell.get("environment", {})},
        }
        attempt.write_spec(launch, values)

    async def wait_until_started(self) -> None:
        while self.status is None or not self.status.has_begun:
            await self._changes.wait()

    async def wait_until_ended(self, main_ended: Callable[[ExitInfo], None]) -> ExitInfo:
        """A runner that ends before the component is replaced, unless a stop was asked for."""
        watching = spawn(self._watch_status(), f"remote {self.attempt.spec.id}")
        try:
            exit_info = await self._wait_for_runner(main_ended)
            while self._may_live and not self._owner.is_asked_to_stop:
                await self._restart_runner()
                exit_info = await self._wait_for_runner(main_ended)
        finally:
            watching.cancel()
        self._refresh()
        return self._corrected(exit_info)

    async def stop(self, *, kill: bool) -> None:
        """Ask the remote runner, which alone can end it there."""
        if kill and (runner := self.attempt.main) is not None:
            processes.send_signal(runner, signal.SIGUSR1)
        else:
            await self.attempt.signal(signal.SIGUSR1 if kill else signal.SIGTERM)

    def survival_reason(self) -> str | None:
        if not self._may_live:
            return None
        where = self.status.where if self.status is not None and self.status.where else "its host"
        if self.status is None or self.status.lost_at is None:
            return f"still running on {where}"
        since = duration(time.time() - self.status.lost_at)
        return f"{where} has not answered for {since} ({self.status.problem}); it may still be running there"

    @property
    def _may_live(self) -> bool:
        """True if it was started there, and its end was not seen."""
        status = read_job_status(self.attempt.folder)
        return status is not None and status.may_live

    async def _watch_status(self) -> None:
        while True:
            self._refresh()
            await asyncio.sleep(_POLL_INTERVAL_S)

    def _refresh(self) -> None:
        """Read the status that the runner wrote."""
        previous, self.status = self.status, read_job_status(self.attempt.folder) or self.status
        if self.status is not None and self.status != previous:
            self._changes.notify()
            self._owner.job_status_changed(previous, self.status)

    async def _wait_for_runner(self, main_ended: Callable[[ExitInfo], None]) -> ExitInfo:
        def runner_ended(exit_info: ExitInfo) -> None:
            if not self._may_live:
                main_ended(exit_info)

        return await Ending(self.attempt, main_ended=runner_ended, shim_lost=self._owner.shim_lost).wait()

    async def _restart_runner(self) -> None:
        """Replace a runner that ended before the component.

        At once where that one had run for long, else after a pause that grows.
        """
        first, longest = _FOLLOW_INTERVALS_S
        while True:
            self._pause_s = 0.0 if time.monotonic() - self._runner_started_at >= longest else self._pause_s
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(longest, max(first, 2 * self._pause_s))
            self._runner_started_at = time.monotonic()
            try:
                self.attempt.forget_shim()
                await self._owner.open_window(self.attempt)
            except RltuiError as error:
                logger.warning("%s cannot be followed: %s", self.attempt.spec.id, error)
            else:
                return

    def _corrected(self, exit_info: ExitInfo) -> ExitInfo:
        """`exit_info` of the runner, corrected by the host's report of the component itself."""
        status = self.status
        if status is None or status.phase != "ended":
            return exit_info
        reported = replace(exit_info, code=status.exit_code, signal=status.signal)
        return (
            replace(reported, cause=status.error) if status.starts else replace(reported, error=status.error)
        )


def job_status_alerts(component: str, previous: JobStatus | None, job_status: JobStatus) -> Iterator[Alert]:
    """Alerts for the changes of a status that a person should notice."""

    def alert(title: str, text: str, *, is_good: bool = False) -> Alert:
        return Alert(
            kind="recovered" if is_good else "notice",
            severity="information" if is_good else "warning",
            title=title,
            text=text,
            component=component,
        )

    host = job_status.where or "its host"
    reason_text = f": {job_status.reason}" if job_status.reason else ""
    if previous is not None and (previous.phase, job_status.phase) == ("running", "pending"):
        yield alert(f"{component} was ended by its host, which will restart it", f"{host}{reason_text}")
    if previous is not None and job_status.starts > previous.starts > 0:
        yield alert(
            f"{component} was restarted by its host", f"{host}, start {job_status.starts}{reason_text}"
        )
    lost_at = None if previous is None else previous.lost_at
    if job_status.lost_at is not None and lost_at is None:
        text = f"{job_status.problem}; retrying. Processes there are unaffected."
        yield alert(f"{component}: no answer from {host}", text)
    if job_status.lost_at is None and lost_at is not None:
        text = f"after {duration(time.time() - lost_at)}"
        yield alert(f"{component}: {host} answers again", text, is_good=True)
