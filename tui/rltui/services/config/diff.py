"""Differences between two readings of the config files: as `diff -u` shows them, and key by key."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping

from rltui.core.config_data import changed_keys, deep_leaves
from rltui.core.config_report import ConfigDiff, KeyDifference
from rltui.core.secrets import masked_text
from rltui.core.text import unknown
from rltui.core.toml.scan import BOM
from rltui.errors import UsageError
from rltui.frameworks.base import Framework, as_passed
from rltui.services.config.files import LoadedFiles, Source, read_snapshot
from rltui.services.experiment_files import ControlFolder

_NO_END = "\\ No newline at end of file"


def unified_diff(before: LoadedFiles, after: LoadedFiles) -> str:
    """`a/rl.toml` to `b/rl.toml` and so on; names are relative to the folder of the first file."""
    return "".join(
        text_diff(source.text, after.sources[role].text, _relative(source, before))
        for role, source in before.sources.items()
    )


class _Line(str):
    """A line as it is told; two are the same if the lines of the files are."""

    __slots__ = ("real",)
    real: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Line) and self.real == other.real

    def __hash__(self) -> int:
        return hash(self.real)


def text_diff(before: str, after: str, name: str) -> str:
    """One file's, with secrets masked."""
    lines = difflib.unified_diff(_lines(before), _lines(after), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n{_NO_END}\n" for line in lines)


def _relative(source: Source, loaded: LoadedFiles) -> str:
    return os.path.relpath(source.path, next(iter(loaded.sources.values())).path.parent)


def _lines(text: str) -> list[_Line]:
    lines = []
    for real, told in zip(_split(text), _split(masked_text(text)), strict=True):
        lines.append(_Line(told))
        lines[-1].real = real
    return lines


def _split(text: str) -> list[str]:
    """Behind newlines only: `str.splitlines` also splits at characters that TOML allows in strings."""
    return [line for line in text.replace("\n", "\n\0").split("\0") if line]


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
