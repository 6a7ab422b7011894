"""What an experiment's own copies of config files were made from: a note that lies beside the copies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rltui.services.own_files import read_own, write_atomically

FOLDER = "config"
"""Of the copies, in rltui's own folder of the experiment."""
_NOTE = "origins.json"


@dataclass(frozen=True, slots=True)
class ConfigOrigin:
    paths: tuple[str, ...]
    """The user's files, absolute, in the order in which they were merged."""
    text: str
    """What the copy held at first: the one file's content, or what the merge made of several."""

    @property
    def words(self) -> str:
        return " and ".join(self.paths)


def keep(folder: Path, origins: Mapping[str, ConfigOrigin]) -> None:
    """Note where the copies in `folder` come from, by file name.

    Raises:
        RltuiError: if it cannot be written.
    """
    found = {name: asdict(origin) for name, origin in origins.items()}
    write_atomically(folder / _NOTE, json.dumps(found).encode())


def origin(path: Path) -> ConfigOrigin | None:
    """Where a file comes from; `None` for one that is no copy, or whose note is damaged."""
    try:
        found = json.loads(read_own(path.parent / _NOTE))[path.name]
        return ConfigOrigin(tuple(map(str, found["paths"])), str(found["text"]))
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def made_from(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The user's own files: those that copies among `paths` were made from, and the others as they are."""
    found: dict[Path, None] = {}
    for path in paths:
        known = origin(path)
        found |= dict.fromkeys(map(Path, known.paths) if known is not None else (path,))
    return tuple(found)
