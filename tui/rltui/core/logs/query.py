"""A search in logs: a pattern over displayed text, and a coarser one for raw lines.

A file of gigabytes is searched for the latter first; only the matching lines are decoded.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as sre_parser  # type: ignore[attr-defined]
from typing import Any

from rltui.base.text import INVISIBLE
from rltui.errors import UsageError

_LONGEST_PATTERN = 1000
_UNTYPABLE = re.compile(f"[\t{INVISIBLE}]")


def pattern_of(text: str | None, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str] | None:
    """The pattern of an option that may be missing. Raises UsageError if it is none."""
    try:
        return None if text is None else compile_pattern(text, flags)
    except ValueError as error:
        raise UsageError(f"not a regular expression: {text}: {error}") from None


def compile_pattern(text: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """The regular expression that a person typed.

    Raises:
        ValueError: it is none; with the reason.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of what another version may read otherwise
            return re.compile(text, flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from None


@dataclass(frozen=True)
class Query:
    """A pattern over the text of lines as they are shown."""

    pattern: re.Pattern[str]
    text: str
    is_plain: bool = False

    @classmethod
    def from_text(cls, text: str) -> Query:
        """A query typed on the screen: plain text if it is no regular expression.

        Upper and lower case are one unless there is an upper-case letter in it.

        Raises:
            UsageError: it is too long.
        """
        text = _UNTYPABLE.sub("", text)
        if len(text) > _LONGEST_PATTERN:
            raise UsageError(f"pattern too long: at most {_LONGEST_PATTERN} characters, not {len(text)}")
        has_upper_case = any(letter.isupper() for letter in re.sub(r"\\.", "", text))
        flags = re.NOFLAG if has_upper_case else re.IGNORECASE
        try:
            return cls(compile_pattern(text, flags), text)
        except ValueError:
            return cls(re.compile(re.escape(text), flags), text, is_plain=True)

    def matches(self, text: str) -> bool:
        return self.pattern.search(text) is not None

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Start and end of each match in the text, without empty ones."""
        return (match.span() for match in self.pattern.finditer(text) if match.end() > match.start())

    @cached_property
    def candidates(self) -> Candidates:
        return _Translation(self.pattern).candidates


@dataclass(frozen=True, slots=True)
class Candidates:
    """A superset of the raw lines that match, colours and tabs included."""

    posix: bytes
    """An extended regular expression for bytes, with the extensions of GNU grep; empty: every line."""
    ignores_case: bool
    words: tuple[bytes, ...]
    """At least one of them is in each line that matches, also of JSON logging; empty: nothing is known. In
    lower case if that is ignored.
    """

    def may_be_in(self, data: bytes) -> bool:
        """Whether the data has one of the words, if there are any."""
        data = data.lower() if self.ignores_case else data
        return not self.words or any(word in data for word in self.words)


_INVISIBLE = b"\x1b\\[[0-9;]*m|[\x01-\x08\x0b-\x1f\x7f]"
"""Colours, and control characters but for NUL, which no argument of a program can have."""
_COLOURS = b"(" + _INVISIBLE + b")*"
_BLANKS = b"([ \t]|" + _INVISIBLE + b")*"
_BEYOND_ASCII = b"\x80-\xff"
_MAX_COUNT = 16
"""More repetitions than this are not counted."""
_SPECIAL = frozenset(rb".[]\()*+?{}|^$")

_ANYTHING = b".*"
"""Used even for a single character: a tab is displayed as several."""
_CATEGORIES = {
    sre.CATEGORY_DIGIT: b"0-9" + _BEYOND_ASCII,
    sre.CATEGORY_WORD: b"0-9A-Z_a-z" + _BEYOND_ASCII,
}
_Tree = Iterable[tuple[Any, Any]]


class _Translation:
    """A Python pattern translated, by the tree that its own compiler builds, into a more generous one.

    Between letters and digits, and in place of blanks, a raw line may have colours.
    """

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._folds = bool(pattern.flags & re.IGNORECASE)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)
                tree = sre_parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
        except (re.error, RecursionError):
            self.candidates = Candidates(b"", self._folds, ())
            return
        posix = self._sequence(tree)
        words = max(self._required(tree), key=_worth, default=())
        words = tuple(map(bytes.lower, words)) if self._folds else words
        self.candidates = Candidates(posix, self._folds, words)

    def _sequence(self, tree: _Tree) -> bytes:
        pieces: list[bytes] = []
        last_kind = ""
        for op, value in tree:
            kind = _kind_of(value) if op is sre.LITERAL else ""
            if kind == "blank":
                if last_kind != "blank":
                    pieces.append(_BLANKS)
            else:
                if pieces and last_kind != "blank" and (kind != last_kind or not kind):
                    pieces.append(_COLOURS)
                pieces.append(self._piece(op, value))
            last_kind = kind
        return b"".join(pieces)

    def _piece(self, op: Any, value: Any) -> bytes:  # noqa: ANN401 - the compiler's own tree
        if op is sre.LITERAL:
            return self._literal(value)
        if op is sre.IN:
            return self._class(value)
        if op in (sre.ANY, sre.NOT_LITERAL):
            return _ANYTHING
        if op is sre.SUBPATTERN:
            self._folds |= bool(value[1] & re.IGNORECASE)
            return b"(" + self._sequence(value[3]) + b")"
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            least, most, tree = value
            return b"(" + self._sequence(tree) + b")" + _count(int(least), int(most))
        if op is sre.ATOMIC_GROUP:
            return b"(" + self._sequence(value) + b")"
        if op is sre.BRANCH:
            return b"(" + b"|".join(map(self._sequence, value[1])) + b")"
        return b"" if op in (sre.AT, sre.ASSERT, sre.ASSERT_NOT) else _ANYTHING

    def _literal(self, code: int) -> bytes:
        letter = chr(code)
        if not letter.isascii():
            return _ANYTHING if self._folds else _escaped(letter.encode(errors="replace"))
        return _escaped(letter.encode()) if code >= 0x20 else _ANYTHING

    def _class(self, members: list[tuple[Any, Any]]) -> bytes:
        alternatives: list[bytes] = []
        for op, value in members:
            if op is sre.LITERAL and 0x20 < value < 0x7F:
                alternatives.append(bytes([value]))
            elif op is sre.RANGE and 0x20 < value[0] <= value[1] < 0x7F:
                alternatives.extend(bytes([code]) for code in range(value[0], value[1] + 1))
            elif op is sre.CATEGORY and value in _CATEGORIES:
                alternatives.append(_CATEGORIES[value])
            else:
                return _ANYTHING
        ranges = b"".join(piece for piece in alternatives if len(piece) > 1)
        single = {piece for piece in alternatives if len(piece) == 1}
        ends = (b"^" if b"^" in single else b"") + (b"-" if b"-" in single else b"")
        start = b"]" if b"]" in single else b""
        middle = b"".join(sorted(single - {b"]", b"^", b"-", b"["})) + (b"[" if b"[" in single else b"")
        if not start and not ranges and not middle and ends.startswith(b"^"):
            return b"(\\^|-)"
        many = b"+" if ranges else b""
        return b"[" + start + ranges + middle + ends + b"]" + many

    def _required(self, tree: _Tree) -> Iterator[tuple[bytes, ...]]:
        """Alternatives of words, of which a matching line has at least one each."""
        text = ""
        for op, value in (*tree, (None, None)):
            kind = _kind_of(value) if op is sre.LITERAL else ""
            if kind in ("letter", "digit") and (not text or _kind_of(ord(text[-1])) == kind):
                text += chr(value)
                continue
            if text:
                yield (text.encode(),)
            text = chr(value) if kind in ("letter", "digit") else ""
            if op is sre.SUBPATTERN:
                yield from self._required(value[3])
            elif op is sre.ATOMIC_GROUP:
                yield from self._required(value)
            elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT) and value[0] > 0:
                yield from self._required(value[2])
            elif op is sre.BRANCH:
                best = [max(self._required(branch), key=_worth, default=()) for branch in value[1]]
                if all(best):
                    yield tuple(word for words in best for word in words)


def _kind_of(code: int) -> str:
    letter = chr(code)
    if not letter.isascii():
        return "other"
    if letter in " \t":
        return "blank"
    return "letter" if letter.isalpha() or letter == "_" else "digit" if letter.isdigit() else "sign"


def _worth(words: tuple[bytes, ...]) -> int:
    """Selectivity of a set of words: by the shortest, and the fewer the better."""
    return min(map(len, words), default=0) * 10 - len(words)


def _count(least: int, most: int) -> bytes:
    if least == 0:
        return b"?" if most == 1 else b"*"
    return b"" if most == 1 else b"{%d,}" % least if 1 < least <= _MAX_COUNT else b"+"


def _escaped(data: bytes) -> bytes:
    return b"".join(b"\\" + bytes([byte]) if byte in _SPECIAL else bytes([byte]) for byte in data)
