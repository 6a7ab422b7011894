"""The edits of an experiment: those in its journal, undone and redone, and the one that is being written."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from rltui.base.secrets import MASK
from rltui.base.toml.values import TomlValue, read_value, same_value
from rltui.base.values import InvalidValueError, Value
from rltui.core import hints
from rltui.core.config.data import key_conflicts, value_at
from rltui.core.config.edit_log import EditLog, EditRecord, FileEdit
from rltui.core.config.report import FileConflict
from rltui.core.experiment.actor import Actor
from rltui.core.experiment.events import author_and_time
from rltui.core.hints import Hint
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.frameworks.inputs import ConfigFile
from rltui.services.config.change import FileChange
from rltui.services.config.config_file import content_of, parse_file, sha_of, with_key
from rltui.services.config.content_store import ContentStore
from rltui.services.config.lock import config_lock
from rltui.services.config.writing import replace_files, tidy
from rltui.services.experiment.files import ControlFolder
from rltui.services.experiment.journal import Journal
from rltui.services.experiment.registry import run_command
from rltui.services.logs.growing_file import JsonLines
from rltui.services.own_files import read_own, write_atomically

_MAX_BACKUPS = 500
"""Number of contents that are stored, the newest. An older edit is undone key by key."""


class _Intent(Value):
    """An edit that is being written, as its journal entry will have it."""

    text: str
    data: dict[str, Any]
    by: Actor | None = None

    @property
    def record(self) -> EditRecord:
        return EditRecord.from_plain(self.data)


class EditHistory:
    """Reads the journal as far as others have appended to it."""

    def __init__(self, control: ControlFolder, journal: Journal) -> None:
        self._control = control
        self._journal = journal
        self._feed = JsonLines(control.journal_file)
        self.contents = ContentStore(control.path / "backups", limit=_MAX_BACKUPS)
        """The contents of the files before and after each edit."""
        self._intent_file = control.path / "edit.json"
        """The edit that is being written, so that a crash can be repaired."""
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
                    with suppress(InvalidValueError):  # of a version that could not undo
                        record = EditRecord.from_plain(row.get("data"))
                        self._log.add(record.replace(by=author_and_time(row, time.time())))
            return self._log

    def command(self, hint: Hint) -> str:
        """The command of `hint` for the run with these edits."""
        run = self._control.read_record()
        return hint(name=None) if run is None else run_command(hint, run.name)

    # --- undo and redo ------------------------------------------------------------------------------------

    def reversible(self, action: Literal["undo", "redo"]) -> tuple[EditRecord, tuple[str, ...]]:
        """The edit that an undo or redo would take back, and lines for its plan: whose it is.

        Raises:
            ConflictError: if there is none.
        """
        log = self.now()
        record = log.undoable if action == "undo" else log.redoable
        promotion = ""
        if action == "undo" and log.is_promotion_newest:
            run = self._control.read_record()
            promotion = hints.PROMOTE_UNDO(run="RUN" if run is None else run.name)
        if record is None:
            hint = f"to undo the promotion: {promotion}"
            if not promotion:
                hint = f"{self.command(hints.EVENTS)} lists the edits"
            raise ConflictError(f"nothing to {action}", hint=hint)
        reasons = [f"undoes an edit by {record.by}: {record.words}"] if record.by else []
        if promotion:
            reasons.append(f"promoted values stay in your files; to undo the promotion: {promotion}")
        return record, tuple(reasons)

    def restored(self, edit: FileEdit, file: ConfigFile) -> ConfigFile | FileConflict:
        """The file without the edit: byte for byte as before, or key by key where others changed it since, if
        the edit was one of keys.
        """
        content = self.contents.content(edit.before)
        if sha_of(file.content) == edit.after and content is not None:
            return parse_file(file.path, content, file.role)
        if not edit.keys:
            return FileConflict(file=file.path)
        before, after = self.values(edit, edit.before), self.values(edit, edit.after)
        theirs = {key: value_at(file.data, key) for key in after}
        if clashes := key_conflicts(after, theirs, before):
            return FileConflict(file=file.path, keys=clashes)
        for key, value in before.items():
            if not same_value(theirs[key], value):
                file = with_key(file, key, value)
        return file

    def values(self, edit: FileEdit, sha: str) -> dict[str, TomlValue]:
        """The changed keys as in the content of that SHA-256, which is one of the edit's two; if it is not
        stored any more, as in the record, which has no secrets.

        Raises:
            ConfigError: if a secret is not known.
        """
        content = self.contents.content(sha)
        if content is not None:
            data = parse_file(edit.path, content).data
            return {key: value_at(data, key) for key in edit.keys}
        texts = {key: pair[sha == edit.after] for key, pair in edit.keys.items()}
        for key, text in texts.items():
            if text is not None and MASK in text:
                raise ConfigError(f"{key} is a secret: its value was not saved", hint=f"set {key} by hand")
        return {key: None if text is None else read_value(text) for key, text in texts.items()}

    # --- an edit that is being written --------------------------------------------------------------------

    @contextmanager
    def recording(self, text: str, data: dict[str, Any]) -> Iterator[None]:
        """Surround the write of an edit, under the lock on its files; journals the edit once it is done.

        Raises:
            RltuiError: if that it is being written cannot be noted; nothing was started.
        """
        intent = _Intent(text=text, data=data, by=self._journal.author())
        write_atomically(self._intent_file, intent.to_json())
        try:
            yield
        except ConflictError:
            self._intent_file.unlink(missing_ok=True)
            raise
        except Exception:
            if all(_content(file) == self.contents.content(file.before) for file in intent.record.files):
                self._intent_file.unlink(missing_ok=True)
            else:
                self._reconcile(intent)
            raise
        self._journal.add("edit", text, **data)
        self._intent_file.unlink(missing_ok=True)

    def reconcile(self) -> None:
        """Finish an edit whose process was killed: one that reached its files is journaled, one that reached
        none or some of them is reverted, with a journal entry.

        Raises:
            RltuiError: if a file cannot be read or written, or another process is writing it; call again
                later.
        """
        intent = self._read()
        if intent is None:
            return
        try:
            with config_lock(Path(file.path) for file in intent.record.files):
                if intent == self._read():  # nobody else settled it meanwhile
                    self._reconcile(intent)
        except OSError as error:
            raise RltuiError(f"cannot finish the edit in {self._intent_file}: {error.strerror}") from error

    def _read(self) -> _Intent | None:
        """A file that cannot be parsed is removed."""
        try:
            intent = _Intent.from_json(read_own(self._intent_file))
            EditRecord.from_plain(intent.data)
        except OSError:
            return None
        except InvalidValueError:
            self._intent_file.unlink(missing_ok=True)
            return None
        return intent

    def _reconcile(self, intent: _Intent) -> None:
        record = intent.record
        for file in record.files:
            if Path(file.path).exists():
                tidy(Path(file.path))
        if all(self._is_applied(file) for file in record.files):
            if self.now().next_number <= record.number:
                self._journal.add("edit", intent.text, by=intent.by, **intent.data)
        else:
            self._restore(record)
            self._journal.add("config", f"not applied, because rltui ended while writing: {intent.text}")
        self._intent_file.unlink(missing_ok=True)

    def _is_applied(self, file: FileEdit) -> bool:
        """True if the file holds the edited values, even if somebody saved other changes since."""
        content, after = _content(file), self.contents.content(file.after)
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
        changes: list[FileChange] = []
        for file in record.files:
            content = _content(file)
            before, after = self.contents.content(file.before), self.contents.content(file.after)
            if content is None or before is None or after is None or content == before:
                continue
            if content == after or _is_partial_write(content, before, after):
                changes.append(FileChange.of_contents(Path(file.path), content, before))
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
