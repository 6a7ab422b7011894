"""The program that stands here for a component on another host, of any kind."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, cast

from rltui.hosts.kinds import KINDS
from rltui.paths import ATTEMPT_SPEC
from rltui.services.hosts.job_status import JobStatus, read_job_status, write_job_status

_CANNOT_RUN = 127
"""Exit code of a component that its host cannot start, as in shells."""
_UNDER_SIGNAL = 128
"""A signal's number is added to this where a signal ended the component."""
_UNREACHED_CODE = 255
"""Exit code of a runner that could not pass a stop on, as that of ssh."""
STOP_TIMEOUT_S = 20.0
"""A stop that cannot be passed on for so long has failed."""
_STOP_RETRY_S = 1.0
"""Longest pause before the next try to pass a stop on."""
_WRITE_RETRY_S = 1.0
"""Pause before the next try to write on a full disk."""
_MAX_UNWRITTEN_BYTES = 16 << 20
"""Output that waits for room; when there is more, the runner blocks until there is room."""
_FINAL_WRITE_S = 5.0
"""Longest wait for room for the last output of a component that was stopped."""


class HostError(Exception):
    """The component cannot be started there; the text says why, in words for people."""


class UnreachedError(Exception):
    """A stop could not be passed on; the component may go on there."""


class ProcessHost(Protocol):
    async def __call__(self, runner: RemoteRunner) -> None:
        """Start the component there, unless `runner.status.id` says that it was; stay until it ended.

        The host keeps these rules: the `id` is reported before, or as soon as, it is started, so that the
        successor of a killed runner finds it; `phase`, `where`, `reason` and `starts` are reported as the
        host says them; that nobody answers (`report_lost`) is never the end of the component: try again for
        ever, with growing pauses (`pause`). All of its output goes through `write`, each byte once. When
        `stop_requested` is set, ask it to stop as `runner.stop` says; when `kill_requested` is set, end it at
        once. Return only when the host says that nothing of it is left, having reported the phase `ended`
        with code, signal or error.

        Raises:
            HostError: if it cannot be started there, and nothing of it is left there.
            UnreachedError: if a stop was asked for and nobody has answered for some seconds.
        """
        ...


class RemoteRunner:
    """One component of an experiment, its files here, and the requests to stop it."""

    def __init__(self, folder: Path) -> None:
        """Read `spec.json` in `folder`.

        Raises:
            OSError, ValueError, LookupError: if it does not say what to run.
        """
        values = json.loads((folder / ATTEMPT_SPEC).read_bytes())
        self.folder = folder
        self.experiment: str = values["experiment"]
        """The tag that its processes carry, as `RLTUI_EXPERIMENT`."""
        self.component: str = values["component"]
        self.attempt: int = values["attempt"]
        remote_spec = values["elsewhere"]
        self.argv: tuple[str, ...] = tuple(remote_spec["argv"])
        self.cwd: str = remote_spec["cwd"]
        self.env: Mapping[str, str] = remote_spec["env"]
        """Variables that layout and framework add to the environment there."""
        self.stop: Mapping[str, Any] = remote_spec["stop"]
        """The layout's `signal`, `grace_s`, `again_s`, `leftovers`."""
        self.host: Mapping[str, Any] = remote_spec["host"]
        """The layout's entry for its host, filled in; `kind` names the module."""
        self.status = read_job_status(folder) or JobStatus()
        self.stop_requested = asyncio.Event()
        self.kill_requested = asyncio.Event()
        """Set only together with `stop_requested`."""
        self.log = Path(values["log"])
        """The attempt's log, which `write` appends to; stdout is open on it."""
        self._stop_unanswered_since: float | None = None
        """Monotonic time since which nobody has answered, though a stop was asked for."""
        self._is_unsaved = False
        """True where `status` could not be written to its file."""
        self._unwritten = bytearray()
        """Output for which there was no room."""

    @property
    def written_bytes(self) -> int:
        """Bytes of output so far, of this runner and those before it."""
        return self.log.stat().st_size + len(self._unwritten)

    def tail(self, length: int) -> bytes:
        """The last `length` bytes of that output; fewer where it is shorter."""
        size = self.log.stat().st_size
        in_log_bytes = max(0, length - len(self._unwritten))
        with self.log.open("rb") as file:
            logged = os.pread(file.fileno(), in_log_bytes, max(0, size - in_log_bytes))
        return (logged + bytes(self._unwritten))[-length:] if length else b""

    def write(self, data: bytes) -> None:
        """Append output of the component to the attempt's log. On a full disk, it waits for room."""
        self._unwritten += data
        if len(self._unwritten) == len(data) and not self._flush():
            asyncio.get_running_loop().call_later(_WRITE_RETRY_S, self._retry_write)
        while len(self._unwritten) > _MAX_UNWRITTEN_BYTES and not self._flush():
            time.sleep(_WRITE_RETRY_S)

    def _retry_write(self) -> None:
        if not self._flush():
            asyncio.get_running_loop().call_later(_WRITE_RETRY_S, self._retry_write)

    def _flush(self) -> bool:
        """Write the output that waits. True when all of it is written."""
        while self._unwritten:
            try:
                del self._unwritten[: os.write(1, self._unwritten)]
            except OSError:  # a full disk, a used-up quota
                return False
        return True

    def report(self, status: JobStatus) -> None:
        """Record the present status. A new phase begins now, whatever `since` says."""
        previous = self.status
        if status.phase != previous.phase or not status.since:
            status = replace(status, since=time.time())
        if status.phase == "ended":
            status = replace(status, lost_at=None, problem="")
        if status == previous and not self._is_unsaved:
            return
        self.status, self._is_unsaved = status, True
        with contextlib.suppress(OSError):  # tried again at the next call
            write_job_status(self.folder, status)
            self._is_unsaved = False

    def report_ended(
        self,
        status: JobStatus | None = None,
        *,
        exit_code: int | None = None,
        signal_name: str | None = None,
        error: str | None = None,
    ) -> None:
        """Record the end of the component. `status`: the rest of what is known by then, else as before."""
        ended = replace(status or self.status, phase="ended", reason="")
        self.report(replace(ended, exit_code=exit_code, signal=signal_name, error=error))

    def report_lost(self, problem: str, *, since: float | None = None) -> None:
        """Record that nobody answers there, since `since`, or since the first such call.

        Raises:
            UnreachedError: if a stop was asked for, and cannot be passed on for `STOP_TIMEOUT_S`.
        """
        lost_at = self.status.lost_at or since or time.time()
        self.report(replace(self.status, lost_at=lost_at, problem=problem))
        if self.stop_requested.is_set():
            now = time.monotonic()
            self._stop_unanswered_since = self._stop_unanswered_since or now
            if now - self._stop_unanswered_since > STOP_TIMEOUT_S:
                raise UnreachedError

    def report_reached(self) -> None:
        """Record that the host answers again: clears `lost_at` and `problem`."""
        self._stop_unanswered_since = None
        self.report(replace(self.status, lost_at=None, problem=""))

    async def pause(self, pause_s: float) -> None:
        """Wait before the next try. A request to stop ends the wait, and later ones are short."""
        if self.stop_requested.is_set():
            await asyncio.sleep(min(pause_s, _STOP_RETRY_S))
        else:
            await is_set_within(self.stop_requested, pause_s)

    def request_stop(self, *, kill: bool) -> None:
        if kill:
            self.kill_requested.set()
        self.stop_requested.set()

    async def run(self) -> int:
        """Returns the exit code that stands for the end of the component."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, lambda: self.request_stop(kill=False))
        loop.add_signal_handler(signal.SIGUSR1, lambda: self.request_stop(kill=True))
        try:
            kind = self.host["kind"]
            if kind not in KINDS:
                raise HostError(f"unknown kind of host: {kind!r}")
            await cast("ProcessHost", importlib.import_module(KINDS[kind].module).run)(self)
        except HostError as error:
            self.report_ended(exit_code=_CANNOT_RUN, error=str(error))
        except UnreachedError:
            return _UNREACHED_CODE
        await self._drain_output()
        if self.status.signal is not None:
            with contextlib.suppress(ValueError):  # a name of another system
                return _UNDER_SIGNAL + signal.Signals[self.status.signal]
        return 1 if self.status.exit_code is None else self.status.exit_code

    async def _drain_output(self) -> None:
        """Wait for room for the last of the output; at most `_FINAL_WRITE_S` where the component
        was stopped.
        """
        stopped_at: float | None = None
        while not self._flush():
            if self.stop_requested.is_set():
                stopped_at = stopped_at or time.monotonic()
                if time.monotonic() - stopped_at > _FINAL_WRITE_S:
                    return
            await asyncio.sleep(_WRITE_RETRY_S)


async def is_set_within(event: asyncio.Event, timeout_s: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
    return event.is_set()


def main(arguments: list[str]) -> int:
    """Exit status: that of the component, 128 and its signal's number, 127 if it could not be started.

    The log holds the component's output alone: errors of the runner itself go to `follower.log` beside it.
    """
    folder = Path(arguments[0])
    with (folder / "follower.log").open("ab") as errors:
        os.dup2(errors.fileno(), 2)
    runner = RemoteRunner(folder)
    return asyncio.run(runner.run())
