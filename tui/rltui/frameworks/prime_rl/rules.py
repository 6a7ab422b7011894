"""Rules between keys of prime-rl's config files, once for all generations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rltui.core.config_report import Problem
from rltui.core.knobs import TomlValue
from rltui.frameworks.base import ConfigFiles
from rltui.frameworks.schemas import Names, Rule, Values


def rules(names: Names) -> tuple[Rule, ...]:
    """Those that people break. One is left out where a key that it looks at is not in the schema in force."""
    del names
    return ()


def defaults(files: ConfigFiles, values: Values, names: Names) -> Mapping[str, TomlValue]:
    """Defaults that follow from other values, by name."""
    del files, values, names
    return {}


def further(files: ConfigFiles, values: Values, names: Names) -> Iterator[Problem]:
    """What concerns whole tables, sources and ports."""
    del files, values, names
    yield from ()
