"""Answers of a framework about the files of a config: a record of functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from rltui.core.config.batch import BatchKnobs
from rltui.core.config.data import value_at
from rltui.core.config.json_schema import Json
from rltui.core.config.knobs import Knob
from rltui.core.config.report import DerivedValue, Problem
from rltui.core.metrics.bottleneck import BottleneckKnobs
from rltui.core.metrics.learning import Learning
from rltui.frameworks.answers import no, no_items, no_text, no_values, unknown, yes
from rltui.frameworks.inputs import ConfigFile, ConfigFiles, Parsed


@dataclass(frozen=True, slots=True)
class ConfigModels:
    """Locations of the framework's own config models, for a query in its interpreter."""

    models: Mapping[str, tuple[str, ...]]
    """Role → possible locations of its model, as `module:Class`, newest first; the first that can be
    imported counts. `package/folder/file.py:Class`: without the imports of its package.
    """
    sources: tuple[str, ...] = ()
    """Patterns of the files below the checkout that define the models."""
    packages: tuple[str, ...] = ()
    """Packages whose versions are reported, if they are installed."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """Role → table of its file that the model describes, if that is not the whole file."""
    stand_ins: str = ""
    """Absolute path of a program's file, whose `stand_ins(model)` is a context in which packages that a
    config asks for may be missing; it gives the reasons. Empty: there is none.
    """
    file_schema: Callable[[Json], Json] | None = None
    """Makes the schema of a whole file from that of its model; `None`: they are the same."""


class ConceptNames(Protocol):
    """Finds the key of a concept in some files."""

    def __call__(self, concept: str) -> str:
        """The name in force; if there is none, the newest, which is no key then."""
        ...

    def get(self, concept: str) -> str | None:
        """The name in force, or `None`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSide:
    """The answers about files. The default is a framework whose configs say nothing."""

    program: str = ""
    """Program that reads the files, in words."""
    role: Callable[[str, Mapping[str, Any]], str | None] = unknown
    """The role of a file with this path and content, `None` if it is none of this framework's."""
    fit: Callable[[Parsed], int | None] = unknown
    """Number of keys of the files that it does not know; `None`: they are not for it."""
    is_certain: bool = False
    """Files that fit are its own, whatever fits besides: they have keys that no other framework knows."""
    is_likely: Callable[[Mapping[str, Any]], bool] = no
    """Whether a file with such content is probably its own, if several fit and no checkout is at hand."""
    explain: Callable[[str, Mapping[str, Any]], str] = no_text
    """Description of a file of its that nothing can be run from; empty for any other."""
    required: tuple[frozenset[str], ...] = ()
    """Roles without which nothing can be run: all of one of these sets, the default one first."""
    companions: Mapping[str, str] = field(default_factory=dict)
    """Further files that are read if they lie in the folder of the config: role → file name."""
    models: ConfigModels | None = None
    merges_deeply: Callable[[Mapping[str, Any]], bool] = yes
    """Whether its programs merge several files with such content key by key, rather than table by table;
    used if no checkout tells.
    """
    schema_dates: Callable[[ConfigFiles], tuple[str, ...]] = no_items
    """Dates of the shipped schemas that the files are checked by, in words, the newest first; empty where
    the program that reads them reported its own.
    """
    none_text: Callable[[ConfigFile], str | None] = unknown
    """The text that stands for no value if that is not the default; `None`: no text does."""
    knobs: Callable[[ConfigFiles], tuple[Knob, ...]] = no_items
    """Every value that can be set in these files, those that are turned from day to day first."""
    defaults: Callable[[ConfigFiles], Mapping[str, Any]] = no_values
    """Knob name → default that follows from other values; it precedes `Knob.default`."""
    renamed: Callable[[ConfigFiles], Mapping[str, str]] = no_values
    """Dotted key of another generation → explanation for a person who uses it here."""
    names: Callable[[ConfigFiles], ConceptNames] | None = None
    check: Callable[[ConfigFiles], tuple[Problem, ...]] = no_items
    """Types, bounds, unknown keys and cross-knob rules. `Problem.file` is the file's path."""
    derive: Callable[[ConfigFiles], tuple[DerivedValue, ...]] = no_items
    """Derived values of a step. Empty while a value has a wrong type or is out of bounds."""
    batch_knobs: Callable[[ConfigFiles], BatchKnobs | None] = unknown
    bottleneck_knobs: Callable[[ConfigFiles], BottleneckKnobs] = lambda _: BottleneckKnobs()
    learning: Callable[[ConfigFiles], Learning] = lambda _: Learning()
    """What the run learns from; a faulty value counts as not set."""
    advice: Callable[[ConfigFiles], Mapping[str, str]] = no_values
    """Id of a health rule → advice for this config, in words."""

    def values_of(self, knobs: Iterable[Knob], files: ConfigFiles) -> dict[str, Any]:
        """Knob name → effective value in `files`; `None` for a knob that these files cannot have."""
        known_knobs = {knob.name: knob for knob in self.knobs(files)}
        defaults = self.defaults(files)
        values: dict[str, Any] = {}
        for knob in knobs:
            own_value = value_at(files[knob.file].data, knob.key) if knob.file in files else None
            default = known_knobs[knob.name].default if knob.name in known_knobs else None
            values[knob.name] = own_value if own_value is not None else defaults.get(knob.name, default)
        return values
