"""Whose config it is, where its keys do not tell: asked on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rltui.cli.terminal import chosen
from rltui.client import creation
from rltui.frameworks import registry
from rltui.frameworks.registry import AmbiguousConfigError
from rltui.services.runs.experiments import known_experiments


def chosen_framework(
    config_files: tuple[Path, ...],
    layout: str | None,
    framework: str | None,
    *,
    workspace: Path | None = None,
) -> str | None:
    """The framework that was named, or the one a person chooses; `None` where the config tells by itself.

    Nobody is asked twice: an experiment of theirs with the same files has the answer.

    Raises:
        AmbiguousConfigError: if the config does not tell, and there is nobody to ask, or no answer.
        ConfigError: as `creation.identify`.
    """
    try:
        creation.identify(config_files, layout, framework, workspace=workspace)
    except AmbiguousConfigError as error:
        choice = _before(config_files, error.candidates)
        if choice is None and sys.stdin.isatty():
            titles = {name: f"{registry.get(name).title} (--framework {name})" for name in error.candidates}
            choice = chosen(error.title, titles)
        if choice is None:
            raise
        return choice
    return framework


def _before(config_files: tuple[Path, ...], candidates: Sequence[str]) -> str | None:
    wanted = {str(path) for path in config_files}
    for record in known_experiments():
        if wanted == set(record.config_files) and record.framework in candidates:
            return record.framework
    return None
