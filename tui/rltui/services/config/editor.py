"""Edits of the config files with a history: checked against what the person saw, written, undone, redone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rltui.core import hints
from rltui.core.api import EDITS, Request
from rltui.core.config_data import Leaves, changed_keys, deep_leaves, key_conflicts, value_at
from rltui.core.config_report import FileConflict, KeyConflict, KnobTable, Problem
from rltui.core.edit_log import EditRecord, FileEdit, describe
from rltui.core.knobs import display
from rltui.core.secrets import MASK
from rltui.core.toml import edit
from rltui.core.toml.values import TomlValue, format_value, read_value, same_value
from rltui.errors import ConfigError, ConflictError
from rltui.services.config.diff import text_diff
from rltui.services.config.history import EditHistory, EditIntent
from rltui.services.config.knob_table import Running
from rltui.services.config.source import Source, parse_file, with_key
from rltui.services.config.store import ConfigStore, EditPreview
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.runs.experiments import known_experiments
from rltui.services.runs.journal import Journal
from rltui.services.runs.leases import living

_LONGEST_DIFF = 100_000
"""Limit in the journal, in characters."""


class ConfigEditor:
    """Edits the files of `store`. Blocking. For one thread, except that `apply`, which waits for other
    writers and for the disk, may be called from another. Others may edit the same files elsewhere.
    """

    def __init__(self, store: ConfigStore, control: ControlFolder, journal: Journal) -> None:
        self._store = store
        self._control = control
        self._history = EditHistory(control.journal_file, control.path / "backups")
        self._intent = EditIntent(control.path / "edit.json", self._history, journal)

    def reconcile(self) -> None:
        """Finish an edit that a killed rltui had started to write. Call it before the history is read first.

        Raises:
            RltuiError: as `EditIntent.reconcile`.
        """
        self._intent.reconcile()

    @property
    def undoable(self) -> EditRecord | None:
        return self._history.now().undoable

    def knob_table(self, running: Running) -> KnobTable:
        """The table of `ConfigStore.knob_table`, with the edits that can be undone and redone."""
        table, log = self._store.knob_table(running), self._history.now()
        return table.model_copy(
            update={
                "undo": log.undoable.words if log.undoable is not None else None,
                "redo": log.redoable.words if log.redoable is not None else None,
            }
        )

    def preview(self, request: Request, *, running: Running | None = None) -> EditPreview:
        """Compute the effect of an edit on the files as they are now. Writes nothing.

        Raises:
            ConfigError: if a file, a name or a value cannot be parsed.
            ConflictError: if there is nothing to undo.
        """
        assert request.action in EDITS
        match request.action:
            case "set":
                preview = self._store.preview(request.edits, running=running, force=request.force)
            case "write":
                contents = {Path(path): text.encode() for path, text in request.texts.items()}
                preview = self._store.preview_contents(contents, running=running)
            case _:
                preview = self._preview_reversal(request, running)
        # files that are not what `base` (path → SHA-256) says any more
        conflicts = tuple(
            _conflict(preview, role, self._content(request.base[str(source.path)]))
            for role, source in preview.before.sources.items()
            if request.base.get(str(source.path), source.sha) != source.sha
        )
        return replace(preview, conflicts=(*preview.conflicts, *conflicts))

    def apply(self, request: Request, preview: EditPreview, *, is_birth: bool = False) -> EditRecord | None:
        """Write what was previewed for `request`, and record it; `None` if nothing changes. `is_birth`: the
        edit belongs to a run that is being created.

        Raises:
            ConfigError: if the result breaks a rule; nothing was written.
            ConflictError: if a file is not what the person saw, or what was previewed, any more, or another
                rltui is writing; nothing was written. The details are the three sides.
            RltuiError: if the disk does not take it; nothing was written.
        """
        if preview.conflicts:
            advice = (
                "its keys have been changed again; set them by hand"
                if request.action in ("undo", "redo")
                else "the edit still applies to the new content: review the change, then repeat the edit"
            )
            raise _conflict_error(preview.conflicts, advice=advice)
        if preview.blocked or not preview.roles:
            self._store.apply(preview)
            return None
        self._history.save(
            loaded.sources[role] for role in preview.roles for loaded in (preview.before, preview.after)
        )
        records: list[EditRecord] = []

        @contextmanager
        def recorded() -> Iterator[None]:
            records.append(self._record(request, preview, is_birth=is_birth))
            with self._intent.execute(*_journal_entry(records[0], preview)):
                yield

        self._store.apply(preview, recorded=recorded)
        return records[0]

    def _record(self, request: Request, preview: EditPreview, *, is_birth: bool) -> EditRecord:
        changes = {key: pair for role in preview.roles for key, pair in preview.changes[role].items()}
        return EditRecord(
            number=self._history.now().next_number,
            action=request.action,
            words=preview.words or describe(changes),
            files=tuple(_file_edit(preview, role) for role in preview.roles),
            takes_back=preview.takes_back,
            by=request.by,
            is_birth=is_birth,
        )

    def _content(self, sha: str) -> bytes | None:
        return self._store.remembered(sha) or self._history.content(sha)

    # --- undo and redo ------------------------------------------------------------------------------------

    def _preview_reversal(self, request: Request, running: Running | None) -> EditPreview:
        log = self._history.now()
        record = log.undoable if request.action == "undo" else log.redoable
        promotion = ""
        if request.action == "undo" and log.is_promotion_newest:
            run = self._control.read_record()
            promotion = hints.PROMOTE_UNDO(run="RUN" if run is None else run.name)
        if record is None:
            hint = f"to undo the promotion: {promotion}" if promotion else f"{hints.EVENTS} lists the edits"
            raise ConflictError(f"nothing to {request.action}", hint=hint)
        reasons = [f"undoes an edit by {record.by}: {record.words}"] if record.by else []
        if promotion:
            reasons.append(f"promoted values stay in your files; to undo the promotion: {promotion}")
        self._store.load()
        contents: dict[Path, bytes] = {}
        conflicts: list[FileConflict] = []
        for file in record.files:
            restored = self._restored(file)
            if isinstance(restored, FileConflict):
                conflicts.append(restored)
            else:
                contents[Path(file.path)] = restored
        preview = self._store.preview_contents(
            {} if conflicts else contents, running=running, is_restored=True
        )
        requested = {
            role: self._values(file, file.before)
            for file in record.files
            for role, source in preview.before.sources.items()
            if str(source.path) == file.path
        }
        return replace(
            preview,
            requested=requested,
            conflicts=tuple(conflicts),
            takes_back=record.number,
            words=record.words,
            reasons=tuple(reasons),
        )

    def _restored(self, file: FileEdit) -> bytes | FileConflict:
        """The file without the edit: byte for byte as before, or key by key where others changed it since."""
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
                source = with_key(source, key, value)
        return source.content

    def _values(self, file: FileEdit, sha: str) -> dict[str, TomlValue]:
        """The changed keys as in the content of that SHA-256, which is one of the edit's two; if it is not
        stored any more, as in the record, which has no secrets.

        Raises:
            ConfigError: if a secret is not known.
        """
        content = self._content(sha)
        if content is not None:
            data = parse_file(Path(file.path), content).data
            return {key: value_at(data, key) for key in file.keys}
        texts = {key: pair[sha == file.after] for key, pair in file.keys.items()}
        for key, text in texts.items():
            if text is not None and MASK in text:
                raise ConfigError(f"{key} is a secret: its value was not saved", hint=f"set {key} by hand")
        return {key: None if text is None else read_value(text) for key, text in texts.items()}


def _journal_entry(record: EditRecord, preview: EditPreview) -> tuple[str, dict[str, Any]]:
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


# --- files that changed since a person looked: the three sides ------------------------------------------


def _conflict(preview: EditPreview, role: str, content: bytes | None) -> FileConflict:
    theirs = preview.before.sources[role]
    try:
        base = None if content is None else parse_file(theirs.path, content)
    except ConfigError:  # what was looked at then could not be read either
        base = None
    base_leaves = None if base is None else deep_leaves(base.data)
    yours = _requested_values(preview, role, base_leaves)
    return FileConflict(
        file=str(theirs.path),
        theirs="" if base is None else text_diff(base.text, theirs.text, theirs.path.name),
        yours=""
        if base is None
        else text_diff(base.text, _requested_text(preview, role, base), theirs.path.name),
        keys=key_conflicts(base_leaves, deep_leaves(theirs.data), yours),
    )


def _requested_values(preview: EditPreview, role: str, base: Leaves | None) -> Leaves:
    """The keys that the edit sets in a file. A complete text also reverts what others changed."""
    if preview.requested is not None:
        return preview.requested.get(role, {})
    yours = deep_leaves(preview.after.sources[role].data)
    theirs = deep_leaves(preview.before.sources[role].data)
    changes = changed_keys(theirs if base is None else base, yours if base is None else theirs)
    return {key: yours.get(key) for key in changes}


def _requested_text(preview: EditPreview, role: str, base: Source) -> str:
    if preview.requested is None:
        return preview.after.sources[role].text
    try:
        return edit.edit(base.text, preview.requested.get(role, {}))
    except ConfigError:  # the edit fits only what is there now
        return base.text


def _conflict_error(conflicts: Sequence[FileConflict], *, advice: str) -> ConflictError:
    """Describe the three sides. `advice`: how to write all the same where no key was changed by both."""
    details: list[str] = []
    for conflict in conflicts:
        details.extend(f"{key.key}: {_sides(key)}" for key in conflict.keys)
        if conflict.theirs:
            details.extend(("changed by someone else:", *conflict.theirs.splitlines()))
        if conflict.yours:
            details.extend(("your edit:", *conflict.yours.splitlines()))
    names = " and ".join(conflict.file for conflict in conflicts)
    clash = any(conflict.keys for conflict in conflicts)
    return ConflictError(
        f"{names} has changed since you opened it",
        details=details,
        hint="nothing was written; compare both sides and decide"
        if clash
        else f"nothing was written; {advice}",
    )


def _sides(key: KeyConflict) -> str:
    base, theirs, yours = (
        "not set" if value is None else display(value) if isinstance(value, dict) else format_value(value)
        for value in (key.base, key.theirs, key.yours)
    )
    return f"was {base}, is {theirs} now; your edit: {yours}"


# --- who else reads the files ---------------------------------------------------------------------------


def shared_configs(files: Iterable[str | Path], own: ExperimentRecord | None = None) -> tuple[Problem, ...]:
    """A warning for each of `files` that another experiment reads while it runs."""
    return tuple(
        Problem(
            severity="warning",
            file=file,
            message=(
                f"the experiment {other.name} ({other.output_dir}) also reads this file and will use the"
                " edit at its next start; to keep them apart, give one its own copy"
            ),
        )
        for other, shared in readers_of(files, own)
        if living(other)
        for file in shared
    )


def readers_of(
    files: Iterable[str | Path], own: ExperimentRecord | None = None
) -> Iterator[tuple[ExperimentRecord, list[str]]]:
    """Other experiments than `own` that read some of `files`, with these files."""
    paths = {Path(file).resolve(): str(file) for file in files}
    for other in known_experiments() if paths else ():
        if other.observed or (own is not None and other.output_dir == own.output_dir):
            continue
        shared = [paths[path] for name in other.config_files if (path := Path(name).resolve()) in paths]
        if shared:
            yield other, shared
