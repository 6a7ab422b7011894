"""Differences between two readings of the config files: as `diff -u` shows them, and key by key."""

from __future__ import annotations

import difflib
import os

from rltui.core.config_data import Leaves, changed_keys, deep_leaves
from rltui.core.config_report import ConfigDiff, KeyDifference
from rltui.core.secrets import mask_text
from rltui.core.text import parse_whole_number, unknown_name
from rltui.core.toml.scan import BOM
from rltui.errors import UsageError
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import as_passed
from rltui.services.config.files import LoadedFiles, read_snapshot
from rltui.services.config.origins import origin
from rltui.services.config.source import parse_file
from rltui.services.runs.experiment_files import ControlFolder

_NO_END = "\\ No newline at end of file"


def unified_diff(before: LoadedFiles, after: LoadedFiles) -> str:
    """Diff `a/rl.toml` against `b/rl.toml` and so on; names are relative to the folder of the first file."""
    folder = next((source.path.parent for source in before.sources.values()), None)
    return "".join(
        text_diff(source.text, after.sources[role].text, os.path.relpath(source.path, folder))
        for role, source in before.sources.items()
    )


class _Line(str):
    """A line with secrets masked, for display; equality compares the lines of the files."""

    __slots__ = ("real",)
    real: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Line) and self.real == other.real

    def __hash__(self) -> int:
        return hash(self.real)


def text_diff(before: str, after: str, name: str) -> str:
    """Secrets are masked."""
    if before == after:
        return ""
    lines = difflib.unified_diff(_lines(before), _lines(after), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n{_NO_END}\n" for line in lines)


def _lines(text: str) -> list[_Line]:
    lines = []
    for real, displayed in zip(_split(text), _split(mask_text(text)), strict=True):
        lines.append(_Line(displayed))
        lines[-1].real = real
    return lines


def _split(text: str) -> list[str]:
    """Split after newlines only: `str.splitlines` also splits at characters that TOML allows in strings."""
    return [line for line in text.replace("\n", "\n\0").split("\0") if line]


def attempt_files(name: str, control: ControlFolder, framework: Framework) -> LoadedFiles:
    """The files that `trainer#3` was started with, or the newest attempt where no number is given.

    Raises:
        UsageError: if there is no such attempt.
        ConfigError: if a file was damaged since.
    """
    component, _, number = name.partition("#")
    numbers = control.attempts(component)
    selected = parse_whole_number(number) if number else numbers[-1] if numbers else None
    if selected not in numbers:
        started = ", ".join(f"{component}#{attempt}" for attempt in numbers)
        if not started:
            components = (folder.parent.name for folder in control.newest_attempts())
            raise unknown_name("started component", component, components)
        raise UsageError(f"no attempt {name}", hint=f"available: {started}")
    return read_snapshot(control.attempt_dir(component, selected), framework)


def with_originals(files: LoadedFiles) -> LoadedFiles:
    """The files with run configs replaced by the user's files that they were made from."""
    origins = {role: origin(source.path) for role, source in files.sources.items()}
    originals = {
        role: parse_file(files.sources[role].path, original.text.encode())
        for role, original in origins.items()
        if original is not None
    }
    return LoadedFiles({**files.sources, **originals})


def config_diff(before: LoadedFiles, after: LoadedFiles, names: tuple[str, str]) -> ConfigDiff:
    """Compare every key, role by role, and the lines. `names` are the titles of the two sides."""
    keys, texts = [], []
    for role in dict.fromkeys((*before.sources, *after.sources)):
        (old_text, old), (new_text, new) = _side(before, role), _side(after, role)
        for key, (old_value, new_value) in changed_keys(old, new).items():
            keys.append(KeyDifference(key=key, file=f"{role}.toml", before=old_value, after=new_value))
        texts.append(text_diff(old_text, new_text, f"{role}.toml"))
    return ConfigDiff(before=names[0], after=names[1], keys=tuple(keys), text="".join(texts))


def _side(loaded: LoadedFiles, role: str) -> tuple[str, Leaves]:
    """Text and keys as the component got them, or as the files are now. Empty if there is no such file."""
    if role not in loaded.sources:
        return "", {}
    text = loaded.sources[role].text.removeprefix(BOM)  # attempts have it without
    return text, deep_leaves(as_passed(loaded.files)[role].data)
