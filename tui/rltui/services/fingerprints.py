"""Fingerprints of users' files, and whether folders respond, for callers that must not block: a file may be
on a disk that hangs, or be a pipe by now.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rltui.services.config.config_file import sha_of
from rltui.services.own_files import open_regular, read_regular

_DISK_TIMEOUT_S = 2.0
_LARGEST = 1 << 20
"""Size limit of a config file, in bytes."""
_VALID_S = 1.0
_MOST_FILES = 10_000
"""Files of a folder that are looked at."""
_HASHED_BYTES = 64 << 20
"""Of a larger file, size and time stand for the content."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    sha256: str = ""
    problem: str = ""


def fingerprint(path: str) -> Fingerprint:
    """Read the file; blocks while its disk does."""
    try:
        return Fingerprint(sha_of(read_regular(Path(path), _LARGEST)))
    except FileNotFoundError:
        return Fingerprint(problem="is gone")
    except OSError as error:
        return Fingerprint(problem=f"cannot be read: {error.strerror}")


def content_print(path: Path) -> str:
    """Hash of a file, or of a folder's files without those that Python makes; after an `@` the time of the
    newest change, which nobody can set back. Empty if it is gone. Blocks while its disk does.
    """
    digest, newest = hashlib.sha256(), 0
    try:
        names = [path] if path.is_file() else sorted(path.rglob("*"))
        for file in names[:_MOST_FILES]:
            if not file.is_file() or "__pycache__" in file.parts:
                continue
            info = file.stat()
            newest = max(newest, info.st_ctime_ns)
            digest.update(os.fsencode(file.relative_to(path)) + f"\0{info.st_size}\0".encode())
            if info.st_size <= _HASHED_BYTES:
                with open_regular(file) as opened:
                    digest.update(hashlib.file_digest(opened, "sha256").digest())
            else:
                digest.update(str(info.st_mtime_ns).encode())
    except OSError:
        return ""
    return f"{digest.hexdigest()[:16]}@{newest}" if newest else ""


class Fingerprints:
    """Cached fingerprints of files that are requested repeatedly. For one thread, which waits at most two
    seconds for the disk of a file, and not again until that responds.
    """

    def __init__(self) -> None:
        self._cached: dict[str, tuple[tuple[int, int], Fingerprint]] = {}
        """Path → inode and modification time of a file, and its fingerprint then."""
        self._read_at: dict[str, float] = {}
        self._readers: dict[str, threading.Thread] = {}

    def of(self, path: str) -> Fingerprint:
        """The fingerprint; the file is read again if it has changed."""
        if not self._is_read_in_time(self._read_file, path):
            return Fingerprint(problem="cannot be read: its disk does not respond")
        return self._cached[path][1]

    def answers(self, folder: str) -> bool:
        """False if the disk of the folder, or of its existing parents, does not respond."""
        return self._is_read_in_time(_open_folder, folder)

    def _is_read_in_time(self, read: Callable[[str], None], path: str) -> bool:
        reader = self._readers.get(path)
        if reader is None and time.monotonic() - self._read_at.get(path, -_VALID_S) >= _VALID_S:
            reader = threading.Thread(
                target=self._run_reader, args=(read, path), name=f"read {path}", daemon=True
            )
            self._readers[path] = reader
            reader.start()
            reader.join(_DISK_TIMEOUT_S)
        if reader is not None and reader.is_alive():
            return False
        self._readers.pop(path, None)
        return True

    def _run_reader(self, read: Callable[[str], None], path: str) -> None:
        read(path)
        self._read_at[path] = time.monotonic()

    def _read_file(self, path: str) -> None:
        try:
            info = Path(path).stat()
            inode_and_time = (info.st_ino, info.st_mtime_ns)
        except OSError:
            inode_and_time = (0, 0)
        if inode_and_time == (0, 0) or path not in self._cached or self._cached[path][0] != inode_and_time:
            self._cached[path] = (inode_and_time, fingerprint(path))


def _open_folder(folder: str) -> None:
    """Opens the folder: an NFS client queries its server for that, while a `stat` may be cached."""
    for path in (Path(folder), *Path(folder).parents):
        with suppress(OSError):
            os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | os.O_CLOEXEC))
            return
