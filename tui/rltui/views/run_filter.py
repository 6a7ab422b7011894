"""Parses filters of runs: `reward > 0.8 and lr < 1e-5`, `tag:baseline`, `name:~^sft`, `lr`. Pure.

runs    := all of these, with `and` or nothing between them; `or` between several, `not`, ( … )
each    := NAME < VALUE (<= > >= == != ~ !~) | FIELD:VALUE | FIELD:~REGEX | is:WORD | a part of the name
NAME    := a column of the list: a field, a metric (`reward`, `reward.best`), the end of a config key
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from rltui.base.text import parse_amount, parse_number, unknown_name
from rltui.base.times import MOMENT_HINT, parse_moment, parse_span
from rltui.base.values import InvalidValueError, from_json
from rltui.core.config.data import config_value
from rltui.core.experiment.states import RUN_STATES
from rltui.core.runs.row import RunRow
from rltui.errors import UsageError
from rltui.services.runs.query import RunQuery
from rltui.views.run import RunColumn, check_names, column_of

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
_ORDER = frozenset({"<", "<=", ">", ">="})


def _at(*path: str | int) -> str:
    """The SQL of a value in a row, by its path."""
    parts = (f"[{part}]" if isinstance(part, int) else f'."{part}"' for part in path)
    return f"json_extract(document, '${''.join(parts)}')"


_IS_WORDS: Mapping[str, tuple[str, str]] = {
    "living": ("state", "is_alive"),
    **{state: ("state", f"{_at('state')} = '{state}'") for state in RUN_STATES},
    "best": ("best", _at("is_best")),
    "archived": ("archived", "archived_at IS NOT NULL"),
    "trashed": ("trashed", "trashed_at IS NOT NULL"),
    "dirty": ("commit", _at("is_dirty")),
    "observed": ("folder", _at("observed")),
    "fork": ("parent", f"{_at('parent')} <> ''"),
    "evaluation": ("kind", f"{_at('kind')} = 'evaluation'"),
}
"""Word → its column, and its condition."""
_SIZE = re.compile(r"([\d.]+)\s*([KMGT]?)i?B?", re.IGNORECASE)
_LONGEST, _DEEPEST = 4000, 50
"""Characters of a filter, and brackets in brackets."""
_FLAGS = {"yes": "true", "no": "false"}
_CONNECTIVES = frozenset({"and", "or", "not"})
_EXAMPLE = (
    "for example: reward > 0.8 and lr < 1e-5, tag:baseline, 'age < 2d', not state == failed, name:~^sft"
)


@dataclass(frozen=True, slots=True)
class RunFilter:
    """A typed filter as a condition over the table of runs. It is true or false of each run: a missing
    value is neither above nor below anything.
    """

    text: str
    columns: tuple[RunColumn, ...]
    where: str
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def needs_config(self) -> bool:
        return any(column.of_config for column in self.columns)

    def check(self, configs: Mapping[str, Mapping[str, Any]]) -> None:
        """Check that its config keys exist in some of these runs.

        Raises:
            UsageError: with the nearest key.
        """
        check_names(self.columns, configs)


def parse_filter(text: str, *, now: float = 0.0) -> RunFilter:
    """Parse a typed filter; an empty text selects all runs. `now`: for ages and times.

    Raises:
        UsageError: with the position, the error below it, and advice.
    """
    parser = _Parser(text, now)
    where = parser.parse()
    columns = {column.id: column for column in parser.columns}
    return RunFilter(text, tuple(columns.values()), where, parser.values)


def run_query(
    run_filter: RunFilter | None = None,
    *,
    with_archived: bool = True,
    with_trashed: bool = True,
    sort: RunColumn | None = None,
    is_reversed: bool = False,
    living_first: bool = False,
) -> RunQuery:
    """The runs that a filter selects, sorted by a column: texts from A on, times and numbers from the largest
    on, or from the smallest where less is better; `is_reversed` inverts that. Runs without a value come last,
    either way; equal ones stay in the usual order.

    The usual order: living runs first, those that began last in front; then the others, those that ended last
    in front.
    """
    conditions = [] if run_filter is None else [run_filter.where]
    conditions += [] if with_archived else ["archived_at IS NULL"]
    conditions += [] if with_trashed else ["trashed_at IS NULL"]
    order = ["is_alive DESC"] if living_first else []
    if sort is None:
        order += [f"{name} {'ASC' if is_reversed else 'DESC'}" for name in ("is_alive", "at", "id")]
    else:
        order += [*_sorting(sort, is_reversed=is_reversed), "is_alive DESC", "at DESC", "id DESC"]
    return RunQuery(
        _joined(conditions, "AND") if conditions else "1",
        ", ".join(order),
        {**(run_filter.values if run_filter else {}), "sort": "" if sort is None else sort.id},
        "" if sort is None else _sort_value(sort),
        _FUNCTIONS,
        needs_config=bool((run_filter and run_filter.needs_config) or (sort and sort.of_config)),
    )


def _sorting(column: RunColumn, *, is_reversed: bool) -> Iterator[str]:
    up, down = ("DESC", "ASC") if is_reversed else ("ASC", "DESC")
    yield "sort_value IS NULL"
    yield f"typeof(sort_value) = 'text' {up}"
    numbers = up if column.smallest_first else down
    yield f"CASE typeof(sort_value) WHEN 'text' THEN 0 ELSE sort_value END {numbers}"
    yield f"CASE typeof(sort_value) WHEN 'text' THEN casefold(sort_value) END {up}"


# --- columns in SQL -----------------------------------------------------------------------------------------

_IN_LIST = "CASE type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE value END"


def _value(column: RunColumn, name: str) -> str:
    """The value of a column, NULL where a run has none: of a `flag` the word `true`, of `words` and `config`
    as JSON. `name`: the parameter with the id of the column.
    """
    if column.computed is not None:
        return f"column_value({name}, document)"
    values = [_at(*path) for path in column.paths]
    if column.of_config:
        values = [f"config_value(config, {name})", *(f"json_quote({value})" for value in values)]
    value = f"COALESCE({', '.join(values)})" if len(values) > 1 else values[0]
    match column.kind:
        case "flag":
            return f"CASE {value} WHEN 1 THEN 'true' END"
        case "text":
            return f"NULLIF({value}, '')"
        case _:
            return f"NULLIF({value}, 0)" if column.is_zero_none else value


def _any(column: RunColumn, name: str, condition: Callable[[str], str]) -> str:
    """The SQL that a condition holds for the value, or for one of several. It is never NULL."""
    value = _value(column, name)
    if column.kind in ("words", "config"):
        return f"EXISTS (SELECT 1 FROM json_each({value}) WHERE {condition(_IN_LIST)})"  # noqa: S608 - ours
    return f"COALESCE({condition(value)}, 0)"


def _sort_value(column: RunColumn) -> str:
    value = _value(column, ":sort")
    if column.kind not in ("words", "config"):
        return value
    joined = "CASE WHEN max(key) IS NULL THEN max(value) ELSE group_concat(value, ' ') END"  # one has no key
    return f"(SELECT {joined} FROM json_each({value}))"  # noqa: S608 - ours


def _config_value(config: bytes, name: str) -> str | None:
    """The value of a config key as JSON."""
    try:
        value = config_value(orjson.loads(config), name)
    except ValueError:  # it is damaged
        return None
    return None if value is None else orjson.dumps(value).decode()


def _column_value(id_: str, document: str | None) -> Any:  # noqa: ANN401 - what the column computes
    try:
        return None if document is None else column_of(id_).value(from_json(RunRow, document))
    except InvalidValueError:  # it is damaged
        return None


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "casefold": lambda value: None if value is None else str(value).casefold(),
    "is_match": lambda pattern, value: value is not None and bool(re.search(pattern, str(value), re.I)),
    "config_value": _config_value,
    "column_value": _column_value,
}


def _joined(conditions: Sequence[str], connective: str) -> str:
    """Join conditions in a balanced tree: sqlite refuses one that is 1,000 levels deep."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    sides = (_joined(part, connective) for part in (conditions[:middle], conditions[middle:]))
    return f"({f' {connective} '.join(sides)})"


# --- what is typed ------------------------------------------------------------------------------------------


class _Token(NamedTuple):
    kind: str
    """Name of a group of `_TOKEN`, or `end`."""
    text: str
    at: int


class _Parser:
    def __init__(self, text: str, now: float) -> None:
        self._text, self._now = text, now
        self.columns: list[RunColumn] = []
        self.values: dict[str, Any] = {"now": now}
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

    def _parameter(self, value: object) -> str:
        """The name of a new parameter with this value."""
        name = f"p{len(self.values)}"
        self.values[name] = value
        return f":{name}"

    # --- grammar ------------------------------------------------------------------------------------------

    def parse(self) -> str:
        """Parse the whole filter.

        Raises:
            UsageError: at a token that does not belong there.
        """
        if self._token.kind == "end":
            return "1"
        condition = self._disjunction()
        if self._token.kind != "end":
            raise self._error(self._token.at, f"unexpected {self._token.text!r}")
        return condition

    def _disjunction(self) -> str:
        conditions = [self._conjunction()]
        while self._is_word("or"):
            self._take()
            conditions.append(self._conjunction())
        return _joined(conditions, "OR")

    def _conjunction(self) -> str:
        conditions = [self._negation()]
        while self._token.kind != "end" and not self._is_word("or") and self._token.text != ")":
            if self._is_word("and"):
                self._take()
            conditions.append(self._negation())
        return _joined(conditions, "AND")

    def _negation(self) -> str:
        is_negated = False
        while self._is_word("not"):
            self._take()
            is_negated = not is_negated
        return _negate(self._term(), when=is_negated)

    def _term(self) -> str:
        token = self._take()
        if token.kind == "bracket" and token.text == "(":
            if self._depth == _DEEPEST:
                raise self._error(token.at, f"more than {_DEEPEST} nested parentheses")
            self._depth += 1
            condition = self._disjunction()
            self._depth -= 1
            if self._take().text != ")":
                raise self._error(token.at, "unclosed '('")
            return condition
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
        name_part = self._parameter(_unquote(token).casefold())
        return f"instr(casefold(name), {name_part}) > 0"

    # --- what is compared ---------------------------------------------------------------------------------

    def _qualified(self, name: _Token) -> str:
        field, value = name.text[:-1], self._take()
        if field == "is":
            if value.text not in _IS_WORDS:
                raise self._error(
                    value.at, f"unknown: is:{value.text}", unknown_name("is:", value.text, _IS_WORDS).hint
                )
            about, condition = _IS_WORDS[value.text]
            self.columns.append(column_of(about))
            return f"COALESCE({condition}, 0)"
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

    def _comparison(self, column: RunColumn, sign: str, token: _Token) -> str:
        text = _unquote(token)
        if sign in ("~", "!~"):
            return _negate(self._regex_test(column, text, token.at), when=sign == "!~")
        if sign in ("=", "==", "!="):
            return _negate(self._equality_test(column, text, token), when=sign == "!=")
        bound = self._value(column, text, token)
        if isinstance(bound, str):
            raise self._error(token.at, f"{column.id} {sign} needs a number, not {text!r}")
        limit, start = self._parameter(bound), ":now - " if column.kind == "age" else ""
        return self._any(column, lambda value: f"typeof({value}) <> 'text' AND {start}{value} {sign} {limit}")

    def _any(self, column: RunColumn, condition: Callable[[str], str]) -> str:
        return _any(column, self._parameter(column.id), condition)

    def _regex_test(self, column: RunColumn, text: str, offset: int) -> str:
        try:
            re.compile(text, re.IGNORECASE)
        except (re.error, OverflowError, RecursionError) as error:
            raise self._error(offset, f"invalid regular expression {text!r}: {error}") from None
        pattern = self._parameter(text)
        return self._any(column, lambda value: f"is_match({pattern}, {value})")

    def _equality_test(self, column: RunColumn, text: str, token: _Token) -> str:
        if text == "none" and token.kind == "word":
            return _negate(self._any(column, lambda value: f"{value} <> ''"), when=True)
        if column.id == "state" and text not in RUN_STATES:
            raise self._error(
                token.at, f"unknown state: {text}", unknown_name("state", text, RUN_STATES).hint
            )
        expected = self._value(column, text, token)
        if column.kind in ("age", "time"):
            raise self._error(token.at, f"{column.id} can only be compared with < and >", _EXAMPLE)
        lower = text.casefold()
        words = {lower, _FLAGS.get(lower, lower)} if column.kind in ("flag", "config") else {lower}
        texts = ", ".join(map(self._parameter, sorted(words)))
        number = self._parameter(None if isinstance(expected, str) else expected)
        condition = self._any(
            column,
            lambda value: (
                f"CASE typeof({value}) WHEN 'text' THEN casefold({value}) IN ({texts})"
                f" ELSE {value} = {number} END"
            ),
        )
        if column.id not in ("parent", "again"):
            return condition
        names = f"(SELECT id FROM run WHERE name = {self._parameter(text)})"  # noqa: S608
        return _joined([condition, f"{_at(column.id)} IN {names}"], "OR")

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
                value_, hint = parse_amount(text), "a number: 0.8, 1e-5, 50%, 10k"
            case "flag" | "text" | "words":
                return text
            case "config":
                value = parse_amount(text)
                return text if value is None else value
        if value_ is None:
            raise self._error(token.at, f"{column.id} cannot be compared with {text!r}", hint)
        return value_


def _negate(condition: str, *, when: bool) -> str:
    return f"NOT {condition}" if when else condition


def _unquote(token: _Token) -> str:
    return re.sub(r"\\(.)", r"\1", token.text[1:-1]) if token.kind == "quoted" else token.text


def _size(text: str) -> float | None:
    match = _SIZE.fullmatch(text)
    value = parse_number(match[1]) if match else float("nan")
    if match is None or value != value:
        return None
    return value * float(1024 ** " KMGT".index(match[2].upper() or " "))
