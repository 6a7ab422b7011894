"""Replace files so that a reader sees the old or the new content, never a part, whatever fails."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rltui.errors import RltuiError
from rltui.services.file_exchange import content_at_rest, put, swap, write_in_place

SUFFIX = ".rltui-tmp"
"""In names of files that live only while others are replaced."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a file must hold now, and shall hold then."""

    before: bytes
    after: bytes


class ForeignSaveError(Exception):
    """Somebody else saved `path` meanwhile: it holds `content` now; `None`: it is gone, or being written."""

    def __init__(self, path: Path, content: bytes | None) -> None:
        super().__init__(f"{path} was saved by somebody else")
        self.path, self.content = path, content


@dataclass(frozen=True, slots=True)
class _Step:
    """A file that is ready to be replaced."""

    path: Path
    """As the caller gave it."""
    target: Path
    change: Change
    new: Path | None
    """Beside it, with the new content, later with the old; `None`: it has a second name (a hard link), which
    an exchange would leave with the old content, so it is written in place."""


def replace_files(changes: Mapping[Path, Change]) -> None:
    """Give existing files new content, all or none. Permissions, owner, symbolic and hard links stay.

    Each is exchanged with a file that was written out beside it, so that a full disk leaves everything as it
    was, and a process killed meanwhile leaves each file old or new. What comes out is compared with `before`:
    a file that somebody else saved in between, whether by rename or by writing into it, is put back, and
    whatever is saved even later stays. Where a file cannot be replaced, those that were are put back.
    What a kernel without exchange or leases cannot rule out is said in `file_exchange`.

    The caller sees to it that no other rltui does the same in these folders.

    Raises:
        ForeignSaveError: if one does not hold its `before`; no change was made.
        RltuiError: if one cannot be written; the files are as they were, or the details say which not.
    """
    steps: list[_Step] = []
    done: list[_Step] = []
    try:
        for path, change in changes.items():
            steps.append(_prepared(path, change))
        for step in steps:
            done.append(step)
            _carry_out(step)
            _sync_folder(step.target.parent)
    except ForeignSaveError:
        _take_back(done[:-1])
        raise
    except OSError as error:
        changed = _take_back(done)
        names = ", ".join(str(path) for path in changes)
        outcome = f"changed all the same: {', '.join(changed)}" if changed else "the files are as they were"
        where = done[-1].target if done else next(iter(changes)).resolve()
        raise RltuiError(
            f"cannot write {names}: {error.strerror or error}", details=[outcome], hint=_remedy(error, where)
        ) from error
    finally:
        for step in steps:
            if step.new is not None:
                with suppress(OSError):  # the folder became read-only; the next write tidies
                    step.new.unlink(missing_ok=True)


def tidy(target: Path) -> None:
    """Remove what a killed process left beside a file. Should it have been killed before it could put back
    what somebody else saved, that is done now.

    Raises:
        OSError: if it cannot be done.
    """
    for left, marks in _leftovers(target):
        if marks and _mark(left.read_bytes()) not in marks:
            is_ours = _mark(target.read_bytes()) == marks[1]
            if is_ours or left.stat().st_mtime_ns > target.stat().st_mtime_ns:
                swap(left, target)
        left.unlink(missing_ok=True)


def _leftovers(target: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """With the marks of what the file held and should hold; without, where it was not written to its end."""
    name = re.compile(
        rf"{re.escape(f'.{target.name}.')}(?:part|([0-9a-f]{{12}})-([0-9a-f]{{12}})){re.escape(SUFFIX)}(?:\.old)?"
    )
    try:
        entries = [entry.name for entry in os.scandir(target.parent)]
    except PermissionError:  # a folder may be entered and written, but not listed
        return
    for entry in entries:
        if match := name.fullmatch(entry):
            yield target.with_name(entry), tuple(mark for mark in match.groups() if mark)


def _mark(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def _require_writable(target: Path) -> None:
    """A rename would get around a read-only file; its owner meant it."""
    if not os.access(target, os.W_OK) and target.exists():
        raise PermissionError(errno.EACCES, "the file is read-only")


def _prepared(path: Path, change: Change) -> _Step:
    target = path.resolve()
    tidy(target)
    try:
        linked = target.stat().st_nlink > 1
        _require_writable(target)
        return _Step(path, target, change, None if linked else _write_beside(target, change))
    except FileNotFoundError:
        raise ForeignSaveError(path, None) from None


def _carry_out(step: _Step) -> None:
    """Make the change.

    Raises:
        ForeignSaveError: if somebody else saved; the newest of what they saved is in place.
    """
    before, after = step.change.before, step.change.after
    if step.new is None:
        found = write_in_place(step.target, expected=before, content=after)
        if found is not None:
            raise ForeignSaveError(step.path, found)
        return
    try:
        found = content_at_rest(step.target)
        if found != before:
            raise ForeignSaveError(step.path, found)
        swap(step.new, step.target)
    except FileNotFoundError:
        raise ForeignSaveError(step.path, None) from None
    found = content_at_rest(step.new)
    if found != before:
        _put_back(step.new, step.target, after)
        raise ForeignSaveError(step.path, found)


def _put_back(taken: Path, target: Path, inside: bytes | None) -> None:
    """Put the file `taken` in place of what was put there, which held `inside`. Where something else comes
    out, it was saved since: then that is put in place, and so on.
    """
    while True:
        going_in = content_at_rest(taken)
        try:
            swap(taken, target)
        except FileNotFoundError:  # an editor moved it away, about to save anew
            with suppress(FileExistsError):
                put(taken, target)
                return
            continue
        if content_at_rest(taken) == inside:
            return
        inside = going_in


def _take_back(done: Sequence[_Step]) -> list[str]:
    """Undo steps, newest first; those that stay changed."""
    changed = []
    for step in reversed(done):
        before, after = step.change.before, step.change.after
        try:
            if step.new is None:
                write_in_place(step.target, expected=after, content=before)
            elif step.new.read_bytes() != after:  # it has been exchanged
                _put_back(step.new, step.target, after)
        except OSError:
            changed.append(str(step.target))
    return changed


def _remedy(error: OSError, target: Path) -> str:
    with suppress(OSError):
        folder, owner = target.parent.stat(), target.stat().st_uid
        if error.errno in (errno.EPERM, errno.EACCES) and folder.st_mode & stat.S_ISVTX:
            return (
                f"in {target.parent} only the owner of a file may replace it (sticky bit), here uid {owner}: "
                "copy the file to a folder of your own"
            )
    return "make room on the disk, or make the file and its folder writable"


def _write_beside(target: Path, change: Change) -> Path:
    info = target.stat()
    part = target.with_name(f".{target.name}.part{SUFFIX}")
    part.unlink(missing_ok=True)
    ready = target.with_name(f".{target.name}.{_mark(change.before)}-{_mark(change.after)}{SUFFIX}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(change.after)
            if (info.st_uid, info.st_gid) != (os.getuid(), os.getgid()):
                _give(stream.fileno(), info.st_uid, info.st_gid)
            os.fchmod(stream.fileno(), info.st_mode & 0o7777)
            _copy_attributes(target, stream.fileno())
            stream.flush()
            os.fsync(stream.fileno())
        return part.replace(ready)
    except OSError:
        part.unlink(missing_ok=True)
        raise


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
