"""TCP sockets that are bound to a port and do not listen yet, which `/proc/net/tcp` does not show.

vLLM binds its port at once and listens minutes later, when the model is loaded. With SO_REUSEPORT (vLLM up to
0.21) a second server starts beside it without an error in that time.
Read with sock_diag(7), as `ss --bound-inactive` does. Linux tells since 6.8; before, none are found.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
TCP_BOUND_INACTIVE = 13
"""State of `linux/net/tcp_states.h` that exists in questions and answers of sock_diag only."""

_HEADER = struct.Struct("=IHHII")
"""`struct nlmsghdr`: length, type, flags, sequence, port."""
_QUESTION = struct.Struct("=BBBBI48x")
"""`struct inet_diag_req_v2`: family, protocol, extensions, padding, states; any address."""
_ANSWER = struct.Struct("=B3x2s2x16s28x16xI")
"""`struct inet_diag_msg`: family, source port and address, inode."""
_RECEIVE_BYTES = 32 * 1024
"""What the kernel uses at most for one part of its answer."""


def bound_sockets() -> Iterator[tuple[bytes, int, int]]:
    """Packed address (4 or 16 bytes), port and inode of each; none where the kernel does not tell."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):  # no netlink in this sandbox, or a kernel without sock_diag
            yield from _ask(family)


def _ask(family: socket.AddressFamily) -> Iterator[tuple[bytes, int, int]]:
    question = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 0, 1 << TCP_BOUND_INACTIVE)
    length = _HEADER.size + len(question)
    header = _HEADER.pack(length, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as link:
        link.settimeout(1.0)  # the kernel answers within the call; this only bounds a sandbox that does not
        link.send(header + question)
        while True:
            for kind, body in _messages(link.recv(_RECEIVE_BYTES)):
                if kind == NLMSG_DONE:
                    return
                if kind == NLMSG_ERROR:
                    number = -int.from_bytes(body[:4], sys.byteorder, signed=True)
                    raise OSError(number, os.strerror(number))
                yield _parse(body)


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and body of each message."""
    while data:
        length, kind, *_ = _HEADER.unpack_from(data)
        if length < _HEADER.size:
            raise OSError(errno.EBADMSG, os.strerror(errno.EBADMSG))
        yield kind, data[_HEADER.size : length]
        data = data[(length + 3) & ~3 :]


def _parse(body: bytes) -> tuple[bytes, int, int]:
    family, port, address, inode = _ANSWER.unpack_from(body)
    packed = address[:4] if family == socket.AF_INET else address
    return packed, int.from_bytes(port, "big"), inode
