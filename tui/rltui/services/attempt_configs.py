"""The config files that an attempt was started with, beside other ones."""

from __future__ import annotations

from collections.abc import Mapping

from rltui.core.config_data import changed_keys, deep_leaves
from rltui.core.config_report import ConfigDiff, KeyDifference
from rltui.core.text import unknown
from rltui.core.toml.scan import BOM
from rltui.errors import UsageError
from rltui.frameworks.base import Framework, as_passed
from rltui.services.config_files import LoadedFiles, read_snapshot
from rltui.services.file_diff import text_diff
from rltui.services.runs.experiment_files import ControlFolder
from rltui.services.toml_source import Source


def of_attempt(name: str, control: ControlFolder, framework: Framework) -> LoadedFiles:
    """The files of `trainer#3`, or of the newest attempt where no number is given.

    Raises:
        UsageError: if there is no such attempt.
        ConfigError: if a file was damaged since.
    """
    component, _, number = name.partition("#")
    numbers = control.attempts(component)
    wanted = int(number) if number.isdecimal() else None if number else numbers[-1] if numbers else None
    if wanted not in numbers:
        started = ", ".join(f"{component}#{each}" for each in numbers)
        if not started:
            known = (folder.parent.name for folder in control.newest_attempts())
            raise unknown("started component", component, known)
        raise UsageError(f"there is no attempt {name}", hint=f"there are: {started}")
    return read_snapshot(control.attempt_dir(component, wanted) / "config", framework)


def config_diff(before: LoadedFiles, after: LoadedFiles, names: tuple[str, str]) -> ConfigDiff:
    """Every key with another value, role by role, and the lines. `names` are of the two sides."""
    roles = dict.fromkeys((*before.sources, *after.sources))
    keys, texts = [], []
    for role in roles:
        old, new = _source(before, role), _source(after, role)
        for key, (left, right) in changed_keys(_leaves(before, role), _leaves(after, role)).items():
            keys.append(KeyDifference(key=key, file=f"{role}.toml", before=left, after=right))
        texts.append(text_diff(_text(old), _text(new), f"{role}.toml"))
    return ConfigDiff(before=names[0], after=names[1], keys=tuple(keys), text="".join(texts))


def _source(loaded: LoadedFiles, role: str) -> Source | None:
    return loaded.sources.get(role)


def _leaves(loaded: LoadedFiles, role: str) -> Mapping[str, object]:
    """What a component got, or what the files say now."""
    return deep_leaves(as_passed(loaded.files)[role].data) if role in loaded.sources else {}


def _text(source: Source | None) -> str:
    return "" if source is None else source.text.removeprefix(BOM)  # attempts have it without
