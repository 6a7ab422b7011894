"""The numbers in log messages: how to shorten the names before them, and which messages differ only in
them.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import NamedTuple

_SEPARATORS = (" | ", ", ")
_TOKEN = re.compile(r"\([^\s()]+\)|[^\s()]+")
"""A word; of `(Step 20)` each without its bracket."""
_DICT_TOKEN = re.compile(r"[^\s{}'\":,]+")
"""The same for Python's `{'loss': 0.4, 'reward': 0.7}`."""
_NOT_NUMBERS = ("nan", "inf", "-inf", "N/A")
_FEWEST_FIELDS = 4
"""A line with this many numbers is read for them, by somebody who knows their names."""
_LONGEST = 600
_SHORT = 4
"""Letters of a word that is never cut."""
_FRACTION_CELLS = 6
"""Cells reserved for a number with a decimal point."""
_ENGINE_LINE = re.compile(r"Engine \d+: Avg prompt throughput: ")
"""vLLM's figures of every ten seconds. They have one form at all widths, whose columns stay in place."""
_ENGINE_FIELDS = tuple(
    (re.compile(regex), cells)
    for regex, cells in (
        (r"(Run)ning: (\d+)", 3),
        (r"(Wait)ing: (\d+)", 3),
        (r"(KV) cache usage: ([\d.]+%)", 6),
        (r"(prompt) throughput: ([\d.]+)", 7),
        (r"(gen)eration throughput: ([\d.]+)", 7),
        (r"[Pp]refix cache (hit) rate: ([\d.]+%)", 6),
        (r"(Engine) (\d*[1-9]\d*):", 3),
    )
)
"""Each has a name and a number; the cells that the number takes at least. The most telling come first."""


class _Token(NamedTuple):
    start: int
    stop: int
    is_number: bool


class _Cut(NamedTuple):
    """Limits on the words before numbers."""

    has_shared: bool
    """Whether words that several fields share stay."""
    letters: int
    words: int


_CUTS = (
    _Cut(has_shared=True, letters=99, words=9),
    _Cut(has_shared=False, letters=99, words=9),
    _Cut(has_shared=False, letters=99, words=1),
    _Cut(has_shared=False, letters=4, words=1),
    _Cut(has_shared=False, letters=3, words=1),
)
"""Sorted from the mildest: units go first."""
_WIDEST_READ = _CUTS[2]
"""Used if no cut fits: the rest can be read by scrolling to the right."""


class Part(NamedTuple):
    """A piece of a text, to be set apart from the one before by a blank."""

    start: int
    stop: int
    indent: int = 0
    """Further blanks before it."""


Parts = list[Part]


class NumberLines:
    """Shortens lines of numbers for one width; those with the same words get the same cut."""

    def __init__(self) -> None:
        self._cut_index: dict[str, int] = {}
        """Words of a line → index of its cut."""

    def parts(self, text: str, start: int, cells: int) -> Parts | None:
        """The remaining pieces of the message from `start` on, to fit into so many cells; `None`: all
        of it.
        """
        if _ENGINE_LINE.match(text, start):
            return _engine_parts(text, start)
        if len(text) - start <= cells or len(text) - start > _LONGEST:
            return None
        message = text[start:]
        fields = _fields(message)
        if fields is None:
            return None
        shape = without_numbers(message)
        for number in range(self._cut_index.get(shape, 0), len(_CUTS)):
            self._cut_index[shape] = number
            pieces = _shorten(message, fields, _CUTS[number])
            if sum(_room(message[piece.start : piece.stop]) + 1 for piece in pieces) <= cells + 1:
                break
        else:
            pieces = _shorten(message, fields, _WIDEST_READ)
        return [Part(start + piece.start, start + piece.stop) for piece in pieces]


def _engine_parts(text: str, start: int) -> Parts:
    parts: Parts = []
    for regex, cells in _ENGINE_FIELDS:
        if match := regex.search(text, start):
            parts += [Part(*match.span(1)), Part(*match.span(2), max(0, cells - len(match[2])))]
    return parts


def _fields(message: str) -> list[list[_Token]] | None:
    """The words of each field, if the message consists of named numbers; else `None`."""
    separator = _SEPARATORS[0] if _SEPARATORS[0] in message else _SEPARATORS[1]
    edges = [0]
    while (separator_start := message.find(separator, edges[-1])) >= 0:
        edges.append(separator_start + len(separator))
    if len(edges) < _FEWEST_FIELDS:
        return None
    token = _DICT_TOKEN if "{'" in message else _TOKEN
    fields = []
    for first, stop in pairwise([*edges, len(message) + len(separator)]):
        words = [
            _Token(match.start(), match.end(), _is_number(match[0]))
            for match in token.finditer(message, first, stop - len(separator))
        ]
        if not any(word.is_number for word in words):
            return None
        fields.append(words)
    return fields


def _room(piece: str) -> int:
    """Cells for a piece in lines with the same words, so that one digit more does not change their look."""
    return max(len(piece), _FRACTION_CELLS) if "." in piece and _is_number(piece) else len(piece)


def _is_number(word: str) -> bool:
    return any("0" <= letter <= "9" for letter in word) or word in _NOT_NUMBERS


def _shorten(message: str, fields: list[list[_Token]], limits: _Cut) -> Parts:
    shared = Counter(name for field in fields for name in {_name(message, word) for word in field})
    pieces: Parts = []
    for index, field in enumerate(fields):
        # The first field says what the line is about.
        most_names, letters = (limits.words, limits.letters) if index else (len(field), len(message))
        names: list[_Token] = []
        for word in field:
            if not word.is_number:
                names.append(word)
                continue
            own = [name for name in names if limits.has_shared or shared[_name(message, name)] == 1]
            pieces += (_piece(name, message, letters) for name in (own or names)[:most_names])
            pieces.append(Part(word.start, word.stop))
            names = []
    return pieces


def _name(message: str, word: _Token) -> str:
    return message[word.start : word.stop].rstrip(":.=")


def _piece(word: _Token, message: str, letters: int) -> Part:
    name = _name(message, word)
    if len(name) <= max(_SHORT, letters):
        return Part(word.start, word.start + len(name))
    start = word.start + name.rfind("/") + 1  # `reward/std`
    return Part(start, min(start + letters, word.start + len(name)))


_NUMBER = re.compile(r"[-+]?(?:0x[0-9a-f]+|\d+(?:[.,]\d+)*(?:e[-+]?\d+)?)(?: ?[KMGT]i?B\b)?")
_COUNT = re.compile(r"\d+(?:\.\d+)?(?: ?(?:ms|s|m|h|seconds)\b)?")
_MOST_COUNTS = 3
_ID = re.compile(r"\b[0-9a-f]{16,}\b")
_CLIENT = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}:\d+ - (?:\"GET /(?:metrics|health|ping) )?")


def without_numbers(text: str) -> str:
    """A text that is equal for texts that differ in numbers, addresses and sizes alone."""
    return _NUMBER.sub("#", text)


def request_of(message: str) -> str:
    """The request in a server's log line, whoever sent it; the same for all health checks, such as rltui's
    own every second. Empty for other messages.
    """
    client = _CLIENT.match(message)
    return "" if client is None else message[client.end() :]


def recurrence(message: str) -> str:
    """A text that is equal for messages that recur and count or time something at most, as at each step of a
    run, or that report the same request to a server; empty for a message with measured values.
    """
    if request := request_of(message):
        return request
    if not message.strip() or len(message) > _LONGEST:
        return ""
    message = _ID.sub("#", message)
    numbers = _COUNT.findall(message)
    if len(numbers) > _MOST_COUNTS or any("." in number and number[-1].isdecimal() for number in numbers):
        return ""
    return _COUNT.sub("#", message)
