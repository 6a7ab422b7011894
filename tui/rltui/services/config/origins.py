"""The sources of an experiment's run configs: a note in their folder names the files they were made from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rltui.services.own_files import read_own, write_atomically

FOLDER = "config"
"""Name of the folder of run configs in rltui's own folder of the experiment."""
_NOTE = "origins.json"


@dataclass(frozen=True, slots=True)
class ConfigOrigin:
    paths: tuple[str, ...]
    """The user's files, absolute, in the order in which they were merged."""
    text: str
    """The first content of the run config: that of the one file, or the merge of several."""

    @property
    def words(self) -> str:
        return " and ".join(self.paths)


def save(folder: Path, origins: Mapping[str, ConfigOrigin]) -> None:
    """Write down the sources of the run configs in `folder`, by file name.

    Raises:
        RltuiError: if it cannot be written.
    """
    note = {name: asdict(origin) for name, origin in origins.items()}
    write_atomically(folder / _NOTE, json.dumps(note).encode())


def origin(path: Path) -> ConfigOrigin | None:
    """`None` for another file, or if the note is damaged."""
    try:
        note = json.loads(read_own(path.parent / _NOTE))[path.name]
        return ConfigOrigin(tuple(map(str, note["paths"])), str(note["text"]))
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def original_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The user's own files: the sources of run configs among `paths`, and the other files as they are."""
    originals: dict[Path, None] = {}
    for path in paths:
        source = origin(path)
        originals |= dict.fromkeys(map(Path, source.paths) if source is not None else (path,))
    return tuple(originals)
