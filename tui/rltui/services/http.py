"""HTTP requests to a service: one request, one connection, no proxy."""

from __future__ import annotations

import http.client
import json
import socket
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit


class StatusError(OSError):
    """The service answered with a status other than 200."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


def get(url: str, *, timeout_s: float, limit_bytes: int = 0, key: str = "") -> bytes:
    """The first `limit_bytes` of the answer of `url`, http or https, with status 200. Blocks.

    `key`: of its API, sent as the bearer token.

    Raises:
        OSError: There is no answer, or one with another status (`StatusError`); says which.
    """
    status, _, content = _exchange("GET", url, timeout_s=timeout_s, limit_bytes=limit_bytes, key=key)
    if status != http.client.OK:
        raise StatusError(status)
    return content


def post_json(url: str, body: Mapping[str, Any], *, timeout_s: float, key: str = "") -> str | None:
    """Send `body` by POST. Returns an error message; `None` for a successful status. Blocks."""
    try:
        status, reason, _ = post(url, body, timeout_s=timeout_s, key=key)
    except OSError as error:
        return str(error)
    return None if 200 <= status < 300 else f"status {status} {reason}"


def post(
    url: str, body: Mapping[str, Any], *, timeout_s: float, limit_bytes: int = 0, key: str = ""
) -> tuple[int, str, bytes]:
    """Status, reason and the first `limit_bytes` of the answer to `body` as JSON. Blocks.

    Raises:
        OSError: There is none; says why.
    """
    data = json.dumps(dict(body)).encode()
    return _exchange("POST", url, data, timeout_s=timeout_s, limit_bytes=limit_bytes, key=key)


def _exchange(
    method: str, url: str, body: bytes | None = None, *, timeout_s: float, limit_bytes: int = 0, key: str = ""
) -> tuple[int, str, bytes]:
    """Status, reason and the first `limit_bytes` of the answer.

    Raises:
        OSError: There is none; says why.
    """
    try:
        split = urlsplit(url)
        host, port = split.hostname or "127.0.0.1", split.port
        connection = http.client.HTTPConnection(
            host, port or (443 if split.scheme == "https" else 80), timeout=timeout_s
        )
        try:
            if split.scheme == "https":
                connection.sock = _connect_tls(host, connection.port, timeout_s)
            target = split.path or "/"
            headers = {} if body is None else {"Content-Type": "application/json"}
            headers |= {"Authorization": f"Bearer {key}"} if key else {}
            connection.request(method, f"{target}?{split.query}" if split.query else target, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.reason, answer.read(limit_bytes)
        finally:
            connection.close()
    except (ValueError, http.client.HTTPException) as error:
        raise OSError(str(error) or type(error).__name__) from error


def _connect_tls(host: str, port: int, timeout_s: float) -> socket.socket:
    """A connection after verification of the server's certificate."""
    if sys.modules.get("ssl", socket) is None:  # the supervisor saves its memory until an https URL is there
        del sys.modules["ssl"]
    import ssl

    plain = socket.create_connection((host, port), timeout_s)
    try:
        return ssl.create_default_context().wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise
