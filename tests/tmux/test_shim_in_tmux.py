"""Shim and tmux together: the component outlives its terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hosts.shim_harness import SHIM, Attempt
from tests.waiting import retry_until

from rltui.services.processes import is_alive, send_signal
from rltui.services.tmux import TmuxHost

pytestmark = pytest.mark.tmux

SCRIPT = "echo hello; trap 'echo bye; exit 4' TERM; while :; do sleep 0.02; done"


def capture(host: TmuxHost, window: str) -> str:
    command = ["tmux", "-L", host.socket_name, "capture-pane", "-p", "-t", window]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def run(host: TmuxHost, tmp_path: Path) -> Iterator[Attempt]:
    host.start_supervisor("s", ["sleep", "1000"], cwd="/", env={})
    made = Attempt(tmp_path / "attempt", ["sh", "-c", SCRIPT])
    host.start_window("s", "trainer", [sys.executable, "-I", "-S", str(SHIM), str(made.folder)], cwd="/")
    yield made
    made.end()


def test_the_pane_shows_the_component_and_its_end(host: TmuxHost, run: Attempt) -> None:
    shim = run.running().shim
    assert shim is not None
    assert shim.pid == host.list_windows("s")[1].pane_pid
    retry_until(lambda: "hello" in capture(host, "=s:trainer"))
    send_signal(shim, signal.SIGTERM)
    retry_until(lambda: "bye\n\n— exited 4 at" in capture(host, "=s:trainer"))
    retry_until(lambda: host.list_windows("s")[1].dead)


def test_no_key_in_the_pane_stops_a_component(host: TmuxHost, run: Attempt) -> None:
    """Finding G2: ctrl+c ended the training, and nothing said so."""
    retry_until(lambda: "hello" in capture(host, "=s:trainer"))
    for key in ("C-z", "C-\\", "C-c"):
        subprocess.run(["tmux", "-L", host.socket_name, "send-keys", "-t", "=s:trainer", key], check=True)
    retry_until(lambda: "ctrl+c does nothing here; rltui stop test-" in capture(host, "=s:trainer"))
    assert run.record.state == "running"
    assert run.record.main is not None
    assert is_alive(run.record.main)
    assert not run.record.stop_requested


def test_the_component_outlives_the_tmux_server(host: TmuxHost, run: Attempt) -> None:
    record = run.running()
    assert record.shim is not None
    retry_until(lambda: "hello" in run.log.read_text())
    subprocess.run(["tmux", "-L", host.socket_name, "kill-server"], check=True)
    retry_until(lambda: not host.list_sessions())
    assert is_alive(record.shim)
    os.kill(record.shim.pid, signal.SIGTERM)
    assert retry_until(lambda: run.record if run.record.state == "exited" else None).exit_code == 4
    assert run.log.read_text() == "hello\nbye\n"


def test_a_shell_outlives_the_tmux_server_and_is_still_logged(host: TmuxHost, tmp_path: Path) -> None:
    host.start_supervisor("s", ["sleep", "1000"], cwd="/", env={})
    script = "echo hello; until [ -e go ]; do sleep 0.02; done; echo bye; exit 4"
    run = Attempt(tmp_path / "attempt", ["sh", "-c", script], tty=True)
    argv = [sys.executable, "-I", "-S", str(SHIM), str(run.folder)]
    try:
        host.start_window("s", "shell", argv, cwd="/", takes_keys=True)
        retry_until(lambda: "hello" in capture(host, "=s:shell"))
        assert [window.takes_keys for window in host.list_windows("s")] == [False, True]
        subprocess.run(["tmux", "-L", host.socket_name, "kill-server"], check=True)
        retry_until(lambda: not host.list_sessions())
        (run.folder / "go").touch()
        assert retry_until(lambda: run.record if run.record.state == "exited" else None).exit_code == 4
        retry_until(
            lambda: run.log.read_bytes() == b"hello\r\nbye\r\n"
        )  # the rest is carried over at the end
    finally:
        run.end()
