"""The program that stands for a component which runs elsewhere, whatever its host is."""

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

from rltui.services.job_status import JobStatus, read_job_status, write_job_status

_HOSTS = ("node", "slurm", "kube")
"""Modules beside this one; each has `run`, a `ProcessHost`."""
_CANNOT_RUN = 127
"""Exit code of a component that its host cannot start, as shells have it."""
_UNDER_SIGNAL = 128
"""Added to its number where a signal ended the component."""
_UNREACHED = 255
"""Exit code of a follower that could not pass a stop on, as ssh has it."""
_NO_ROOM_S = 1.0
"""Until the next try to write on a full disk."""
_MOST_UNWRITTEN = 16 << 20
"""So many bytes of output wait for room; with more, all else waits, too."""
_ROOM_AFTER_STOP_S = 5.0
"""So long the last output of a component that was stopped waits for room."""


class HostError(Exception):
    """The component cannot be started there; the text says why, in words for people."""


class UnreachedError(Exception):
    """A stop could not be passed on; the component may go on there."""


class ProcessHost(Protocol):
    async def __call__(self, follower: RemoteRunner) -> None:
        """Start the component there, unless `follower.remote.id` says that it was; stay until it ended.

        To be kept: the `id` is told before, or as soon as, it is started, so that the successor of a killed
        follower finds it; `phase`, `where`, `reason` and `starts` are told as the host says them; that nobody
        answers (`lose`) is never the end of the component: try again for ever, with growing pauses. All of
        its output goes through `write`, each byte once. When `stop_asked` is set, ask it to stop as
        `follower.stop` says; when `kill_asked` is set, end it at once. Returns only when the host says that
        nothing of it is left, having told the phase `ended` with code, signal or error.

        Raises:
            HostError: if it cannot be started there, and nothing of it is left there.
            UnreachedError: if a stop was asked for and nobody has answered for some seconds.
        """
        ...


class RemoteRunner:
    """One component of an experiment, its files here, and what is asked of it."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError, ValueError or LookupError where `spec.json` in `folder` says not what to run."""
        values = json.loads((folder / "spec.json").read_bytes())
        self.folder = folder
        self.experiment: str = values["experiment"]
        """The tag that its processes carry, as `RLTUI_EXPERIMENT`."""
        self.component: str = values["component"]
        self.attempt: int = values["attempt"]
        elsewhere = values["elsewhere"]
        self.argv: tuple[str, ...] = tuple(elsewhere["argv"])
        self.cwd: str = elsewhere["cwd"]
        self.env: Mapping[str, str] = elsewhere["env"]
        """What layout and framework add to the environment that it finds there."""
        self.stop: Mapping[str, Any] = elsewhere["stop"]
        """`signal`, `grace_s`, `again_s`, `leftovers` of the layout."""
        self.host: Mapping[str, Any] = elsewhere["host"]
        """The layout's entry for its host, filled in; `kind` names the module."""
        self.remote = read_job_status(folder) or JobStatus()
        self.stop_asked = asyncio.Event()
        self.kill_asked = asyncio.Event()
        """Set together with `stop_asked`."""
        self.log = Path(values["log"])
        """Where `write` writes to."""
        self._is_untold = False
        """What `remote` says could not be written."""
        self._unwritten = bytearray()
        """Output for which there was no room."""

    @property
    def written(self) -> int:
        """Bytes of output so far, of this follower and those before it."""
        return self.log.stat().st_size + len(self._unwritten)

    def tail(self, length: int) -> bytes:
        """The last so many bytes of that output; fewer where it is shorter."""
        size = self.log.stat().st_size
        here = max(0, length - len(self._unwritten))
        with self.log.open("rb") as file:
            known = os.pread(file.fileno(), here, max(0, size - here))
        return (known + bytes(self._unwritten))[-length:] if length else b""

    def write(self, data: bytes) -> None:
        """Append output of the component to the attempt's log. On a full disk, it waits for room."""
        self._unwritten += data
        if len(self._unwritten) == len(data) and not self._has_written():
            asyncio.get_running_loop().call_later(_NO_ROOM_S, self._write_again)
        while len(self._unwritten) > _MOST_UNWRITTEN and not self._has_written():
            time.sleep(_NO_ROOM_S)

    def _write_again(self) -> None:
        if not self._has_written():
            asyncio.get_running_loop().call_later(_NO_ROOM_S, self._write_again)

    def _has_written(self) -> bool:
        """All of it: there is room."""
        while self._unwritten:
            try:
                del self._unwritten[: os.write(1, self._unwritten)]
            except OSError:  # a full disk, a used-up quota
                return False
        return True

    def tell(self, remote: JobStatus) -> None:
        """Say what is known of it now. A new phase begins now, whatever `since` says."""
        before = self.remote
        if remote.phase != before.phase or not remote.since:
            remote = replace(remote, since=time.time())
        if remote.phase == "ended":
            remote = replace(remote, lost_at=None, problem="")
        if remote == before and not self._is_untold:
            return
        self.remote, self._is_untold = remote, True
        with contextlib.suppress(OSError):  # tried again at the next call
            write_job_status(self.folder, remote)
            self._is_untold = False

    def lose(self, problem: str, *, since: float | None = None) -> None:
        """Nobody answers there, for this reason; `since` then, or the first such call."""
        lost_at = self.remote.lost_at or since or time.time()
        self.tell(replace(self.remote, lost_at=lost_at, problem=problem))

    def reach(self) -> None:
        """Somebody answers there."""
        self.tell(replace(self.remote, lost_at=None, problem=""))

    def ask_to_stop(self, *, kill: bool) -> None:
        if kill:
            self.kill_asked.set()
        self.stop_asked.set()

    async def run(self) -> int:
        """Follow it to its end. Returns the exit code that stands for that end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, lambda: self.ask_to_stop(kill=False))
        loop.add_signal_handler(signal.SIGUSR1, lambda: self.ask_to_stop(kill=True))
        try:
            kind = self.host["kind"]
            if kind not in _HOSTS:
                raise HostError(f"rltui knows no host {kind!r}")
            await cast("ProcessHost", importlib.import_module(f"rltui.daemon.hosts.{kind}").run)(self)
        except HostError as error:
            self.tell(replace(self.remote, phase="ended", reason="", exit_code=_CANNOT_RUN, error=str(error)))
        except UnreachedError:
            return _UNREACHED
        await self._end_output()
        if self.remote.signal is not None:
            with contextlib.suppress(ValueError):  # a name of another system
                return _UNDER_SIGNAL + signal.Signals[self.remote.signal]
        return 1 if self.remote.exit_code is None else self.remote.exit_code

    async def _end_output(self) -> None:
        """Wait for room for the last of it; where the component was stopped, not for long."""
        stopped_at: float | None = None
        while not self._has_written():
            if self.stop_asked.is_set():
                stopped_at = stopped_at or time.monotonic()
                if time.monotonic() - stopped_at > _ROOM_AFTER_STOP_S:
                    return
            await asyncio.sleep(_NO_ROOM_S)


async def is_set_within(event: asyncio.Event, timeout_s: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
    return event.is_set()


def main(arguments: list[str]) -> int:
    """Exit status: that of the component, 128 and its signal's number, 127 if it could not be started.

    Only the component's output is in the log: what goes wrong here is told in `follower.log` beside it.
    """
    folder = Path(arguments[0])
    with (folder / "follower.log").open("ab") as errors:
        os.dup2(errors.fileno(), 2)
    follower = RemoteRunner(folder)
    return asyncio.run(follower.run())
