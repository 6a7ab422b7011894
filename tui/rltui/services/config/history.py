"""The edits of an experiment: those in its journal, and the one that is being written."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rltui.core.config_data import value_at
from rltui.core.edit_log import EditLog, EditRecord, FileEdit
from rltui.core.toml.values import same_value
from rltui.core.values import Value
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.services.config.lock import config_lock
from rltui.services.config.source import Source, content_of, parse_file, sha_of
from rltui.services.config.writing import FileChange, replace_files, tidy
from rltui.services.logs.growing_file import JsonLines
from rltui.services.own_files import make_folder, read_own, write_atomically
from rltui.services.runs.journal import Journal

MAX_BACKUPS = 500
"""Number of contents that are stored, the newest. An older edit is undone key by key."""
_SHA = re.compile(r"[0-9a-f]{64}")


class EditHistory:
    """Reads the journal as far as others have appended to it."""

    def __init__(self, journal: Path, backups: Path) -> None:
        """`backups`: folder for contents, created when it is needed."""
        self._feed = JsonLines(journal)
        self._backups = backups
        self._log = EditLog()
        self._lock = threading.Lock()

    def now(self) -> EditLog:
        """May be called from any thread."""
        with self._lock:
            rows = list(self._feed.read())
            if self._feed.restarted:
                self._log = EditLog()
            for row in rows:
                if row.get("kind") == "promote":
                    self._log.promote(undoes=row.get("data", {}).get("undoes") is not False)
                if row.get("kind") == "edit":
                    with suppress(ValidationError):  # of a version that could not undo
                        self._log.add(EditRecord.model_validate(row.get("data")))
            return self._log

    def save(self, sources: Iterable[Source]) -> None:
        """Store contents by their SHA-256.

        Raises:
            RltuiError: if they cannot be written.
        """
        make_folder(self._backups)
        for source in sources:
            path = self._backups / source.sha
            if not path.exists():
                write_atomically(path, source.content)
        self._prune()

    def content(self, sha: str) -> bytes | None:
        """A stored content; `None` if it is gone or damaged."""
        if not _SHA.fullmatch(sha):
            return None
        try:
            content = read_own(self._backups / sha)
        except OSError:
            return None
        return content if sha_of(content) == sha else None

    def _prune(self) -> None:
        backups = [path for path in self._backups.iterdir() if _SHA.fullmatch(path.name)]
        if len(backups) <= MAX_BACKUPS:
            return
        try:
            backups.sort(key=lambda path: path.stat().st_mtime_ns)
            for path in backups[:-MAX_BACKUPS]:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise RltuiError(f"cannot remove old backups in {self._backups}: {error.strerror}") from error


class _Entry(Value):
    text: str
    data: dict[str, Any]

    @property
    def record(self) -> EditRecord:
        return EditRecord.model_validate(self.data)


class EditIntent:
    """The edit that is being written, in the file `path` of the control folder, so that a crash can be
    repaired.
    """

    def __init__(self, path: Path, history: EditHistory, journal: Journal) -> None:
        self._path = path
        self._history = history
        self._journal = journal

    @contextmanager
    def execute(self, text: str, data: Mapping[str, Any]) -> Iterator[None]:
        """Surround the write of an edit, under the lock on its files; journals the edit once it is done.

        Raises:
            RltuiError: if the intent cannot be written; nothing was started.
        """
        entry = _Entry(text=text, data=dict(data))
        write_atomically(self._path, entry.model_dump_json().encode())
        try:
            yield
        except ConflictError:
            self._path.unlink(missing_ok=True)
            raise
        except Exception:
            if all(_content(file) == self._history.content(file.before) for file in entry.record.files):
                self._path.unlink(missing_ok=True)
            else:
                self._reconcile(entry)
            raise
        self._journal.add("edit", text, **data)
        self._path.unlink(missing_ok=True)

    def reconcile(self) -> None:
        """Finish an edit whose process was killed: one that reached its files is journaled, one that reached
        none or some of them is reverted, with a journal entry.

        Raises:
            RltuiError: if a file cannot be read or written, or another process is writing it; call again
                later.
        """
        entry = self._read()
        if entry is None:
            return
        try:
            with config_lock(Path(file.path) for file in entry.record.files):
                if entry == self._read():  # nobody else settled it meanwhile
                    self._reconcile(entry)
        except OSError as error:
            raise RltuiError(f"cannot finish the edit in {self._path}: {error.strerror}") from error

    def _read(self) -> _Entry | None:
        """A file that cannot be parsed is removed."""
        try:
            entry = _Entry.model_validate_json(read_own(self._path))
            EditRecord.model_validate(entry.data)
        except OSError:
            return None
        except ValidationError:
            self._path.unlink(missing_ok=True)
            return None
        return entry

    def _reconcile(self, entry: _Entry) -> None:
        record = entry.record
        for file in record.files:
            if Path(file.path).exists():
                tidy(Path(file.path).resolve())
        if all(self._is_applied(file) for file in record.files):
            if self._history.now().next_number <= record.number:
                self._journal.add("edit", entry.text, **entry.data)
        else:
            self._restore(record)
            self._journal.add("config", f"not applied, because rltui ended while writing: {entry.text}")
        self._path.unlink(missing_ok=True)

    def _is_applied(self, file: FileEdit) -> bool:
        """True if the file holds the edited values, even if somebody saved other changes since."""
        content, after = _content(file), self._history.content(file.after)
        if content is None or after is None or not file.keys:
            return content is not None and sha_of(content) == file.after
        try:
            current, edited = (
                parse_file(Path(file.path), content_bytes).data for content_bytes in (content, after)
            )
        except ConfigError:
            return False
        return all(same_value(value_at(current, key), value_at(edited, key)) for key in file.keys)

    def _restore(self, record: EditRecord) -> None:
        """Give files that got their new content the old one again: all or none."""
        changes: dict[Path, FileChange] = {}
        for file in record.files:
            content = _content(file)
            before, after = self._history.content(file.before), self._history.content(file.after)
            if content is None or before is None or after is None or content == before:
                continue
            if content == after or _is_partial_write(content, before, after):
                changes[Path(file.path)] = FileChange(content, before)
        if changes:
            replace_files(changes)


def _content(file: FileEdit) -> bytes | None:
    try:
        return content_of(Path(file.path))
    except ConfigError:
        return None


def _is_partial_write(content: bytes, before: bytes, after: bytes) -> bool:
    """True for a beginning of `after` over `before`, as a killed write in place leaves it."""
    pairs = enumerate(zip(content, after, strict=False))
    agreed = next(
        (offset for offset, (actual, written) in pairs if actual != written), min(len(content), len(after))
    )
    return content[agreed:] == before[agreed:]
