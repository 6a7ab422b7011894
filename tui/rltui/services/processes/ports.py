"""Who listens on which TCP port."""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass

from rltui.services.processes.identity import PROC, ProcessId, command_line, read_process_id

_BYTE_ORDER = sys.byteorder
_LISTEN = "0A"
"""TCP_LISTEN in `net/tcp_states.h`."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that listens; with SO_REUSEPORT several can have the same port."""

    address: Address
    """`0.0.0.0` or `::` for everywhere."""
    port: int
    inode: int
    """Names the socket among those of all processes."""


def _listeners() -> Iterator[Listener]:
    for table in ("tcp", "tcp6"):
        try:
            lines = (PROC / "net" / table).read_text(encoding="ascii").splitlines()[1:]
        except FileNotFoundError:  # a kernel without IPv6
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTEN:
                address, _, port = fields[1].partition(":")
                yield Listener(_address(_packed(address)), int(port, 16), int(fields[9]))


def _open_sockets(pid: int) -> Iterator[int]:
    """Inodes of the sockets that the process has open; none where it is gone or another user's."""
    with suppress(OSError):
        for entry in os.scandir(PROC / str(pid) / "fd"):
            with suppress(FileNotFoundError):  # closed meanwhile
                target = os.readlink(entry.path)  # noqa: PTH115 - for speed
                if target.startswith("socket:["):
                    yield int(target[8:-1])


def _packed(hexadecimal: str) -> bytes:
    """From the kernel's notation: 32-bit words, each in the machine's byte order."""
    words = (int(word, 16) for word in re.findall(".{8}", hexadecimal))
    return b"".join(word.to_bytes(4, _BYTE_ORDER) for word in words)


def _address(packed: bytes) -> Address:
    return _unmapped(ipaddress.ip_address(packed))


def _unmapped(address: Address) -> Address:
    """The IPv4 address of `::ffff:127.0.0.1` and its like."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


@dataclass(frozen=True, slots=True)
class PortHolder:
    """Something listens on the port. One that has only taken it, as vLLM does minutes before, is not seen."""

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
    """Who keeps us from listening on `host:port`; None where nobody does. The first of `port_holders`."""
    return next(iter(port_holders(port, host)), None)


def port_holders(port: int, host: str = "127.0.0.1") -> list[PortHolder]:
    """Everyone who listens on `host:port`, each process once; those of other users last.

    Several where they set SO_REUSEPORT, which makes the kernel share connections out among them. Of processes
    that share one socket, such as a server and its forked workers, the one with the lowest pid is named.
    A `host` that is neither an address nor `localhost` meets any listener: a look-up could block.
    """
    found = [listener for listener in _listeners() if listener.port == port]
    found = [listener for listener in found if _overlaps(listener.address, host)]
    owners = _owners({listener.inode for listener in found}) if found else {}
    holders = {holder.process: holder for holder in (_holder(item, owners) for item in reversed(found))}
    return sorted(holders.values(), key=lambda holder: holder.pid or sys.maxsize)


def listening_ports(pids: Collection[int]) -> dict[int, tuple[int, ...]]:
    """The TCP ports that each of the processes listens on, ascending; maybe none.

    Looks at the descriptors of these processes only.
    """
    ports = {listener.inode: listener.port for listener in _listeners()} if pids else {}
    return {
        pid: tuple(sorted({ports[inode] for inode in _open_sockets(pid) if inode in ports})) for pid in pids
    }


def _holder(listener: Listener, owners: dict[int, int]) -> PortHolder:
    port, address = listener.port, str(listener.address)
    pid = owners.get(listener.inode)
    process = read_process_id(pid) if pid is not None else None
    if pid is None or process is None:
        return PortHolder(port, address, None, "", "")
    return PortHolder(port, address, process, _name(pid), command_line(pid))


def _overlaps(held: Address, host: str) -> bool:
    """`::` counts for IPv4 as well: it accepts both unless told not to, which is not visible here."""
    if host == "localhost":
        return held.is_unspecified or held.is_loopback
    try:
        wanted = _unmapped(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return True
    if held.version == 4 and wanted.version == 6:
        return wanted.is_unspecified
    return held == wanted or held.is_unspecified or wanted.is_unspecified


def _owners(inodes: Collection[int]) -> dict[int, int]:
    """By inode, the lowest pid that has the socket open and lets us see it."""
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
