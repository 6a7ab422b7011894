"""Asking and telling a service something by HTTP: one request, one connection, no proxy."""

from __future__ import annotations

import http.client
import json
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""A proxy for the outside world knows nothing of this machine's ports."""


def get(url: str, *, timeout_s: float, limit_bytes: int = 0) -> bytes:
    """The first `limit_bytes` of what `url`, http or https, answers with status 200. Blocks.

    Raises:
        OSError: There is no answer, or another one; says which, in words.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "127.0.0.1", parts.port
        connection = http.client.HTTPConnection(
            host, port or (443 if parts.scheme == "https" else 80), timeout=timeout_s
        )
        try:
            if parts.scheme == "https":
                connection.sock = _encrypted(host, connection.port, timeout_s)
            target = parts.path or "/"
            connection.request("GET", f"{target}?{parts.query}" if parts.query else target)
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                raise OSError(f"status {answer.status}")
            return answer.read(limit_bytes)
        finally:
            connection.close()
    except (ValueError, http.client.HTTPException) as error:
        raise OSError(str(error) or type(error).__name__) from error


def _encrypted(host: str, port: int, timeout_s: float) -> socket.socket:
    """A connection that has checked the server's certificate."""
    if sys.modules.get("ssl", socket) is None:  # the supervisor saves its memory until an https URL is there
        del sys.modules["ssl"]
    import ssl

    plain = socket.create_connection((host, port), timeout_s)
    try:
        return ssl.create_default_context().wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def post_json(url: str, body: Mapping[str, Any], *, timeout_s: float) -> str | None:
    """POST `body`. Returns why it failed, in words; `None` where the answer was a success. Blocks."""
    request = urllib.request.Request(  # noqa: S310 - the framework modules name http only
        url,
        data=json.dumps(dict(body)).encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    try:
        with _NO_PROXY.open(request, timeout=timeout_s):
            return None
    except urllib.error.HTTPError as error:
        return f"status {error.code} {error.reason}"
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", None) or error)
