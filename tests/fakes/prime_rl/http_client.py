"""Requests to the server's stand-in."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any


class HttpError(Exception):
    """No answer, or one with an error status."""


def get(url: str, timeout_s: float = 5.0) -> Any:
    """The document at `url`.

    Raises:
        HttpError: for no answer and for error statuses.
    """
    return _send(urllib.request.Request(url), timeout_s)


def post(url: str, body: Mapping[str, Any] | None = None, timeout_s: float | None = None) -> Any:
    """Send JSON, get the answer; waits for ever where there is no `timeout_s`.

    Raises:
        HttpError: for no answer and for error statuses.
    """
    data = json.dumps(body or {}).encode()
    headers = {"Content-Type": "application/json"}
    return _send(urllib.request.Request(url, data=data, headers=headers, method="POST"), timeout_s)


def _send(request: urllib.request.Request, timeout_s: float | None) -> Any:
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            text = answer.read().decode()
    except (OSError, urllib.error.URLError) as error:
        raise HttpError(str(error)) from error
    try:
        return json.loads(text)
    except ValueError:
        return text
