"""How batches reach the trainer over a socket in the last generation.

The orchestrator publishes on one port and waits on the next for a READY of every rank, once. A trainer says
it once, when it starts. Its subscription does come back after a break, but that word does not.
"""

from __future__ import annotations

import queue
import socket
import threading
import time

from tests.fakes.prime_rl.folders import POLL_S


class Sender:
    """The orchestrator's end of the queue of batches."""

    def __init__(self, port: int, ranks: int) -> None:
        self._missing = ranks
        self._ready: set[str] = set()
        self._all_ready = threading.Event()
        self._subscribers: list[socket.socket] = []
        self._publisher = _listen(port)
        self._barrier = _listen(port + 1)
        for loop in (self._take_subscribers, self._count_ready):
            threading.Thread(target=loop, daemon=True).start()

    def send(self, step: int) -> None:
        """Publish a batch; at first, wait for every rank's READY, for ever."""
        self._all_ready.wait()
        for subscriber in self._subscribers:
            try:
                subscriber.sendall(f"{step}\n".encode())
            except OSError:
                continue  # like a published message that nobody hears

    def _take_subscribers(self) -> None:
        while True:
            self._subscribers.append(self._publisher.accept()[0])

    def _count_ready(self) -> None:
        while True:
            with self._barrier.accept()[0] as peer:
                self._ready.add(peer.recv(16).decode())
            if len(self._ready) >= self._missing:
                self._all_ready.set()


class Receiver:
    """The end of a trainer's rank."""

    def __init__(self, port: int, rank: int) -> None:
        self._port = port
        self._rank = rank
        self._batches: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._subscribe, daemon=True).start()

    def receive(self) -> None:
        """Wait for the next batch, whatever its number."""
        self._batches.get()

    def _subscribe(self) -> None:
        said_ready = False
        while True:
            with _connect(self._port) as publisher:
                if not said_ready:
                    with _connect(self._port + 1) as barrier:
                        barrier.sendall(str(self._rank).encode())
                    said_ready = True
                for line in publisher.makefile():
                    self._batches.put(line)


def _listen(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))


def _connect(port: int) -> socket.socket:
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except OSError:
            time.sleep(POLL_S)
