"""Writes changes of a run's own config copy back into the files that it was made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rltui.base.text import join_words
from rltui.base.toml.values import TomlValue, same_value
from rltui.client import launch
from rltui.client.reader import ExperimentReader
from rltui.core import hints
from rltui.core.config.data import deep_leaves, key_conflicts
from rltui.core.config.edit_log import describe
from rltui.core.config.knobs import display
from rltui.core.experiment.api import Loss, Request
from rltui.core.experiment.questions import ExperimentApi
from rltui.core.experiment.refusal import refuse_errors
from rltui.core.experiment.rights import Act
from rltui.core.runs.row import RunRow
from rltui.errors import ConfigError, ConflictError, UsageError
from rltui.services.config import origins
from rltui.services.config.change import FileChange, Keys, all_keys
from rltui.services.config.config_file import parse_file, read_file, sha_of, with_key
from rltui.services.config.content_store import ContentStore
from rltui.services.config.origins import ConfigOrigin
from rltui.services.config.readers import readers_of
from rltui.services.config.writing import write_changes
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.journal import journal_of, read_journal
from rltui.services.experiment.rights import require
from rltui.services.runs.catalog import record_of
from rltui.services.runs.observed import framework_of


@dataclass(frozen=True, slots=True)
class Promotion:
    run: str
    record: ExperimentRecord
    changes: tuple[FileChange, ...]
    """The user's files that change."""
    refused: tuple[str, ...]
    """Keys that stay as they are, and why, in words."""
    notes: tuple[str, ...]
    undoes: bool = False
    """True if it takes an earlier promotion back."""

    @property
    def diff(self) -> str:
        return "".join(change.diff(str(change.path).lstrip("/")) for change in self.changes)


def plan_promotion(row: RunRow) -> Promotion:
    """Plan to write back all keys that `row` has changed since its copy was made. A key that the user's file
    has changed as well is left to the person. Nothing is written.

    Raises:
        UsageError: if it has no copy of its own.
        ConfigError: if a file is gone or cannot be read.
    """
    record = record_of(row)
    file_origins = {path: origins.origin(path) for path in record.config_paths}
    copies = {path: origin for path, origin in file_origins.items() if origin is not None}
    if not copies:
        config_names = join_words(list(record.config_files)) or "no config"
        raise UsageError(f"{row.name} has no copy of its own; it reads {config_names}", hint="nothing to do")
    framework = framework_of(record)
    run_keys = frozenset((*framework.run.resume_keys, *framework.run.resume_elsewhere))
    files: dict[Path, FileChange] = {}
    conflicts: list[str] = []
    for path, origin in copies.items():
        changed = FileChange(parse_file(path, origin.text.encode()), read_file(path)).values
        merge = _Merge(files, origin)
        conflicts += merge.take({key: values for key, values in changed.items() if key not in run_keys})
    changes = tuple(change for change in files.values() if not change.is_empty)
    return Promotion(row.name, record, changes, tuple(conflicts), _notes(changes, record))


def plan_undo(row: RunRow) -> Promotion:
    """Plan to take the newest promotion of `row` back. Nothing is written.

    Raises:
        ConflictError: if there is none, it was taken back already, or a file was changed since.
        ConfigError: if a file is gone, or what it said before.
    """
    record = record_of(row)
    control = record.control
    entries = read_journal(control.journal_file)
    newest = next((entry for entry in reversed(entries) if entry.kind == "promote"), None)
    if newest is None or newest.data.get("undoes") is not False:
        raise ConflictError(f"{row.name} has no promotion to undo", hint=hints.PROMOTE_PLAN(run=row.name))
    file_origins = (origins.origin(Path(path)) for path in record.config_files)
    originals = {path for origin in file_origins if origin is not None for path in origin.paths}
    changes = []
    for name, sides in newest.data["files"].items():
        path = Path(name)
        if name not in originals:  # whoever wrote that, it was not us
            raise ConfigError(f"{name} is not one of the source files of {row.name}")
        now = read_file(path)
        if sha_of(now.content) != sides["after"]:
            raise ConflictError(
                f"{path} has changed since",
                hint="nothing was written; change the file by hand",
                code="file_changed",
            )
        before = _replaced_contents(record).content(sides["before"])
        if before is None:
            raise ConfigError(f"what {path} said before is no longer stored", hint="change the file by hand")
        changes.append(FileChange(now, parse_file(path, before)))
    return Promotion(row.name, record, tuple(changes), (), _notes(changes, record), undoes=True)


def _notes(changes: Iterable[FileChange], record: ExperimentRecord) -> tuple[str, ...]:
    readers = [reader.name for reader, _ in readers_of((change.path for change in changes), record)]
    return (
        (f"{join_words(readers)} also reads the file, and will use the new values at its next start",)
        if readers
        else ()
    )


def promote(promotion: Promotion) -> tuple[str, ...]:
    """Write it, all files of an experiment or none. How to take it back, in words.

    Raises:
        ConflictError: if somebody changed a file meanwhile; it was not written.
        ConfigError: if the result breaks a rule; nothing was written.
        RltuiError: if it cannot be written.
    """
    values = (change.values.items() for change in promotion.changes)
    act = Act("promote", promotion.run, changes={key: new for keys in values for key, (_, new) in keys})
    require(act, control=promotion.record.control.path)
    by_owner: dict[str, tuple[ExperimentRecord, list[FileChange]]] = {}
    other_changes: list[FileChange] = []
    for change in promotion.changes:
        readers = [reader for reader, _ in readers_of([change.path])]
        if not readers:
            other_changes.append(change)
            continue
        owner = max(readers, key=lambda reader: (launch.has_supervisor(reader), reader.created_at))
        by_owner.setdefault(owner.output_dir, (owner, []))[1].append(change)
    _replaced_contents(promotion.record).save(*(change.before.content for change in promotion.changes))
    for owner, changes in by_owner.values():
        _edit(owner, changes)
    if other_changes:
        write_changes(other_changes)
    _record(promotion)
    return () if promotion.undoes else (f"to undo: {hints.PROMOTE_UNDO(run=promotion.run)}",)


# --- key by key -----------------------------------------------------------------------------------------


class _Merge:
    """Takes the changes of one copy into the files that it was made of."""

    def __init__(self, files: dict[Path, FileChange], origin: ConfigOrigin) -> None:
        """`files` holds the user's files, changed so far; those of this copy are added."""
        self._files = files
        self._paths = [Path(name) for name in origin.paths]
        for path in self._paths:
            if path not in files:
                file = read_file(path)
                files[path] = FileChange(file, file)

    def take(self, changed: Keys) -> Iterator[str]:
        """Says of which keys it is not done, and why."""
        for key, (old, new) in changed.items():
            path = self._file_of(key)
            if path is None:
                paths = join_words(list(map(str, self._paths)))
                yield f"{key}: not set in {paths}; set the key in the right file"
                continue
            change = self._files[path]
            user_values = deep_leaves(change.before.data)
            if key_conflicts({key: old}, user_values, {key: new}):
                user_text = _value_text(key, user_values.get(key))
                yield (
                    f"{key}: was {_value_text(key, old)}, is {user_text} in {path} and"
                    f" {_value_text(key, new)} in the run"
                )
            elif not same_value(user_values.get(key), new):
                try:
                    self._files[path] = FileChange(change.before, with_key(change.after, key, new))
                except ConfigError as error:
                    yield f"{key}: {error.title}"

    def _file_of(self, key: str) -> Path | None:
        """The last of the files that has the key."""
        if len(self._paths) == 1:
            return self._paths[0]
        files_with_key = [path for path in self._paths if key in deep_leaves(self._files[path].before.data)]
        return files_with_key[-1] if files_with_key else None


def _value_text(key: str, value: TomlValue) -> str:
    return "not set" if value is None else display(value, key=key)


# --- writing --------------------------------------------------------------------------------------------


def _replaced_contents(record: ExperimentRecord) -> ContentStore:
    """The store of the user's files as they were before the promotions of the run."""
    return ContentStore(record.control.path / "promoted")


def _edit(owner: ExperimentRecord, changes: Sequence[FileChange]) -> None:
    """Written as an edit of the experiment that owns the files, so that its history has it."""
    request = Request(
        action="write",
        texts={change.before.path: change.after.text for change in changes},
        base={change.before.path: sha_of(change.before.content) for change in changes},
        accepts=Loss.MORE,
    )
    with launch.connected(owner) as wire:
        if wire is not None:
            refuse_errors(wire.request(ExperimentApi.plan, request).problems)
            wire.request(ExperimentApi.execute, request)
            return
    document = ExperimentReader(owner).document_to_edit()
    document.commit(document.proposed(request))


def _record(promotion: Promotion) -> None:
    """Record it in the run's journal: the changes, the person, and the command that takes it back."""
    into = join_words([change.before.path for change in promotion.changes])
    verb = "undone in" if promotion.undoes else "promoted into"
    journal_of(promotion.record).add(
        "promote",
        f"{verb} {into}: {describe(all_keys(promotion.changes))}",
        undoes=promotion.undoes,
        files={
            edit.path: {"before": edit.before, "after": edit.after}
            for edit in (change.record() for change in promotion.changes)
        },
    )
