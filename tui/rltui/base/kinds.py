"""Kinds of values, to check documents that others may have written before their content is used."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import TypeIs

EXPERIMENT_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,47}"
"""Pattern of names that files, tmux sessions and options are built from."""
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def one_line(text: str) -> str:
    """The text unchanged, for a script or a header in which it must not leave its line.

    Raises:
        ValueError: for a line break or another control character.
    """
    if (match := _CONTROL.search(text)) is not None:
        raise ValueError(f"control character {match[0]!r} in {shortened(text)}")
    return text


def parse_pattern(text: str) -> re.Pattern[str]:
    """A regular expression from a file.

    Raises:
        ValueError: if it is none; with the reason.
    """
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"invalid regular expression {text!r}: {error}") from error


def is_integer(value: object) -> TypeIs[int]:
    """A whole number, and no truth value, which Python counts among these."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeIs[int | float]:
    """A number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


class Kind(NamedTuple):
    """A predicate on values, and its name for people: `a text`."""

    fits: Callable[[Any], bool]
    words: str

    @property
    def or_none(self) -> Kind:
        return Kind(lambda value: value is None or self.fits(value), f"{self.words} or null")


def list_of(kind: Kind, words: str) -> Kind:
    return Kind(lambda value: type(value) is list and all(map(kind.fits, value)), words)


def table_of(kind: Kind, words: str) -> Kind:
    return Kind(lambda value: isinstance(value, dict) and all(map(kind.fits, value.values())), words)


TEXT = Kind(lambda value: type(value) is str, "a string")
LINE = Kind(lambda value: type(value) is str and value.isprintable(), "a single line of text")
TEXTS = list_of(TEXT, "a list of strings")
FLAG = Kind(lambda value: type(value) is bool, "true or false")
INTEGER = Kind(lambda value: type(value) is int and abs(value) <= 2**53, "an integer")
TIME = Kind(lambda value: type(value) in (int, float) and 0 <= value < 250e9, "a time")
"""Seconds since the epoch, up to the year 9892."""
PATH = Kind(
    lambda value: type(value) is str and value.startswith("/") and "\0" not in value, "an absolute path"
)


def check_document(data: object, kinds: Mapping[str, Kind], required: frozenset[str]) -> dict[str, Any]:
    """The known keys of a document. Others are dropped: a newer version may have written them.

    Raises:
        ValueError: naming the first key that is missing, or whose value is of another kind.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"it is {shortened(data)}, not a table")
    if missing := required - data.keys():
        raise ValueError(f"it lacks {', '.join(key for key in kinds if key in missing)}")
    result = {}
    for key, (fits, words) in kinds.items():
        if key in data:
            value = result[key] = data[key]
            if not fits(value):
                raise ValueError(f"{key} is {shortened(value)}, not {words}")
    return result
