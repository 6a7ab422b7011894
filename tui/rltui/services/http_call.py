"""Telling a service on this machine something by HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""A proxy for the outside world knows nothing of this machine's ports."""


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
