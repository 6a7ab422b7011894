"""Runs real shims on real programs, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.waiting import retry_until

from rltui.services.processes import AttemptRecord, ProcessId, read_attempt, read_process_id, send_signal

SHIM = Path(__file__).parents[2] / "tui" / "rltui" / "hosts" / "shim" / "__main__.py"
PROGRAMS = Path(__file__).parents[1] / "fakes" / "programs"


def program(name: str, *arguments: object) -> list[str]:
    return [sys.executable, "-I", "-S", str(PROGRAMS / name), *map(str, arguments)]


class Attempt:
    """An attempt folder and the shim that runs it."""

    def __init__(self, folder: Path, argv: list[str], /, **spec: Any) -> None:
        self.folder = folder
        self.log = Path(spec.get("log", folder / "output.log"))
        folder.mkdir(exist_ok=True, parents=True)
        self.spec = {
            "experiment": f"test-{os.getpid()}-{folder}",
            "component": "trainer",
            "attempt": 1,
            "argv": argv,
            "cwd": str(folder),
            "env": {},
            "log": str(self.log),
            "stop": {"signal": "SIGTERM", "grace_s": 20.0},
            "created_at": 0.0,
            **spec,
        }
        (folder / "spec.json").write_text(json.dumps(self.spec))
        self.process: subprocess.Popen[bytes] | None = None
        self.found_processes: set[ProcessId] = set()
        """Processes that are ended at teardown, should they outlive the shim."""

    def start(self, *, shim: Path = SHIM, **options: Any) -> None:
        options = {"stdout": subprocess.DEVNULL, **options}
        command = [sys.executable, "-I", "-S", str(shim), str(self.folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)

    @property
    def record(self) -> AttemptRecord:
        record = retry_until(lambda: read_attempt(self.folder))
        self.found_processes |= {*record.descendants, *([record.main] if record.main else [])}
        return record

    def running(self) -> AttemptRecord:
        """The record, once the program was started."""
        return retry_until(lambda: self.record if self.record.main or self.record.error else None)

    def pids(self) -> dict[str, int]:
        """Kind of process → pid, as `family.py` wrote them."""
        path = self.folder / "pids"
        retry_until(path.exists)
        pids: dict[str, int] = json.loads(path.read_text())
        return pids

    def family(self) -> dict[str, ProcessId]:
        """Kind of process → process, of those that `family.py` has started."""
        processes = {kind: read_process_id(pid) for kind, pid in self.pids().items() if kind != "listens"}
        living = {kind: process for kind, process in processes.items() if process is not None}
        self.found_processes |= {*living.values()}
        return living

    def wait_for_output(self, text: str) -> None:
        retry_until(lambda: self.log.exists() and text in self.log.read_text())

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self, timeout_s: float = 20.0) -> AttemptRecord:
        """The last record, once the shim has ended."""
        assert self.process is not None
        assert self.process.wait(timeout_s) == 0
        record = read_attempt(self.folder)
        assert record is not None
        return record

    def end(self) -> None:
        record = read_attempt(self.folder)
        if record is not None and record.shim is not None:
            self.found_processes |= {*record.descendants, *([record.main] if record.main else [])}
            send_signal(record.shim, signal.SIGUSR1)
        if self.process is not None:
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for identity in self.found_processes:
            with suppress(PermissionError):
                send_signal(identity, signal.SIGKILL)


class Screen:
    """A terminal for a shim, which somebody looks at and types into, or nobody reads."""

    def __init__(self) -> None:
        self.leader, self.shim = pty.openpty()
        os.set_blocking(self.leader, False)
        self.text = b""

    def read(self) -> str:
        """All that was shown so far."""
        with suppress(BlockingIOError, OSError):  # nothing yet; EIO once the other end is closed
            while data := os.read(self.leader, 65536):
                self.text += data
        return self.text.decode(errors="replace")

    def wait_for(self, text: str) -> None:
        retry_until(lambda: text in self.read())

    def type(self, keys: str) -> None:
        os.write(self.leader, keys.encode())

    def close(self) -> None:
        os.close(self.shim)
        with suppress(OSError):  # a test has hung up
            os.close(self.leader)


@contextmanager
def attempt(folder: Path, argv: list[str], /, **spec: Any) -> Iterator[Attempt]:
    """Started by the caller, ended here."""
    harness = Attempt(folder, argv, **spec)
    try:
        yield harness
    finally:
        harness.end()
