"""Replace files so that a reader sees the old or the new content, never a part, whatever fails."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rltui.errors import RltuiError

SUFFIX = ".rltui-tmp"
"""Of files that live only while others are replaced."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A file that is ready to be replaced."""

    target: Path
    new: Path
    """Beside it, with the new content."""
    old: Path
    """Beside it, the old file under another name, to be put back should a later one fail."""


def replace_files(contents: Mapping[Path, bytes]) -> None:
    """Write new content to existing files, all or none. Permissions, owner and symbolic links stay.

    All are written out before the first is replaced, so that a full disk leaves every file as it was. Where
    one cannot be replaced, those that were are put back. A process killed meanwhile leaves each file old or
    new. The caller sees to it that nobody else does the same in these folders.

    Raises:
        RltuiError: if a file cannot be written; the files are as they were, or the details say which not.
    """
    prepared: list[_Prepared] = []
    try:
        for path, content in contents.items():
            target = path.resolve()
            _sweep(target)
            _require_writable(target)
            prepared.append(_prepare(target, content))
        _replace_all(prepared)
    except OSError as error:
        names = ", ".join(str(path) for path in contents)
        changed = [str(each.target) for each in prepared if _is_replaced(each)]
        outcome = f"changed all the same: {', '.join(changed)}" if changed else "the files are as they were"
        raise RltuiError(
            f"cannot write {names}: {error.strerror or error}",
            details=[outcome],
            hint="make room on the disk, or make the file and its folder writable",
        ) from error
    finally:
        for each in prepared:
            for left in (each.new, each.old):
                with suppress(OSError):  # the folder became read-only; the next write sweeps
                    left.unlink(missing_ok=True)


def _prepare(target: Path, content: bytes) -> _Prepared:
    new = _write_beside(target, content)
    try:
        return _Prepared(target, new, _second_name(target))
    except OSError:
        new.unlink(missing_ok=True)
        raise


def _replace_all(prepared: Sequence[_Prepared]) -> None:
    done: list[_Prepared] = []
    try:
        for each in prepared:
            done.append(each)
            each.new.replace(each.target)
            _sync_folder(each.target.parent)
    except OSError:
        for each in reversed(done):
            if _is_replaced(each):
                with suppress(OSError):  # told by the caller, who looks what is new
                    each.old.replace(each.target)
        raise


def _is_replaced(each: _Prepared) -> bool:
    """The new file has taken the target's name, and the old one still has its second one."""
    return not each.new.exists() and each.old.exists()


def _sweep(target: Path) -> None:
    """Remove what a killed process left."""
    for entry in os.scandir(target.parent):
        if entry.name.startswith(f".{target.name}.") and entry.name.endswith(SUFFIX):
            Path(entry.path).unlink(missing_ok=True)


def _require_writable(target: Path) -> None:
    """A rename would get around a read-only file; its owner meant it."""
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "the file is read-only")


def _second_name(target: Path) -> Path:
    """Another name for the same file; a copy where the file system has no hard links."""
    name = target.with_name(f".{target.name}.old{SUFFIX}")
    try:
        os.link(target, name)
    except OSError:
        return _write_beside(target, target.read_bytes())
    return name


def _write_beside(target: Path, content: bytes) -> Path:
    before = target.stat()
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=SUFFIX, dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            if (before.st_uid, before.st_gid) != (os.getuid(), os.getgid()):
                _give(stream.fileno(), before.st_uid, before.st_gid)
            os.fchmod(stream.fileno(), before.st_mode & 0o7777)
            _copy_attributes(target, stream.fileno())
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


def _copy_attributes(source: Path, descriptor: int) -> None:
    """Access lists and the like, as far as the file system has and lets us set them."""
    with suppress(OSError):
        for name in os.listxattr(source):
            with suppress(OSError):
                os.setxattr(descriptor, name, os.getxattr(source, name))


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that has no such thing
            raise
    finally:
        os.close(descriptor)
