"""The difference between two readings of the config files, as `diff -u` shows it."""

from __future__ import annotations

import difflib
import os

from rltui.services.config_files import LoadedFiles
from rltui.services.toml_source import Source

_NO_END = "\\ No newline at end of file"


def unified_diff(before: LoadedFiles, after: LoadedFiles) -> str:
    """`a/rl.toml` to `b/rl.toml` and so on; names are relative to the folder of the first file."""
    return "".join(
        text_diff(source.text, after.sources[role].text, _relative(source, before))
        for role, source in before.sources.items()
    )


def text_diff(before: str, after: str, name: str) -> str:
    """One file's."""
    lines = difflib.unified_diff(_lines(before), _lines(after), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n{_NO_END}\n" for line in lines)


def _relative(source: Source, loaded: LoadedFiles) -> str:
    return os.path.relpath(source.path, next(iter(loaded.sources.values())).path.parent)


def _lines(text: str) -> list[str]:
    """Split behind newlines only: `str.splitlines` also splits at characters that TOML allows in strings."""
    return [line for line in text.replace("\n", "\n\0").split("\0") if line]
