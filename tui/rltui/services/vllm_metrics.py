"""Ask an inference server what it is busy with: one GET of its Prometheus text."""

from __future__ import annotations

import asyncio
import http.client
from urllib.parse import urlsplit

from rltui.core.inference_activity import InferenceActivity, parse_activity

TIMEOUT_S = 5.0
"""A vLLM under load answers late: its API server shares a thread with thousands of requests."""
LONGEST_ANSWER = 8 * 1024 * 1024
"""Bytes read at most; one engine's text has about 50 kB."""


async def read_activity(url: str) -> InferenceActivity | None:
    """The server's activity now; `None` where it does not answer, or with something else. Never raises."""
    text = await asyncio.to_thread(_get, url)
    return None if text is None else parse_activity(text)


def _get(url: str) -> bytes | None:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(parts.hostname or "127.0.0.1", parts.port, timeout=TIMEOUT_S)
    except (ValueError, http.client.HTTPException):  # no port number
        return None
    try:
        target = parts.path or "/"
        connection.request("GET", f"{target}?{parts.query}" if parts.query else target)
        answer = connection.getresponse()
        return answer.read(LONGEST_ANSWER) if answer.status == http.client.OK else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
