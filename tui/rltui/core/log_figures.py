"""The figures in messages: what of the words around them can go, and which differ in nothing else."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import NamedTuple

_SEPARATORS = (" | ", ", ")
_TOKEN = re.compile(r"\S+")
_OF_DICT = re.compile(r"[^\s{}'\":,]+")
"""The same where Python's `{'loss': 0.4, 'reward': 0.7}` is printed."""
_NO_NUMBER = ("nan", "inf", "-inf", "N/A")
_FEWEST_FIELDS = 4
"""A line of so many figures is read for them, by somebody who knows their names."""
_LONGEST = 600
_SHORT = 4
"""Letters of a word that is never cut."""
_USUAL_FRACTION = 6
"""Cells of a figure with a point in it."""


class _Word(NamedTuple):
    start: int
    stop: int
    is_figure: bool


class _Cut(NamedTuple):
    """How much of the words before figures is left."""

    has_shared: bool
    """Also those that several fields have."""
    letters: int
    words: int


_CUTS = (
    _Cut(has_shared=True, letters=99, words=9),
    _Cut(has_shared=False, letters=99, words=9),
    _Cut(has_shared=False, letters=99, words=1),
    _Cut(has_shared=False, letters=4, words=1),
    _Cut(has_shared=False, letters=3, words=1),
)
"""From the mildest: units go first."""
_WIDEST_READ = _CUTS[2]
"""Where nothing fits: what is left can be read, and goes on to the right."""
Parts = list[tuple[int, int]]
"""Pieces of a text, from and up to, in order, to be set apart by blanks."""


class FigureLines:
    """Shortens lines of figures for one width; those with the same words by the same letters."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        """Which cut those with the same words take."""

    def parts(self, text: str, start: int, cells: int) -> Parts | None:
        """What is left of the message from `start` on, to fit into so many cells; `None`: all of it."""
        if len(text) - start <= cells or len(text) - start > _LONGEST:
            return None
        message = text[start:]
        fields = _fields(message)
        if fields is None:
            return None
        shape = without_figures(message)
        for number in range(self._known.get(shape, 0), len(_CUTS)):
            self._known[shape] = number
            parts = _left(message, fields, _CUTS[number])
            if sum(_room(message[first:last]) + 1 for first, last in parts) <= cells + 1:
                break
        else:
            parts = _left(message, fields, _WIDEST_READ)
        return [(start + first, start + last) for first, last in parts]


def _fields(message: str) -> list[list[_Word]] | None:
    """The words of each field, where the message is made of figures with their names."""
    separator = _SEPARATORS[0] if _SEPARATORS[0] in message else _SEPARATORS[1]
    edges = [0]
    while (at := message.find(separator, edges[-1])) >= 0:
        edges.append(at + len(separator))
    if len(edges) < _FEWEST_FIELDS:
        return None
    token = _OF_DICT if "{'" in message else _TOKEN
    fields = []
    for first, stop in pairwise([*edges, len(message) + len(separator)]):
        words = [
            _Word(found.start(), found.end(), _is_figure(found[0]))
            for found in token.finditer(message, first, stop - len(separator))
        ]
        if not any(word.is_figure for word in words):
            return None
        fields.append(words)
    return fields


def _room(piece: str) -> int:
    """Cells for it in lines with the same words, so that a digit more in one does not change their look."""
    return max(len(piece), _USUAL_FRACTION) if "." in piece and _is_figure(piece) else len(piece)


def _is_figure(word: str) -> bool:
    return any("0" <= letter <= "9" for letter in word) or word in _NO_NUMBER


def _left(message: str, fields: list[list[_Word]], cut: _Cut) -> Parts:
    shared = Counter(name for field in fields for name in {_name(message, word) for word in field})
    parts: Parts = []
    for field in fields:
        names: list[_Word] = []
        for word in field:
            if not word.is_figure:
                names.append(word)
                continue
            own = [name for name in names if cut.has_shared or shared[_name(message, name)] == 1]
            parts += (_piece(name, message, cut.letters) for name in (own or names)[: cut.words])
            parts.append((word.start, word.stop))
            names = []
    return parts


def _name(message: str, word: _Word) -> str:
    return message[word.start : word.stop].rstrip(":.=")


def _piece(word: _Word, message: str, letters: int) -> tuple[int, int]:
    name = _name(message, word)
    if len(name) <= max(_SHORT, letters):
        return word.start, word.start + len(name)
    start = word.start + name.rfind("/") + 1  # `reward/std`
    return start, min(start + letters, word.start + len(name))


_FIGURE = re.compile(r"[-+]?(?:0x[0-9a-f]+|\d+(?:[.,]\d+)*(?:e[-+]?\d+)?)(?: ?[KMGT]i?B\b)?")
_COUNTED = re.compile(r"\d+(?:\.\d+)?(?: ?(?:ms|s|m|h|seconds)\b)?")
_MOST_COUNTED = 3
_ID = re.compile(r"\b[0-9a-f]{16,}\b")
_CLIENT = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}:\d+ - (?:\"GET /(?:metrics|health|ping) )?")


def without_figures(text: str) -> str:
    """Equal for texts that differ in numbers, addresses and sizes alone."""
    return _FIGURE.sub("#", text)


def asked_for(message: str) -> str:
    """What a server was asked for, whoever did; the same for all that asks how it is, as rltui does every
    second. Empty for other messages.
    """
    client = _CLIENT.match(message)
    return "" if client is None else message[client.end() :]


def recurrence(message: str) -> str:
    """Equal for messages that come again and again and count or time something at most, as at each step of a
    run, or say who asked a server for the same; empty for one with figures of its own.
    """
    if asked := asked_for(message):
        return asked
    if not message.strip() or len(message) > _LONGEST:
        return ""
    message = _ID.sub("#", message)
    counted = _COUNTED.findall(message)
    if len(counted) > _MOST_COUNTED or any("." in each and each[-1].isdecimal() for each in counted):
        return ""
    return _COUNTED.sub("#", message)
