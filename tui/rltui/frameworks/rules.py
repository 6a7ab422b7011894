"""Checks for every framework with a knob table: keys, types, bounds, and rules between knobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rltui.core.config_report import Problem
from rltui.core.knobs import Knob, shown
from rltui.frameworks.base import ConfigFiles
from rltui.frameworks.config_data import effective, tables, value_at
from rltui.frameworks.grammar import Grammar, is_unknown_here, key_problems
from rltui.frameworks.lax_values import as_read, plain
from rltui.frameworks.schemas import Rule

_READ_AS = " is read as "


@dataclass(frozen=True, slots=True)
class Checks:
    """Everything that a framework has to say about its config files."""

    grammars: Mapping[str, Grammar]
    """By role."""
    knobs: tuple[Knob, ...]
    defaults: Callable[[ConfigFiles], Mapping[str, Any]]
    rules: tuple[Rule, ...]
    lax: bool = False
    """Whether numbers may be written as text and the like, as pydantic has it: a warning, not an error."""
    none: str | None = None
    """With `lax`, text that stands for "no value", as `"None"` does in prime-rl."""
    none_at_top: bool = True
    """Whether it does so outside of tables too."""
    as_of: str = ""
    """As for a `Grammar`: a choice that is unknown here may be a newer one, and is a warning."""

    def __call__(self, files: ConfigFiles) -> tuple[Problem, ...]:
        """Keys, then types and bounds, then rules between knobs."""
        found: list[Problem] = []
        for role, file in self.plain(files)[0].items():
            if grammar := self.grammars.get(role):
                found.extend(key_problems(file, grammar))
        values_found = list(self._value_problems(files))
        faulty = {problem.key for problem in values_found if problem.key and not _is_read(problem)}
        rules = tuple(self._of_rules(files, self.values(files), faulty))
        return (*found, *values_found, *rules_of_other_date(found, rules))

    def values(self, files: ConfigFiles) -> dict[str, Any]:
        """Every knob's effective value by name, and every table that is there."""
        clean, empty = self.plain(files)
        namespaces = {role: grammar.namespace for role, grammar in self.grammars.items()}
        return {
            **tables(clean, namespaces),
            **effective(self.knobs, clean, self.defaults(clean)),
            **dict.fromkeys(empty),
        }

    def sound_values(self, files: ConfigFiles) -> dict[str, Any] | None:
        """The same, or `None` while a value has a wrong type or is out of bounds."""
        faults = (problem.severity == "error" for problem in self._value_problems(files))
        return None if any(faults) else self.values(files)

    def plain(self, files: ConfigFiles) -> tuple[ConfigFiles, frozenset[str]]:
        """The files as the framework reads them, and the names of what stands for no value."""
        if not self.lax:
            return files, frozenset()
        return plain(files, self.knobs, self.none, at_top=self.none_at_top)

    def _value_problems(self, files: ConfigFiles) -> Iterator[Problem]:
        return value_problems(
            self.knobs, files, lax=self.lax, none=self.none, none_at_top=self.none_at_top, as_of=self.as_of
        )

    def _of_rules(
        self, files: ConfigFiles, values: Mapping[str, Any], faulty: Collection[str]
    ) -> Iterator[Problem]:
        for rule in self.rules:
            roles = [self._role(name) for name in (rule.key, *rule.needs)]
            if all(role in files for role in roles):
                yield from rule_problems((rule,), values, faulty=faulty, path=files[roles[0]].path)

    def _role(self, name: str) -> str:
        """The file that holds a knob or a table of that name."""
        top = name.partition(".")[0]
        spaces = {grammar.namespace: role for role, grammar in self.grammars.items()}
        return spaces[top] if top in spaces else spaces[""]


def value_problems(
    knobs: Iterable[Knob],
    files: ConfigFiles,
    *,
    lax: bool = False,
    none: str | None = None,
    none_at_top: bool = True,
    as_of: str = "",
) -> Iterator[Problem]:
    """Knobs with a wrong type or out of bounds. `lax`: a warning where the framework reads them anyhow.

    `none` is the text for "no value", which is as good as no key where a knob may be absent. `as_of`: when
    the choices were read; another text is a warning.
    """
    for knob in knobs:
        file = files.get(knob.file)
        value = value_at(file.data, knob.key) if file is not None else None
        if file is None or value is None:
            continue
        if value == none and (none_at_top or "." in knob.key):
            if not knob.nullable:
                message = f"{knob.name} must be {knob.expected}, and {shown(value)} stands for no value"
                yield Problem(key=knob.name, message=message, file=file.path)
        elif fault := knob.fault(value):
            if lax and (read := as_read(knob, value)) is not None:
                message = f"{knob.name}{_READ_AS}{shown(read)}: write it so"
                yield Problem(severity="warning", key=knob.name, message=message, file=file.path)
            elif as_of and knob.kind == "enum" and isinstance(value, str):
                message = f"{fault} (rltui knows the choices of {as_of})"
                yield Problem(severity="warning", key=knob.name, message=message, file=file.path)
            else:
                yield Problem(key=knob.name, message=fault, file=file.path)


def rules_of_other_date(found: Iterable[Problem], rules: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems `rules`, as warnings where `found` has keys of another release: its rules may differ."""
    others = {problem.file for problem in found if is_unknown_here(problem)}
    return tuple(
        problem.model_copy(update={"severity": "warning"})
        if problem.file in others and problem.severity == "error"
        else problem
        for problem in rules
    )


def _is_read(problem: Problem) -> bool:
    """The value serves although it is written in another way."""
    return problem.severity == "warning" and _READ_AS in problem.message


def rule_problems(
    rules: Iterable[Rule], values: Mapping[str, Any], *, faulty: Collection[str], path: str
) -> Iterator[Problem]:
    """Rules that do not hold, leaving out those that look at a `faulty` knob."""
    for rule in rules:
        if faulty and not set(faulty).isdisjoint(rule.needs):
            continue
        if message := rule.fault(values):
            instead = {name: nearest(values) for name, nearest in rule.instead.items()}
            yield Problem(severity=rule.severity, key=rule.key, message=message, file=path, instead=instead)
