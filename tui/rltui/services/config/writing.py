"""Replace files so that a reader sees the old or the new content, never a part, whatever fails."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import signal
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rltui.errors import RltuiError

SUFFIX = ".rltui-tmp"
"""In names of files that live only while others are replaced."""
PATIENCE_S = 1.0
"""For somebody who has a file open for writing: a save takes milliseconds."""
_POLL_S = 0.002
_REST_S = 0.02
"""So long a file must stay as it is where the file system cannot say who has it open."""
_AT_FDCWD = -100
_NOREPLACE, _EXCHANGE = 1, 2
_HAS_NONE = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})
"""What kernels and file systems say that know no such rename, NFS among them."""


@dataclass(frozen=True, slots=True)
class FileChange:
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
    change: FileChange
    new: Path | None
    """Beside it, with the new content, later with the old; `None`: it has a second name (a hard link), which
    an exchange would leave with the old content, so it is written in place."""


def replace_files(changes: Mapping[Path, FileChange]) -> None:
    """Give existing files new content, all or none. Permissions, owner, symbolic and hard links stay.

    Each is exchanged with a file that was written out beside it, so that a full disk leaves everything as it
    was, and a process killed meanwhile leaves each file old or new. What comes out is compared with `before`:
    a file that somebody else saved in between, whether by rename or by writing into it, is put back, and
    whatever is saved even later stays. Where a file cannot be replaced, those that were are put back.
    What a kernel without exchange or leases cannot rule out is said at the functions that use them.

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


def _prepared(path: Path, change: FileChange) -> _Step:
    target = path.resolve()
    tidy(target)
    try:
        linked = target.stat().st_nlink > 1
        # a rename would get around a read-only file; its owner meant it
        if not os.access(target, os.W_OK) and target.exists():
            raise PermissionError(errno.EACCES, "the file is read-only")
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
        found = _write_in_place(step.target, expected=before, content=after)
        if found is not None:
            raise ForeignSaveError(step.path, found)
        return
    try:
        found = _content_at_rest(step.target)
        if found != before:
            raise ForeignSaveError(step.path, found)
        swap(step.new, step.target)
    except FileNotFoundError:
        raise ForeignSaveError(step.path, None) from None
    found = _content_at_rest(step.new)
    if found != before:
        _put_back(step.new, step.target, after)
        raise ForeignSaveError(step.path, found)


def _put_back(taken: Path, target: Path, inside: bytes | None) -> None:
    """Put the file `taken` in place of what was put there, which held `inside`. Where something else comes
    out, it was saved since: then that is put in place, and so on.
    """
    while True:
        going_in = _content_at_rest(taken)
        try:
            swap(taken, target)
        except FileNotFoundError:  # an editor moved it away, about to save anew
            with suppress(FileExistsError):
                try:
                    _rename(taken, target, _NOREPLACE)
                except OSError as error:
                    if error.errno not in _HAS_NONE:
                        raise
                    os.link(taken, target)
                    taken.unlink()
                return
            continue
        if _content_at_rest(taken) == inside:
            return
        inside = going_in


def _take_back(done: Sequence[_Step]) -> list[str]:
    """Undo steps, newest first; those that stay changed."""
    changed = []
    for step in reversed(done):
        before, after = step.change.before, step.change.after
        try:
            if step.new is None:
                _write_in_place(step.target, expected=after, content=before)
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


def _write_beside(target: Path, change: FileChange) -> Path:
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
            # access lists and the like, as far as the file system has and lets us set them
            with suppress(OSError):
                for name in os.listxattr(target):
                    with suppress(OSError):
                        os.setxattr(stream.fileno(), name, os.getxattr(target, name))
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


# --- two files exchanged by name, so that what others save meanwhile is not lost ------------------------


def swap(one: Path, other: Path) -> None:
    """Each of two names gets the other's file, in one step.

    Where the file system cannot do that, `other` gets the file of `one` in one step, and `one` then the file
    that `other` had just before: a save by rename between these two, microseconds apart, is lost.

    Raises:
        OSError: both are as they were.
    """
    try:
        _rename(one, other, _EXCHANGE)
    except OSError as error:
        if error.errno not in _HAS_NONE:
            raise
        _swap_by_links(one, other)


def _swap_by_links(one: Path, other: Path) -> None:
    second = one.with_name(f"{one.name}.old")
    second.unlink(missing_ok=True)
    try:
        os.link(other, second)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise
        second.write_bytes(other.read_bytes())  # no links here either
    try:
        one.replace(other)
    except OSError:
        second.unlink(missing_ok=True)
        raise
    second.replace(one)


def _rename(one: Path, other: Path, flags: int) -> None:
    """`renameat2` of the C library, which python does not have.

    Raises:
        OSError: as the kernel says, `ENOSYS` where it is older than the call.
    """
    import ctypes  # only for whoever edits

    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # a C library before glibc 2.28
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None
    if call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), ctypes.c_uint(flags)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(one), None, str(other))


# --- one file, while others may have it open ------------------------------------------------------------


def _content_at_rest(path: Path) -> bytes | None:
    """What a regular file holds once nobody has it open for writing; `None` where somebody still has after
    `PATIENCE_S`.

    Told by a lease (fcntl(2)), which the kernel gives only then. Where it gives none (NFS, a file of somebody
    else's), a file counts as at rest that stayed as it is for `_REST_S`: a slower writer is not noticed.
    """
    deadline = time.monotonic() + PATIENCE_S
    with _opened(path, os.O_RDONLY) as descriptor:
        while (leased := _lease(descriptor, fcntl.F_RDLCK)) is False:
            if time.monotonic() > deadline:
                return None
            time.sleep(_POLL_S)
        content = _read(descriptor)
        while not leased:
            before = os.fstat(descriptor)
            time.sleep(_REST_S)
            after = os.fstat(descriptor)
            content = _read(descriptor)
            leased = (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, len(content))
            if time.monotonic() > deadline and not leased:
                return None
        return content


def _write_in_place(path: Path, *, expected: bytes, content: bytes) -> bytes | None:
    """Write into a file that has to stay the same one; what it held instead where that was not `expected`.

    Nobody else can open it meanwhile where the kernel gives a lease on it; where it does not, a save that
    falls between reading and writing, microseconds apart, is lost. A process killed meanwhile may leave
    a beginning of `content` before the end of `expected`.

    Raises:
        OSError: as far as the disk takes it, it holds `expected` again.
    """
    with _opened(path, os.O_RDWR) as descriptor:
        deadline = time.monotonic() + PATIENCE_S
        while _lease(descriptor, fcntl.F_WRLCK) is False and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        found = _read(descriptor)
        if found != expected:
            return found
        try:
            _write(descriptor, content)
        except OSError:
            _write(descriptor, expected)
            raise
    return None


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no file any more")
        yield descriptor
    finally:
        os.close(descriptor)  # a lease ends with it


def _lease(descriptor: int, kind: int) -> bool | None:
    """False where others have the file open (for writing, if `kind` is for reading); `None`: never."""
    try:
        fcntl.fcntl(
            descriptor, fcntl.F_SETSIG, signal.SIGURG
        )  # who waits for us sends SIGIO else, which ends us
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, kind)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _read(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size + 1, 0)


def _write(descriptor: int, content: bytes) -> None:
    at = 0
    while at < len(content):
        at += os.pwrite(descriptor, content[at:], at)
    os.ftruncate(descriptor, len(content))
    os.fsync(descriptor)
