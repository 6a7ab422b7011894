"""The edits of an experiment, from its journal, and the contents that files had before them."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from rltui.core.edit_log import EditLog, EditRecord
from rltui.errors import RltuiError
from rltui.services.logs.growing_file import JsonLines
from rltui.services.own_files import make_folder, write_atomically
from rltui.services.toml_source import Source, sha_of

KEPT_BACKUPS = 500
"""Contents that are kept, the newest. An edit before them is undone key by key."""
_SHA = re.compile(r"[0-9a-f]{64}")


class EditHistory:
    """Reads the journal, which others append to, as far as it has grown."""

    def __init__(self, journal: Path, backups: Path) -> None:
        """`backups`: folder for contents, made when it is needed."""
        self._feed = JsonLines(journal)
        self._backups = backups
        self._log = EditLog()
        self._lock = threading.Lock()

    def now(self) -> EditLog:
        """What can be undone and redone now. From any thread."""
        with self._lock:
            return self._read()

    def _read(self) -> EditLog:
        rows = list(self._feed.read())
        if self._feed.restarted:
            self._log = EditLog()
        for row in rows:
            if row.get("kind") != "edit":
                continue
            try:
                self._log.add(EditRecord.model_validate(row.get("data")))
            except ValidationError:
                continue  # of a version that could not undo
        return self._log

    def keep(self, sources: Iterable[Source]) -> None:
        """Keep contents, by their SHA-256.

        Raises:
            RltuiError: if they cannot be written.
        """
        make_folder(self._backups)
        for source in sources:
            path = self._backups / source.sha
            if not path.exists():
                write_atomically(path, source.content)
        self._drop_oldest()

    def content(self, sha: str) -> bytes | None:
        """A kept content; `None` where it is gone or damaged."""
        if not _SHA.fullmatch(sha):
            return None
        try:
            content = (self._backups / sha).read_bytes()
        except OSError:
            return None
        return content if sha_of(content) == sha else None

    def _drop_oldest(self) -> None:
        kept = [path for path in self._backups.iterdir() if _SHA.fullmatch(path.name)]
        if len(kept) <= KEPT_BACKUPS:
            return
        try:
            kept.sort(key=lambda path: path.stat().st_mtime_ns)
            for path in kept[:-KEPT_BACKUPS]:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise RltuiError(f"cannot tidy {self._backups}: {error.strerror}") from error
