"""Contents of config files by their hash, which edits replaced, or which runs were started with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from rltui.errors import RltuiError
from rltui.services.config.config_file import sha_of
from rltui.services.own_files import make_folder, read_own, write_atomically

_SHA = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ContentStore:
    """A folder of contents, each in a file named by its SHA-256, for the user alone: it may hold secrets."""

    folder: Path
    limit: int | None = None
    """Number of contents that are stored, the newest; `None`: all."""
    is_nested: bool = False
    """True: the files lie in folders named by the first two letters of the hash."""

    def save(self, *contents: bytes) -> None:
        """Store contents, unless they are there already.

        Raises:
            RltuiError: if they cannot be written.
        """
        for content in contents:
            path = self._path(sha_of(content))
            if not path.exists():
                make_folder(path.parent, mode=0o700)
                write_atomically(path, content)
        if contents and self.limit is not None:
            self._prune(self.limit)

    def content(self, sha: str) -> bytes | None:
        """A stored content; `None` if it is gone or damaged."""
        if not _SHA.fullmatch(sha):
            return None
        try:
            content = read_own(self._path(sha))
        except OSError:
            return None
        return content if sha_of(content) == sha else None

    def _path(self, sha: str) -> Path:
        return self.folder / sha[:2] / sha if self.is_nested else self.folder / sha

    def _prune(self, limit: int) -> None:
        try:
            stored = [path for path in self.folder.iterdir() if _SHA.fullmatch(path.name)]
            if len(stored) > limit:
                stored.sort(key=lambda path: path.stat().st_mtime_ns)
                for path in stored[:-limit]:
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise RltuiError(f"cannot remove old contents in {self.folder}: {error.strerror}") from error
