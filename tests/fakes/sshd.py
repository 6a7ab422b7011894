"""Real sshds of our own on the loopback, each the way to a machine with a home of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from tests.waiting import retry_until

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
_OWN_SYSTEM = (
    'mount --bind "$1" /etc/passwd && mount -t tmpfs tmpfs /run && mkdir /run/sshd && shift && exec "$@"'
)
"""An sshd of root wants a user and a folder that only an installed service has: it gets them, alone."""


def _needs_own_system() -> bool:
    return os.getuid() == 0 and not Path("/run/sshd").is_dir()


def _can_run() -> bool:
    if SSHD is None or shutil.which("ssh") is None:
        return False
    argv = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/run"]
    return not _needs_own_system() or subprocess.run(argv, capture_output=True, check=False).returncode == 0


needs_sshd = pytest.mark.skipif(
    not _can_run(), reason="needs OpenSSH, and of root /run/sshd or leave to make a mount namespace"
)


class Sshd:
    """One of them, with `home` as the home of those who log in."""

    def __init__(self, folder: Path, name: str = "node") -> None:
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self._name, self._folder = name, folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])
        for key in ("host", "user"):
            argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
            subprocess.run(argv, check=True)
        (folder / "sshd").write_text(
            f"Port {self._port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {folder}/user.pub\nStrictModes no\nSetEnv HOME={self.home} SHELL=/bin/sh\n"
        )
        (folder / "config").write_text(
            f"Host {name}\nHostName 127.0.0.1\nPort {self._port}\nIdentityFile {folder}/user\n"
            "IdentitiesOnly yes\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"
        )
        self._server: subprocess.Popen[bytes] | None = None
        self.open()

    @property
    def reach(self) -> list[str]:
        return ["ssh", "-F", str(self._folder / "config"), self._name]

    def open(self) -> None:
        """Accept connections from now on."""
        assert SSHD is not None
        argv = [SSHD, "-D", "-f", str(self._folder / "sshd"), "-E", str(self._folder / "log")]
        if _needs_own_system():
            users = self._folder / "passwd"
            users.write_text(
                Path("/etc/passwd").read_text() + "sshd:x:1999:65534::/run/sshd:/usr/sbin/nologin\n"
            )
            argv = ["unshare", "-m", "sh", "-c", _OWN_SYSTEM, "sh", str(users), *argv]
        self._server = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        retry_until(
            lambda: subprocess.run([*self.reach, "true"], check=False, capture_output=True).returncode == 0
        )

    def sessions(self) -> list[int]:
        """Pids of the processes that carry the connections there are."""
        assert self._server is not None
        argv = ["ps", "-o", "pid=", "--ppid", str(self._server.pid)]
        return [int(pid) for pid in subprocess.run(argv, capture_output=True, check=False).stdout.split()]

    def signal(self, number: signal.Signals) -> None:
        """Signal all processes that carry connections."""
        for pid in self.sessions():
            os.kill(pid, number)

    def close(self) -> None:
        """Accept no more connections, and break those there are."""
        if self._server is not None:
            self.signal(signal.SIGKILL)
            self._server.terminate()
            self._server.wait(20)
            self._server = None
