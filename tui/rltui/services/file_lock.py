"""Exclusive locks on files. They end with the process, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from rltui.errors import RltuiError
from rltui.services.own_files import open_own


class FileLock:
    """A lock on the file `path`, which is made where it is missing. Held by at most one at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def take(self) -> bool:
        """Take it, or say that another has it. Where the file was replaced, that is the one there is now.

        Raises:
            RltuiError: if the file cannot be opened or locked at all.
        """
        if self.is_held():
            return True
        try:
            descriptor = open_own(self.path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise RltuiError(f"cannot open the lock {self.path}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except OSError as error:
            os.close(descriptor)
            raise RltuiError(f"cannot lock {self.path}: {error.strerror}") from error
        self.release()
        self._descriptor = descriptor
        return True

    def is_held(self) -> bool:
        """We hold it, and it is still the file at `path`: others who come there find it locked."""
        if self._descriptor is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), self.path.stat())
        except OSError:  # the file is gone
            return False

    def release(self) -> None:
        """Let others have it. Without effect where it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
