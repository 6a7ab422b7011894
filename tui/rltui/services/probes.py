"""Readiness probes. Each answers one question, once; the supervisor asks again until it is true."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from rltui.core.layout import Ready

PROBE_TIMEOUT_S = 5.0
"""One HTTP or TCP probe gives up after this."""
LOG_CHUNK = 1 << 20
"""Bytes of log read at a time."""


class Probe:
    """Asks whether a component is ready. `ready` holds filled-in values, no placeholders."""

    def __init__(self, ready: Ready, log: Path) -> None:
        self._ready = ready
        self._log = log
        self._log_offset = 0

    async def succeeded(self) -> bool:
        """Whether the component is ready now. Never raises for a component that is not."""
        if self._ready.http is not None:
            return await asyncio.to_thread(_http_ok, self._ready.http)
        if self._ready.tcp is not None:
            return await _tcp_open(self._ready.tcp)
        if self._ready.file is not None:
            return await asyncio.to_thread(Path(self._ready.file).exists)
        return await asyncio.to_thread(self._log_matches)

    def __str__(self) -> str:
        for name in ("http", "tcp", "file", "log"):
            if (value := getattr(self._ready, name)) is not None:
                return f"{name} {value}"
        return "nothing"

    def _log_matches(self) -> bool:
        """Search what was written since the last look; an unfinished line is searched again.

        A log that was cut off or replaced by a shorter one is read from its beginning.
        """
        pattern = re.compile((self._ready.log or "").encode(), re.MULTILINE)
        try:
            with self._log.open("rb") as file:
                if os.fstat(file.fileno()).st_size < self._log_offset:
                    self._log_offset = 0
                file.seek(self._log_offset)
                while data := file.read(LOG_CHUNK):
                    if pattern.search(data):
                        return True
                    seen = data.rfind(b"\n") + 1 or (len(data) if len(data) == LOG_CHUNK else 0)
                    self._log_offset += seen
                    if len(data) < LOG_CHUNK:
                        return False
                    file.seek(self._log_offset)
        except FileNotFoundError:
            return False
        return False


def _http_ok(url: str) -> bool:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(
        parts.hostname or "127.0.0.1", parts.port or 80, timeout=PROBE_TIMEOUT_S
    )
    try:
        connection.request("GET", parts.path or "/")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


async def _tcp_open(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            _, writer = await asyncio.open_connection(host or "127.0.0.1", int(port))
    except (OSError, TimeoutError, ValueError):
        return False
    writer.close()
    return True
