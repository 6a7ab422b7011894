"""Shorter documents, for programs that pay by the byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def without_empty(row: Mapping[str, object]) -> dict[str, object]:
    """Return its fields that have a value: no null, no empty text, list or table."""
    return {name: value for name, value in row.items() if value not in (None, "", (), [], {})}


def rounded(document: Any) -> Any:  # noqa: ANN401 - of JSON
    """Return it with six digits of each fraction in it."""
    if isinstance(document, float):
        return float(f"{document:.6g}")
    if isinstance(document, Mapping):
        return {name: rounded(value) for name, value in document.items()}
    return [*map(rounded, document)] if isinstance(document, list | tuple) else document


def pick_evenly(values: Sequence[Any], most: int) -> list[Any]:
    """Return at most so many of the values, evenly, with the first and the last."""
    if len(values) <= most:
        return [*values]
    return [values[round(index * (len(values) - 1) / (most - 1))] for index in range(most)]
