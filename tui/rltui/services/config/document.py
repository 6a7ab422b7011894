"""The config files of an experiment as one document: its values, a proposed edit, the edit itself, undo."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from rltui.base.toml.values import TomlValue
from rltui.core import hints
from rltui.core.config.batch import other_way
from rltui.core.config.edit_log import EditRecord
from rltui.core.config.knobs import Knob, KnobValue, UnknownKnobError, large_step, resolve_edits
from rltui.core.config.report import DerivedValue, FileConflict, KnobInfo, KnobTable, PendingKnob, Problem
from rltui.core.experiment.api import Request
from rltui.core.experiment.refusal import refuse_conflicts, refuse_errors
from rltui.errors import ConfigError, NotFoundError
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFile, ConfigFiles
from rltui.frameworks.plain_knobs import added_knob
from rltui.services.config import origins
from rltui.services.config.change import FileChange, unified_diff
from rltui.services.config.config_file import parse_file, sha_of, with_key
from rltui.services.config.files import load_files, located, write_snapshot
from rltui.services.config.history import EditHistory
from rltui.services.config.knob_table import KnobCatalog, Running
from rltui.services.config.proposal import Proposal
from rltui.services.config.writing import write_changes

_CACHED_CONTENTS = 32
"""A client may have seen an older one."""
_LONGEST_DIFF = 100_000
"""Limit in the journal, in characters."""


class ConfigDocument:
    """The config files `paths`. Blocking; reads only on request. For one thread, except that `commit`, which
    waits for other writers and for the disk, may be called from another. Others may edit the same files.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        framework: Framework,
        *,
        components: Sequence[str] = (),
        launched: Mapping[str, str] = MappingProxyType({}),
        derive: Callable[[ConfigFiles], tuple[DerivedValue, ...]] | None = None,
        forced: bool = False,
        recorded: bool = False,
        history: EditHistory | None = None,
    ) -> None:
        """`components`: ids of the layout, who read the knobs that have no known reader.

        `launched`: reader that is not a component → the component that starts it.

        `derive` computes the values that follow from a config; by default the framework does. `forced`: no
        rule of ours is an error, all are warnings. `recorded`: the record of a run names the paths, so a
        missing file is a broken config and no slip in a command line. `history` records the edits, so that
        they can be undone.
        """
        self._paths = tuple(paths)
        self._framework = framework
        self._derive = derive or framework.config.derive
        self._catalog = KnobCatalog(framework, components=components, launched=launched)
        self._forced = forced
        self._recorded = recorded
        self._history = history
        self._accepted: tuple[bytes, ...] | None = None
        self._loaded: ConfigFiles | None = None
        self._contents: dict[str, bytes] = {}
        """SHA-256 → content, the newest last."""
        self._lock = threading.Lock()

    # --- as it is -----------------------------------------------------------------------------------------

    @property
    def files(self) -> ConfigFiles:
        """The files as last loaded with success; loads them at the first call.

        Raises:
            ConfigError: if they never could be loaded.
        """
        return self.load() if self._loaded is None else self._loaded

    @property
    def knobs(self) -> tuple[Knob, ...]:
        return self._catalog.of(self.files).knobs

    def load(self) -> ConfigFiles:
        """Read the files again; if that fails, those read before stay.

        Raises:
            ConfigError: if a file is missing, unreadable or malformed; names the line and a remedy.
        """
        try:
            files = load_files(self._paths, self._framework)
        except NotFoundError as error:
            if not self._recorded:
                raise
            raise ConfigError(error.title, hint="the run reads this file: restore it") from None
        self._cache(files)
        return files

    def originals(self) -> ConfigFiles:
        """The files with run configs as they were made from the user's files."""
        made = {role: origins.origin(Path(file.path)) for role, file in self.files.items()}
        return {
            role: file
            if (origin := made[role]) is None
            else parse_file(file.path, origin.text.encode(), role)
            for role, file in self.files.items()
        }

    def problems(self) -> tuple[Problem, ...]:
        """The problems of the files as last loaded, with lines and columns."""
        return self._problems(self.files)

    def accept(self, files: ConfigFiles) -> None:
        """Record that the framework itself finds these contents valid: our rules against them become
        warnings.
        """
        self._accepted = _contents(files)

    def knob_table(self, running: Running) -> KnobTable:
        """Every knob and every other key, from the files as they are now.

        Raises:
            ConfigError: if a file cannot be read or is malformed.
        """
        files = self.load()
        rows = self.rows(running)
        originals = self.originals()
        changes = [FileChange(originals[role], file) for role, file in files.items()]
        log = self._history.now() if self._history is not None else None
        return KnobTable(
            files=tuple(file.path for file in files.values()),
            knobs=rows,
            others=self._catalog.rows(self._catalog.others(files, running), files, running, known=False),
            derived=self._derive(files),
            problems=self.problems(),
            undo=log.undoable.words if log is not None and log.undoable is not None else None,
            redo=log.redoable.words if log is not None and log.redoable is not None else None,
            since_origin=unified_diff(changes, changes[0].path.parent if changes else None),
            converts_to=other_way(self._framework.config.batch_knobs(files), {row.key: row for row in rows}),
        )

    def rows(self, running: Running) -> tuple[KnobInfo, ...]:
        """Every knob, from the files as last loaded."""
        return self._catalog.rows(self.knobs, self.files, running)

    def pending(self, running: Running, files: ConfigFiles | None = None) -> tuple[PendingKnob, ...]:
        """Keys of `files`, or those last loaded, whose value differs from what runs."""
        return self._catalog.pending(self.files if files is None else files, running)

    def base(self) -> dict[str, str]:
        """Path → SHA-256 of the files as last loaded."""
        return {file.path: sha_of(file.content) for file in self.files.values()}

    def snapshot(self, attempt_dir: Path) -> ConfigFiles:
        """Copy the files as last loaded into the folder of an attempt, and return the copies.

        Raises:
            RltuiError: if they cannot be written.
        """
        return write_snapshot(self.files, attempt_dir)

    def _cache(self, files: ConfigFiles) -> None:
        with self._lock:
            self._loaded = files
            for file in files.values():
                sha = sha_of(file.content)
                self._contents[sha] = self._contents.pop(sha, file.content)
            while len(self._contents) > _CACHED_CONTENTS:
                del self._contents[next(iter(self._contents))]

    def _content(self, sha: str) -> bytes | None:
        """The content with that SHA-256, if it was loaded or written lately, or is stored."""
        stored = self._history.contents.content if self._history is not None else lambda _: None
        return self._contents.get(sha) or stored(sha)

    def _problems(self, files: ConfigFiles) -> tuple[Problem, ...]:
        problems = located(self._framework.config.check(files), files)
        if self._accepted == _contents(files):
            return _as_warnings(problems, "accepted by the framework itself")
        return _as_warnings(problems, "forced") if self._forced else problems

    # --- as an edit would leave it ------------------------------------------------------------------------

    def proposed(self, request: Request, *, running: Running | None = None) -> Proposal:
        """The edit that `request` asks for, of the files as they are now.

        Raises:
            ConfigError: if a file, a name or a value cannot be parsed.
            ConflictError: if there is nothing to undo.
        """
        match request.action:
            case "set":
                proposal = self.with_edits(request.edits, running=running, force=request.force)
            case "write":
                proposal = self._with_texts(request.texts, running=running)
            case "undo" | "redo":
                proposal = self._taken_back(request.action, running=running)
            case _:
                raise AssertionError(request.action)
        # files that are not what `base` (path → SHA-256) says any more
        conflicts = tuple(
            proposal.conflict(role, self._content(request.base[file.path]))
            for role, file in proposal.before.items()
            if file.path in request.base and request.base[file.path] != sha_of(file.content)
        )
        return replace(proposal, conflicts=(*proposal.conflicts, *conflicts))

    def with_edits(
        self, edits: Mapping[str, TomlValue], *, running: Running | None = None, force: bool = False
    ) -> Proposal:
        """Set knobs in the files as they are now; `None` or `unset` removes the key.

        A knob also counts as changed if a running reader has another value. `force` adds unknown keys and
        choices, and makes our rules warnings.

        Raises:
            ConfigError: if a file cannot be read, a knob is unknown, or a value has a wrong type or bound.
        """
        before = self.load()
        add = partial(added_knob, files=before, knobs=self.knobs) if force else None
        try:
            resolved = resolve_edits(
                self.knobs,
                edits,
                others=self._catalog.others(before, running or {}),
                renamed=self._framework.config.renamed(before),
                add=add,
            )
        except UnknownKnobError as error:
            error.hint = error.hint or self._listing()
            raise
        after = dict(before)
        requested: dict[str, dict[str, KnobValue]] = {}
        for knob, value in resolved.items():
            after[knob.file] = with_key(after[knob.file], knob.key, value)
            requested.setdefault(knob.file, {})[knob.key] = value
        proposal = self._proposal("set", before, after, running, list(resolved))
        problems = proposal.problems
        if force:  # who says so has read what is wrong
            problems = tuple(
                warning.replace(standing=problem.is_error or problem.standing)
                for problem, warning in zip(problems, _as_warnings(problems, "forced"), strict=True)
            )
        return replace(proposal, requested=requested, problems=problems)

    def _listing(self) -> str:
        """Advice how to list all knobs: of the run, or of files that no run has yet."""
        if self._history is not None:
            command = self._history.command(hints.KNOBS_ALL)
        elif self._framework.layouts:
            files = [origins.original_files([path])[0] for path in self._paths]
            command = hints.KNOBS_OF_FILES(files=files)
        else:
            return ""  # these files can only be read with a layout
        return f"{command} lists all knobs"

    def _with_texts(self, texts: Mapping[str, str], *, running: Running | None = None) -> Proposal:
        """Replace complete files, by their paths.

        Raises:
            ConfigError: if a file is not of the experiment, or a text is no TOML.
        """
        before = self.load()
        after = dict(before)
        for path, text in texts.items():
            file = self._file(path)
            after[file.role] = parse_file(path, text.encode(), file.role)
        return self._proposal("write", before, after, running)

    def _taken_back(self, action: Literal["undo", "redo"], *, running: Running | None = None) -> Proposal:
        """The files without the newest edit, or with the newest one that was undone: byte for byte as before,
        or key by key where others changed them since.

        Raises:
            ConfigError: if a file cannot be read.
            ConflictError: if there is no such edit.
        """
        history = self._history
        assert history is not None
        record, reasons = history.reversible(action)
        before = self.load()
        sides = [(edit, self._file(edit.path)) for edit in record.files]
        restored = [history.restored(edit, file) for edit, file in sides]
        conflicts = tuple(side for side in restored if isinstance(side, FileConflict))
        after = dict(before)
        if not conflicts:
            after |= {side.role: side for side in restored if isinstance(side, ConfigFile)}
        return replace(
            self._proposal(action, before, after, running),
            requested={file.role: history.values(edit, edit.before) for edit, file in sides},
            conflicts=conflicts,
            takes_back=record,
            reasons=reasons,
        )

    def _file(self, path: str) -> ConfigFile:
        """One of the files as last loaded.

        Raises:
            ConfigError: if it is none of them.
        """
        for file in self.files.values():
            if file.path == path:
                return file
        raise ConfigError(
            f"{path} is not a config file of this experiment",
            hint=f"these are: {', '.join(self.base())}",
        )

    def _proposal(
        self,
        action: Literal["set", "write", "undo", "redo"],
        before: ConfigFiles,
        after: ConfigFiles,
        running: Running | None,
        requested: Sequence[Knob] = (),
    ) -> Proposal:
        """`requested`: knobs that count as changed too if a running reader has another value than `after`."""
        old, new = self._derive(before), self._derive(after)
        problems = self._problems(after)
        earlier = {(problem.key, problem.message) for problem in self._problems(before)} if problems else ()
        edited = [knob.name for knob in requested]
        problems = tuple(
            problem.after_edit(edited).replace(standing=(problem.key, problem.message) in earlier)
            for problem in problems
        )
        files = {role: FileChange(file, after[role]) for role, file in before.items()}
        changed = self._catalog.changed(files, running or {}, requested)
        old_values, new_values = (
            self._framework.config.values_of(changed, files) for files in (before, after)
        )
        if action in ("set", "write"):  # the run has had the others before
            problems += tuple(_large_steps(changed, old_values, new_values, after))
        old_values_by_role: dict[str, dict[str, TomlValue]] = {}
        for knob in changed:
            old_values_by_role.setdefault(knob.file, {})[knob.key] = old_values[knob.name]
        return Proposal(
            action=action,
            files=files,
            readers={knob.name: knob.readers for knob in changed},
            problems=problems,
            derived=tuple(value for value in new if value not in old),
            old_values=old_values_by_role,
        )

    # --- written ------------------------------------------------------------------------------------------

    def commit(self, proposal: Proposal, *, is_birth: bool = False) -> EditRecord | None:
        """Write what was proposed: all files or none. Returns the record in the history; `None` if nothing
        changes, or there is no history. `is_birth`: the edit belongs to a run that is being created.

        Raises:
            ConfigError: if the result breaks a rule; nothing was written.
            ConflictError: if a file is not what the person saw any more, or what it was when this was
                proposed, or another rltui is writing; nothing was written. The details are the sides.
            RltuiError: if the disk does not take it; nothing was written.
        """
        refuse_conflicts(proposal.conflicts, proposal.action)
        refuse_errors(proposal.problems)
        changes, history = list(proposal.changes.values()), self._history
        records: list[EditRecord] = []
        if history is not None:
            history.contents.save(
                *(file.content for change in changes for file in (change.before, change.after))
            )

        @contextmanager
        def recorded() -> Iterator[None]:
            if history is None:
                yield
                return
            record = proposal.record(history.now().next_number, is_birth=is_birth)
            records.append(record)
            with history.recording(*_journal_entry(record, proposal.diff)):
                yield

        if changes:
            unchanged = (file for role, file in proposal.before.items() if role not in proposal.changes)
            write_changes(changes, unchanged=unchanged, recorded=recorded)
        self._cache(proposal.after)
        return records[0] if records else None


def _contents(files: ConfigFiles) -> tuple[bytes, ...]:
    return tuple(file.content for file in files.values())


def _as_warnings(problems: tuple[Problem, ...], reason: str) -> tuple[Problem, ...]:
    return tuple(
        problem.replace(severity="warning", message=f"{problem.message} ({reason})")
        if problem.is_error
        else problem
        for problem in problems
    )


def _large_steps(
    knobs: Sequence[Knob],
    old: Mapping[str, TomlValue],
    new: Mapping[str, TomlValue],
    files: ConfigFiles,
) -> Iterable[Problem]:
    """Warnings about new values that no rule forbids but that are seldom intended."""
    for knob in knobs:
        if (warning := large_step(knob.key, old[knob.name], new[knob.name])) is not None:
            message, file = f"{knob.name}: {warning}", files[knob.file].path
            yield Problem(severity="warning", key=knob.name, message=message, file=file)


def _journal_entry(record: EditRecord, diff: str) -> tuple[str, dict[str, Any]]:
    text = record.words if record.takes_back is None else f"{record.action}: {record.words}"
    if len(diff) > _LONGEST_DIFF:
        diff = f"{diff[:_LONGEST_DIFF]}\n… {len(diff) - _LONGEST_DIFF} more characters\n"
    edits = {key: after for file in record.files for key, (_, after) in file.keys.items()}
    return text, {**record.to_plain(), "edits": edits, "diff": diff}
