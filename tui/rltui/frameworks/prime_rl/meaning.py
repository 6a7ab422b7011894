"""What config files mean to a release of prime-rl, and where a later one is expected to have each value."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rltui.base.text import join_words
from rltui.core.config.data import deep_leaves
from rltui.core.config.equivalence import Moved, Resolved
from rltui.core.config.schema import ConfigSchema
from rltui.frameworks.config import ConfigSide
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.migration import ConfigRelease
from rltui.frameworks.prime_rl import configs, migration
from rltui.frameworks.prime_rl.migration import is_free, tree_of


def by_models(values: Mapping[str, Mapping[str, Any]], files: ConfigFiles, by: str) -> Resolved:
    """What the models of a checkout say, by role of the file. Below the keys of packages that it may lack
    counts what the file says.
    """
    read = {key: value for key, value in _leaves(values, files).items() if not is_free(key)}
    free = {key: value for key, value in said(files).items() if is_free(key)}
    return Resolved(tree_of(read | free), by, is_own=True)


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
        key for key, value in said(files).items() if not _is_known(key, names) and value != {}
    )
    by = f"the shipped schema of {join_words(config.schema_dates(files))}"
    return Resolved(tree_of(said(files) | known), by, is_own=False, unknown=unknown)


def moved(
    before: Resolved, files: ConfigFiles, source: ConfigRelease, target: ConfigRelease
) -> Iterator[Moved]:
    """Every value of before, and where the later release is expected to have it."""
    role = "rl" if len(files) > 1 else next(iter(files))
    return migration.moved(before.values, role, source, target)


def said(files: ConfigFiles) -> dict[str, Any]:
    """What the files set, by dotted keys; those of the three programs begin with their role."""
    return _leaves({role: file.data for role, file in files.items()}, files)


def _leaves(tables: Mapping[str, Any], files: ConfigFiles) -> dict[str, Any]:
    are_parts = files.keys() <= set(configs.PARTS)
    return deep_leaves(tables if are_parts else tables[next(iter(files))])


def _is_known(key: str, names: Collection[str]) -> bool:
    return key in names or is_free(key) or any(key.startswith(f"{name}.") for name in names)
