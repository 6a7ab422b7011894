"""Answers of bounded size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rltui.base.values import to_json

MOST_BYTES = 8_000
"""About 2,000 tokens."""
_SHORT = 200
"""A text that is no longer stays."""


def fitted(document: object) -> tuple[str, dict[str, Any]]:
    """The document as text, and as values. Where it is too long, its longest lists and texts are cut, and
    `left_out` says how much of which.
    """
    content: dict[str, Any] = json.loads(to_json(document))
    left_out: dict[str, int] = {}
    while len(text := json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()) > MOST_BYTES:
        longest = max(_cuttable(content, ""), key=lambda candidate: candidate[0], default=None)
        if longest is None:
            break
        _, parent, key, path = longest
        value = parent[key]
        parent[key] = value[: len(value) // 2] + ("…" if isinstance(value, str) else [])
        left_out[path] = left_out.get(path, 0) + len(value) - len(value) // 2
        content["left_out"] = left_out
    return text.decode(), content


def _cuttable(value: Any, path: str) -> Iterator[tuple[int, Any, Any, str]]:  # noqa: ANN401 - of JSON
    """Length, container, key and path of each list and text in it that may be cut."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        below = f"{path}.{key}" if path else str(key)
        if (isinstance(item, str) and len(item) > _SHORT) or (isinstance(item, list) and len(item) > 1):
            yield len(json.dumps(item)), value, key, below
        yield from _cuttable(item, below)
