"""Processes that end with the client of a real sshd, and those that do not."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.fakes.sshd import Sshd, needs_sshd
from tests.waiting import retry_until

pytestmark = [pytest.mark.slow, pytest.mark.e2e, needs_sshd]


@pytest.fixture
def ssh(box: Box) -> Iterator[list[str]]:
    """The start of a command line that reaches a server of our own."""
    server = Sshd(box.root / "ssh")
    yield server.reach
    server.close()


@pytest.mark.parametrize(
    "command", [("logs", "-c", "trainer", "-f"), ("events", "-f")], ids=lambda words: words[0]
)
def test_following_ends_with_the_connection_though_nothing_is_printed(
    counters: Box, ssh: list[str], command: tuple[str, ...]
) -> None:
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    counters.run("stop", "-c", "trainer", "--yes", "--wait")
    mark = f"RLTUI_TEST_MARK={counters.root}"
    names = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "TMUX_TMPDIR", "RLTUI_TMUX_SOCKET")
    environment = [mark, *(f"{name}={counters.env[name]}" for name in names)]
    remote = shlex.join(["env", *environment, sys.executable, "-m", "rltui", *command])
    client = subprocess.Popen([*ssh, remote], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert client.stdout is not None
    assert client.stdout.readline()
    assert marked(mark)
    client.kill()
    client.wait()
    client.stdout.close()
    assert retry_until(lambda: not marked(mark), timeout_s=30)


def marked(mark: str) -> list[int]:
    """Pids of processes that carry this in their environment."""
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    pids.append(int(entry.name))
            except OSError:
                continue
    return pids
