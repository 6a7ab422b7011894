"""Ask an inference server what it is busy with: one GET of its Prometheus text."""

from __future__ import annotations

import asyncio

from rltui.core.inference_activity import InferenceActivity, parse_activity
from rltui.services.http import get

TIMEOUT_S = 5.0
"""A vLLM under load answers late: its API server shares a thread with thousands of requests."""
LONGEST_ANSWER = 8 * 1024 * 1024
"""Bytes read at most; one engine's text has about 50 kB."""


async def read_activity(url: str) -> InferenceActivity | None:
    """The server's activity now; `None` where it does not answer, or with something else. Never raises."""
    text = await asyncio.to_thread(_get, url)
    return None if text is None else parse_activity(text)


def _get(url: str) -> bytes | None:
    try:
        return get(url, timeout_s=TIMEOUT_S, limit_bytes=LONGEST_ANSWER)
    except OSError:
        return None
