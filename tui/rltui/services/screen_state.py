"""State that screens keep between sessions: a JSON file for each owner, in the user's state folder.

Nothing depends on it: a lost or damaged file means the default look.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from rltui import paths
from rltui.errors import RltuiError
from rltui.services.own_files import make_folder, read_own, write_atomically

logger = logging.getLogger(__name__)

_MAX_FILES = 500
"""Limit of files; those that were not written for longest are deleted."""


def state_file(owner: str) -> Path:
    """Path of the state of `owner`: `app`, `runs`, a layout, a run."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", owner)[:60]
    if name != owner:
        import hashlib  # 3 ms, which usual names need not pay

        name = f"{name}-{hashlib.sha256(owner.encode()).hexdigest()[:8]}"
    return paths.state_dir() / "screen" / f"{name}.json"


def load_state(owner: str) -> Mapping[str, Any]:
    """The stored state; empty if there is none, or none that can be read. Blocking."""
    path = state_file(owner)
    try:
        data = orjson.loads(read_own(path))
        if isinstance(data, dict):
            return data
        raise ValueError("not a table")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        logger.warning("%s is left out: %s", path, error)
        return {}


def save_state(owner: str, values: Mapping[str, Any]) -> None:
    """Replace the state of `owner` by `values`, plain JSON. Blocking; the last of several writers wins.

    Raises:
        RltuiError: if it cannot be written.
    """
    path = state_file(owner)
    make_folder(path.parent, mode=0o700)
    is_new = not path.exists()
    write_atomically(path, orjson.dumps(dict(values)))
    if is_new:
        _delete_oldest(path.parent)


def save_copy(text: str) -> Path:
    """Write copied text to a file, replacing the previous copy, and return its path. Blocking.

    Raises:
        RltuiError: if it cannot be written.
    """
    path = paths.state_dir() / "copied.txt"
    make_folder(path.parent, mode=0o700)
    write_atomically(path, text.encode(errors="replace"))
    return path


def _delete_oldest(folder: Path) -> None:
    try:
        files = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in files[:-_MAX_FILES]:
            path.unlink(missing_ok=True)
    except OSError as error:  # another one tidies up as well; the next one tries again
        raise RltuiError(f"{folder} could not be cleaned up: {error}") from error
