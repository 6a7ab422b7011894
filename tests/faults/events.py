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
from typing import Any

import pytest
from tests.faults.harness import COMPONENTS, Experiment
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
    record = _whole_record(experiment, component)
    experiment.unrecorded.add((component, record["attempt"]))
    kill(record["shim_pid"], record["shim_start"])


def stop_shim(experiment: Experiment, component: str) -> None:
    """SIGSTOP for the shim of a living component, once it has recorded all there is."""
    record = _whole_record(experiment, component)
    fields = stat_fields(record["shim_pid"])
    if fields is not None and int(fields[19]) == record["shim_start"]:
        os.kill(record["shim_pid"], signal.SIGSTOP)


def _whole_record(experiment: Experiment, component: str) -> dict[str, Any]:
    """What a shim wrote, once that is all there is. A stopped or killed one writes no more."""
    record = attempt_record(experiment, component)
    fields = stat_fields(record["shim_pid"])
    if fields is None or fields[0] == "T":
        return record
    living = {being.pid for being in experiment.truth.living(component) if being.role != "main"}

    def recorded() -> bool:
        return living <= {item["pid"] for item in attempt_record(experiment, component)["descendants"]}

    retry_until(recorded)
    return attempt_record(experiment, component)


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


def down(experiment: Experiment, *, times: int = 1) -> list[subprocess.Popen[str]]:
    """`rltui down`, so many at once; each is to be waited for."""
    command = [sys.executable, "-m", "rltui", "down", experiment.name]
    box = experiment.box
    return [
        subprocess.Popen(
            command, cwd=box.work, env=box.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(times)
    ]


def begin_down(experiment: Experiment) -> socket.socket | None:
    """Ask for the end and wait for nothing; `None` where no supervisor lives."""
    client = socket.socket(socket.AF_UNIX)
    try:
        client.connect(str(experiment.socket_path))
    except OSError:
        client.close()
        return None
    client.sendall(b'{"id":1,"method":"shutdown","params":{"by":"a fault"}}\n')
    return client


DAMAGES = (b"", b'{"half": ', b"\xff\xfe\0")


def damage_records(experiment: Experiment) -> None:
    """All that rltui wrote of what lives is emptied, cut short or overwritten, and the supervisor killed.

    Returns when the shims have brought their own back. Of a shim that was killed or stopped, the record stays
    as it is: nobody could bring it back.
    """
    experiment.watcher.paused = True
    mended = []
    for name in COMPONENTS:
        shim = _living_shim(experiment, name)
        if shim is not None:
            folder = experiment.attempt_dir(name, experiment.attempts(name)[-1])
            mended.append(folder / "attempt.json")
            (folder / "spec.json").write_bytes(DAMAGES[shim % 3])
    for number, record in enumerate(mended):
        record.write_bytes(DAMAGES[number % 3])
    for number, name in enumerate(("experiment.toml", "intent.json", "supervisor.socket")):
        (experiment.control / name).write_bytes(DAMAGES[number % 3])
    kill_supervisor(experiment)
    retry_until(lambda: all(record.read_bytes().startswith(b'{"experiment"') for record in mended))
    experiment.watcher.paused = False


def may_lose_its_folder(experiment: Experiment) -> bool:
    """Something lives, and of all that lives a shim: without one, nothing may tell what a process is."""
    mains = experiment.truth.mains()
    return bool(mains) and all(_living_shim(experiment, name) is not None for name in mains)


def _living_shim(experiment: Experiment, component: str) -> int | None:
    """Pid of the shim of its newest attempt, where that lives and is not stopped."""
    if experiment.truth.main(component) is None:
        return None
    record = attempt_record(experiment, component)
    fields = stat_fields(record["shim_pid"])
    is_it = fields is not None and int(fields[19]) == record["shim_start"] and fields[0] != "T"
    return record["shim_pid"] if is_it else None


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
        _mount("-o", "remount,bind,ro", str(folder), while_busy=True)
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _mount(*arguments: str, while_busy: bool = False) -> None:
    """`while_busy`: again, for as long as somebody writes there."""
    command = ["mount", *arguments]

    def done() -> subprocess.CompletedProcess[str] | None:
        attempt = subprocess.run(command, capture_output=True, text=True, check=False)
        return None if while_busy and "busy" in attempt.stderr else attempt

    if (last := retry_until(done)).returncode != 0:
        pytest.skip(f"needs the right to mount: {last.stderr.strip()}")
