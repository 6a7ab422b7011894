"""A laptop that looks at a box over a real ssh: the screen, what is done there, a connection that is cut."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.fakes.sshd import Sshd, needs_sshd
from tests.keys import typed
from tests.terminal import Terminal
from tests.waiting import retry_until

pytestmark = [pytest.mark.slow, pytest.mark.e2e, needs_sshd]


@pytest.fixture
def sshd(box: Box) -> Iterator[Sshd]:
    server = Sshd(box.root / "ssh", "gpubox")
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def laptop(counters: Box, sshd: Sshd) -> dict[str, str]:
    """Another user, whose settings name the box."""
    folders = {
        f"XDG_{name}": counters.root / f"laptop-{name}"
        for name in ("STATE_HOME", "CONFIG_HOME", "RUNTIME_DIR")
    }
    for folder in folders.values():
        folder.mkdir(mode=0o700)
    names = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "TMUX_TMPDIR", "RLTUI_TMUX_SOCKET")
    variables = "".join(f"export {name}='{counters.env[name]}'\n" for name in names)
    program = counters.root / "rltui"
    program.write_text(f'#!/bin/sh\n{variables}cd {counters.work}\nexec {sys.executable} -m rltui "$@"\n')
    program.chmod(0o700)
    settings = folders["XDG_CONFIG_HOME"] / "rltui" / "settings.toml"
    settings.parent.mkdir()
    settings.write_text(f'tour = false\n[hosts.gpubox]\nreach = {sshd.reach}\nrltui = "{program}"\n')
    return counters.env | {name: str(folder) for name, folder in folders.items()}


def children(pid: int) -> list[int]:
    pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in pids]


def of_ssh(terminal: Terminal) -> list[int]:
    """Pids of the ssh that a TUI has."""
    return [
        pid for pid in children(terminal.pid) if b"serve --stdio" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def test_a_run_is_looked_at_and_changed_over_ssh(counters: Box, sshd: Sshd, laptop: dict[str, str]) -> None:
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    argv = [sys.executable, "-m", "rltui", "--host", "gpubox"]
    terminal = Terminal(argv, cwd=counters.root, env=laptop, columns=120, rows=36)
    try:
        terminal.wait_for("gpubox:one")
        terminal.wait_for("count ")
        terminal.press("o")
        terminal.press("x")
        terminal.wait_for("Stop")
        terminal.press("Enter")
        assert counters.wait_for("orchestrator", "stopped")

        before = of_ssh(terminal)
        sshd.close()
        terminal.wait_for("connection lost")
        terminal.press("s")
        terminal.wait_for("nothing was done")
        terminal.press("Escape")
        assert counters.component("orchestrator")["state"] == "stopped"
        sshd.open()
        retry_until(lambda: "connection lost" not in terminal.screen(), timeout_s=30)
        assert of_ssh(terminal) != before
        terminal.press("s")
        assert counters.wait_for("orchestrator", "ready")

        terminal.press(typed("detach"))
        terminal.wait_for_end()
    finally:
        terminal.close()
    retry_until(lambda: not sshd.sessions(), timeout_s=20)


def test_commands_run_there(counters: Box, laptop: dict[str, str]) -> None:
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")

    def rltui(*words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "rltui", "--host", "gpubox", *words]
        return subprocess.run(
            argv,
            env=laptop,
            cwd=counters.root,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    assert "inference" in rltui("status").stdout
    assert rltui("status", "other").returncode == 2
    assert "one" in rltui("status").stdout
    following = subprocess.Popen(
        [sys.executable, "-m", "rltui", "--host", "gpubox", "logs", "-c", "trainer", "-f"],
        env=laptop,
        cwd=counters.root,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert following.stdout is not None
    assert b"count" in following.stdout.readline()
    os.killpg(following.pid, signal.SIGINT)  # as ctrl+c does
    following.stdout.close()
    assert following.wait(20) == 130
