"""The edits of an experiment: those in its journal, and the one that is being written."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

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
            if row.get("kind") == "promote":
                self._log.promote(undoes=row.get("data", {}).get("undoes") is not False)
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
            content = read_own(self._backups / sha)
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


class EditJournal(Protocol):
    def add(
        self,
        kind: str,
        text: str,
        *,
        component: str | None = None,
        attempt: int | None = None,
        **data: object,
    ) -> object: ...


class _Entry(Value):
    text: str
    data: dict[str, Any]

    @property
    def record(self) -> EditRecord:
        return EditRecord.model_validate(self.data)


class EditIntent:
    """The intent of an experiment, in the file `path` of its control folder."""

    def __init__(self, path: Path, history: EditHistory, journal: EditJournal) -> None:
        self._path = path
        self._history = history
        self._journal = journal

    @contextmanager
    def carried_out(self, text: str, data: Mapping[str, Any]) -> Iterator[None]:
        """Around the write of an edit, under the lock on its files; journals it when that is done.

        Raises:
            RltuiError: if the intent cannot be written down; nothing was begun.
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
                self._settle(entry)
            raise
        self._journal.add("edit", text, **data)
        self._path.unlink(missing_ok=True)

    def settle(self) -> None:
        """Finish what somebody was killed at: an edit that reached its files is journaled, one that did not,
        or not all of them, is taken back and told.

        Raises:
            RltuiError: if a file cannot be read or written, or somebody is writing it; it stays to be done.
        """
        entry = self._read()
        if entry is None:
            return
        try:
            with config_lock(Path(file.path) for file in entry.record.files):
                if entry == self._read():  # nobody else settled it meanwhile
                    self._settle(entry)
        except OSError as error:
            raise RltuiError(f"cannot settle the edit in {self._path}: {error.strerror}") from error

    def _read(self) -> _Entry | None:
        """`None` where nothing is to be done; what nobody can understand is removed."""
        try:
            entry = _Entry.model_validate_json(read_own(self._path))
            EditRecord.model_validate(entry.data)
        except OSError:
            return None
        except ValidationError:
            self._path.unlink(missing_ok=True)
            return None
        return entry

    def _settle(self, entry: _Entry) -> None:
        record = entry.record
        for file in record.files:
            if Path(file.path).exists():
                tidy(Path(file.path).resolve())
        if all(self._is_made(file) for file in record.files):
            if self._history.now().next_number <= record.number:
                self._journal.add("edit", entry.text, **entry.data)
        else:
            self._restore(record)
            self._journal.add("config", f"not made, rltui was ended while writing it: {entry.text}")
        self._path.unlink(missing_ok=True)

    def _is_made(self, file: FileEdit) -> bool:
        """It holds the edit; also where somebody saved something else since."""
        content, after = _content(file), self._history.content(file.after)
        if content is None or after is None or not file.keys:
            return content is not None and sha_of(content) == file.after
        try:
            found, wanted = (parse_file(Path(file.path), each).data for each in (content, after))
        except ConfigError:
            return False
        return all(same_value(value_at(found, key), value_at(wanted, key)) for key in file.keys)

    def _restore(self, record: EditRecord) -> None:
        """All files or none: those that got their new content get the old one again."""
        changes: dict[Path, FileChange] = {}
        for file in record.files:
            content = _content(file)
            before, after = self._history.content(file.before), self._history.content(file.after)
            if content is None or before is None or after is None or content == before:
                continue
            if content == after or _is_cut_short(content, before, after):
                changes[Path(file.path)] = FileChange(content, before)
        if changes:
            replace_files(changes)


def _content(file: FileEdit) -> bytes | None:
    try:
        return content_of(Path(file.path))
    except ConfigError:
        return None


def _is_cut_short(content: bytes, before: bytes, after: bytes) -> bool:
    """A beginning of `after` over `before`, as a write in place leaves it that was killed."""
    pairs = enumerate(zip(content, after, strict=False))
    agreed = next((at for at, (one, other) in pairs if one != other), min(len(content), len(after)))
    return content[agreed:] == before[agreed:]
