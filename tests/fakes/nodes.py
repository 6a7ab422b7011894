"""A node on this machine: what is started there belongs to nobody here, and the way to it can be cut."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

WAY = Path(__file__).with_name("programs") / "way.py"


class FakeNode:
    """Runs `sh` for every client that comes by `reach`, with this folder as its home."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self._path = folder / "way"
        self._shells: list[subprocess.Popen[bytes]] = []
        self._links: list[socket.socket] = []
        self._server: socket.socket | None = None
        self.open()

    @property
    def reach(self) -> list[str]:
        return [sys.executable, "-I", "-S", str(WAY), str(self._path)]

    @property
    def attempts(self) -> list[Path]:
        """Folders of the attempts that it knows of."""
        return sorted((self.home / ".cache/rltui/attempts").glob("*/*/attempt-*"))

    def open(self) -> None:
        """Accept connections from now on."""
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(self._path))
        self._server.listen()
        threading.Thread(target=self._serve, args=(self._server,), daemon=True).start()

    def cut(self) -> None:
        """Break every connection; a new one may come."""
        for link in self._links:
            with suppress(OSError):  # over already
                link.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Break every connection, and accept no other."""
        if self._server is not None:
            self._server.shutdown(socket.SHUT_RDWR)
            self._server.close()
            self._server = None
            self._path.unlink()
        self.cut()

    def end(self) -> None:
        """Close it, and wait for the shells of its clients. Processes that those left are the test's."""
        self.close()
        for shell in self._shells:
            shell.wait(20)
        for link in self._links:
            link.close()

    def _serve(self, server: socket.socket) -> None:
        env = {"HOME": str(self.home), "PATH": os.environ["PATH"], "SHELL": "/bin/sh", "ON_THE_NODE": "yes"}
        with suppress(OSError):  # closed
            while True:
                link, _ = server.accept()
                self._links.append(link)
                with (self.home.parent / "errors").open("ab") as errors:
                    shell = subprocess.Popen(
                        ["sh"],
                        stdin=link.fileno(),
                        stdout=link.fileno(),
                        stderr=errors,
                        cwd=self.home,
                        env=env,
                    )
                self._shells.append(shell)
                way = int.from_bytes(link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 4), sys.byteorder)
                code = self._path.with_name(f"{self._path.name}.{way}")
                threading.Thread(target=_hang_up, args=(link, shell, code), daemon=True).start()


def _hang_up(link: socket.socket, shell: subprocess.Popen[bytes], code: Path) -> None:
    """Hang up once the command has ended, as sshd does, and write down its exit code."""
    code.write_text(str(shell.wait()))
    with suppress(OSError):  # cut before
        link.shutdown(socket.SHUT_RDWR)
