"""What config files mean to a release of prime-rl, and where a later one is expected to have each value."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rltui.base.text import join_words
from rltui.base.toml.values import TomlValue
from rltui.core.config.data import deep_leaves
from rltui.core.config.equivalence import Moved, Resolved
from rltui.core.config.schema import ConfigSchema
from rltui.frameworks.config import ConfigSide
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.migration import ConfigRelease
from rltui.frameworks.prime_rl import configs
from rltui.frameworks.prime_rl.key_path import dotted, path_of, pattern, tree
from rltui.frameworks.prime_rl.rewrite import FileRewrite


def by_models(values: Mapping[str, Mapping[str, Any]], files: ConfigFiles, by: str) -> Resolved:
    """Read what the models of a checkout say, by role of the file. Below the keys of packages that it may
    lack counts what the file says.
    """
    read = {key: value for key, value in _leaves(values, files).items() if not _is_free(key)}
    free = {key: value for key, value in set_values(files).items() if _is_free(key)}
    return Resolved(_tree_of(read | free), by, is_own=True)


def schemas(files: ConfigFiles, release: ConfigRelease) -> dict[str, ConfigSchema]:
    """The shipped ones, by role."""
    return {role: configs.snapshot(release.day, role) for role in files}


def shipped(config: ConfigSide, files: ConfigFiles) -> Resolved:
    """The same by the shipped schemas of a release, as far as they tell."""
    knobs = config.knobs(files)
    values = config.values_of(knobs, files)
    known = {key.removeprefix("sft."): value for key, value in values.items() if value is not None}
    names = {knob.name.removeprefix("sft.") for knob in knobs}
    unknown = frozenset(
        key for key, value in set_values(files).items() if not _is_known(key, names) and value != {}
    )
    by = f"the shipped schema of {join_words(config.schema_dates(files))}"
    return Resolved(_tree_of(set_values(files) | known), by, is_own=False, unknown=unknown)


def moved(
    before: Resolved, files: ConfigFiles, source: ConfigRelease, target: ConfigRelease
) -> Iterator[Moved]:
    """Every value of before, and where the later release is expected to have it. One that is not set goes the
    way of a table.
    """
    absent = {key for key, value in deep_leaves(before.values).items() if value is None}
    rewrite = FileRewrite("rl" if len(files) > 1 else next(iter(files)), _with_tables(before.values))
    rewrite.advance(source.day, target.day)
    for key in rewrite.keys:
        if key.old is not None:
            old, new = dotted(key.old), None if key.new is None else dotted(key.new)
            yield Moved(old, new, *((None, None) if old in absent else (key.was, key.value)))


def set_values(files: ConfigFiles) -> dict[str, Any]:
    """Return what the files set, by dotted keys; those of the three programs begin with their role."""
    return _leaves({role: file.data for role, file in files.items()}, files)


def _leaves(tables: Mapping[str, Any], files: ConfigFiles) -> dict[str, Any]:
    are_parts = files.keys() <= set(configs.PARTS)
    return deep_leaves(tables if are_parts else tables[next(iter(files))])


def _is_known(key: str, names: Collection[str]) -> bool:
    return key in names or _is_free(key) or any(key.startswith(f"{name}.") for name in names)


def _tree_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Tables of dotted keys. A value that stands for a table which has keys, too, is left out: a switch that
    turns it on.
    """
    paths = {key: path_of(key) for key in values}
    above = {path[:depth] for path in paths.values() for depth in range(1, len(path))}
    return tree((path, values[key]) for key, path in paths.items() if path not in above)


def _is_free(key: str) -> bool:
    """Return whether the package of the environment reads it."""
    path = path_of(key)
    return any(pattern(path[:depth]) in configs.FREE for depth in range(1, len(path) + 1))


def _with_tables(value: TomlValue) -> TomlValue:
    if isinstance(value, Mapping):
        return {key: _with_tables(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_tables(inner) for inner in value]
    return {} if value is None else value
