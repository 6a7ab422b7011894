"""The metadata of a run: `run.json` in rltui's own folder of it. Changed under a lock, since several may."""

from __future__ import annotations

import logging
import os
import string
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import orjson

from rltui.core.runs.row import ID_LENGTH, RunId, RunMetadata, RunOrigin
from rltui.errors import ConfigError, RltuiError
from rltui.services.own_files import FileLock, read_own, write_atomically

logger = logging.getLogger(__name__)

FILE_NAME = "run.json"
_LOCK_TIMEOUT_S = 5.0
_ID_LETTERS = string.ascii_lowercase + string.digits


def new_metadata(created_at: float, origin: RunOrigin = RunOrigin()) -> RunMetadata:  # noqa: B008 - frozen
    """Metadata for a run without any, with a new id."""
    import secrets  # 3 ms, which a list of runs need not pay

    id_ = RunId("".join(secrets.choice(_ID_LETTERS) for _ in range(ID_LENGTH)))
    return RunMetadata(id=id_, created_at=created_at, **asdict(origin))


def path_id(control: Path) -> RunId:
    """The id of a run whose folder is not writable: always the same for that folder."""
    import hashlib  # 3 ms, which a list of runs need not pay

    number = int.from_bytes(hashlib.sha256(os.fsencode(control)).digest())
    return RunId("".join(_ID_LETTERS[number // 36**digit % 36] for digit in range(ID_LENGTH)))


def read_metadata(control: Path) -> RunMetadata | None:
    """The metadata in a control folder, `None` if there is none yet.

    Raises:
        ConfigError: if it is damaged or cannot be read.
    """
    path = control / FILE_NAME
    try:
        return RunMetadata.parse(orjson.loads(read_own(path)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(
            f"{path} is damaged: {error}", hint="remove the file: tags and notes are lost, the run is kept"
        ) from error


def save_metadata(control: Path, metadata: RunMetadata) -> None:
    """Replace the metadata.

    Raises:
        RltuiError: if it cannot be written.
    """
    write_atomically(control / FILE_NAME, orjson.dumps(metadata))


def change_metadata(
    control: Path, change: Callable[[RunMetadata], RunMetadata], *, first: RunMetadata | None = None
) -> RunMetadata:
    """Replace the metadata by what `change` makes of it; without metadata, of `first` or of new ones. Nothing
    is written if nothing changes.

    Raises:
        ConflictError: if another holds the lock for long.
        RltuiError: if it is damaged or cannot be written.
    """
    with FileLock(control / f"{FILE_NAME}.lock").hold(wait_s=_LOCK_TIMEOUT_S):
        before = read_metadata(control)
        metadata = change(before or first or new_metadata(time.time()))
        if metadata != before:
            save_metadata(control, metadata)
    return metadata


def make_metadata(control: Path, new: RunMetadata, *, copied_id: str = "") -> RunMetadata:
    """Save the first metadata of a run, or of a copy in place of those with `copied_id`; what others have
    made meanwhile stays. If the folder is not writable, the run has the id of its path.
    """
    try:
        return change_metadata(
            control, lambda current: new if current.id == copied_id else current, first=new
        )
    except RltuiError as error:
        logger.info("%s", error)
        return replace(new, id=path_id(control))
