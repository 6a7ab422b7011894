"""TCP sockets of servers in this network namespace, and who has them open."""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from rltui.services.processes.identity import PROC

_BYTE_ORDER = sys.byteorder
LISTEN = "0A"
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


def listeners() -> Iterator[Listener]:
    """Every listening socket."""
    for table in ("tcp", "tcp6"):
        try:
            lines = (PROC / "net" / table).read_text(encoding="ascii").splitlines()[1:]
        except FileNotFoundError:  # a kernel without IPv6
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == LISTEN:
                address, _, port = fields[1].partition(":")
                yield Listener(_address(_packed(address)), int(port, 16), int(fields[9]))


def open_sockets(pid: int) -> Iterator[int]:
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
    return unmapped(ipaddress.ip_address(packed))


def unmapped(address: Address) -> Address:
    """The IPv4 address of `::ffff:127.0.0.1` and its like."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
