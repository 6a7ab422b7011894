"""Replace files so that a reader sees the old or the new content, never a part, whatever fails."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from rltui.errors import RltuiError


def replace_files(contents: Mapping[Path, bytes]) -> None:
    """Write new content to existing files. Permissions, owner and symbolic links stay.

    All are written out before the first is replaced: a full disk leaves every file as it was.

    Raises:
        RltuiError: if a file cannot be written; nothing is half-written.
    """
    prepared: list[tuple[Path, Path]] = []
    try:
        for path, content in contents.items():
            target = path.resolve()
            _require_writable(target)
            prepared.append((_write_beside(target, content), target))
        for temporary, target in prepared:
            temporary.replace(target)
            _sync_folder(target.parent)
    except OSError as error:
        names = ", ".join(str(path) for path in contents)
        raise RltuiError(
            f"cannot write {names}: {error.strerror or error}",
            details=["the files are as they were"],
            hint="make room on the disk, or make the file and its folder writable",
        ) from error
    finally:
        for temporary, _ in prepared:
            temporary.unlink(missing_ok=True)


def _require_writable(target: Path) -> None:
    """A rename would get around a read-only file; its owner meant it."""
    if not os.access(target, os.W_OK):
        raise PermissionError(13, "the file is read-only")


def _write_beside(target: Path, content: bytes) -> Path:
    before = target.stat()
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            if (before.st_uid, before.st_gid) != (os.getuid(), os.getgid()):
                _give(stream.fileno(), before.st_uid, before.st_gid)
            os.fchmod(stream.fileno(), before.st_mode & 0o7777)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _give(descriptor: int, user: int, group: int) -> None:
    """Only root can give a file away; the group at least can often be kept."""
    try:
        os.fchown(descriptor, user, group)
    except PermissionError:
        with suppress(PermissionError):
            os.fchown(descriptor, -1, group)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
