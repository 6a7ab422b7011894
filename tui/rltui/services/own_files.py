"""rltui's own files, read with distrust: a folder that others may write to can contain anything."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from io import BufferedReader
from itertools import islice
from pathlib import Path

from rltui import paths
from rltui.base.text import numbered
from rltui.errors import ConflictError, RltuiError

LARGEST = 16 << 20
"""Limit of a file that is read at once, in bytes."""
_USUAL = 16 << 10
"""Most of these files are smaller, in bytes."""
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
"""Mode bits that let anybody but the owner write."""


def open_own(path: Path, flags: int) -> int:
    """Open or create a file of rltui's own, 0600, and return its descriptor.

    Raises:
        OSError: as `os.open`; `EPERM` with the reason if it cannot be the user's own.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _refusal(path, "a symbolic link") from None
        raise
    info = os.fstat(descriptor)
    reason = None if stat.S_ISREG(info.st_mode) else "not a regular file"
    if reason := reason or _foreign_reason(info, path.parent):
        os.close(descriptor)
        raise _refusal(path, reason)
    return descriptor


def read_own(path: Path) -> bytes:
    """The content of a file of rltui's own.

    Raises:
        OSError: as `open_own`; `EFBIG` if it is too large to be one.
    """
    with open(open_own(path, os.O_RDONLY), "rb") as file:
        content = _read(file, LARGEST + 1)
    if len(content) > LARGEST:
        raise OSError(errno.EFBIG, f"larger than {LARGEST >> 20} MiB", str(path))
    return content


def _read(file: BufferedReader, most: int) -> bytes:
    """At most so many bytes. A read allocates all that it may need: for thousands of small files half of the
    time.
    """
    content = file.read(min(most, _USUAL))
    return content + file.read(most - _USUAL) if len(content) == _USUAL < most else content


def open_regular(path: Path) -> BufferedReader:
    """Open a file that a user names, or that others may write, for reading. Does not block on a pipe.

    Raises:
        OSError: as `os.open`; `EISDIR` for a folder, `EINVAL` for other files that are not regular.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def read_regular(path: Path, most: int = LARGEST) -> bytes:
    """The content of such a file, which is not read endlessly.

    Raises:
        OSError: as `open_regular`; `EFBIG` for more than `most` bytes.
    """
    with open_regular(path) as file:
        content = _read(file, most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"larger than {most >> 10} KiB", str(path))
    return content


def foreign_folder_reason(folder: Path) -> str | None:
    """The reason why a folder cannot be the user's own; `None` if it can, or does not exist yet."""
    try:
        info = folder.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return f"cannot be inspected: {error.strerror}"
    if stat.S_ISLNK(info.st_mode):
        return "it is a symbolic link"
    if not stat.S_ISDIR(info.st_mode):
        return "it is not a folder"
    return _foreign_reason(info, folder.parent)


def _foreign_reason(info: os.stat_result, folder: Path) -> str | None:
    """The reason why a file with this `info` in `folder` cannot be the user's own; `None` if it can.

    Some file systems give every file one owner or mode (NFS with squashed users, FUSE): there, whatever a new
    file of ours gets is ours.
    """
    if info.st_uid in (os.getuid(), 0) and not info.st_mode & _OTHERS_WRITE:
        return None
    new_file = _new_file_stat(folder)
    if info.st_uid not in (os.getuid(), 0, new_file.st_uid if new_file else None):
        return f"it belongs to another user, uid {info.st_uid}"
    if info.st_mode & _OTHERS_WRITE & ~(new_file.st_mode if new_file else 0):
        return "other users may write to it"
    return None


def _new_file_stat(folder: Path) -> os.stat_result | None:
    """Owner and mode that a private file created in `folder` gets."""
    import tempfile  # 10 ms, and rarely needed

    with contextlib.suppress(OSError), tempfile.TemporaryFile(dir=folder) as file:
        return os.fstat(file.fileno())
    return None


def _refusal(path: Path, reason: str) -> PermissionError:
    return PermissionError(errno.EPERM, reason, str(path))


def entry_names(folder: Path, most: int | None = None) -> list[str]:
    """Names of what lies in a folder, unordered, at most `most`; empty if it is gone, or not for us to
    read.
    """
    with contextlib.suppress(OSError):
        if most is None:
            return os.listdir(folder)  # noqa: PTH208 - twice as fast, and there may be thousands
        with os.scandir(folder) as entries:
            return [entry.name for entry in islice(entries, most)]
    return []


def file_fingerprint(path: Path) -> tuple[int, int, int] | None:
    """Inode, modification time in ns and size of a file; `None` if there is none."""
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_ino, info.st_mtime_ns, info.st_size


def may_exist(path: Path) -> bool:
    """False only if it is certainly gone: a file system in trouble is left alone."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def free_path(path: Path) -> Path:
    """`path`, or one with the smallest number that does not exist: `outputs/reverse-text-2`."""
    return next(free for name in numbered(path.name) if not (free := path.with_name(name)).exists())


def is_text(path: Path | str) -> bool:
    """True if a path can be written into a file: file names are bytes, and we write UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def make_folder(folder: Path, *, mode: int = 0o777) -> None:
    """Create a folder, with `mode` less the umask, and its parents.

    Raises:
        RltuiError: naming the folder and the system's message.
    """
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        title = f"cannot create the folder {folder}: {error.strerror}"
        raise RltuiError(
            title, hint=_other_folder_hint(folder) or "choose another with -o OUTPUT_DIR"
        ) from error


def _other_folder_hint(path: Path) -> str:
    variable = paths.variable_of(path)
    return "" if variable is None else f"choose another folder: export {variable}=FOLDER"


_LONGEST_CUT_LINE = 1 << 20
"""Limit of the search for the end of the last complete line, in bytes."""


def append_line(path: Path, line: bytes) -> None:
    """Append to a file of rltui's own: the line with its end, or nothing. One that its writer did not finish,
    on a full disk or when it was killed, is removed.

    Raises:
        OSError: if it cannot be written.
    """
    descriptor = open_own(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        end = os.fstat(descriptor).st_size
        if end and os.pread(descriptor, 1, end - 1) != b"\n":
            start = max(0, end - _LONGEST_CUT_LINE)
            end = start + os.pread(descriptor, _LONGEST_CUT_LINE, start).rfind(b"\n") + 1
            os.ftruncate(descriptor, end)
        if os.write(descriptor, line + b"\n") <= len(line):  # the first part of it still had room
            os.ftruncate(descriptor, end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(descriptor)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file of rltui's own atomically. Only the user may read it.

    Raises:
        RltuiError: naming the file and the system's message; the old content is still there.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(open_own(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
            file.write(content)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # a folder that is read-only or gone
            temporary.unlink()
        hint = _other_folder_hint(path) or "is the disk full?"
        raise RltuiError(f"cannot write {path}: {error.strerror}", hint=hint) from error


_LOCK_POLL_S = 0.01


class FileLock:
    """A lock on the file `path`, which is created if missing. Held by at most one at a time."""

    def __init__(self, path: Path, open_it: Callable[[Path, int], int] = open_own) -> None:
        """`open_it`: as `open_own`, for a file that is not rltui's own."""
        self.path = path
        self._open = open_it
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Acquire it; False if another holds it. If the file was replaced, the current one is locked.

        Raises:
            RltuiError: if the file cannot be opened or locked at all.
        """
        if self.is_held():
            return True
        try:
            descriptor = self._open(self.path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            title = f"cannot open the lock {self.path}: {error.strerror}"
            raise RltuiError(title, hint=_other_folder_hint(self.path)) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except OSError as error:
            os.close(descriptor)
            title = f"cannot lock {self.path}: {error.strerror}"
            raise RltuiError(title, hint=_other_folder_hint(self.path)) from error
        self.release()
        self._descriptor = descriptor
        return True

    @contextlib.contextmanager
    def hold(self, busy: RltuiError | None = None, *, wait_s: float = 0.0) -> Iterator[None]:
        """Hold it inside.

        Raises:
            RltuiError: `busy`, by default a `ConflictError`, if another holds it for longer than `wait_s`;
                else as `acquire`.
        """
        deadline = time.monotonic() + wait_s
        while not self.acquire():
            if time.monotonic() >= deadline:
                title = f"locked by another rltui: {self.path}"
                raise busy or ConflictError(title, hint="try again; nothing was changed", code="busy")
            time.sleep(_LOCK_POLL_S)
        try:
            yield
        finally:
            self.release()

    def is_held(self) -> bool:
        """True if we hold it, and it is still the file at `path`, which others find locked."""
        if self._descriptor is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), self.path.stat())
        except OSError:  # the file is gone
            return False

    @property
    def descriptor(self) -> int | None:
        """Inherited by a child that must hold it as well: it is free once both have closed theirs."""
        return self._descriptor

    def release(self) -> None:
        """Let others have it. No effect if it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
