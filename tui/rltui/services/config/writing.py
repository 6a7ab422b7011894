"""Replace files so that a reader sees the old or the new content, never a part, whatever fails."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.frameworks.inputs import ConfigFile
from rltui.services.config.change import FileChange, text_diff
from rltui.services.config.config_file import content_of
from rltui.services.config.lock import config_lock

SUFFIX = ".rltui-tmp"
"""End of the name of a file that is about to replace another."""


def write_changes(
    changes: Sequence[FileChange],
    *,
    unchanged: Iterable[ConfigFile] = (),
    recorded: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    """Write config files under the lock on their folders: all or none. `recorded` is entered around the
    write, before any other rltui can write these files.

    Raises:
        ConflictError: if one of them, or of the `unchanged` ones, is not what it was, or another rltui is
            writing; nothing was written.
        RltuiError: as `replace_files`.
    """
    with config_lock(change.path for change in changes):
        for file in (*(change.before for change in changes), *unchanged):
            try:
                current = content_of(Path(file.path))
            except ConfigError as error:
                raise ConflictError(error.title, hint="nothing was written") from error
            if current != file.content:
                raise _conflict_error(file, current)
        with recorded():
            replace_files(changes)


def replace_files(changes: Sequence[FileChange]) -> None:
    """Give existing files new content, all or none. Permissions, owner, symbolic and hard links stay.

    Each content is written out beside its file, and takes its name once all are on the disk, if the file then
    still holds what it did before. So a full disk leaves everything as it was, a process killed meanwhile
    leaves each file old or new, and what others have saved stays; only a save between that comparison and the
    rename, microseconds apart, is lost. A file with a second name (a hard link) is written in place, as that
    name would keep the old content.

    The caller sees to it that no other rltui does the same in these folders.

    Raises:
        ConflictError: if one is not what it was; no change was made.
        RltuiError: if one cannot be written; the files are as they were, or the details say which not.
    """
    started: list[FileChange] = []
    try:
        for change in changes:
            _write_adjacent(change)
        for change in changes:
            started.append(change)
            _replace(change)
    except ConflictError as error:
        if changed := _restore(started[:-1]):
            raise RltuiError(error.title, details=[f"still changed: {', '.join(changed)}"]) from error
        raise
    except OSError as error:
        changed = _restore(started)
        names = ", ".join(str(change.path) for change in changes)
        outcome = f"still changed: {', '.join(changed)}" if changed else "the files are unchanged"
        target = _target([*changes[:1], *started][-1])
        raise RltuiError(
            f"cannot write {names}: {error.strerror or error}", details=[outcome], hint=_remedy(error, target)
        ) from error
    finally:
        for change in changes:
            with suppress(OSError):  # the folder became read-only; the next write tidies
                tidy(change.path)


def tidy(path: Path) -> None:
    """Remove what a killed process left next to a file.

    Raises:
        OSError: if it cannot be done.
    """
    _adjacent(path.resolve()).unlink(missing_ok=True)


def _target(change: FileChange) -> Path:
    return change.path.resolve()


def _adjacent(target: Path) -> Path:
    return target.with_name(f".{target.name}{SUFFIX}")


def _conflict_error(file: ConfigFile, current: bytes | None) -> ConflictError:
    """The error for a file that holds `current` instead; `None`: it is gone."""
    theirs = "" if current is None else current.decode(errors="replace")
    details = () if current is None else text_diff(file.text, theirs, Path(file.path).name).splitlines()
    return ConflictError(
        f"{file.path} was changed by someone else meanwhile",
        details=details,
        hint="nothing was written; check the file and try again",
    )


def _replace(change: FileChange) -> None:
    """Replace a regular file by the adjacent one.

    A process killed in the middle may leave a beginning of the new content before the end of the old one in
    a file that is written in place.

    Raises:
        ConflictError: if it is not what it was; it stays.
        OSError: it is again what it was, as far as the disk allows.
    """
    target, before = _target(change), change.before.content
    try:
        is_linked = target.stat().st_nlink > 1
        flags = os.O_RDWR if is_linked else os.O_RDONLY
        descriptor = os.open(target, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise _conflict_error(change.before, None) from None
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, "no longer a regular file")
        current = os.pread(descriptor, info.st_size + 1, 0)
        if current != before:
            raise _conflict_error(change.before, current)
        if is_linked:
            try:
                _write(descriptor, change.after.content)
            except OSError:
                _write(descriptor, before)
                raise
        else:
            _adjacent(target).replace(target)
    finally:
        os.close(descriptor)
    _sync_folder(target.parent)


def _restore(changes: Sequence[FileChange]) -> list[str]:
    """Undo changes, newest first, but for files that somebody has saved since. Returns the paths where that
    failed.
    """
    changed_paths = []
    for change in reversed(changes):
        opposite = FileChange(change.after, change.before)
        try:
            if _target(change).read_bytes() == change.after.content:
                _write_adjacent(opposite)
                with suppress(ConflictError):
                    _replace(opposite)
        except OSError:
            changed_paths.append(str(_target(change)))
    return changed_paths


def _remedy(error: OSError, target: Path) -> str:
    with suppress(OSError):
        folder, owner = target.parent.stat(), target.stat().st_uid
        if error.errno in (errno.EPERM, errno.EACCES) and folder.st_mode & stat.S_ISVTX:
            return (
                f"only the owner of a file in {target.parent} may replace it (sticky bit, owner uid"
                f" {owner}); copy the file to your own folder"
            )
    return "free disk space, or make the file and its folder writable"


def _write_adjacent(change: FileChange) -> None:
    """Write the new content out beside the file, with its owner and permissions.

    Raises:
        ConflictError: if the file is gone.
    """
    target = _target(change)
    try:
        info = target.stat()
    except FileNotFoundError:
        raise _conflict_error(change.before, None) from None
    # a rename would get around a read-only file; its owner meant it
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "the file is read-only")
    tidy(target)
    descriptor = os.open(_adjacent(target), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(change.after.content)
        if (info.st_uid, info.st_gid) != (os.getuid(), os.getgid()):
            _set_owner(stream.fileno(), info.st_uid, info.st_gid)
        os.fchmod(stream.fileno(), info.st_mode & 0o7777)
        # access lists and the like, as far as the file system has and lets us set them
        with suppress(OSError):
            for name in os.listxattr(target):
                with suppress(OSError):
                    os.setxattr(stream.fileno(), name, os.getxattr(target, name))
        stream.flush()
        os.fsync(stream.fileno())


def _set_owner(descriptor: int, user: int, group: int) -> None:
    """Only root may; others at least keep the group where they can."""
    try:
        os.fchown(descriptor, user, group)
    except PermissionError:
        with suppress(PermissionError):
            os.fchown(descriptor, -1, group)


def _sync_folder(folder: Path) -> None:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # a folder that may not be listed
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that has no such thing
            raise
    finally:
        os.close(descriptor)


def _write(descriptor: int, content: bytes) -> None:
    offset = 0
    while offset < len(content):
        offset += os.pwrite(descriptor, content[offset:], offset)
    os.ftruncate(descriptor, len(content))
    os.fsync(descriptor)
