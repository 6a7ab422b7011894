"""A whole run as one program: the server, then orchestrator and trainer, each with a log file of its own.

For a batch system, which starts one command. One program that fails ends the others.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from rltui.base.interpreter import module_command
from rltui.core.experiment.servers import reachable_host
from rltui.tinyrl import TinyrlError
from rltui.tinyrl.config import RlConfig
from rltui.tinyrl.inference.listener import bind
from rltui.tinyrl.log_lines import info, success

_SERVER = "inference"
_JOBS = ("orchestrator", "trainer")
_GRACE_S = 20.0
"""The trainer may be in the middle of a checkpoint."""
_READY_S = 600.0
_POLL_S = 0.2
_STOPS = (signal.SIGTERM, signal.SIGINT)


def run(config: RlConfig, argv: list[str]) -> int:
    """Run all programs with the command line `argv`. Returns the first exit code that is not 0.

    In a job that SLURM has started again, it goes on from the newest checkpoint, whatever `argv` says.

    Raises:
        TinyrlError: if its port is busy, or it does not answer in time.
    """
    if int(os.environ.get("SLURM_RESTART_COUNT") or 0):
        info("Restarted by SLURM, resuming from the newest checkpoint")
        argv = [*argv, "--ckpt.resume-step", "-1"]
    logs = Path(config.output_dir) / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    programs: dict[str, subprocess.Popen[bytes]] = {}
    try:
        bind(
            config.inference.server.host, config.inference.server.port
        ).close()  # else another's would answer
        _start(_SERVER, argv, logs, programs)
        if _wait_for_server(config, programs[_SERVER]):
            for name in _JOBS:
                _start(name, argv, logs, programs)
            success("Startup complete")
            _wait_for_end(programs)
        exit_codes = {
            name: code for name, process in programs.items() if (code := process.poll()) is not None
        }
    finally:
        for program in programs.values():
            if program.poll() is None:
                program.terminate()
        deadline = time.monotonic() + _GRACE_S
        for program in programs.values():
            try:
                program.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()
    if all(exit_codes.get(name) == 0 for name in _JOBS):
        return 0
    name = next((name for name, code in exit_codes.items() if code), _SERVER)
    lines = (logs / f"{name}.log").read_text(encoding="utf-8", errors="replace").split("\n")
    last_line = next((line for line in reversed(lines) if line.strip()), "no output")
    sys.stderr.write(f"{name} ended with code {exit_codes[name]}: {last_line}\n")
    return exit_codes[name] or 1


def _start(name: str, argv: list[str], logs: Path, programs: dict[str, subprocess.Popen[bytes]]) -> None:
    """Start a program and add it to `programs`. A stop signal during the start takes effect after it."""
    info(f"Starting {name}, log in {logs / name}.log")
    received: list[int] = []
    handlers = {
        number_: signal.signal(number_, lambda number, _: received.append(number)) for number_ in _STOPS
    }
    try:
        with (logs / f"{name}.log").open("ab") as log:
            programs[name] = subprocess.Popen(
                module_command("rltui.tinyrl", name, *argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
    finally:
        for stop, handler in handlers.items():
            signal.signal(stop, handler)
    for number_ in received:
        signal.raise_signal(number_)


def _wait_for_server(config: RlConfig, server: subprocess.Popen[bytes]) -> bool:
    """Wait until the server answers; false if it has exited."""
    address = config.inference.server
    url = f"http://{reachable_host(address.host or '')}:{address.port}/health"
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            return False
        try:
            with urllib.request.urlopen(url, timeout=5.0):
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(_POLL_S)
    raise TinyrlError(f"no answer from the inference server at {url} within {_READY_S:.0f} s")


def _wait_for_end(programs: dict[str, subprocess.Popen[bytes]]) -> None:
    """Wait until one has failed, the server has exited, or both others are done."""
    jobs = [programs[name] for name in _JOBS]
    while programs[_SERVER].poll() is None and not any(job.poll() for job in jobs):
        if all(job.poll() == 0 for job in jobs):
            return
        time.sleep(_POLL_S)
