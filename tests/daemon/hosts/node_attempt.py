"""Real remote runners of components on a fake node, without a supervisor."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fakes.nodes import FakeNode
from tests.waiting import retry_until

from rltui.services import processes
from rltui.services.job_status import JobStatus, read_job_status


class NodeAttempt:
    """An attempt whose component runs on `node`, and its remote runner, which may come and go."""

    def __init__(self, folder: Path, node: FakeNode, argv: list[str], /, **values: Any) -> None:
        self.folder, self.node = folder, node
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "output.log"
        host: dict[str, Any] = {
            "kind": "node",
            "name": "node-2",
            "reach": node.reach,
            "address": "",
            "cwd": "",
            "env": {},
        }
        host |= {
            "send_env": [],
            "login": True,
            "python": sys.executable,
            "forward": [],
            "ports": [],
            "wait_s": 5.0,
        }
        stop = {"signal": "SIGTERM", "grace_s": 10.0, "again_s": None, "leftovers": "end"}
        run: dict[str, Any] = {"argv": argv, "cwd": str(node.home), "env": {}, "stop": stop}
        host |= {key: value for key, value in values.items() if key in host}
        run |= {key: value for key, value in values.items() if key in run}
        spec = {
            "experiment": f"one@{folder}",
            "component": "trainer",
            "attempt": values.get("attempt", 1),
            "log": str(self.log),
            "elsewhere": {**run, "host": host},
        }
        (folder / "spec.json").write_text(json.dumps(spec))
        self.process: subprocess.Popen[bytes] | None = None

    def follow(self) -> None:
        """Start a remote runner for it."""
        command = [sys.executable, "-I", "-m", "rltui.daemon.hosts", str(self.folder)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def code(self, timeout_s: float = 30.0) -> int:
        """Exit code of the remote runner, once it has ended."""
        assert self.process is not None
        return self.process.wait(timeout_s)

    @property
    def status(self) -> JobStatus:
        return read_job_status(self.folder) or JobStatus()

    def running(self) -> processes.AttemptRecord:
        """Record of the shim there, once the component runs and its runner knows."""
        retry_until(lambda: self.status.phase == "running")
        return retry_until(lambda: processes.read_attempt(self.node.attempts[-1]))

    def wait_for_output(self, text: str) -> None:
        """Wait until its log contains `text`."""
        retry_until(lambda: text in self.log.read_text(), timeout_s=20)

    def end(self) -> None:
        """Kill what is left of it, here and on the node."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        tag = f"RLTUI_EXPERIMENT=one@{os.uname().nodename}:{self.folder}".encode()
        records = [record for attempt in self.node.attempts if (record := processes.read_attempt(attempt))]
        shims = [record.shim for record in records if record.shim is not None and record.is_supervised]
        for shim in shims:
            processes.send_signal(shim, signal.SIGUSR1)
        retry_until(lambda: not any(map(processes.is_alive, shims)))
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and tag in _environment(entry):
                os.kill(int(entry.name), signal.SIGKILL)


def _environment(entry: Path) -> list[bytes]:
    try:
        return (entry / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


@contextmanager
def node_attempt(folder: Path, node: FakeNode, argv: list[str], /, **values: Any) -> Iterator[NodeAttempt]:
    """An attempt with a remote runner; ended with the context."""
    attempt = NodeAttempt(folder, node, argv, **values)
    try:
        attempt.follow()
        yield attempt
    finally:
        attempt.end()
