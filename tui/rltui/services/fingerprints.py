"""Whether users' files still say the same, and folders answer, for somebody who must not wait: a file may lie
on a disk that does not answer, or be a pipe by now.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rltui.services.config.source import sha_of
from rltui.services.own_files import read_regular

_PATIENCE_S = 2.0
_LARGEST = 1 << 20
"""Of a config file."""
_HOLDS_S = 1.0


@dataclass(frozen=True, slots=True)
class Fingerprint:
    sha256: str = ""
    problem: str = ""


def fingerprint(path: str) -> Fingerprint:
    """Reads the file, and waits for its disk."""
    try:
        return Fingerprint(sha_of(read_regular(Path(path), _LARGEST)))
    except FileNotFoundError:
        return Fingerprint(problem="is gone")
    except OSError as error:
        return Fingerprint(problem=f"cannot be read: {error.strerror}")


class Fingerprints:
    """Those of files that are asked for again and again. For one thread, which waits two seconds at most for
    the disk of a file, and not again until that answers.
    """

    def __init__(self) -> None:
        self._read: dict[str, tuple[tuple[int, int], Fingerprint]] = {}
        """By path: inode and time of a file, and what it said then."""
        self._looked_at: dict[str, float] = {}
        self._readers: dict[str, threading.Thread] = {}

    def of(self, path: str) -> Fingerprint:
        """Read anew where the file has changed."""
        if not self._has_looked(self._read_file, path):
            return Fingerprint(problem="cannot be read: its disk does not answer")
        return self._read[path][1]

    def answers(self, folder: str) -> bool:
        """False where the disk of the folder, or of what is there of the way to it, does not answer."""
        return self._has_looked(_open_folder, folder)

    def _has_looked(self, look: Callable[[str], None], path: str) -> bool:
        reader = self._readers.get(path)
        if reader is None and time.monotonic() - self._looked_at.get(path, -_HOLDS_S) >= _HOLDS_S:
            reader = threading.Thread(target=self._look, args=(look, path), name=f"read {path}", daemon=True)
            self._readers[path] = reader
            reader.start()
            reader.join(_PATIENCE_S)
        if reader is not None and reader.is_alive():
            return False
        self._readers.pop(path, None)
        return True

    def _look(self, look: Callable[[str], None], path: str) -> None:
        look(path)
        self._looked_at[path] = time.monotonic()

    def _read_file(self, path: str) -> None:
        try:
            info = Path(path).stat()
            stamp = (info.st_ino, info.st_mtime_ns)
        except OSError:
            stamp = (0, 0)
        if stamp == (0, 0) or path not in self._read or self._read[path][0] != stamp:
            self._read[path] = (stamp, fingerprint(path))


def _open_folder(folder: str) -> None:
    """An NFS client asks its server at an `open`, where a `stat` may be answered from memory."""
    for place in (Path(folder), *Path(folder).parents):
        with suppress(OSError):
            os.close(os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | os.O_CLOEXEC))
            return
