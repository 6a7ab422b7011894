"""The in-memory weight broadcast of the last generation, which binds trainer and server to each other.

The trainer hosts it; the server joins when the orchestrator says so. Like a NCCL group, it cannot be joined
later, and whoever loses the other side is stuck: it neither fails nor goes on.
"""

from __future__ import annotations

import json
import socket
import threading
import time

from tests.fakes.prime_rl.folders import POLL_S


def stuck() -> None:
    """Never returns: a collective operation whose other side is gone."""
    threading.Event().wait()


class Sender:
    """The trainer's side: returns from its construction once the server has joined."""

    def __init__(self, port: int) -> None:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen(1)
            self._peer = listener.accept()[0]

    def send(self, version: int) -> None:
        """Hand over weights, and wait until they have arrived."""
        try:
            self._peer.sendall(json.dumps(version).encode() + b"\n")
            arrived = self._peer.recv(1)
        except OSError:
            arrived = b""
        if not arrived:
            stuck()


class Receiver:
    """The server's side. Several may be made one after the other; the last one counts."""

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self._peer = socket.create_connection((host, port), timeout=5)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_S)
        self._peer.settimeout(None)
        self._file = self._peer.makefile("rb")

    def receive(self) -> int | None:
        """The version of the next weights; `None` where the other side is gone."""
        line = self._file.readline()
        if not line.endswith(b"\n"):
            return None
        version: int = json.loads(line)
        self._peer.sendall(b"!")
        return version
