"""What befalls an experiment. Each returns when it has happened, not when it has been noticed."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.faults.harness import Experiment
from tests.faults.invariants import attempt_record
from tests.faults.truth import Being, stat_fields
from tests.waiting import retry_until

CLIENT = """\
import json, os, socket, sys
wire = socket.socket(socket.AF_UNIX)
wire.connect(sys.argv[1])
wire.recv(4096)
wire.sendall(json.dumps({"id": 1, "method": "execute", "params": json.loads(sys.argv[2])}).encode() + b"\\n")
print("sent", flush=True)
wire.recv(1)
"""
"""Asks for something, and is killed before it has read the answer."""


def kill(pid: int, start: int | None = None) -> None:
    """SIGKILL, and until it is dead. With its `start`, a process that took over its pid is spared."""
    fields = stat_fields(pid)
    if fields is not None and start in (None, int(fields[19])):
        with suppress(ProcessLookupError):  # ended a moment ago
            os.kill(pid, signal.SIGKILL)
        retry_until(lambda: stat_fields(pid) is None)


def kill_supervisor(experiment: Experiment) -> None:
    """Nobody starts another: the next question does."""
    pid = experiment.supervisor_pid()
    if pid is not None:
        kill(pid)
    experiment.forget_connection()


def kill_main(experiment: Experiment, component: str) -> Being | None:
    """The main process of a component, where one lives."""
    main = experiment.truth.main(component)
    if main is not None:
        kill(main.pid, main.start)
    return main


def kill_shim(experiment: Experiment, component: str) -> None:
    """The shim of a living component, once it has recorded all there is; who left before is lost."""
    living = {being.pid for being in experiment.truth.living(component) if being.role != "main"}

    def recorded() -> bool:
        return living <= {item["pid"] for item in attempt_record(experiment, component)["descendants"]}

    retry_until(recorded)
    record = attempt_record(experiment, component)
    experiment.unrecorded.add((component, record["attempt"]))
    kill(record["shim_pid"], record["shim_start"])


def kill_tmux_server(experiment: Experiment) -> None:
    """The private one of the box. It ends with `SIGHUP` for all that run in its windows."""
    command = ["tmux", "-L", experiment.box.env["RLTUI_TMUX_SOCKET"], "display-message", "-p", "#{pid}"]
    done = subprocess.run(command, env=experiment.box.env, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        kill(int(done.stdout))


def client_killed_after_asking(experiment: Experiment, request: str) -> None:
    """A client sends `request`, JSON, and dies before the answer."""
    command = [sys.executable, "-I", "-S", "-c", CLIENT, str(experiment.socket_path), request]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        client.stdout.readline()
        client.kill()


def shift_clock(experiment: Experiment, *, wall_s: float = 0.0, monotonic_s: float = 0.0) -> None:
    """Move the clocks of the supervisor and all clients, from now on."""
    path = experiment.folder / "clock"
    wall, monotonic = struct.unpack("dd", path.read_bytes())
    with path.open("r+b") as file:
        file.write(struct.pack("dd", wall + wall_s, monotonic + monotonic_s))


def truncate_log(experiment: Experiment, component: str) -> None:
    """As `> output.log` does."""
    os.truncate(experiment.log(component), 0)


def replace_log(experiment: Experiment, component: str) -> Path:
    """As logrotate does; returns where the old one is now."""
    log = experiment.log(component)
    aside = log.with_suffix(".1")
    log.rename(aside)
    log.touch()
    return aside


def silent_subscribers(experiment: Experiment, count: int) -> list[socket.socket]:
    """Clients that subscribe and never read."""
    clients = []
    for _ in range(count):
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(experiment.socket_path))
        client.sendall(b'{"id":0,"method":"subscribe"}\n')
        clients.append(client)
    return clients


def may_mount() -> bool:
    """Whether this process may put a file system somewhere, tried out."""
    with TemporaryDirectory() as folder:
        command = ["mount", "-t", "tmpfs", "-o", "size=64k", "rltui-faults", folder]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return False
        subprocess.run(["umount", "-l", folder], check=True)
        return True


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of `size` bytes (such as `2m`) at `folder`. Skips where we may not mount."""
    folder.mkdir(parents=True)
    _mount("-t", "tmpfs", "-o", f"size={size}", "rltui-faults", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """Not one more byte fits into the file system of `folder`."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 1):
            try:
                while file.write(bytes(size)):
                    continue
            except OSError:  # full for this size
                continue
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """What is open for writing there stays so, nothing else can be written. Skips where we may not mount."""
    _mount("--bind", str(folder), str(folder))
    try:
        _mount("-o", "remount,bind,ro", str(folder))
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"needs the right to mount: {done.stderr.strip()}")
