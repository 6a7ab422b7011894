"""The frameworks there are, and which one a config belongs to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from typing import Any

from rltui.core.suggest import did_you_mean
from rltui.errors import ConfigError
from rltui.frameworks.base import Framework
from rltui.frameworks.prime_rl.detection import is_of_summer, not_alone

_DEFINED: Mapping[str, tuple[str, str]] = {
    "tinyrl": ("rltui.frameworks.tinyrl", "TINYRL"),
    "prime-rl": ("rltui.frameworks.prime_rl.current", "PRIME_RL"),
    "prime-rl-merged": ("rltui.frameworks.prime_rl.merged", "PRIME_RL_MERGED"),
    "prime-rl-split": ("rltui.frameworks.prime_rl.split", "PRIME_RL_SPLIT"),
    "generic": ("rltui.frameworks.generic", "GENERIC"),
}
"""By id: module and name. Their tables of knobs and keys are big: each is imported where it is asked for."""
IDS = tuple(_DEFINED)
"""Of all frameworks."""
_OF_PRIME_RL = ("prime-rl", "prime-rl-merged", "prime-rl-split")
"""Newest first. `generic` takes any file and is only chosen by a layout."""


class AmbiguousConfigError(ConfigError):
    """Several frameworks would take the files. `candidates` holds their ids, the newest generation first."""

    def __init__(self, paths: Sequence[str], candidates: Sequence[Framework]) -> None:
        super().__init__(
            f"{' and '.join(paths)} could be for {' or '.join(each.title for each in candidates)}",
            details=[f"--framework {each.id}: {each.title}" for each in candidates],
            hint="say which with --framework; nothing in the file tells them apart",
        )
        self.candidates = tuple(each.id for each in candidates)


class UnknownConfigError(ConfigError):
    """No framework knows the files."""


def get(framework_id: str) -> Framework:
    """The framework of that id.

    Raises:
        ConfigError: if there is none.
    """
    if framework_id not in _DEFINED:
        hint = did_you_mean(framework_id, IDS) or f"there are: {', '.join(IDS)}"
        raise ConfigError(f"unknown framework {framework_id!r}", hint=hint)
    module, name = _DEFINED[framework_id]
    framework: Framework = getattr(import_module(module), name)
    return framework


def detect(parsed: Sequence[tuple[str, Mapping[str, Any]]], *, installed: str | None = None) -> Framework:
    """The framework that has a role of its own for every file (path, content).

    Where several have, `installed`, the one whose checkout is at hand, decides.

    Raises:
        AmbiguousConfigError: if several do, and that does not help.
        UnknownConfigError: if there is none; the details say what each file looks like.
    """
    embedded = get("tinyrl")
    if _takes(embedded, parsed):  # its files have knobs that no other framework knows
        return embedded
    found = [framework for framework in map(get, _OF_PRIME_RL) if _takes(framework, parsed)]
    if len(found) == 1:
        return found[0]
    for framework in found:
        if framework.id == installed:
            return framework
    if found:
        raise AmbiguousConfigError([path for path, _ in parsed], found)
    known = ", ".join(f"{framework.id} ({framework.title})" for framework in _detectable())
    raise UnknownConfigError(
        "cannot tell which framework this config is for",
        details=[*(f"{path}: {_shape(path, data)}" for path, data in parsed), f"known: {known}"],
        hint='write a layout with framework = "generic" and your own commands, and pass it with --layout',
    )


def likely(error: AmbiguousConfigError, parsed: Sequence[tuple[str, Mapping[str, Any]]]) -> str | None:
    """The candidate to take where no checkout is at hand: for files since summer 2026 the newest."""
    return error.candidates[0] if any(is_of_summer(data) for _, data in parsed) else None


def _detectable() -> tuple[Framework, ...]:
    return get("tinyrl"), *map(get, _OF_PRIME_RL)


def _takes(framework: Framework, parsed: Sequence[tuple[str, Mapping[str, Any]]]) -> bool:
    roles = [framework.roles(path, data) for path, data in parsed]
    is_own = any(framework.is_own(data) for _, data in parsed)
    return is_own and None not in roles and len(set(roles)) == len(roles)


def layout_for(framework: Framework, roles: Collection[str]) -> str:
    """Name of the shipped layout that runs a config with files of these roles.

    Raises:
        ConfigError: if there is none: the framework runs what a layout says.
    """
    for role, layout in framework.layouts.items():
        if role in roles:
            return layout
    raise ConfigError(f"{framework.title} has no layout of its own", hint="name one with --layout")


def _shape(path: str, data: Mapping[str, Any]) -> str:
    """What is known of a file that does not fit with the others."""
    for framework in _detectable():
        if framework.is_own(data) and (role := framework.roles(path, data)):
            return f"looks like the {role} file of {framework.title}"
    if words := not_alone(data):
        return words
    return f"has {', '.join(list(data)[:6])}" if data else "is empty"
