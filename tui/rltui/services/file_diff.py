"""The difference between two readings of the config files, as `diff -u` shows it, without secrets."""

from __future__ import annotations

import difflib
import os

from rltui.core.secrets import masked_text
from rltui.services.config_files import LoadedFiles
from rltui.services.toml_source import Source

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
