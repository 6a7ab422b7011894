"""Config files whose keys a schema tells: their knobs, values and problems, with what a framework adds.

The schema knows keys, types, defaults, bounds and choices. The overlay knows what none tells: who reads a
key, what it means whatever a release calls it, units, our sentences. Rules compare several keys.
"""

# ruff: noqa: ARG002 - defaults look at nothing that they are given

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from rltui.core.config_report import Problem
from rltui.core.config_schema import ConfigSchema, Reading, SchemaHints
from rltui.core.json_schema import parts
from rltui.core.knobs import Control, Knob, KnobKind
from rltui.core.rules import Rule, Values
from rltui.core.toml.values import TomlValue
from rltui.frameworks.base import ConfigFile, ConfigFiles, Framework

_REMEMBERED = 8
"""Readings of files that are kept: what is there, what was planned, what runs."""


@dataclass(frozen=True, slots=True)
class Concept:
    """What a knob means, whatever a release calls it."""

    keys: tuple[str, ...]
    """Names that it has had, the newest first."""
    help: str = ""
    unit: str = ""
    control: Control = ""
    main: bool = False
    """Turned from day to day."""
    kind: KnobKind | None = None
    """Of a key that no schema has, in a table that takes any: such are those that vLLM's arguments are in."""


@dataclass(frozen=True, slots=True)
class Overlay:
    """What a framework knows of the keys of its files beyond their schemas. Names as those of the knobs."""

    concepts: Mapping[str, Concept]
    """By their own name, or by the only name that the key ever had; the most important first."""
    readers: Mapping[str, tuple[str, ...]]
    """Beginning of a name → components that read what is below; the longest counts."""
    like: Mapping[str, str]
    """Beginning of a name → that of the names whose concepts it shares."""
    shared: Mapping[str, tuple[str, ...]]
    """Key → those that it fills where they are not set."""
    gone: Mapping[str, str]
    """Key → what to say where the schema in force lacks it."""
    by_name: Mapping[str, Concept] = field(init=False)

    def __post_init__(self) -> None:
        named = {name: each for each in self.concepts.values() for name in each.keys}
        object.__setattr__(self, "by_name", named)

    @classmethod
    def parse(cls, text: str) -> Overlay:
        data = tomllib.loads(text)
        concepts = {
            name: Concept(**{**each, "keys": tuple(each.get("keys", (name,)))})
            for name, each in data["concept"].items()
        }
        tuples = (
            {key: tuple(each) for key, each in data.get(name, {}).items()} for name in ("readers", "shared")
        )
        readers, shared = tuples
        return cls(concepts, readers, data.get("like", {}), shared, data.get("gone", {}))

    def of(self, name: str) -> Concept | None:
        return self.by_name.get(self._described(name)[0])

    def names_of(self, name: str) -> tuple[str, ...]:
        """All that a knob has been called, the newest first; empty where it has no concept."""
        described, start, other = self._described(name)
        known = self.by_name.get(described)
        inner = [key.removeprefix(other) for key in known.keys if key.startswith(other)] if known else ()
        return tuple(f"{start}{key}" for key in inner)

    def _described(self, name: str) -> tuple[str, str, str]:
        """The name under which its concept is found; what that has another beginning than; and that one."""
        if name not in self.by_name:
            for start, other in self.like.items():
                if name.startswith(f"{start}."):
                    there = f"{other}." if other else ""
                    return there + name.removeprefix(f"{start}."), f"{start}.", there
        return name, "", ""

    def readers_of(self, name: str) -> tuple[str, ...]:
        return next((self.readers[each] for each, _ in _ends(name) if each in self.readers), ())


def _ends(name: str) -> Iterator[tuple[str, str]]:
    """A name in two at each of its dots: `a.b.c` and nothing, `a.b` and `.c` … nothing and all."""
    found = parts(name)
    for length in range(len(found), 0, -1):
        start = ".".join(found[:length])
        yield start, name[len(start) :]
    yield "", name


class Names:
    """What things are called in the schemas in force."""

    def __init__(
        self,
        files: ConfigFiles,
        schemas: Mapping[str, ConfigSchema],
        framework: SchemaFramework,
        values: Collection[str] = (),
    ) -> None:
        """`values`: names as the files spell them, which go before others that the schemas take too."""
        self._spaces = {framework.namespaces[role]: schemas[role] for role in files}
        self._overlay, self._values = framework.overlay, values

    @cached_property
    def spelled(self) -> tuple[str | None, ...]:
        """What each concept with several names is called: equal for files with the same rules."""
        return tuple(self.get(name) for name, each in self._overlay.concepts.items() if each.keys[1:])

    def shared(self) -> Iterator[tuple[str, str]]:
        """Keys that stand for several, each with one that it fills, where both are there."""
        for key, others in self._overlay.shared.items():
            if self.has(key):
                yield from ((key, other) for other in others if self.has(other))

    def __call__(self, concept: str) -> str:
        """The name in force; where there is none, the newest, which is no key then."""
        return self.get(concept) or self._overlay.concepts[concept].keys[0]

    def get(self, concept: str) -> str | None:
        """The same, or `None`."""
        known = self._overlay.concepts.get(concept)
        there = [key for key in (known.keys if known else (concept,)) if self.has(key)]
        return next((key for key in there if key in self._values), there[0] if there else None)

    def has(self, name: str) -> bool:
        """Whether there is such a knob or table."""
        top, _, rest = name.partition(".")
        if top and top in self._spaces:
            return not rest or self._spaces[top].has(rest)
        return "" in self._spaces and self._spaces[""].has(name)

    def now(self, key: str) -> str:
        """What is said to who asks for a key that is not there: its name here, or that it is gone."""
        for start, rest in _ends(key):
            if found := self._overlay.names_of(start):
                here = (name + rest for name in found if name != start and self.has(name + rest))
                if name := next(here, None):
                    return f"it is {name} in this generation"
                break
        return next((self._overlay.gone[each] for each, _ in _ends(key) if each in self._overlay.gone), "")


class SchemaFramework(Framework):
    """A framework whose config files have schemas: what it answers about them."""

    # What differs: `schema`, and the names and methods down to `further`.

    overlay: Overlay
    namespaces: Mapping[str, str]
    """Role → what the names of all keys of that file begin with; empty for the main one."""
    reader: str
    """Who reads the files, in words."""
    free: frozenset[str] = frozenset()
    """Keys, `[]` for elements, below which another program's config begins."""
    foreign: frozenset[str] = frozenset()
    """Tables whose keys another package defines."""
    switches: frozenset[str] = frozenset()
    """Tables that `true` may stand for."""

    def __init__(self) -> None:
        self._words = SchemaHints(self.free, self.foreign, self.switches)
        self._read: dict[tuple[object, ...], _Found] = {}
        self._of_schemas: dict[tuple[object, ...], tuple[Rule, ...]] = {}

    def schema(self, file: ConfigFile) -> ConfigSchema:
        raise NotImplementedError

    def none_text(self, file: ConfigFile) -> str | None:
        return self.schema(file).none

    def rules(self, names: Names) -> Sequence[Rule]:
        """Between knobs; they are left out where a key that they look at is not in the schema in force."""
        return ()

    def readers(self, files: ConfigFiles) -> Mapping[str, tuple[str, ...]]:
        """By name, what reads a knob of these files besides the overlay's."""
        return {}

    def following(self, files: ConfigFiles, values: Values, names: Names) -> Mapping[str, TomlValue]:
        """By name, defaults that follow from other values, of which faulty ones count as not set."""
        return {}

    def further(self, files: ConfigFiles, values: Values, names: Names) -> Iterable[Problem]:
        """Problems that no rule over single knobs can tell, asked while all values are sound."""
        return ()

    # --- what follows from them ---

    def names(self, files: ConfigFiles) -> Names:
        return self._found(files).names

    def knobs(self, files: ConfigFiles) -> tuple[Knob, ...]:
        """Every value that can be set in these files; the main ones first, in the overlay's order."""
        return self._found(files).knobs

    def defaults(self, files: ConfigFiles) -> Mapping[str, TomlValue]:
        return self._found(files).defaults

    def renamed(self, files: ConfigFiles) -> Mapping[str, str]:
        names = self.names(files)
        known = dict.fromkeys((*self.overlay.by_name, *self.overlay.gone))
        return {key: said for key in known if not names.has(key) and (said := names.now(key))}

    def values(self, files: ConfigFiles) -> Values:
        """By name, what every knob amounts to, and every table that is there; `None` for one that is off."""
        return self._found(files).values

    def sound_values(self, files: ConfigFiles) -> Values | None:
        """The same, or `None` while a value has a wrong type or is out of bounds, or a key is refused, whose
        meaning is then not among them.
        """
        found = self._found(files)
        is_refused = any(problem.severity == "error" for problem in found.problems)
        return None if found.faulty or is_refused else found.values

    def sound_value(self, files: ConfigFiles, name: str) -> TomlValue:
        """What one knob amounts to; `None` while it is faulty, or where there is none."""
        found = self._found(files)
        return None if name in found.faulty else found.values.get(name)

    def check(self, files: ConfigFiles) -> tuple[Problem, ...]:
        """Keys, types and bounds, then rules between knobs, then what concerns whole tables."""
        found = self._found(files)
        rules = [*self._of_rules(files, found)]
        if not any(problem.severity == "error" for problem in (*found.problems, *rules)):
            rules += self.further(files, found.values, found.names)
        others = {files[role].path for role, each in found.readings.items() if each.may_be_other}
        rules = [
            each.model_copy(update={"severity": "warning"})
            if each.severity == "error" and each.file in others  # of another release, whose rules may differ
            else each
            for each in rules
        ]
        return (*found.problems, *rules)

    def _of_rules(self, files: ConfigFiles, found: _Found) -> Iterator[Problem]:
        # the rules whose keys are all there: equal for files with the same schemas and spellings
        key = (*found.schemas.items(), *found.names.spelled)
        if key not in self._of_schemas:
            rules, has = self.rules(found.names), found.names.has
            self._of_schemas[key] = tuple(rule for rule in rules if all(map(has, (rule.key, *rule.needs))))
            _forget_oldest(self._of_schemas)
        for rule in self._of_schemas[key]:
            is_faulty = any(f"{need}.".startswith(f"{bad}.") for bad in found.faulty for need in rule.needs)
            if is_faulty or not found.values.keys() >= {*rule.needs}:
                continue
            if message := rule.fault(found.values):
                instead = {name: nearest(found.values) for name, nearest in rule.instead.items()}
                yield Problem(
                    severity=rule.severity, key=rule.key, message=message,
                    file=self._path(rule.key, files), instead=instead,
                )  # fmt: skip

    def _path(self, name: str, files: ConfigFiles) -> str:
        by_space = {self.namespaces.get(role, ""): file.path for role, file in files.items()}
        return by_space.get(name.partition(".")[0]) or by_space.get("") or next(iter(by_space.values()))

    def _found(self, files: ConfigFiles) -> _Found:
        known = {role: file for role, file in files.items() if role in self.namespaces}
        key = tuple((role, file.path, id(file.data)) for role, file in known.items())
        found = self._read.pop(key, None)  # what is kept holds the data, so that no other can have its id
        self._read[key] = found = self._make(known) if found is None else found
        _forget_oldest(self._read)
        return found

    def _make(self, files: ConfigFiles) -> _Found:
        schemas = {role: self.schema(file) for role, file in files.items()}
        plain = Names(files, schemas, self)
        readings = {
            role: schemas[role].read(
                file.data, role=role, path=file.path, namespace=self.namespaces[role], reader=self.reader,
                words=replace(self._words, said=partial(self._said, self.namespaces[role], plain)),
            )
            for role, file in files.items()
        }  # fmt: skip
        found = [*(knob for each in readings.values() for knob in each.knobs), *self._any_keys(files, plain)]
        knobs = self._with_overlay(found, self.readers(files))
        values = {name: value for each in readings.values() for name, value in each.values.items()}
        held = {name for each in readings.values() for name in each.held}
        faulty = {name for each in readings.values() for name in each.faulty}
        names = Names(files, schemas, self, values.keys())
        defaults: dict[str, TomlValue] = {}
        for shared, followers in self.overlay.shared.items():
            following = [each for each in followers if each in values and each not in held]
            if shared in faulty:
                faulty.update(following)
            elif values.get(shared) is not None:
                defaults |= dict.fromkeys(following, values[shared])
        values |= defaults
        sound = {name: None if name in faulty else value for name, value in values.items()}
        follow = self.following(files, sound, names)
        defaults |= {name: value for name, value in follow.items() if name in values}
        values |= {name: value for name, value in defaults.items() if name not in held}
        return _Found(files, schemas, readings, names, knobs, values, defaults, frozenset(faulty))

    @staticmethod
    def _said(namespace: str, names: Names, key: str) -> str:
        return names.now(f"{namespace}.{key}" if namespace else key)

    def _any_keys(self, files: ConfigFiles, names: Names) -> Iterator[Knob]:
        """Knobs of the overlay in tables that take any key."""
        roles = {self.namespaces[role]: role for role in files}
        for concept in self.overlay.concepts.values():
            there = (key for key in concept.keys if names.has(key.rpartition(".")[0]) and not names.has(key))
            if concept.kind is not None and (name := next(there, None)) is not None:
                space = name.partition(".")[0] if name.partition(".")[0] in roles else ""
                key = name.removeprefix(f"{space}.") if space else name
                yield Knob(
                    key, concept.kind, (), concept.help, nullable=True, minimum=1, file=roles[space],
                    namespace=space,
                )  # fmt: skip

    def _with_overlay(self, knobs: Iterable[Knob], more: Mapping[str, tuple[str, ...]]) -> tuple[Knob, ...]:
        concepts = {id(each): number for number, each in enumerate(self.overlay.concepts.values())}
        main: list[tuple[int, Knob]] = []
        others: list[Knob] = []
        for knob in knobs:
            concept = self.overlay.of(knob.name)
            readers = (*self.overlay.readers_of(knob.name), *more.get(knob.name, ()))
            if concept is None:
                others.append(replace(knob, readers=readers, main=False))
                continue
            told = replace(
                knob, readers=readers, main=concept.main, help=concept.help or knob.help, unit=concept.unit,
                control=concept.control,
            )  # fmt: skip
            if concept.main:
                main.append((concepts[id(concept)], told))
            else:
                others.append(told)
        return (*(knob for _, knob in sorted(main, key=lambda item: item[0])), *others)


def _forget_oldest(kept: dict[tuple[object, ...], Any]) -> None:
    while len(kept) > _REMEMBERED:
        del kept[next(iter(kept))]


@dataclass(frozen=True, slots=True)
class _Found:
    files: ConfigFiles
    schemas: Mapping[str, ConfigSchema]
    readings: Mapping[str, Reading]
    names: Names
    knobs: tuple[Knob, ...]
    values: Values
    defaults: Mapping[str, TomlValue]
    faulty: frozenset[str]

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(problem for each in self.readings.values() for problem in each.problems)
