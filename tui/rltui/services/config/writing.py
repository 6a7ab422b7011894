"""Replace files so that a reader sees the old or the new content, never a part, whatever fails."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rltui.errors import RltuiError

SUFFIX = ".rltui-tmp"
"""End of the name of a file that is about to replace another."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """The content that a file must have before a write, and the one that it gets."""

    before: bytes
    after: bytes


class ForeignSaveError(Exception):
    """Another program saved `path` since it was read. `content`: its bytes now; `None` if it is gone."""

    def __init__(self, path: Path, content: bytes | None) -> None:
        super().__init__(f"{path} was saved by someone else")
        self.path, self.content = path, content


def replace_files(changes: Mapping[Path, FileChange]) -> None:
    """Give existing files new content, all or none. Permissions, owner, symbolic and hard links stay.

    Each content is written out beside its file, and takes its name once all are on the disk, if the file then
    still holds its `before`. So a full disk leaves everything as it was, a process killed meanwhile leaves
    each file old or new, and what others have saved stays; only a save between that comparison and the
    rename, microseconds apart, is lost. A file with a second name (a hard link) is written in place, as that
    name would keep the old content.

    The caller sees to it that no other rltui does the same in these folders.

    Raises:
        ForeignSaveError: if one does not hold its `before`; no change was made.
        RltuiError: if one cannot be written; the files are as they were, or the details say which not.
    """
    targets = {path: path.resolve() for path in changes}
    started: list[Path] = []
    try:
        for path, change in changes.items():
            with _gone_is_foreign(path):
                _write_adjacent(targets[path], change.after)
        for path, change in changes.items():
            started.append(path)
            with _gone_is_foreign(path):
                content = _replace(targets[path], expected=change.before, content=change.after)
            if content != change.before:
                raise ForeignSaveError(path, content)
    except ForeignSaveError:
        _restore((targets[path], changes[path]) for path in reversed(started[:-1]))
        raise
    except OSError as error:
        changed = _restore((targets[path], changes[path]) for path in reversed(started))
        names = ", ".join(str(path) for path in changes)
        outcome = f"still changed: {', '.join(changed)}" if changed else "the files are unchanged"
        target = targets[started[-1]] if started else next(iter(targets.values()))
        raise RltuiError(
            f"cannot write {names}: {error.strerror or error}", details=[outcome], hint=_remedy(error, target)
        ) from error
    finally:
        for target in targets.values():
            with suppress(OSError):  # the folder became read-only; the next write tidies
                tidy(target)


def tidy(target: Path) -> None:
    """Remove what a killed process left next to a file.

    Raises:
        OSError: if it cannot be done.
    """
    _adjacent(target).unlink(missing_ok=True)


def _adjacent(target: Path) -> Path:
    return target.with_name(f".{target.name}{SUFFIX}")


@contextmanager
def _gone_is_foreign(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise ForeignSaveError(path, None) from None


def _replace(target: Path, *, expected: bytes, content: bytes) -> bytes:
    """Replace a regular file by the adjacent one, which has `content`; returns what it held before. Where
    that is not `expected`, it stays.

    A process killed in the middle may leave a beginning of `content` before the end of `expected` in a file
    that is written in place.

    Raises:
        OSError: the file holds `expected` again, as far as the disk allows.
    """
    is_linked = target.stat().st_nlink > 1
    flags = os.O_RDWR if is_linked else os.O_RDONLY
    descriptor = os.open(target, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, "no longer a regular file")
        current = os.pread(descriptor, info.st_size + 1, 0)
        if current != expected:
            return current
        if is_linked:
            _write_in_place(descriptor, expected, content)
        else:
            _adjacent(target).replace(target)
    finally:
        os.close(descriptor)
    _sync_folder(target.parent)
    return current


def _write_in_place(descriptor: int, before: bytes, after: bytes) -> None:
    try:
        _write(descriptor, after)
    except OSError:
        _write(descriptor, before)
        raise


def _restore(changes: Iterable[tuple[Path, FileChange]]) -> list[str]:
    """Undo changes of which nobody has saved over the result. Returns the paths where that failed."""
    changed_paths = []
    for target, change in changes:
        try:
            if target.read_bytes() == change.after:
                _write_adjacent(target, change.before)
                _replace(target, expected=change.after, content=change.before)
        except OSError:
            changed_paths.append(str(target))
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


def _write_adjacent(target: Path, content: bytes) -> None:
    """Write the content that `target` gets out beside it, with the owner and permissions of `target`."""
    info = target.stat()
    # a rename would get around a read-only file; its owner meant it
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "the file is read-only")
    tidy(target)
    descriptor = os.open(_adjacent(target), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
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
