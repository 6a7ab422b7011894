"""Guesses at what a person meant to type."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that most resembles `name`, upper and lower case and `-` and `_` being one."""
    plain = {_plain(candidate): candidate for candidate in known}
    matches = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=0.7)
    return plain[matches[0]] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean X?`, or nothing where nothing is close."""
    match = closest(name, known)
    return f"did you mean {match}?" if match else ""


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
