"""Who listens on a TCP port, from `/proc/net/tcp` and `/proc/net/tcp6` of this network namespace."""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rltui.services.processes.identity import PROC, ProcessId, command_line, read_process_id

_BYTE_ORDER = sys.byteorder
LISTEN = "0A"
"""TCP_LISTEN in `net/tcp_states.h`."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class PortHolder:
    """Something listens on the port."""

    port: int
    address: str
    """Where it listens, `0.0.0.0` or `::` for everywhere."""
    process: ProcessId | None
    """None where it belongs to another user or container: the port is busy all the same."""
    name: str
    """The first 15 bytes of its title; `""` where unknown."""
    command: str

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None

    def __str__(self) -> str:
        """For messages: `pid 4711 python`."""
        return f"pid {self.process.pid} {self.name}" if self.process else "a process of another user"


def port_holder(port: int, host: str = "127.0.0.1") -> PortHolder | None:
    """Who keeps us from listening on `host:port`; None where nobody does.

    A `host` that is neither an address nor `localhost` meets any listener: a look-up could block.
    """
    for address, inode in _listeners(port):
        if _overlaps(address, host):
            pid = _owner(inode)
            process = read_process_id(pid) if pid is not None else None
            if pid is None or process is None:
                return PortHolder(port, str(address), None, "", "")
            return PortHolder(port, str(address), process, _name(pid), command_line(pid))
    return None


def _listeners(port: int) -> Iterator[tuple[Address, str]]:
    """Address and socket inode of each listener."""
    for table in ("tcp", "tcp6"):
        try:
            lines = (PROC / "net" / table).read_text(encoding="ascii").splitlines()[1:]
        except FileNotFoundError:  # a kernel without IPv6
            continue
        for line in lines:
            fields = line.split()
            address, _, hexadecimal = fields[1].partition(":")
            if fields[3] == LISTEN and int(hexadecimal, 16) == port:
                yield _address(address), fields[9]


def _address(hexadecimal: str) -> Address:
    """From the kernel's notation: 32-bit words, each in the machine's byte order."""
    words = (int(word, 16) for word in re.findall(".{8}", hexadecimal))
    packed = b"".join(word.to_bytes(4, _BYTE_ORDER) for word in words)
    address = ipaddress.ip_address(packed)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _overlaps(held: Address, host: str) -> bool:
    """`::` counts for IPv4 as well: it accepts both unless told not to, which is not visible here."""
    if host == "localhost":
        return held.is_unspecified or held.is_loopback
    try:
        wanted = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return True
    if held.version == 4 and wanted.version == 6:
        return wanted.is_unspecified
    return held == wanted or held.is_unspecified or wanted.is_unspecified


def _owner(inode: str) -> int | None:
    """First process that has the socket open and lets us see it."""
    wanted = f"socket:[{inode}]"
    for name in os.listdir(PROC):  # noqa: PTH208 - three times as fast as Path.iterdir
        if name.isdigit() and _has_open(PROC / name / "fd", wanted):
            return int(name)
    return None


def _has_open(folder: Path, wanted: str) -> bool:
    with suppress(OSError):  # the process is gone, or another user's
        for entry in os.scandir(folder):
            with suppress(FileNotFoundError):  # closed meanwhile
                if os.readlink(entry.path) == wanted:  # noqa: PTH115 - for speed
                    return True
    return False


def _name(pid: int) -> str:
    try:
        return (PROC / str(pid) / "comm").read_text(errors="replace").strip()
    except OSError:  # gone meanwhile
        return ""
