"""Swap two files by name, and tell what came out, so that what others save meanwhile is not lost."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 1.0
"""For somebody who has a file open for writing: a save takes milliseconds."""
POLL_S = 0.002
REST_S = 0.02
"""So long a file must stay as it is where the file system cannot say who has it open."""
_AT_FDCWD = -100
_NOREPLACE, _EXCHANGE = 1, 2
_HAS_NONE = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})
"""What kernels and file systems say that know no such rename, NFS among them."""


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


def put(one: Path, name: Path) -> None:
    """Give a file a name that nobody has.

    Raises:
        FileExistsError: if somebody has it.
        OSError: if it cannot be.
    """
    try:
        _rename(one, name, _NOREPLACE)
    except OSError as error:
        if error.errno not in _HAS_NONE:
            raise
        os.link(one, name)
        one.unlink()


def content_at_rest(path: Path) -> bytes | None:
    """What a regular file holds once nobody has it open for writing; `None` where somebody still has after
    `PATIENCE_S`.

    Told by a lease (fcntl(2)), which the kernel gives only then. Where it gives none (NFS, a file of somebody
    else's), a file counts as at rest that stayed as it is for `REST_S`: a slower writer is not noticed.
    """
    deadline = time.monotonic() + PATIENCE_S
    with _opened(path, os.O_RDONLY) as descriptor:
        while (leased := _lease(descriptor, fcntl.F_RDLCK)) is False:
            if time.monotonic() > deadline:
                return None
            time.sleep(POLL_S)
        content = _read(descriptor)
        while not leased:
            before = os.fstat(descriptor)
            time.sleep(REST_S)
            after = os.fstat(descriptor)
            content = _read(descriptor)
            leased = (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, len(content))
            if time.monotonic() > deadline and not leased:
                return None
        return content


def write_in_place(path: Path, *, expected: bytes, content: bytes) -> bytes | None:
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
            time.sleep(POLL_S)
        found = _read(descriptor)
        if found != expected:
            return found
        try:
            _write(descriptor, content)
        except OSError:
            _write(descriptor, expected)
            raise
    return None


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
