"""In what state a checkout is, and the schemas of its config classes, kept on the disk for a state."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from rltui import paths
from rltui.errors import RltuiError
from rltui.frameworks.base import ConfigModels
from rltui.services.config.models import script
from rltui.services.own_files import make_folder, read_regular, write_atomically

MOST_KEPT = 20
_OTHER_SOURCES = ("pyproject.toml", "uv.lock")
"""Say what is installed beside the classes themselves."""


@dataclass(frozen=True, slots=True)
class Schemas:
    by_role: Mapping[str, Mapping[str, Any]]
    versions: Mapping[str, str]
    """Of python and of packages that are installed."""
    unavailable: Mapping[str, str]
    """Role → why its classes cannot be imported."""


def state_of(folder: Path, interpreter: Sequence[str], validation: ConfigModels) -> str:
    """A name for all that the classes of a checkout in `folder` depend on. Milliseconds; starts nothing.

    Where it is as before, so are their schemas and verdicts: commit, sources of the classes, what is
    installed, and which classes are asked.
    """
    environment = Path(interpreter[0]).parents[1]
    files = [
        *(folder / name for name in _OTHER_SOURCES),
        *(path for pattern in validation.sources for path in sorted(folder.glob(pattern))),
        Path(script.__file__),
        Path(interpreter[0]),
        environment / "pyvenv.cfg",
        *sorted(environment.glob("lib/python*/site-packages")),  # changes with every package
    ]
    parts = [str(folder), *interpreter, repr(validation), commit_of(folder), *map(_stamp, files)]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def commit_of(folder: Path) -> str | None:
    """The commit that is checked out, read from `.git` without git; `None` where that does not tell."""
    with contextlib.suppress(OSError, UnicodeDecodeError, IndexError):
        git = folder / ".git"
        if git.is_file():  # a worktree or a submodule
            git = folder / _text(git).removeprefix("gitdir:").strip()
        head = _text(git / "HEAD")
        if not head.startswith("ref:"):
            return head
        name = head.removeprefix("ref:").strip()
        common = git / "commondir"
        shared = git / _text(common) if common.is_file() else git
        for place in (git, shared):
            if (place / name).is_file():
                return _text(place / name)
        packed = (line.split() for line in _text(shared / "packed-refs").splitlines())
        return next((parts[0] for parts in packed if parts[1:] == [name]), None)
    return None


def _text(path: Path) -> str:
    return read_regular(path).decode().strip()


def kept(state: str) -> Schemas | None:
    """The schemas of that state, if they were asked before and are undamaged."""
    try:
        found = orjson.loads(_file(state).read_bytes())
        parts = [found[name] for name in Schemas.__slots__]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Schemas(*parts) if all(isinstance(part, dict) for part in parts) else None


def keep(state: str, schemas: Schemas) -> None:
    """Keep them for that state, and at most `MOST_KEPT` in all. Where nothing can be kept, nothing is."""
    with contextlib.suppress(RltuiError, OSError):
        make_folder(_folder(), mode=0o700)
        write_atomically(_file(state), orjson.dumps(schemas))
        newest_last = sorted(_folder().glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        for path in newest_last[:-MOST_KEPT]:
            path.unlink(missing_ok=True)


def _stamp(path: Path) -> tuple[str, int, int] | None:
    try:
        info = path.stat()
    except OSError:
        return None
    return str(path), info.st_mtime_ns, info.st_size


def _folder() -> Path:
    return paths.cache_dir() / "schemas"


def _file(state: str) -> Path:
    return _folder() / f"{state[:40]}.json"
