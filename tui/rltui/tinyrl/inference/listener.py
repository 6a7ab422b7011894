"""The server's port, taken before anything slow happens. Imports no torch."""

from __future__ import annotations

import errno
import socket

from rltui.tinyrl import TinyrlError


def bind(host: str, port: int) -> socket.socket:
    """A bound socket that does not listen yet: as with vLLM, a refused connection means loading.

    Raises:
        TinyrlError: the port is taken, or the address is not ours.
    """
    server_socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server_socket.bind((host, port))
    except OSError as error:
        server_socket.close()
        raise socket_error(error, host, port) from error
    return server_socket


def socket_error(error: OSError, host: str, port: int) -> TinyrlError:
    """The error to show, in the words other servers use."""
    fix = (
        " Stop the process that holds it, or change inference.server.port."
        if error.errno == errno.EADDRINUSE
        else ""
    )
    return TinyrlError(f"OSError: [Errno {error.errno}] {error.strerror}: ({host!r}, {port}).{fix}")
