"""The frameworks there are, and which one a config belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rltui.core.suggest import did_you_mean
from rltui.errors import ConfigError
from rltui.frameworks.base import Framework
from rltui.frameworks.generic import GENERIC
from rltui.frameworks.prime_rl_traces import traces
from rltui.frameworks.tinyrl import TINYRL

_DETECTED = (TINYRL,)
"""Asked in this order, the most specific first. `generic` takes any file and is only chosen by a layout."""

FRAMEWORKS: Mapping[str, Framework] = {framework.id: framework for framework in (*_DETECTED, GENERIC)}


def get(framework_id: str) -> Framework:
    """The framework of that id.

    Raises:
        ConfigError: if there is none.
    """
    if framework_id not in FRAMEWORKS:
        hint = did_you_mean(framework_id, FRAMEWORKS) or f"there are: {', '.join(FRAMEWORKS)}"
        raise ConfigError(f"unknown framework {framework_id!r}", hint=hint)
    return FRAMEWORKS[framework_id]


def detect(parsed: Sequence[tuple[str, Mapping[str, Any]]]) -> Framework:
    """The first framework that knows a role for every file (path, content).

    Raises:
        ConfigError: if there is none; the details say what each file looks like.
    """
    looks = [(path, traces(data)) for path, data in parsed]
    if not any(strange for _, strange in looks):
        for framework in _DETECTED:
            if parsed and all(framework.roles(path, data) for path, data in parsed):
                return framework
    known = ", ".join(f"{framework.id} ({framework.title})" for framework in _DETECTED)
    details = [
        f"{path}: {strange or _shape(data)}" for (path, strange), (_, data) in zip(looks, parsed, strict=True)
    ]
    raise ConfigError(
        "cannot tell which framework this config is for",
        details=[*details, f"known: {known}: one file with [orchestrator], [trainer] and [inference]"],
        hint='write a layout with framework = "generic" and your own commands, and pass it with --layout',
    )


def _shape(data: Mapping[str, Any]) -> str:
    return f"has {', '.join(list(data)[:6])}" if data else "is empty"
