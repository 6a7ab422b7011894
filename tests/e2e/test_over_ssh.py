"""What ends with the client of a real sshd, and what does not."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.e2e,
    pytest.mark.skipif(SSHD is None or shutil.which("ssh") is None, reason="needs OpenSSH"),
    pytest.mark.skipif(
        os.getuid() == 0 and not Path("/run/sshd").is_dir(), reason="sshd of root needs /run/sshd"
    ),
]


@pytest.fixture
def ssh(box: Box) -> Iterator[list[str]]:
    """The start of a command line that reaches a server of our own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    keys = box.root / "ssh"
    keys.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / name)], check=True)
    (keys / "sshd").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {keys}/host\nPidFile none\nUsePAM no\n"
        f"AuthorizedKeysFile {keys}/user.pub\nStrictModes no\n"
    )
    assert SSHD is not None
    server = subprocess.Popen([SSHD, "-f", str(keys / "sshd"), "-D", "-e"], stderr=subprocess.DEVNULL)
    options = ("IdentitiesOnly=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null")
    client = ["ssh", "-F", "none", "-p", str(port), "-i", str(keys / "user")]
    client += [word for option in options for word in ("-o", option)]
    client.append("127.0.0.1")
    try:
        retry_until(lambda: subprocess.run([*client, "true"], check=False).returncode == 0)
        yield client
    finally:
        server.terminate()
        server.wait()


@pytest.mark.parametrize("command", [("logs", "trainer", "-f"), ("events", "-f")], ids=lambda words: words[0])
def test_following_ends_with_the_connection_though_nothing_is_printed(
    counters: Box, ssh: list[str], command: tuple[str, ...]
) -> None:
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    counters.run("stop", "trainer", "--yes", "--wait")
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
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
