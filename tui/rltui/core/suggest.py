"""Guesses at what a person meant to type."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from rltui.errors import UsageError

_CLOSE = 0.7
_CLOSE_KEY = 0.8
"""Of dotted keys the last parts must be closer: long tables before them resemble each other anyway."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that most resembles `name`, upper and lower case and `-` and `_` being one."""
    wanted = _plain(name)
    plain = {_plain(candidate): candidate for candidate in known}
    if "." in wanted:
        plain = {key: candidate for key, candidate in plain.items() if _ends_alike(wanted, key)}
    matches = difflib.get_close_matches(wanted, plain, n=1, cutoff=_CLOSE)
    return plain[matches[0]] if matches else None


def unknown(what: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that somebody typed: the closest known ones, and all of them."""
    known = list(known)
    guess = did_you_mean(name, known)
    there_are = f"there are: {', '.join(known)}" if known else "there is none yet"
    return UsageError(f"no {what} {name!r}", hint=f"{guess} {there_are}".strip())


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean X?`, or nothing where nothing is close."""
    match = closest(name, known)
    return f"did you mean {match}?" if match else ""


def _ends_alike(one: str, other: str) -> bool:
    last = one.rpartition(".")[2], other.rpartition(".")[2]
    return difflib.SequenceMatcher(None, *last).ratio() >= _CLOSE_KEY


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
