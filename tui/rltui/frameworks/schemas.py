"""Config files with a schema: their knobs, values and problems, with a framework's additions.

The schema knows keys, types, defaults, bounds and choices. The overlay knows the rest: who reads a
key, what it means whatever a release calls it, units, our sentences. Rules compare several keys.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from rltui.base.toml.values import TomlValue
from rltui.core.config.batch import BatchKnobs
from rltui.core.config.json_schema import parts
from rltui.core.config.knobs import Control, Knob, KnobKind
from rltui.core.config.report import DerivedValue, Problem
from rltui.core.config.rules import Rule, Values
from rltui.core.config.schema import ConfigSchema, Reading, SchemaHints
from rltui.core.metrics.bottleneck import BottleneckKnobs
from rltui.core.metrics.learning import Learning
from rltui.frameworks.answers import no_items, no_values, unknown
from rltui.frameworks.config import ConfigSide
from rltui.frameworks.inputs import ConfigFile, ConfigFiles

_CACHE_SIZE = 8
"""Number of cached readings of files: present, planned and running ones."""
_MOST_DESCRIBED = 20_000
"""Number of cached knobs."""


@dataclass(frozen=True, slots=True)
class Concept:
    """The meaning of a knob, whatever a release calls it."""

    keys: tuple[str, ...]
    """All its names, the newest first."""
    help: str = ""
    unit: str = ""
    control: Control = ""
    main: bool = False
    """Turned from day to day."""
    kind: KnobKind | None = None
    """Kind of a key that no schema has, in a table that takes any, such as those of vLLM's arguments."""


@dataclass(frozen=True, slots=True)
class Overlay:
    """A framework's knowledge of the keys of its files beyond their schemas. Names as those of the knobs."""

    concepts: Mapping[str, Concept]
    """Concept by its own name, or by the only name that the key ever had; the most important first."""
    readers: Mapping[str, tuple[str, ...]]
    """Prefix of a name → components that read the keys below; the longest counts."""
    like: Mapping[str, str]
    """Prefix of a name → prefix of the names whose concepts it shares."""
    shared: Mapping[str, tuple[str, ...]]
    """Key → keys that it fills if they are not set."""
    gone: Mapping[str, str]
    """Key → explanation if the schema in force lacks it."""
    by_name: Mapping[str, Concept] = field(init=False)
    _ranks: Mapping[int, int] = field(init=False)

    def __post_init__(self) -> None:
        by_name = {name: concept for concept in self.concepts.values() for name in concept.keys}
        object.__setattr__(self, "by_name", by_name)
        ranks = {id(concept): rank for rank, concept in enumerate(self.concepts.values())}
        object.__setattr__(self, "_ranks", ranks)

    def rank(self, concept: Concept) -> int:
        """Its place in the order of importance."""
        return self._ranks[id(concept)]

    @classmethod
    def parse(cls, text: str) -> Overlay:
        data = tomllib.loads(text)
        concepts = {
            name: Concept(**{**entry, "keys": tuple(entry.get("keys", (name,)))})
            for name, entry in data["concept"].items()
        }
        tuples = (
            {key: tuple(entry) for key, entry in data.get(name, {}).items()} for name in ("readers", "shared")
        )
        readers, shared = tuples
        return cls(concepts, readers, data.get("like", {}), shared, data.get("gone", {}))

    def of(self, name: str) -> Concept | None:
        return self.by_name.get(self._concept_name(name)[0])

    def names_of(self, name: str) -> tuple[str, ...]:
        """All names of a knob, the newest first; empty if it has no concept."""
        described, start, other = self._concept_name(name)
        concept = self.by_name.get(described)
        inner = [key.removeprefix(other) for key in concept.keys if key.startswith(other)] if concept else ()
        return tuple(f"{start}{key}" for key in inner)

    def _concept_name(self, name: str) -> tuple[str, str, str]:
        """The name of its concept, the prefix that was replaced, and the replacement."""
        if name not in self.by_name:
            for start, other in self.like.items():
                if name.startswith(f"{start}."):
                    prefix = f"{other}." if other else ""
                    return prefix + name.removeprefix(f"{start}."), f"{start}.", prefix
        return name, "", ""

    def readers_of(self, name: str) -> tuple[str, ...]:
        return next((self.readers[start] for start, _ in _ends(name) if start in self.readers), ())


def _ends(name: str) -> Iterator[tuple[str, str]]:
    """A name in two at each of its dots: `a.b.c` and nothing, `a.b` and `.c` … nothing and all."""
    segments = parts(name)
    for length in range(len(segments), 0, -1):
        start = ".".join(segments[:length])
        yield start, name[len(start) :]
    yield "", name


class Names:
    """The names of concepts in the schemas in force."""

    def __init__(
        self, schemas: Mapping[str, ConfigSchema], grammar: Grammar, values: Collection[str] = ()
    ) -> None:
        """`values`: names as the files spell them, which precede others that the schemas accept too."""
        self._spaces = {grammar.namespaces[role]: schema for role, schema in schemas.items()}
        self._overlay, self._values = grammar.overlay, values

    @cached_property
    def spelled(self) -> tuple[str | None, ...]:
        """Name of each concept that has several: equal for files with the same rules."""
        return tuple(self.get(name) for name, concept in self._overlay.concepts.items() if concept.keys[1:])

    def shared(self) -> Iterator[tuple[str, str]]:
        """Shared keys, each with one that it fills, if both exist."""
        for key, others in self._overlay.shared.items():
            if self.has(key):
                yield from ((key, other) for other in others if self.has(other))

    def __call__(self, concept: str) -> str:
        """The name in force; if there is none, the newest, which is no key then."""
        return self.get(concept) or self._overlay.concepts[concept].keys[0]

    def get(self, concept: str) -> str | None:
        """The name in force, or `None`."""
        known = self._overlay.concepts.get(concept)
        existing = [key for key in (known.keys if known else (concept,)) if self.has(key)]
        return next((key for key in existing if key in self._values), existing[0] if existing else None)

    def has(self, name: str) -> bool:
        """Whether such a knob or table exists."""
        top, _, rest = name.partition(".")
        if top and top in self._spaces:
            return not rest or self._spaces[top].has(rest)
        return "" in self._spaces and self._spaces[""].has(name)

    def now(self, key: str) -> str:
        """Explanation for a key that does not exist: its name here, or that it is gone."""
        for start, rest in _ends(key):
            if names := self._overlay.names_of(start):
                here = (name + rest for name in names if name != start and self.has(name + rest))
                if name := next(here, None):
                    return f"use {name} in this generation"
                break
        return next(
            (self._overlay.gone[start_] for start_, _ in _ends(key) if start_ in self._overlay.gone), ""
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """Knowledge of a framework about its files: their schemas, and everything that those leave out."""

    reader: str
    """Name of the program that reads the files, in words."""
    overlay: Overlay
    namespaces: Mapping[str, str]
    """Role → prefix of the names of all keys of that file; empty for the main one."""
    schema: Callable[[ConfigFile], ConfigSchema]
    free: frozenset[str] = frozenset()
    """Keys, `[]` for elements, below which another program's config begins."""
    foreign: frozenset[str] = frozenset()
    """Tables whose keys another package defines."""
    switches: frozenset[str] = frozenset()
    """Tables that `true` may stand for."""
    rules: Callable[[Names], Sequence[Rule]] = no_items
    """Rules between knobs; left out if a key that they look at is not in the schema in force."""
    readers: Callable[[ConfigFiles], Mapping[str, tuple[str, ...]]] = no_values
    """Knob name → further readers besides the overlay's."""
    following: Callable[[ConfigFiles, Values, Names], Mapping[str, TomlValue]] = no_values
    """Knob name → default that follows from other values, of which faulty ones count as not set."""
    further: Callable[[ConfigFiles, Values, Names], Iterable[Problem]] = no_items
    """Problems beyond rules over single knobs, computed while all values are sound."""
    derived: Callable[[ConfigFiles, Values, Names], Iterable[DerivedValue]] = no_items
    """Derived values of a step, computed while all values are sound."""
    batch_knobs: Callable[[ConfigFiles, Names], BatchKnobs | None] = unknown
    bottleneck_knobs: Callable[[ConfigFiles, Names], BottleneckKnobs] = lambda *_: BottleneckKnobs()
    learning: Callable[[Values, Names], Learning] = lambda *_: Learning()
    """What the run learns from, by values of which any may be faulty."""
    advice: Callable[[ConfigFiles, Values], Mapping[str, str]] = no_values
    """Id of a health rule → advice for this config, in words, computed while all values are sound."""


class SchemaConfig:
    """Reads config files that have schemas."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self._hints = SchemaHints(grammar.free, grammar.foreign, grammar.switches)
        self._cache: dict[tuple[object, ...], _ConfigReading] = {}
        self._rules_by_schemas: dict[tuple[object, ...], tuple[Rule, ...]] = {}
        self._described_by_id: dict[int, tuple[Knob, Knob, int | None]] = {}
        """Id of a knob of a schema → itself, with the overlay's words, and its rank among the main ones."""

    @property
    def side(self) -> ConfigSide:
        """The part of a framework, without what tells whether files are its own."""
        return ConfigSide(
            program=self.grammar.reader,
            schema_dates=self.schema_dates,
            none_text=lambda file: self.grammar.schema(file).none,
            knobs=self.knobs,
            defaults=self.defaults,
            renamed=self.renamed,
            names=self.names,
            check=self.check,
            derive=self.derive,
            batch_knobs=lambda files: self.grammar.batch_knobs(files, self.names(files)),
            bottleneck_knobs=lambda files: self.grammar.bottleneck_knobs(files, self.names(files)),
            learning=lambda files: self.grammar.learning(self.values(files), self.names(files)),
            advice=self.advice,
        )

    def schema_dates(self, files: ConfigFiles) -> tuple[str, ...]:
        dates = (self.grammar.schema(file).date for file in files.values())
        return tuple(dict.fromkeys(filter(None, dates)))

    def derive(self, files: ConfigFiles) -> tuple[DerivedValue, ...]:
        values = self.sound_values(files)
        return () if values is None else tuple(self.grammar.derived(files, values, self.names(files)))

    def advice(self, files: ConfigFiles) -> Mapping[str, str]:
        values = self.sound_values(files)
        return {} if values is None else self.grammar.advice(files, values)

    def readers_of(self, name: str) -> tuple[str, ...]:
        """Components that read the key of this name."""
        return self.grammar.overlay.readers_of(name)

    def names(self, files: ConfigFiles) -> Names:
        return self._reading(files).names

    def knobs(self, files: ConfigFiles) -> tuple[Knob, ...]:
        """Every value that can be set in these files; the main ones first, in the overlay's order."""
        return self._reading(files).knobs

    def defaults(self, files: ConfigFiles) -> Mapping[str, TomlValue]:
        return self._reading(files).defaults

    def renamed(self, files: ConfigFiles) -> Mapping[str, str]:
        names = self.names(files)
        old_keys = dict.fromkeys((*self.grammar.overlay.by_name, *self.grammar.overlay.gone))
        return {
            key: explanation for key in old_keys if not names.has(key) and (explanation := names.now(key))
        }

    def values(self, files: ConfigFiles) -> Values:
        """Name → effective value of every knob, and every existing table; `None` for one that is off."""
        return self._reading(files).values

    def sound_values(self, files: ConfigFiles) -> Values | None:
        """The same, or `None` while a value has a wrong type or is out of bounds, or a key is refused, whose
        meaning is then missing.
        """
        config = self._reading(files)
        is_refused = any(problem.is_error for problem in config.problems)
        return None if config.faulty or is_refused else config.values

    def sound_value(self, files: ConfigFiles, name: str) -> TomlValue:
        """Effective value of one knob; `None` while it is faulty, or if it does not exist."""
        config = self._reading(files)
        return None if name in config.faulty else config.values.get(name)

    def sound_count(self, files: ConfigFiles, name: str) -> int | None:
        """The same of a knob that is a whole number."""
        value = self.sound_value(files, name)
        return value if isinstance(value, int) else None

    def sound_text(self, files: ConfigFiles, name: str) -> str | None:
        """The same of a knob that is a text; `None` for an empty one, too."""
        value = self.sound_value(files, name)
        return value if isinstance(value, str) and value else None

    def check(self, files: ConfigFiles) -> tuple[Problem, ...]:
        """Problems of keys, types and bounds, then of rules between knobs, then of whole tables."""
        config = self._reading(files)
        rules = [*self._rule_problems(files, config)]
        if not any(problem.is_error for problem in (*config.problems, *rules)):
            rules += self.grammar.further(files, config.values, config.names)
        others = {files[role].path for role, reading in config.readings.items() if reading.may_be_other}
        rules = [
            problem.replace(severity="warning")
            if problem.is_error and problem.file in others  # of another release, whose rules may differ
            else problem
            for problem in rules
        ]
        return (*config.problems, *rules)

    def _rule_problems(self, files: ConfigFiles, config: _ConfigReading) -> Iterator[Problem]:
        # the rules whose keys are all there: equal for files with the same schemas and spellings
        key = (*config.schemas.items(), *config.names.spelled)
        if key not in self._rules_by_schemas:
            rules, has = self.grammar.rules(config.names), config.names.has
            self._rules_by_schemas[key] = tuple(
                rule for rule in rules if all(map(has, (rule.key, *rule.needs)))
            )
            _forget_oldest(self._rules_by_schemas)
        for rule in self._rules_by_schemas[key]:
            is_faulty = any(f"{need}.".startswith(f"{bad}.") for bad in config.faulty for need in rule.needs)
            if is_faulty or not config.values.keys() >= {*rule.needs}:
                continue
            if message := rule.fault(config.values):
                instead = {name: nearest(config.values) for name, nearest in rule.instead.items()}
                yield Problem(
                    severity=rule.severity, key=rule.key, message=message,
                    file=self._path(rule.key, files), instead=instead,
                )  # fmt: skip

    def _path(self, name: str, files: ConfigFiles) -> str:
        by_space = {self.grammar.namespaces.get(role, ""): file.path for role, file in files.items()}
        return by_space.get(name.partition(".")[0]) or by_space.get("") or next(iter(by_space.values()))

    def _reading(self, files: ConfigFiles) -> _ConfigReading:
        own_files = {role: file for role, file in files.items() if role in self.grammar.namespaces}
        key = tuple((role, file.path, id(file.data)) for role, file in own_files.items())
        config = self._cache.pop(key, None)  # what is kept holds the data, so that no other can have its id
        self._cache[key] = config = self._make(own_files) if config is None else config
        _forget_oldest(self._cache)
        return config

    def _make(self, files: ConfigFiles) -> _ConfigReading:
        schemas = {role: self.grammar.schema(file) for role, file in files.items()}
        plain = Names(schemas, self.grammar)
        readings = {
            role: schemas[role].read(
                file.data, role=role, path=file.path, namespace=(space := self.grammar.namespaces[role]),
                reader=self.grammar.reader,
                hints=replace(self._hints, explain=partial(self._explain, space, plain)),
            )
            for role, file in files.items()
        }  # fmt: skip
        own_knobs = [
            *(knob for reading in readings.values() for knob in reading.knobs),
            *self._any_keys(files, plain),
        ]
        knobs = self._with_overlay(own_knobs, self.grammar.readers(files))
        values = {name: value for reading in readings.values() for name, value in reading.values.items()}
        set_names = {name for reading in readings.values() for name in reading.set_names}
        faulty = {name for reading in readings.values() for name in reading.faulty}
        names = Names(schemas, self.grammar, values.keys())
        defaults: dict[str, TomlValue] = {}
        for shared, followers in self.grammar.overlay.shared.items():
            following = [name for name in followers if name in values and name not in set_names]
            if shared in faulty:
                faulty.update(following)
            elif values.get(shared) is not None:
                defaults |= dict.fromkeys(following, values[shared])
        values |= defaults
        sound = {name: None if name in faulty else value for name, value in values.items()}
        follow = self.grammar.following(files, sound, names)
        defaults |= {name: value for name, value in follow.items() if name in values}
        values |= {name: value for name, value in defaults.items() if name not in set_names}
        return _ConfigReading(files, schemas, readings, names, knobs, values, defaults, frozenset(faulty))

    @staticmethod
    def _explain(namespace: str, names: Names, key: str) -> str:
        return names.now(f"{namespace}.{key}" if namespace else key)

    def _any_keys(self, files: ConfigFiles, names: Names) -> Iterator[Knob]:
        """Knobs of the overlay in tables that take any key."""
        roles = {self.grammar.namespaces[role]: role for role in files}
        for concept in self.grammar.overlay.concepts.values():
            names_ = (key for key in concept.keys if names.has(key.rpartition(".")[0]) and not names.has(key))
            if concept.kind is not None and (name := next(names_, None)) is not None:
                space = name.partition(".")[0] if name.partition(".")[0] in roles else ""
                key = name.removeprefix(f"{space}.") if space else name
                yield Knob(
                    key, concept.kind, (), concept.help, nullable=True, minimum=1, file=roles[space],
                    namespace=space,
                )  # fmt: skip

    def _with_overlay(self, knobs: Iterable[Knob], more: Mapping[str, tuple[str, ...]]) -> tuple[Knob, ...]:
        main: list[tuple[int, Knob]] = []
        others: list[Knob] = []
        for knob in knobs:
            described, rank = self._described(knob)
            if more_readers := more.get(knob.name):
                described = replace(described, readers=(*described.readers, *more_readers))
            if rank is None:
                others.append(described)
            else:
                main.append((rank, described))
        return (*(knob for _, knob in sorted(main, key=lambda item: item[0])), *others)

    def _described(self, knob: Knob) -> tuple[Knob, int | None]:
        """The knob in the overlay's words, and its rank if it is a main one."""
        if (known := self._described_by_id.get(id(knob))) is not None:
            return known[1], known[2]
        overlay = self.grammar.overlay
        concept, readers = overlay.of(knob.name), overlay.readers_of(knob.name)
        described = replace(knob, readers=readers, main=False)
        rank = None
        if concept is not None:
            described = replace(
                knob, readers=readers, main=concept.main, help=concept.help or knob.help, unit=concept.unit,
                control=concept.control,
            )  # fmt: skip
            rank = overlay.rank(concept) if concept.main else None
        if len(self._described_by_id) > _MOST_DESCRIBED:
            self._described_by_id.clear()
        self._described_by_id[id(knob)] = knob, described, rank
        return described, rank


def _forget_oldest(cache: dict[tuple[object, ...], Any]) -> None:
    while len(cache) > _CACHE_SIZE:
        del cache[next(iter(cache))]


@dataclass(frozen=True, slots=True)
class _ConfigReading:
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
        return tuple(problem for reading in self.readings.values() for problem in reading.problems)
