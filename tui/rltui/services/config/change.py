"""A config file before and after: an edit, an undo, a promotion, a run config beside its origin."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rltui.base.secrets import mask_text, mask_value
from rltui.base.toml.values import TomlValue, format_value
from rltui.core.config.data import changed_keys, deep_leaves
from rltui.core.config.edit_log import FileEdit
from rltui.frameworks.inputs import ConfigFile
from rltui.services.config.config_file import sha_of

_NO_END = "\\ No newline at end of file"

Keys = Mapping[str, tuple[TomlValue, TomlValue]]
"""Dotted key → value before and after; `None` where it is absent."""


@dataclass(frozen=True)
class FileChange:
    before: ConfigFile
    after: ConfigFile

    @classmethod
    def of_contents(cls, path: Path, before: bytes, after: bytes) -> FileChange:
        """A change of bytes that need not be TOML: nothing is known of its keys."""
        return cls(*(ConfigFile("", str(path), {}, content=content) for content in (before, after)))

    @property
    def path(self) -> Path:
        return Path(self.before.path)

    @property
    def is_empty(self) -> bool:
        return self.before.content == self.after.content

    @cached_property
    def values(self) -> Keys:
        """The keys that get another value."""
        return changed_keys(deep_leaves(self.before.data), deep_leaves(self.after.data))

    @property
    def keys(self) -> Keys:
        """The keys that get another value, with secrets masked."""
        return {key: (mask_value(key, old), mask_value(key, new)) for key, (old, new) in self.values.items()}

    def diff(self, name: str = "") -> str:
        """Return the output of `diff -u`, with secrets masked; empty if nothing changes.

        `name`: in the head of the diff; by default the name of the file.
        """
        return text_diff(self.before.text, self.after.text, name or self.path.name)

    def record(self) -> FileEdit:
        """The change as the journal has it, without secrets."""
        texts = {key: (_toml(old), _toml(new)) for key, (old, new) in self.keys.items()}
        before, after = sha_of(self.before.content), sha_of(self.after.content)
        return FileEdit(path=self.before.path, before=before, after=after, keys=texts)


def _toml(value: TomlValue) -> str | None:
    return None if value is None else format_value(value)


def all_keys(changes: Iterable[FileChange]) -> Keys:
    """The masked keys of several files."""
    return {key: values for change in changes for key, values in change.keys.items()}


def unified_diff(changes: Iterable[FileChange], folder: Path | None) -> str:
    """Diff `a/rl.toml` against `b/rl.toml` and so on; names are relative to `folder`."""
    return "".join(change.diff(os.path.relpath(change.path, folder)) for change in changes)


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
