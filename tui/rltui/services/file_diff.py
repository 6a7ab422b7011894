"""The difference between two readings of the config files, as `diff -u` shows it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator

from rltui.services.config_files import LoadedFiles
from rltui.services.toml_source import Source


def unified_diff(before: LoadedFiles, after: LoadedFiles) -> str:
    """`a/rl.toml` to `b/rl.toml` and so on; names are relative to the folder of the first file."""
    return "".join(
        line
        for role, source in before.sources.items()
        for line in _of_one(source, after.sources[role], _relative(source, before))
    )


def _relative(source: Source, loaded: LoadedFiles) -> str:
    return os.path.relpath(source.path, next(iter(loaded.sources.values())).path.parent)


def _of_one(before: Source, after: Source, name: str) -> Iterator[str]:
    lines = difflib.unified_diff(_lines(before.text), _lines(after.text), f"a/{name}", f"b/{name}")
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    """Split behind newlines only: `str.splitlines` also splits at characters that TOML allows in strings."""
    return [line for line in text.replace("\n", "\n\0").split("\0") if line]
