"""Ports of another machine that are reached through ports of this one, as long as somebody looks at it."""

from __future__ import annotations

import shlex
import socket
import subprocess
import threading
import time
from contextlib import suppress

from rltui.client.transports.remote_machine import RemoteMachine
from rltui.errors import RltuiError

_CONNECT_S, _POLL_S, _END_S = 20.0, 0.05, 2.0


class Forwards:
    """A program for each port, which ends with this one, however that ends."""

    def __init__(self, host: RemoteMachine) -> None:
        self._host = host
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._programs: dict[int, tuple[subprocess.Popen[bytes], int]] = {}
        """Port there → the program that forwards it, and its port here."""

    def port(self, port: int) -> int:
        """The port here that leads to that one there. Blocks.

        Raises:
            RltuiError: if there is no way; says how a person makes one.
        """
        with self._lock:
            program, own_port = self._programs.get(port, (None, 0))
            if program is not None and program.poll() is None:
                return own_port
            own_port = _free_port(port)
            if self._host.is_ssh and (program := self._begin(own_port, port)) is not None:
                self._programs[port] = program, own_port
                return own_port
        name = self._host.name
        line = shlex.join(["ssh", "-N", "-L", f"{own_port}:localhost:{port}", name])
        how = f"while `{line}` runs here" if self._host.is_ssh else f"once it leads to port {port} of {name}"
        raise RltuiError(
            f"port {port} of {name} cannot be reached from here",
            hint=f"open http://localhost:{own_port} {how}",
        )

    def _begin(self, own_port: int, port: int) -> subprocess.Popen[bytes] | None:
        """Start the forward; `None` if it cannot connect."""
        program = subprocess.Popen(
            self._host.forwarding(own_port, port),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + _CONNECT_S
        while program.poll() is None and time.monotonic() < deadline:
            if not _is_free(own_port):
                return program
            if self._closing.wait(_POLL_S):
                break
        program.kill()
        program.wait()
        return None

    def close(self) -> None:
        """Close all for good; whoever still waits for a port gets none."""
        self._closing.set()
        with self._lock:
            programs, self._programs = self._programs, {}
        for port, (program, own_port) in programs.items():
            with suppress(subprocess.TimeoutExpired):
                command = self._host.forwarding_no_more(own_port, port)
                subprocess.run(
                    command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_END_S, check=False
                )
            program.terminate()
            program.communicate()


def _free_port(wanted: int) -> int:
    """The same one, else another."""
    if _is_free(wanted):
        return wanted
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
