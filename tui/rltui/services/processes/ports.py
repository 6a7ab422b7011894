"""Processes that listen on TCP ports."""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from rltui.services.processes.identity import PROC, ProcessId, command_line, read_process_id

_LISTEN = "0A"
"""Value of TCP_LISTEN in `net/tcp_states.h`."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class _Listener(NamedTuple):
    """A socket that listens; with SO_REUSEPORT several can have the same port."""

    address: Address
    """`0.0.0.0` or `::` means all addresses."""
    port: int
    inode: int
    """Identifies the socket among those of all processes."""


def _listeners() -> Iterator[_Listener]:
    for table in ("tcp", "tcp6"):
        try:
            lines = (PROC / "net" / table).read_text(encoding="ascii").splitlines()[1:]
        except FileNotFoundError:  # a kernel without IPv6
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTEN:
                words, _, port = fields[1].partition(":")
                # 32-bit words, each in the machine's byte order
                numbers = (int(word, 16) for word in re.findall(".{8}", words))
                address = b"".join(number.to_bytes(4, sys.byteorder) for number in numbers)
                bound = _without_mapping(ipaddress.ip_address(address))
                yield _Listener(bound, int(port, 16), int(fields[9]))


def _open_sockets(pid: int) -> Iterator[int]:
    """Inodes of the sockets that the process has open; none if it is gone or another user's."""
    with suppress(OSError):
        for entry in os.scandir(PROC / str(pid) / "fd"):
            with suppress(FileNotFoundError):  # closed meanwhile
                target = os.readlink(entry.path)  # noqa: PTH115 - for speed
                if target.startswith("socket:["):
                    yield int(target[8:-1])


def _without_mapping(address: Address) -> Address:
    """The IPv4 address of `::ffff:127.0.0.1` and its like."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


@dataclass(frozen=True, slots=True)
class PortHolder:
    """A process that listens on a port. One that has only bound it, as vLLM does minutes before, is not
    visible.
    """

    port: int
    address: str
    """Address it listens on; `0.0.0.0` or `::` means all addresses."""
    process: ProcessId | None
    """None if it belongs to another user or container: the port is busy all the same."""
    name: str
    """The first 15 bytes of its title; `""` if unknown."""
    command: str

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None

    def __str__(self) -> str:
        """Text for messages, such as `pid 4711 python`."""
        return f"pid {self.process.pid} {self.name}" if self.process else "a process of another user"


def port_holder(port: int, host: str = "127.0.0.1") -> PortHolder | None:
    """The process that prevents us from listening on `host:port`; None if there is none. First of
    `port_holders`.
    """
    return next(iter(port_holders(port, host)), None)


def port_holders(port: int, host: str = "127.0.0.1") -> list[PortHolder]:
    """Every process that listens on `host:port`, each once; those of other users last.

    There are several if they set SO_REUSEPORT, with which the kernel distributes connections among them. Of
    processes that share one socket, such as a server and its forked workers, the one with the lowest pid is
    named. A `host` that is neither an address nor `localhost` matches any listener: a lookup could block.
    """
    listeners = [listener for listener in _listeners() if listener.port == port]
    listeners = [listener for listener in listeners if _overlaps(listener.address, host)]
    owners = _owners({listener.inode for listener in listeners}) if listeners else {}
    holders = {holder.process: holder for holder in (_holder(item, owners) for item in reversed(listeners))}
    return sorted(holders.values(), key=lambda holder: holder.pid or sys.maxsize)


def listening_ports(pids: Collection[int]) -> dict[int, tuple[int, ...]]:
    """Process id → TCP ports that it listens on, ascending; maybe none.

    Reads the descriptors of these processes only.
    """
    ports = {listener.inode: listener.port for listener in _listeners()} if pids else {}
    return {
        pid: tuple(sorted({ports[inode] for inode in _open_sockets(pid) if inode in ports})) for pid in pids
    }


def _holder(listener: _Listener, owners: dict[int, int]) -> PortHolder:
    port, address = listener.port, str(listener.address)
    pid = owners.get(listener.inode)
    process = read_process_id(pid) if pid is not None else None
    if pid is None or process is None:
        return PortHolder(port, address, None, "", "")
    return PortHolder(port, address, process, _name(pid), command_line(pid))


def _overlaps(bound: Address, host: str) -> bool:
    """`::` counts for IPv4 as well: it accepts both unless configured otherwise, which is not visible
    here.
    """
    if host == "localhost":
        return bound.is_unspecified or bound.is_loopback
    try:
        requested = _without_mapping(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return True
    if bound.version == 4 and requested.version == 6:
        return requested.is_unspecified
    return bound == requested or bound.is_unspecified or requested.is_unspecified


def _owners(inodes: Collection[int]) -> dict[int, int]:
    """Inode → the lowest pid that has the socket open and lets us see it."""
    owners: dict[int, int] = {}
    for pid in sorted(int(name) for name in os.listdir(PROC) if name.isdigit()):  # noqa: PTH208 - 3× faster
        for inode in _open_sockets(pid):
            if inode in inodes:
                owners.setdefault(inode, pid)
        if len(owners) == len(inodes):
            break
    return owners


def _name(pid: int) -> str:
    try:
        return (PROC / str(pid) / "comm").read_text(errors="replace").strip()
    except OSError:  # gone meanwhile
        return ""
