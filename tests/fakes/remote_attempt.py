"""A component on another host, without a supervisor: its folder here, and its remote runners."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.waiting import retry_until

from rltui.services.hosts.job_status import JobStatus, read_job_status

RUNNER = ("-I", "-m", "rltui.hosts")
"""Arguments of Python that run a remote runner."""


class RemoteAttempt:
    """One attempt. Its remote runners come and go; `runner` is the last one."""

    def __init__(
        self, folder: Path, *, env: Mapping[str, str] | None = None, program: Sequence[str] = RUNNER
    ) -> None:
        """`env`: variables of the runners besides those that the test has as they start."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.log_file = folder / "output.log"
        self._env = dict(env or {})
        self._program = program
        self.runner: subprocess.Popen[bytes] | None = None

    def write_spec(
        self,
        argv: Sequence[str],
        host: Mapping[str, Any],
        *,
        component: str = "trainer",
        attempt: int = 1,
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
        stop: Mapping[str, Any] | None = None,
    ) -> None:
        usual_stop = {"signal": "SIGTERM", "grace_s": 10.0, "again_s": None, "leftovers": "end"}
        run = {"argv": argv, "cwd": cwd, "env": dict(env or {}), "stop": {**usual_stop, **(stop or {})}}
        spec = {
            "experiment": f"exp@{self.folder}",
            "component": component,
            "attempt": attempt,
            "log": str(self.log_file),
            "elsewhere": {**run, "host": dict(host)},
        }
        (self.folder / "spec.json").write_text(json.dumps(spec))
        self.log_file.touch()

    def follow(self) -> None:
        """Start a remote runner as the shim does, also in place of one that was killed."""
        with self.log_file.open("ab") as log:
            self.runner = subprocess.Popen(
                [sys.executable, *self._program, str(self.folder)],
                env={**os.environ, **self._env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        assert self.runner is not None
        self.runner.send_signal(number)

    def kill(self) -> None:
        """Kill the runner alone; its component goes on."""
        self.signal(signal.SIGKILL)
        self.code()

    def end(self) -> None:
        """Kill the runner with all that it has started here."""
        if self.runner is not None and self.runner.poll() is None:
            os.killpg(self.runner.pid, signal.SIGKILL)
            self.code()

    def code(self, timeout_s: float = 30.0) -> int:
        """Exit code of the runner, once it has ended."""
        assert self.runner is not None
        return self.runner.wait(timeout_s)

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    @property
    def status(self) -> JobStatus:
        return read_job_status(self.folder) or JobStatus()

    def until(self, holds: Callable[[JobStatus], bool], timeout_s: float = 40.0) -> JobStatus:
        return retry_until(lambda: status if holds(status := self.status) else None, timeout_s=timeout_s)

    def wait_for_output(self, text: str, timeout_s: float = 40.0) -> None:
        retry_until(lambda: text in self.log, timeout_s=timeout_s)
