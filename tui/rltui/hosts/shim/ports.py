# ruff: noqa: PTH115, PTH123, PTH208
"""The processes that listen on ports of a node."""

from __future__ import annotations

import contextlib
import os

from rltui.hosts.shim.tree import pids

_LISTEN = "0A"
"""TCP_LISTEN in the kernel's tables."""
_MAX_COMMAND_CHARS = 80


class NodePortHolder:
    def __init__(self, port: int, pid: int | None) -> None:
        self.pid = pid
        """`None` for a process of another user."""
        self._port = port

    def __str__(self) -> str:
        """Text like `port 8000, in use by pid 4711 python serve.py of the experiment one`."""
        if self.pid is None:
            return f"port {self._port}, in use by a process of another user"
        command = read_proc(self.pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
        owners = [
            f" of the experiment {entry.decode(errors='replace').partition('=')[2].partition('@')[0]}"
            for entry in read_proc(self.pid, "environ").split(b"\0")
            if entry.startswith(b"RLTUI_EXPERIMENT=")
        ]
        words = f"{command[:_MAX_COMMAND_CHARS].strip()}{''.join(owners)}"
        return f"port {self._port}, in use by pid {self.pid} {words}"


def port_holder(ports: list[int]) -> NodePortHolder | None:
    """The first process found listening on one of these ports; `None` where all are free."""
    ports_by_hex = {f"{port:04X}": port for port in ports}
    for table in ("tcp", "tcp6") if ports_by_hex else ():
        for line in read_proc("net", table).decode("ascii").splitlines()[1:]:
            fields = line.split()
            port = ports_by_hex.get(fields[1].rpartition(":")[2])
            if port is not None and fields[3] == _LISTEN:
                return NodePortHolder(port, _socket_owner(f"socket:[{fields[9]}]"))
    return None


def _socket_owner(socket: str) -> int | None:
    for pid in pids():
        with contextlib.suppress(OSError):  # gone, or another user's
            for name in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{name}") == socket:
                    return pid
    return None


def read_proc(pid: int | str, name: str) -> bytes:
    """The bytes of `/proc/PID/NAME`; empty where the process is gone, or the file is not for us to read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""
