"""Parses filters of runs: `reward > 0.8 and lr < 1e-5`, `tag:baseline`, `name:~^sft`, `lr`. Pure.

runs    := all of these, with `and` or nothing between them; `or` between several, `not`, ( … )
each    := NAME < VALUE (<= > >= == != ~ !~) | FIELD:VALUE | FIELD:~REGEX | is:WORD | a part of the name
NAME    := a column of the list: a field, a metric (`reward`, `reward.best`), the end of a config key
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from rltui.base.text import parse_number, unknown_name
from rltui.base.times import MOMENT_HINT, parse_moment, parse_span
from rltui.core.experiment.states import RUN_STATES, RunState
from rltui.core.runs.row import RunRow
from rltui.errors import UsageError
from rltui.views.run import RunColumn, check_names, column_of

_Predicate = Callable[[RunRow, Mapping[str, Any]], bool]
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<qualifier>[A-Za-z_][\w.\-]*:(?=[^\s)]))
    | (?P<operator><=|>=|==|!=|!~|<|>|=|~)
    | (?P<bracket>[()])
    | (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<word>[^\s()<>=!~"']+)
    )""",
    re.VERBOSE,
)
_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _is_in(state: RunState, row: RunRow) -> bool:
    return row.state == state


_IS_WORDS: Mapping[str, tuple[str, Callable[[RunRow], bool]]] = {
    "living": ("state", lambda row: row.is_alive),
    **{state: ("state", partial(_is_in, state)) for state in RUN_STATES},
    "best": ("best", lambda row: row.is_best),
    "archived": ("archived", lambda row: row.archived_at is not None),
    "trashed": ("trashed", lambda row: row.trashed_at is not None),
    "dirty": ("commit", lambda row: row.is_dirty),
    "observed": ("folder", lambda row: row.observed),
    "fork": ("parent", lambda row: bool(row.parent)),
    "evaluation": ("kind", lambda row: row.kind == "evaluation"),
}
"""Word → its column, and its test."""
_SIZE = re.compile(r"([\d.]+)\s*([KMGT]?)i?B?", re.IGNORECASE)
_LONGEST, _DEEPEST = 4000, 50
"""Characters of a filter, and brackets in brackets."""
_CONNECTIVES = frozenset({"and", "or", "not"})
_EXAMPLE = (
    "for example: reward > 0.8 and lr < 1e-5, tag:baseline, 'age < 2d', not state == failed, name:~^sft"
)


@dataclass(frozen=True, slots=True)
class RunFilter:
    text: str
    columns: tuple[RunColumn, ...]
    _comparison: _Predicate

    @property
    def needs_config(self) -> bool:
        """It uses config keys: `matches` needs the config of the run."""
        return any(column.of_config for column in self.columns)

    def matches(self, row: RunRow, config: Mapping[str, Any]) -> bool:
        """Whether the filter selects the run. A missing value is neither above nor below anything."""
        return self._comparison(row, config)

    def chosen(
        self, rows: Iterable[RunRow], configs: Mapping[str, Mapping[str, Any]], *, with_archived: bool = False
    ) -> list[RunRow]:
        """The selected `rows`, in their order. Archived and trashed ones are left out if the filter does not
        ask about that.
        """
        column_ids = {column.id for column in self.columns}
        archived, trashed = with_archived or "archived" in column_ids, "trashed" in column_ids
        return [
            row
            for row in rows
            if (archived or row.archived_at is None)
            and (trashed or row.trashed_at is None)
            and self._comparison(row, configs.get(row.id, {}))
        ]

    def check(self, configs: Mapping[str, Mapping[str, Any]]) -> None:
        """Check that its config keys exist in some of these runs.

        Raises:
            UsageError: with the nearest key.
        """
        check_names(self.columns, configs)


def parse_filter(text: str, *, now: float = 0.0, ids: Mapping[str, str] | None = None) -> RunFilter:
    """Parse a typed filter; an empty text selects all runs.

    `now`: for ages and times. `ids`: of runs by name, for `parent:NAME`.

    Raises:
        UsageError: with the position, the error below it, and advice.
    """
    parser = _Parser(text, now, ids or {})
    test = parser.parse()
    return RunFilter(text, tuple({column.id: column for column in parser.columns}.values()), test)


class _Token(NamedTuple):
    kind: str
    """Name of a group of `_TOKEN`, or `end`."""
    text: str
    at: int


class _Parser:
    def __init__(self, text: str, now: float, ids: Mapping[str, str]) -> None:
        self._text, self._now, self._ids = text, now, ids
        self.columns: list[RunColumn] = []
        if len(text) > _LONGEST:
            raise UsageError(f"filter too long ({len(text)} characters, at most {_LONGEST})", hint=_EXAMPLE)
        self._tokens = list(self._split())
        self._next = self._depth = 0

    # --- words --------------------------------------------------------------------------------------------

    def _split(self) -> Iterator[_Token]:
        offset, end = 0, len(self._text.rstrip())
        while offset < end:
            match = _TOKEN.match(self._text, offset)
            if match is None:
                error_offset = offset + len(self._text[offset:]) - len(self._text[offset:].lstrip())
                raise self._error(
                    error_offset, f"unexpected {self._text[error_offset]!r}", "quote text with '…'"
                )
            kind = match.lastgroup or ""
            yield _Token(kind, match[kind], match.start(kind))
            offset = match.end()
            if kind == "qualifier" and self._text[offset] == "~":
                offset = self._regex_end(offset + 1)
                yield _Token("regex", self._text[match.end() + 1 : offset], match.end() + 1)
        yield _Token("end", "", end)

    def _regex_end(self, offset: int) -> int:
        """End of the regex: a space, or a bracket that was opened before it began."""
        depth = 0
        while offset < len(self._text) and not self._text[offset].isspace():
            depth += {"(": 1, ")": -1}.get(self._text[offset], 0)
            if depth < 0:
                break
            offset += 2 if self._text[offset] == "\\" else 1
        return min(offset, len(self._text))

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._token
        self._next += token.kind != "end"
        return token

    def _is_word(self, *words: str) -> bool:
        return self._token.kind == "word" and self._token.text.lower() in words

    def _error(self, offset: int, title: str, hint: str = "") -> UsageError:
        return UsageError(
            f"invalid filter: {title}",
            details=(self._text, f"{' ' * offset}^"),
            hint=hint or _EXAMPLE,
        )

    # --- grammar ------------------------------------------------------------------------------------------

    def parse(self) -> _Predicate:
        """Parse the whole filter.

        Raises:
            UsageError: at a token that does not belong there.
        """
        if self._token.kind == "end":
            return lambda *_: True
        test = self._disjunction()
        if self._token.kind != "end":
            raise self._error(self._token.at, f"unexpected {self._token.text!r}")
        return test

    def _disjunction(self) -> _Predicate:
        tests = [self._conjunction()]
        while self._is_word("or"):
            self._take()
            tests.append(self._conjunction())
        return tests[0] if len(tests) == 1 else lambda row, config: any(test(row, config) for test in tests)

    def _conjunction(self) -> _Predicate:
        tests = [self._negation()]
        while self._token.kind != "end" and not self._is_word("or") and self._token.text != ")":
            if self._is_word("and"):
                self._take()
            tests.append(self._negation())
        return tests[0] if len(tests) == 1 else lambda row, config: all(test(row, config) for test in tests)

    def _negation(self) -> _Predicate:
        is_negated = False
        while self._is_word("not"):
            self._take()
            is_negated = not is_negated
        return _negate(self._term(), when=is_negated)

    def _term(self) -> _Predicate:
        token = self._take()
        if token.kind == "bracket" and token.text == "(":
            if self._depth == _DEEPEST:
                raise self._error(token.at, f"more than {_DEEPEST} nested parentheses")
            self._depth += 1
            test = self._disjunction()
            self._depth -= 1
            if self._take().text != ")":
                raise self._error(token.at, "unclosed '('")
            return test
        if token.kind == "qualifier":
            return self._qualified(token)
        if token.kind in ("word", "quoted") and self._token.kind == "operator":
            column, sign, value = self._column(token, _unquote(token)), self._take(), self._take()
            if value.kind == "qualifier":  # 14:30, a:b
                rest = self._take()
                value = _Token("word", value.text + rest.text, value.at)
            if value.kind not in ("word", "quoted"):
                raise self._error(value.at, f"no value after {token.text} {sign.text}")
            return self._comparison(column, sign.text, value)
        if token.kind == "end":
            raise self._error(token.at, "incomplete: a condition is missing")
        if token.kind not in ("word", "quoted") or token.text.lower() in _CONNECTIVES:
            raise self._error(token.at, f"unexpected {token.text!r}")
        name_part = _unquote(token).casefold()
        return lambda row, _: name_part in row.name.casefold()

    # --- what is compared ---------------------------------------------------------------------------------

    def _qualified(self, name: _Token) -> _Predicate:
        field, value = name.text[:-1], self._take()
        if field == "is":
            if value.text not in _IS_WORDS:
                raise self._error(
                    value.at, f"unknown: is:{value.text}", unknown_name("is:", value.text, _IS_WORDS).hint
                )
            about, has = _IS_WORDS[value.text]
            self.columns.append(column_of(about))
            return lambda row, _: has(row)
        column = self._column(name, field)
        if value.kind == "regex":
            return self._comparison(column, "~", value)
        if value.kind == "operator" and value.text in _ORDER:
            return self._comparison(column, value.text, self._take())
        if value.kind not in ("word", "quoted"):
            raise self._error(value.at, f"no value after {name.text}")
        return self._comparison(column, "==", value)

    def _column(self, token: _Token, name: str) -> RunColumn:
        try:
            column = column_of(name)
        except UsageError as error:
            raise self._error(token.at, error.title, error.hint) from None
        self.columns.append(column)
        return column

    def _comparison(self, column: RunColumn, sign: str, token: _Token) -> _Predicate:
        text = _unquote(token)
        if sign in ("~", "!~"):
            return _negate(self._regex_test(column, text, token.at), when=sign == "!~")
        if sign in ("=", "==", "!="):
            return _negate(self._equality_test(column, text, token), when=sign == "!=")
        bound, compare = self._value(column, text, token), _ORDER[sign]
        if isinstance(bound, str):
            raise self._error(token.at, f"{column.id} {sign} needs a number, not {text!r}")
        get, age = column.value, self._now if column.kind == "age" else None

        def test(row: RunRow, config: Mapping[str, Any]) -> bool:
            value = get(row, config)
            if not isinstance(value, int | float):
                return False
            return compare(value if age is None else age - value, bound)

        return test

    def _regex_test(self, column: RunColumn, text: str, offset: int) -> _Predicate:
        try:
            pattern = re.compile(text, re.IGNORECASE)
        except (re.error, OverflowError, RecursionError) as error:
            raise self._error(offset, f"invalid regular expression {text!r}: {error}") from None

        def test(row: RunRow, config: Mapping[str, Any]) -> bool:
            return any(pattern.search(text_) for text_ in _texts(column.value(row, config)))

        return test

    def _equality_test(self, column: RunColumn, text: str, token: _Token) -> _Predicate:
        if text == "none" and token.kind == "word":
            return lambda row, config: column.value(row, config) in (None, "")
        if column.id in ("parent", "again"):
            text = self._ids.get(text, text)
        if column.id == "state" and text not in RUN_STATES:
            raise self._error(
                token.at, f"unknown state: {text}", unknown_name("state", text, RUN_STATES).hint
            )
        expected = self._value(column, text, token)
        if column.kind in ("age", "time"):
            raise self._error(token.at, f"{column.id} can only be compared with < and >", _EXAMPLE)
        lower = text.casefold()

        def test(row: RunRow, config: Mapping[str, Any]) -> bool:
            value = column.value(row, config)
            if isinstance(value, bool):
                return value == (lower in ("true", "yes"))
            if isinstance(value, int | float):
                return bool(value == expected)
            return any(text_.casefold() == lower for text_ in _texts(value))

        return test

    def _value(self, column: RunColumn, text: str, token: _Token) -> float | str:
        """A number if the column has numbers; for a config key a number if possible."""
        value_: float | None = None
        hint = ""
        match column.kind:
            case "seconds" | "age":
                value_, hint = parse_span(text), "an age: 90s, 30m, 2h, 1d12h"
            case "time":
                value_, hint = parse_moment(text, self._now), MOMENT_HINT
            case "bytes":
                value_, hint = _size(text), "a size: 500MB, 2GiB"
            case "number" | "steps":
                value_, hint = _amount(text), "a number: 0.8, 1e-5, 50%, 10k"
            case "flag" | "text" | "words":
                return text
            case "config":
                value = _amount(text)
                return text if value is None else value
        if value_ is None:
            raise self._error(token.at, f"{column.id} cannot be compared with {text!r}", hint)
        return value_


def _negate(test: _Predicate, *, when: bool) -> _Predicate:
    return (lambda row, config: not test(row, config)) if when else test


def _unquote(token: _Token) -> str:
    return re.sub(r"\\(.)", r"\1", token.text[1:-1]) if token.kind == "quoted" else token.text


def _texts(value: object) -> Iterable[str]:
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return [str(item) for item in value]
    return (str(value),)


def _amount(text: str) -> float | None:
    """Value of `0.8`, `1e-5`, `50%`, `10k`, `2M`; `None` for other texts."""
    factor = {"%": 0.01, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}.get(text[-1:], 1.0)
    value = parse_number(text if factor == 1.0 else text[:-1])
    return None if value != value else value * factor


def _size(text: str) -> float | None:
    match = _SIZE.fullmatch(text)
    value = parse_number(match[1]) if match else float("nan")
    if match is None or value != value:
        return None
    return value * float(1024 ** " KMGT".index(match[2].upper() or " "))
