"""Which keys a config file may hold: unknown ones, values where tables belong, keys that nobody reads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from rltui.core.config_report import Problem
from rltui.core.knobs import TomlValue, shown
from rltui.core.suggest import did_you_mean
from rltui.core.toml_values import format_key
from rltui.frameworks.base import ConfigFile

_UNKNOWN = "unknown key "
Severity = Literal["error", "warning", "hint"]
Path = tuple[str, ...]

ENTRY = "[]"
"""In a known key, stands for each entry of an array of tables: `env[].id`."""
_MOST = 50
"""Problems that are told of one file: each is compared with all known keys."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """The keys of one role of file, as dotted paths without namespace."""

    what: str
    """Who reads the file: `{what} does not know it`."""
    known: Collection[str]
    """Keys of values; the tables above them are known with them. `env[].id` is a key in `[[env]]`."""
    namespace: str = ""
    """Put before the keys in messages, as in the names of the knobs."""
    free: Collection[str] = ()
    """Keys whose values nobody looks into: arguments for others, whose keys are not ours to know."""
    tables: Collection[str] = ()
    """Further tables that may be there, such as those without a key of their own."""
    unread: Collection[str] = ()
    """Tables in which the framework drops unknown keys without a word: a warning instead of an error."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Key, or `*.` and its last name → what to say of it instead of guessing, such as its name here."""
    dated: Mapping[str, str] = field(default_factory=dict)
    """Keys that only some releases know → what to say of them: a warning."""
    as_of: str = ""
    """When the keys were read, for a framework that others go on with: `August 2026`. A key that is unknown
    here may then be known to another release: a warning, unless it looks like a slip of the pen."""


def key_problems(file: ConfigFile, grammar: Grammar) -> Iterator[Problem]:
    """Keys that are neither known, nor a table above a known one, nor below a free one; in file order, the
    first `_MOST`.
    """
    found = _Walk(file, grammar).table(file.data, (), "")
    yield from islice(found, _MOST)
    if next(found, None) is not None:
        yield Problem(
            severity="warning",
            message=f"more than {_MOST} unknown keys: is it a config of {grammar.what}?",
            file=file.path,
        )


def is_unknown_here(problem: Problem) -> bool:
    """Of a key that another release than the one of `Grammar.as_of` knows, as far as one can tell."""
    return problem.severity == "warning" and problem.message.startswith(_UNKNOWN)


class _Walk:
    def __init__(self, file: ConfigFile, grammar: Grammar) -> None:
        self._file, self._grammar = file, grammar
        self._prefix = f"{grammar.namespace}." if grammar.namespace else ""
        parents = {parent for key in (*grammar.known, *grammar.free) for parent in _parents(key)}
        self._tables = parents | {above for table in grammar.tables for above in (*_parents(table), table)}

    def table(self, table: Mapping[str, Any], path: Path, at: str) -> Iterator[Problem]:
        for key, value in table.items():
            here = f"{at}.{format_key((key,))}" if at else format_key((key,))
            yield from self._value(value, (*path, key), here)

    def _value(self, value: TomlValue, path: Path, at: str) -> Iterator[Problem]:
        grammar = self._grammar
        if at in grammar.free:
            return
        if at in grammar.known:
            if isinstance(value, Mapping) and value and grammar.as_of:
                yield from self._unknown(value, path, at)
            elif isinstance(value, Mapping) and value:
                yield self._problem(path, f"{self._prefix}{at} must be one value, not a table")
        elif at + ENTRY in self._tables:
            yield from self._entries(value, path, at)
        elif at in self._tables:
            if isinstance(value, Mapping):
                yield from self.table(value, path, at)
            else:
                yield self._problem(path, f"{self._prefix}{at} must be a table, not {shown(value)}")
        else:
            yield from self._unknown(value, path, at)

    def _entries(self, value: TomlValue, path: Path, at: str) -> Iterator[Problem]:
        if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
            name = self._prefix + at
            yield self._problem(path, f"{name} must be a list of tables: write [[{at}]]")
            return
        for index, entry in enumerate(value):
            yield from self.table(entry, (*path, str(index)), at + ENTRY)

    def _unknown(self, value: TomlValue, path: Path, at: str) -> Iterator[Problem]:
        grammar, name = self._grammar, self._prefix + format_key(path)
        if dated := grammar.dated.get(at):
            yield self._problem(path, f"{name} {dated}", severity="warning")
            return
        if isinstance(value, Mapping) and value and not _said(at, grammar.renamed):
            for key, below in value.items():
                yield from self._unknown(below, (*path, key), f"{at}.{format_key((key,))}")
            return
        if any(at.startswith(f"{table}.") for table in grammar.unread):
            hint = did_you_mean(at, grammar.known) or f"{grammar.what} does not know it"
            yield self._problem(path, f"{name} is ignored without a word: {hint}", severity="warning")
            return
        known = [key for key in grammar.known if ENTRY not in key or key.startswith(at.partition(ENTRY)[0])]
        placed = _said(at, grammar.renamed) or _elsewhere(at, known)
        slip = "" if placed else did_you_mean(at, known)
        hint = (placed or slip).replace(ENTRY, "")
        if grammar.as_of:
            said = f"{hint or 'it may be newer, or older'} (rltui knows {grammar.what} as of {grammar.as_of})"
            severity: Severity = "error" if slip else "warning"
            yield self._problem(path, f"{_UNKNOWN}{name}: {said}", severity=severity)
        else:
            yield self._problem(path, f"{_UNKNOWN}{name}: {hint or f'{grammar.what} does not know it'}")

    def _problem(self, path: Path, message: str, severity: Severity = "error") -> Problem:
        name = self._prefix + format_key(path)
        return Problem(severity=severity, key=name, message=message, file=self._file.path)


def _parents(key: str) -> Iterator[str]:
    """`a.b[].c` → `a`, `a.b`, `a.b[]`."""
    end = key.find(".")
    while end >= 0:
        parent = key[:end]
        if parent.endswith(ENTRY):
            yield parent.removesuffix(ENTRY)
        yield parent
        end = key.find(".", end + 1)
    if key.endswith(ENTRY):
        yield key.removesuffix(ENTRY)


def _said(key: str, renamed: Mapping[str, str]) -> str:
    """What is said of the key, or of its last name where that alone is listed."""
    return renamed.get(key) or renamed.get(f"*.{key.rpartition('.')[2]}", "")


def _elsewhere(key: str, known: Collection[str]) -> str:
    """A known key that lacks only outer tables, or one of the same last name: set in the wrong table."""
    top, leaf = key.partition(".")[0], key.rpartition(".")[2]
    found = [name for name in known if name.endswith(f".{key}")]
    if not found and any(name.partition(".")[0] == top for name in known):
        found = [name for name in known if name.rpartition(".")[2] == leaf]
    return f"did you mean {' or '.join(sorted(found)[:4])}?" if found else ""
