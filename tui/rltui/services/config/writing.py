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
"""Names of files that exist only while others are being replaced contain this."""
LEASE_TIMEOUT_S = 1.0
"""Longest wait for another process that has a file open for writing; a save takes milliseconds."""
_POLL_S = 0.002
_STABLE_S = 0.02
"""A file counts as stable after so long where the file system cannot say who has it open."""
_AT_FDCWD = -100
_NOREPLACE, _EXCHANGE = 1, 2
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})
"""Errors of kernels and file systems without such a rename, NFS among them."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """The content that a file must have before a write, and the one that it gets."""

    before: bytes
    after: bytes


class ForeignSaveError(Exception):
    """Another program saved `path` since it was read. `content`: its bytes now; `None` if it is gone or
    being written.
    """

    def __init__(self, path: Path, content: bytes | None) -> None:
        super().__init__(f"{path} was saved by someone else")
        self.path, self.content = path, content


@dataclass(frozen=True, slots=True)
class _Step:
    path: Path
    """The path as the caller gave it."""
    target: Path
    change: FileChange
    new: Path | None
    """An adjacent file with the new content, later with the old one. `None`: the target has a second name (a
    hard link), which an exchange would leave with the old content, so it is written in place.
    """


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
    applied: list[_Step] = []
    try:
        for path, change in changes.items():
            steps.append(_prepare(path, change))
        for step in steps:
            applied.append(step)
            _execute(step)
            _sync_folder(step.target.parent)
    except ForeignSaveError:
        _undo(applied[:-1])
        raise
    except OSError as error:
        changed = _undo(applied)
        names = ", ".join(str(path) for path in changes)
        outcome = f"still changed: {', '.join(changed)}" if changed else "the files are unchanged"
        target = applied[-1].target if applied else next(iter(changes)).resolve()
        raise RltuiError(
            f"cannot write {names}: {error.strerror or error}", details=[outcome], hint=_remedy(error, target)
        ) from error
    finally:
        for step in steps:
            if step.new is not None:
                with suppress(OSError):  # the folder became read-only; the next write tidies
                    step.new.unlink(missing_ok=True)


def tidy(target: Path) -> None:
    """Remove what a killed process left next to a file. If it was killed before it could put back what
    somebody else saved, that is done now.

    Raises:
        OSError: if it cannot be done.
    """
    for leftover, fingerprints in _leftovers(target):
        if fingerprints and _fingerprint(leftover.read_bytes()) not in fingerprints:
            is_ours = _fingerprint(target.read_bytes()) == fingerprints[1]
            if is_ours or leftover.stat().st_mtime_ns > target.stat().st_mtime_ns:
                swap(leftover, target)
        leftover.unlink(missing_ok=True)


def _leftovers(target: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Leftover files, with the fingerprints of the contents before and after; with none where a file was not
    written completely.
    """
    name = re.compile(
        rf"{re.escape(f'.{target.name}.')}(?:part|([0-9a-f]{{12}})-([0-9a-f]{{12}})){re.escape(SUFFIX)}(?:\.old)?"
    )
    try:
        entries = [entry.name for entry in os.scandir(target.parent)]
    except PermissionError:  # a folder may be entered and written, but not listed
        return
    for entry in entries:
        if match := name.fullmatch(entry):
            yield target.with_name(entry), tuple(fingerprint for fingerprint in match.groups() if fingerprint)


def _fingerprint(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def _prepare(path: Path, change: FileChange) -> _Step:
    target = path.resolve()
    tidy(target)
    try:
        has_hard_links = target.stat().st_nlink > 1
        # a rename would get around a read-only file; its owner meant it
        if not os.access(target, os.W_OK) and target.exists():
            raise PermissionError(errno.EACCES, "the file is read-only")
        return _Step(path, target, change, None if has_hard_links else _write_adjacent(target, change))
    except FileNotFoundError:
        raise ForeignSaveError(path, None) from None


def _execute(step: _Step) -> None:
    """Make the change.

    Raises:
        ForeignSaveError: if somebody else saved; the newest of what they saved is in place.
    """
    before, after = step.change.before, step.change.after
    if step.new is None:
        content = _write_in_place(step.target, expected=before, content=after)
        if content is not None:
            raise ForeignSaveError(step.path, content)
        return
    try:
        content = _stable_content(step.target)
        if content != before:
            raise ForeignSaveError(step.path, content)
        swap(step.new, step.target)
    except FileNotFoundError:
        raise ForeignSaveError(step.path, None) from None
    content = _stable_content(step.new)
    if content != before:
        _put_back(step.new, step.target, after)
        raise ForeignSaveError(step.path, content)


def _put_back(saved: Path, target: Path, placed: bytes | None) -> None:
    """Put `saved`, which somebody else wrote, in place of our file, which held `placed`. If yet another
    content comes out, it was saved since: then that one is put in place, and so on.
    """
    while True:
        next_placed = _stable_content(saved)
        try:
            swap(saved, target)
        except FileNotFoundError:  # an editor moved it away, about to save anew
            with suppress(FileExistsError):
                try:
                    _rename(saved, target, _NOREPLACE)
                except OSError as error:
                    if error.errno not in _UNSUPPORTED:
                        raise
                    os.link(saved, target)
                    saved.unlink()
                return
            continue
        if _stable_content(saved) == placed:
            return
        placed = next_placed


def _undo(applied: Sequence[_Step]) -> list[str]:
    """Undo steps, newest first. Returns the paths that could not be restored."""
    changed_paths = []
    for step in reversed(applied):
        before, after = step.change.before, step.change.after
        try:
            if step.new is None:
                _write_in_place(step.target, expected=after, content=before)
            elif step.new.read_bytes() != after:  # it has been exchanged
                _put_back(step.new, step.target, after)
        except OSError:
            changed_paths.append(str(step.target))
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


def _write_adjacent(target: Path, change: FileChange) -> Path:
    info = target.stat()
    partial = target.with_name(f".{target.name}.part{SUFFIX}")
    partial.unlink(missing_ok=True)
    ready = target.with_name(
        f".{target.name}.{_fingerprint(change.before)}-{_fingerprint(change.after)}{SUFFIX}"
    )
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(change.after)
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
        return partial.replace(ready)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


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
        if error.errno not in _UNSUPPORTED:
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


def _stable_content(path: Path) -> bytes | None:
    """Read a regular file once nobody has it open for writing; `None` if somebody still has after
    `LEASE_TIMEOUT_S`.

    A lease (fcntl(2)) tells, which the kernel grants only then. Where it grants none (NFS, another user's
    file), a file counts as stable if it did not change for `_STABLE_S`: a slower writer is not noticed.
    """
    deadline = time.monotonic() + LEASE_TIMEOUT_S
    with _open_regular(path, os.O_RDONLY) as descriptor:
        while (leased := _lease(descriptor, fcntl.F_RDLCK)) is False:
            if time.monotonic() > deadline:
                return None
            time.sleep(_POLL_S)
        content = _read(descriptor)
        while not leased:
            before = os.fstat(descriptor)
            time.sleep(_STABLE_S)
            after = os.fstat(descriptor)
            content = _read(descriptor)
            leased = (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, len(content))
            if time.monotonic() > deadline and not leased:
                return None
        return content


def _write_in_place(path: Path, *, expected: bytes, content: bytes) -> bytes | None:
    """Write into a file that must stay the same inode. Returns its content where that was not `expected`.

    Nobody else can open it meanwhile where the kernel grants a lease; where it does not, a save that falls
    between reading and writing, microseconds apart, is lost. A process killed meanwhile may leave a beginning
    of `content` before the end of `expected`.

    Raises:
        OSError: the file holds `expected` again, as far as the disk allows.
    """
    with _open_regular(path, os.O_RDWR) as descriptor:
        deadline = time.monotonic() + LEASE_TIMEOUT_S
        while _lease(descriptor, fcntl.F_WRLCK) is False and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        current = _read(descriptor)
        if current != expected:
            return current
        try:
            _write(descriptor, content)
        except OSError:
            _write(descriptor, expected)
            raise
    return None


@contextmanager
def _open_regular(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "no longer a regular file")
        yield descriptor
    finally:
        os.close(descriptor)  # a lease ends with it


def _lease(descriptor: int, kind: int) -> bool | None:
    """True if the lease was granted; False if others have the file open (for writing, if `kind` is for
    reading); `None` if the file system grants none.
    """
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
    offset = 0
    while offset < len(content):
        offset += os.pwrite(descriptor, content[offset:], offset)
    os.ftruncate(descriptor, len(content))
    os.fsync(descriptor)
