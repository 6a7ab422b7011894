"""Where in the files a problem is."""

from __future__ import annotations

from collections.abc import Iterable

from rltui.core.config_report import Problem
from rltui.core.toml import edit
from rltui.core.toml.values import format_key, split_key
from rltui.services.config_files import LoadedFiles


def located(problems: Iterable[Problem], loaded: LoadedFiles) -> tuple[Problem, ...]:
    """The problems with line and column: of the key, or of the table it would belong to."""
    return tuple(_located(problem, loaded) for problem in problems)


def _located(problem: Problem, loaded: LoadedFiles) -> Problem:
    for role, source in loaded.sources.items():
        if problem.key is None or problem.line is not None or problem.file != str(source.path):
            continue
        path = split_key(problem.key)
        for keys in (path, path[1:] if path[0] == role else path):
            if place := _nearest(source.text, keys):
                return problem.model_copy(update={"line": place[0], "column": place[1]})
    return problem


def _nearest(text: str, keys: tuple[str, ...]) -> tuple[int, int] | None:
    for depth in range(len(keys), 0, -1):
        if place := edit.locate(text, format_key(keys[:depth])):
            return place
    return None
