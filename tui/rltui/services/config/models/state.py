"""A fingerprint of a checkout's state, and the schemas of its config classes, cached on disk per state."""

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
from rltui.frameworks.config import ConfigModels
from rltui.services.config.models import script
from rltui.services.own_files import file_fingerprint, make_folder, read_regular, write_atomically

MAX_STATES = 20
_OTHER_SOURCES = ("pyproject.toml", "uv.lock")
"""Files that decide which packages are installed besides the classes themselves."""


@dataclass(frozen=True, slots=True)
class Schemas:
    by_role: Mapping[str, Mapping[str, Any]]
    versions: Mapping[str, str]
    unavailable: Mapping[str, str]
    """Role → reason why its classes cannot be imported."""


def state_of(folder: Path, interpreter: Sequence[str], validation: ConfigModels) -> str:
    """A hash of all that the classes of a checkout in `folder` depend on. Takes milliseconds; starts nothing.

    While it is unchanged, so are schemas and verdicts: it covers the commit, the sources of the classes, the
    installed packages, and the classes that are asked.
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
    inputs = [
        str(folder),
        *interpreter,
        repr(validation),
        commit_of(folder),
        *((str(path), file_fingerprint(path)) for path in files),
    ]
    return hashlib.sha256(repr(inputs).encode()).hexdigest()


def commit_of(folder: Path) -> str | None:
    """Read from `.git` without git; `None` if that is not possible."""
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
        for git_folder in (git, shared):
            if (git_folder / name).is_file():
                return _text(git_folder / name)
        packed_refs = (line.split() for line in _text(shared / "packed-refs").splitlines())
        return next((ref[0] for ref in packed_refs if ref[1:] == [name]), None)
    return None


def _text(path: Path) -> str:
    return read_regular(path).decode().strip()


def load_schemas(state: str) -> Schemas | None:
    try:
        document = orjson.loads(_file(state).read_bytes())
        fields = [document[name] for name in Schemas.__slots__]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Schemas(*fields) if all(isinstance(field, dict) for field in fields) else None


def save_schemas(state: str, schemas: Schemas) -> None:
    """Cache the schemas of that state, and at most `MAX_STATES` states in all. Errors are ignored."""
    with contextlib.suppress(RltuiError, OSError):
        make_folder(_folder(), mode=0o700)
        write_atomically(_file(state), orjson.dumps(schemas))
        newest_last = sorted(_folder().glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        for path in newest_last[:-MAX_STATES]:
            path.unlink(missing_ok=True)


def _folder() -> Path:
    return paths.cache_dir() / "schemas"


def _file(state: str) -> Path:
    return _folder() / f"{state[:40]}.json"
