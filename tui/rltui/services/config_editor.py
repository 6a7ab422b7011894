"""Edits of the config files with a memory: checked against what the person saw, written, undone, redone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rltui.core.api import EDITS, Request
from rltui.core.config_data import key_conflicts, value_at
from rltui.core.config_report import FileConflict, KnobTable
from rltui.core.edit_log import EditRecord, FileEdit, describe
from rltui.core.secrets import MASK
from rltui.core.toml.values import TomlValue, format_value, parse_value, same_value
from rltui.errors import ConfigError
from rltui.services import toml_source
from rltui.services.config_conflicts import conflict_error, find_conflicts
from rltui.services.config_store import ConfigStore
from rltui.services.edit_history import EditHistory
from rltui.services.edit_intent import EditIntent, EditJournal
from rltui.services.edit_preview import EditPreview
from rltui.services.edited_source import edited
from rltui.services.knob_rows import Running
from rltui.services.runs.experiment_files import ControlFolder

_LONGEST_DIFF = 100_000
"""Characters of a diff that the journal takes."""


class ConfigEditor:
    """Edits the files of `store`. Blocking. For one thread, but `apply`, which waits for others that
    write and for the disk, may be called from another. Others may edit the same files elsewhere.
    """

    def __init__(self, store: ConfigStore, control: ControlFolder, journal: EditJournal) -> None:
        self._store = store
        self._history = EditHistory(control.journal_file, control.path / "backups")
        self._intent = EditIntent(control.path / "edit.json", self._history, journal)

    def settle(self) -> None:
        """Finish what a killed rltui had begun to write. To be called before the first look at the history.

        Raises:
            RltuiError: as `EditIntent.settle`.
        """
        self._intent.settle()

    def knob_table(self, running: Running) -> KnobTable:
        """As `ConfigStore.knob_table`, with what can be undone and redone."""
        table, log = self._store.knob_table(running), self._history.now()
        return table.model_copy(
            update={
                "undo": log.undoable.words if log.undoable is not None else None,
                "redo": log.redoable.words if log.redoable is not None else None,
            }
        )

    def preview(self, request: Request, *, running: Running | None = None) -> EditPreview:
        """What an edit would do to the files as they are now. Writes nothing.

        Raises:
            ConfigError: if a file, a name or a value cannot be understood, or there is nothing to undo.
        """
        assert request.action in EDITS
        match request.action:
            case "set":
                preview = self._store.preview(request.edits, running=running, force=request.force)
            case "write":
                contents = {Path(path): text.encode() for path, text in request.texts.items()}
                preview = self._store.preview_contents(contents, running=running)
            case _:
                preview = self._take_back(request, running)
        conflicts = find_conflicts(preview, request.base, self._content)
        return replace(preview, conflicts=(*preview.conflicts, *conflicts))

    def apply(self, request: Request, preview: EditPreview) -> EditRecord | None:
        """Write what was previewed for `request`, and record it; `None` where nothing changes.

        Raises:
            ConfigError: if the result breaks a rule; nothing was written.
            ConflictError: if a file is not what the person saw, or what was previewed, any more, or another
                rltui is writing; nothing was written. The details are the three sides.
            RltuiError: if the disk does not take it; nothing was written.
        """
        if preview.conflicts:
            again = (
                "its keys were changed meanwhile; set them by hand"
                if request.action in ("undo", "redo")
                else "the same edit fits onto what is there now: look again, and repeat it"
            )
            raise conflict_error(preview.conflicts, again=again)
        if preview.blocked or not preview.roles:
            self._store.apply(preview)
            return None
        self._history.keep(
            loaded.sources[role] for role in preview.roles for loaded in (preview.before, preview.after)
        )
        written: list[EditRecord] = []

        @contextmanager
        def recorded() -> Iterator[None]:
            written.append(self._record(request, preview))
            with self._intent.carried_out(*_told(written[0], preview)):
                yield

        self._store.apply(preview, recorded=recorded)
        return written[0]

    def _record(self, request: Request, preview: EditPreview) -> EditRecord:
        changes = {key: pair for role in preview.roles for key, pair in preview.changes[role].items()}
        return EditRecord(
            number=self._history.now().next_number,
            action=request.action,
            words=preview.words or describe(changes),
            files=tuple(_file_edit(preview, role) for role in preview.roles),
            takes_back=preview.takes_back,
        )

    def _content(self, sha: str) -> bytes | None:
        return self._store.remembered(sha) or self._history.content(sha)

    # --- undo and redo ------------------------------------------------------------------------------------

    def _take_back(self, request: Request, running: Running | None) -> EditPreview:
        log = self._history.now()
        record = log.undoable if request.action == "undo" else log.redoable
        if record is None:
            raise ConfigError(f"there is nothing to {request.action}", hint="rltui events lists the edits")
        self._store.load()
        contents: dict[Path, bytes] = {}
        conflicts: list[FileConflict] = []
        for file in record.files:
            restored = self._restored(file)
            if isinstance(restored, FileConflict):
                conflicts.append(restored)
            else:
                contents[Path(file.path)] = restored
        preview = self._store.preview_contents({} if conflicts else contents, running=running)
        wanted = {
            role: self._values(file, file.before)
            for file in record.files
            for role, source in preview.before.sources.items()
            if str(source.path) == file.path
        }
        return replace(
            preview,
            wanted=wanted,
            conflicts=tuple(conflicts),
            takes_back=record.number,
            words=record.words,
        )

    def _restored(self, file: FileEdit) -> bytes | FileConflict:
        """The file without the edit: as it was to the byte, or key by key where others changed it since."""
        source = self._store.source(Path(file.path))
        content = self._content(file.before)
        if source.sha == file.after and content is not None:
            return content
        before, after = self._values(file, file.before), self._values(file, file.after)
        theirs = {key: value_at(source.data, key) for key in after}
        if clashes := key_conflicts(after, theirs, before):
            return FileConflict(file=file.path, keys=clashes)
        for key, value in before.items():
            if not same_value(theirs[key], value):
                source = edited(source, key, value)
        return source.content

    def _values(self, file: FileEdit, sha: str) -> dict[str, TomlValue]:
        """The changed keys as the content of that SHA-256, which is one of the edit's two, has them; where
        it is not kept any more, as the record says, which does not hold secrets.

        Raises:
            ConfigError: if a secret is not known.
        """
        content = self._content(sha)
        if content is not None:
            data = toml_source.parse(Path(file.path), content).data
            return {key: value_at(data, key) for key in file.keys}
        texts = {key: pair[sha == file.after] for key, pair in file.keys.items()}
        for key, text in texts.items():
            if text is not None and MASK in text:
                raise ConfigError(f"the value of {key}, a secret, was not kept", hint="set it by hand")
        return {key: None if text is None else parse_value(text) for key, text in texts.items()}


def _told(record: EditRecord, preview: EditPreview) -> tuple[str, dict[str, Any]]:
    """Text and data of its journal entry."""
    text = f"{record.action}: {record.words}" if preview.words else record.words
    diff = preview.diff
    if len(diff) > _LONGEST_DIFF:
        diff = f"{diff[:_LONGEST_DIFF]}\n… {len(diff) - _LONGEST_DIFF} more characters\n"
    edits = {key: after for file in record.files for key, (_, after) in file.keys.items()}
    return text, {**record.model_dump(mode="json"), "edits": edits, "diff": diff}


def _file_edit(preview: EditPreview, role: str) -> FileEdit:
    before, after = preview.before.sources[role], preview.after.sources[role]
    keys: Mapping[str, tuple[TomlValue, TomlValue]] = preview.changes[role]
    return FileEdit(
        path=str(before.path),
        before=before.sha,
        after=after.sha,
        keys={key: (_toml(old), _toml(new)) for key, (old, new) in keys.items()},
    )


def _toml(value: TomlValue) -> str | None:
    return None if value is None else format_value(value)
