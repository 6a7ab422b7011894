"""The frameworks there are, and which one a config belongs to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rltui.core.text import did_you_mean
from rltui.errors import ConfigError
from rltui.frameworks.base import Checkout, Framework

_OF_PRIME_RL = ("prime-rl", "prime-rl-merged", "prime-rl-split")
"""Its generations, the newest first."""
IDS = ("tinyrl", *_OF_PRIME_RL, "generic")
"""Of all frameworks. `generic` takes any file and is only chosen by a layout."""


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
    # Each is imported where it is asked for: they have schemas and rules that few commands need.
    match framework_id:
        case "tinyrl":
            from rltui.frameworks.tinyrl import TINYRL

            return TINYRL
        case "generic":
            from rltui.frameworks.generic import GENERIC

            return GENERIC
        case _ if framework_id in _OF_PRIME_RL:
            from rltui.frameworks.prime_rl import framework

            return framework(framework_id)
    hint = did_you_mean(framework_id, IDS) or f"there are: {', '.join(IDS)}"
    raise ConfigError(f"unknown framework {framework_id!r}", hint=hint)


def detect(parsed: Sequence[tuple[str, Mapping[str, Any]]], *, installed: str | None = None) -> Framework:
    """The framework that the files (path, content) fit: `installed`, the one whose checkout is at hand, where
    its programs read such files, else the one that knows most of their keys.

    Raises:
        AmbiguousConfigError: if several do, and that does not help.
        UnknownConfigError: if there is none; the details say what each file looks like.
    """
    embedded = get("tinyrl")
    if embedded.fit(parsed) is not None:  # its files have knobs that no other framework knows
        return embedded
    if installed is not None:
        roles = [get(installed).roles(path, data) for path, data in parsed]
        if None not in roles and len(set(roles)) == len(roles):
            return get(installed)
    fits = {each.id: each.fit(parsed) for each in map(get, _OF_PRIME_RL)}
    least = min((each for each in fits.values() if each is not None), default=None)
    found = [get(name) for name, each in fits.items() if each is not None and each == least]
    if len(found) == 1:
        return found[0]
    if found:
        raise AmbiguousConfigError([path for path, _ in parsed], found)
    known = ", ".join(f"{framework.id} ({framework.title})" for framework in _detectable())
    raise UnknownConfigError(
        "cannot tell which framework this config is for",
        details=[*(f"{path}: {_shape(path, data)}" for path, data in parsed), f"known: {known}"],
        hint='write a layout with framework = "generic" and your own commands, and pass it with --layout',
    )


def checkouts() -> tuple[Checkout, ...]:
    """Of all frameworks that are run from one, each once."""
    found = (get(name).checkout for name in IDS)
    return tuple(dict.fromkeys(each for each in found if each is not None))


def likely(error: AmbiguousConfigError, parsed: Sequence[tuple[str, Mapping[str, Any]]]) -> str | None:
    """The candidate to take where no checkout is at hand: for files since summer 2026 the newest."""
    from rltui.frameworks.prime_rl.detection import is_of_summer

    return error.candidates[0] if any(is_of_summer(data) for _, data in parsed) else None


def _detectable() -> tuple[Framework, ...]:
    return get("tinyrl"), *map(get, _OF_PRIME_RL)


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
    from rltui.frameworks.prime_rl.detection import not_alone

    fits = {each.id: found for each in _detectable() if (found := each.fit([(path, data)])) is not None}
    best = min(fits, key=lambda name: fits[name], default=None)
    if best is not None and fits[best] == 0:
        return f"looks like the {get(best).roles(path, data)} file of {get(best).title}"
    if words := not_alone(path, data):
        return words
    return f"has {', '.join(list(data)[:6])}" if data else "is empty"
