"""The config of an experiment: the current files, the effect of an edit, and the edit itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType

from rltui.core.batch import other_way
from rltui.core.config_data import changed_keys, deep_leaves
from rltui.core.config_report import DerivedValue, FileConflict, KnobInfo, KnobTable, PendingKnob, Problem
from rltui.core.edit_log import describe
from rltui.core.knobs import Knob, KnobValue, resolve_edits
from rltui.core.metrics import large_step
from rltui.core.secrets import mask_value
from rltui.core.toml.values import TomlValue
from rltui.errors import ConfigError, ConflictError, NotFoundError
from rltui.frameworks.base import Framework
from rltui.frameworks.generic import above, added_knob
from rltui.frameworks.inputs import ConfigFiles, as_passed
from rltui.services.config.diff import text_diff, unified_diff, with_originals
from rltui.services.config.files import LoadedFiles, load_files, located, write_snapshot
from rltui.services.config.knob_table import KnobCatalog, Running
from rltui.services.config.lock import config_lock
from rltui.services.config.source import Source, content_of, parse_file, with_key
from rltui.services.config.writing import FileChange, ForeignSaveError, replace_files

Changes = Mapping[str, tuple[TomlValue, TomlValue]]
"""Dotted key → value before and after; `None` where it is absent."""


@dataclass(frozen=True)
class EditPreview:
    before: LoadedFiles
    after: LoadedFiles
    readers: Mapping[str, tuple[str, ...]]
    """Name of each changed knob → components that read it."""
    problems: tuple[Problem, ...]
    derived: tuple[DerivedValue, ...] = ()
    old_values: Mapping[str, Mapping[str, TomlValue]] = field(default_factory=dict)
    """Role → key of each changed knob → its value before, set or not."""
    requested: Mapping[str, Mapping[str, TomlValue]] | None = None
    """Role → dotted key → requested value, whatever the file holds now; `None`: the complete text is
    requested.
    """
    conflicts: tuple[FileConflict, ...] = ()
    """Reasons not to write it although no rule is broken."""
    takes_back: int | None = None
    """Number of the record that an undo or redo reverses."""
    words: str | None = None
    reasons: tuple[str, ...] = ()
    """Further lines for a plan: whose edit is reversed."""

    @property
    def changed(self) -> tuple[str, ...]:
        return tuple(self.readers)

    @property
    def blocked(self) -> bool:
        return any(problem.is_error for problem in self.problems)

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of the files whose bytes change."""
        return tuple(
            role
            for role, source in self.after.sources.items()
            if source.content != self.before.sources[role].content
        )

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(self.after.sources[role].path for role in self.roles)

    @cached_property
    def diff(self) -> str:
        """Empty if nothing changes."""
        return unified_diff(self.before, self.after)

    @cached_property
    def changes(self) -> Mapping[str, Changes]:
        """Role → changes of each file that changes, with secrets masked."""
        return {
            role: {
                key: (mask_value(key, old), mask_value(key, new))
                for key, (old, new) in changed_keys(
                    deep_leaves(self.before.sources[role].data), deep_leaves(self.after.sources[role].data)
                ).items()
            }
            for role in self.roles
        }

    @property
    def written(self) -> tuple[str, ...]:
        """One line like `rl.toml: batch_size 128 → 64` per file that changes."""
        return tuple(
            f"{self.after.sources[role].path.name}: {describe(changes, self.old_values.get(role, {}))}"
            for role, changes in self.changes.items()
        )


_CACHED_CONTENTS = 32
"""A client may have seen an older one."""


class ConfigStore:
    """The config files `paths` of one experiment. Blocking; reads only on request. For one thread, except
    that `apply` may be called from another.
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
    ) -> None:
        """`components`: ids of the layout, who read the knobs that have no known reader.

        `launched`: reader that is not a component → the component that starts it.

        `derive` computes the values that follow from a config; by default the framework does. `forced`: no
        rule of ours is an error, all are warnings. `recorded`: the record of a run names the paths, so a
        missing file is a broken config and no slip in a command line.
        """
        self._paths = tuple(paths)
        self._framework = framework
        self._derive = derive or framework.config.derive
        self._catalog = KnobCatalog(framework, components=components, launched=launched)
        self._forced = forced
        self._recorded = recorded
        self._accepted: tuple[str, ...] | None = None
        self._loaded: LoadedFiles | None = None
        self._contents: dict[str, bytes] = {}
        """SHA-256 → content, the newest last."""
        self._lock = threading.Lock()

    @property
    def files(self) -> ConfigFiles:
        """The files as last loaded with success; loads them at the first call.

        Raises:
            ConfigError: if they never could be loaded.
        """
        return self._loaded_or_load().files

    @property
    def knobs(self) -> tuple[Knob, ...]:
        return self._catalog.of(self.files).knobs

    def load(self) -> LoadedFiles:
        """Read the files again; if that fails, those read before stay.

        Raises:
            ConfigError: if a file is missing, unreadable or malformed; names the line and a remedy.
        """
        try:
            loaded = load_files(self._paths, self._framework)
        except NotFoundError as error:
            if not self._recorded:
                raise
            raise ConfigError(error.title, hint="the run reads this file: restore it") from None
        self._cache(loaded)
        return loaded

    def problems(self) -> tuple[Problem, ...]:
        """The problems of the files as last loaded, with lines and columns."""
        return self._problems(self._loaded_or_load())

    def accept(self, loaded: LoadedFiles) -> None:
        """Record that the framework itself finds these contents valid: our rules against them become
        warnings.
        """
        self._accepted = _shas(loaded)

    def knob_table(self, running: Running) -> KnobTable:
        """Every knob and every other key, from the files as they are now.

        Raises:
            ConfigError: if a file cannot be read or is malformed.
        """
        files = self.load().files
        rows = self.rows(running)
        return KnobTable(
            files=tuple(file.path for file in files.values()),
            knobs=rows,
            others=self._catalog.rows(self._catalog.others(files, running), files, running, known=False),
            derived=self._derive(files),
            problems=self.problems(),
            since_origin=unified_diff(with_originals(self._loaded_or_load()), self._loaded_or_load()),
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
        return {str(source.path): source.sha for source in self._loaded_or_load().sources.values()}

    def source(self, path: Path) -> Source:
        """One of the files as last loaded.

        Raises:
            ConfigError: if it is none of them.
        """
        for source in self._loaded_or_load().sources.values():
            if source.path == path:
                return source
        raise ConfigError(
            f"{path} is not a config file of this experiment",
            hint=f"these are: {', '.join(self.base())}",
        )

    def remembered(self, sha: str) -> bytes | None:
        """The content with that SHA-256, if it was loaded or written lately."""
        return self._contents.get(sha)

    def preview(
        self, edits: Mapping[str, TomlValue], *, running: Running | None = None, force: bool = False
    ) -> EditPreview:
        """Compute the effect of setting knobs on the files as they are now; `None` or `unset` removes the
        key.

        A knob also counts as changed if a running reader has another value. `force` adds unknown keys and
        choices, and makes our rules warnings.

        Raises:
            ConfigError: if a file cannot be read, a knob is unknown, or a value has a wrong type or bound.
        """
        before = self.load()
        files = before.files
        add = partial(added_knob, files=files, knobs=self.knobs) if force else None
        resolved = resolve_edits(
            self.knobs,
            edits,
            others=self._catalog.others(files, running or {}),
            renamed=self._framework.config.renamed(files),
            add=add,
        )
        sources = dict(before.sources)
        requested: dict[str, dict[str, KnobValue]] = {}
        for knob, value in resolved.items():
            sources[knob.file] = with_key(sources[knob.file], knob.key, value)
            requested.setdefault(knob.file, {})[knob.key] = value
        preview = self._preview(before, LoadedFiles(sources), list(resolved), running or {})
        problems = preview.problems
        if force:  # who says so has read what is wrong
            problems = tuple(
                warning.model_copy(update={"standing": problem.is_error or problem.standing})
                for problem, warning in zip(problems, _as_warnings(problems, "forced"), strict=True)
            )
        return replace(preview, requested=requested, problems=problems)

    def preview_contents(
        self, contents: Mapping[Path, bytes], *, running: Running | None = None, is_restored: bool = False
    ) -> EditPreview:
        """Compute the effect of replacing complete files by `contents`.

        `is_restored`: the run has had these contents before, so that no value is suspicious.

        Raises:
            ConfigError: if a file is not of the experiment, or a content is no TOML.
        """
        before = self.load()
        sources = dict(before.sources)
        for path, content in contents.items():
            current = self.source(path)
            role = next(role for role, source in sources.items() if source is current)
            sources[role] = parse_file(path, content)
        return self._preview(before, LoadedFiles(sources), [], running or {}, is_restored=is_restored)

    def apply(
        self, preview: EditPreview, *, recorded: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        """Write what was previewed: all files or none. `recorded` is entered around the write, before any
        other rltui can write these files.

        Raises:
            ConfigError: if the result breaks a rule; nothing was written.
            ConflictError: if a file changed since the preview, or another rltui is writing; nothing was
                written.
            RltuiError: if the disk does not take it; nothing was written.
        """
        if preview.blocked:
            errors = [problem.message for problem in preview.problems if problem.is_error]
            raise ConfigError(errors[0], details=errors[1:], hint="nothing was written")
        before, after = preview.before.sources, preview.after.sources
        changes = {
            before[role].path: FileChange(before[role].content, after[role].content) for role in preview.roles
        }
        if changes:
            with config_lock(list(changes)):
                for source in before.values():
                    try:
                        current = content_of(source.path)
                    except ConfigError as error:
                        raise ConflictError(error.title, hint="nothing was written") from error
                    if current != source.content:
                        raise _conflict_error(source, current)
                try:
                    with recorded():
                        replace_files(changes)
                except ForeignSaveError as error:
                    foreign = next(source for source in before.values() if source.path == error.path)
                    raise _conflict_error(foreign, error.content) from error
        self._cache(preview.after)

    def snapshot(self, attempt_dir: Path) -> ConfigFiles:
        """Copy the files as last loaded into the folder of an attempt, and return the copies.

        Raises:
            RltuiError: if they cannot be written.
        """
        return write_snapshot(self._loaded_or_load(), attempt_dir)

    def _loaded_or_load(self) -> LoadedFiles:
        return self.load() if self._loaded is None else self._loaded

    def _cache(self, loaded: LoadedFiles) -> None:
        with self._lock:
            self._loaded = loaded
            for source in loaded.sources.values():
                self._contents[source.sha] = self._contents.pop(source.sha, source.content)
            while len(self._contents) > _CACHED_CONTENTS:
                del self._contents[next(iter(self._contents))]

    def _preview(
        self,
        before: LoadedFiles,
        after: LoadedFiles,
        requested: Sequence[Knob],
        running: Running,
        *,
        is_restored: bool = False,
    ) -> EditPreview:
        """`requested`: knobs that count as changed too if a running reader has another value than `after`.

        `is_restored`: as for `preview_contents`.
        """
        old, new = self._derive(before.files), self._derive(after.files)
        problems = self._problems(after)
        earlier = (
            {(problem.key, problem.message) for problem in self._problems(before)} if problems else set()
        )
        preview = EditPreview(
            before=before,
            after=after,
            readers={},
            problems=tuple(
                problem.after_edit([knob.name for knob in requested]).model_copy(
                    update={"standing": (problem.key, problem.message) in earlier}
                )
                for problem in problems
            ),
            derived=tuple(value for value in new if value not in old),
        )
        touched = {knob.name: self._catalog.with_known_readers(knob) for knob in requested}
        touched |= {knob.name: knob for knob in self._edited_knobs(preview)}
        changed = self._changed_knobs(list(touched.values()), preview, running)
        old_values: dict[str, dict[str, TomlValue]] = {}
        for knob in changed:
            old_values.setdefault(knob.file, {})[knob.key] = self._values([knob], before.files)[knob.name]
        return replace(
            preview,
            readers={knob.name: knob.readers for knob in changed},
            old_values=old_values,
            problems=(*preview.problems, *(() if is_restored else self._large_steps(changed, preview))),
        )

    def _large_steps(self, changed: Sequence[Knob], preview: EditPreview) -> Iterable[Problem]:
        """Warnings about new values that no rule forbids but that are seldom intended."""
        old = self._values(changed, preview.before.files)
        new = self._values(changed, preview.after.files)
        for knob in changed:
            if (warning := large_step(knob.key, old[knob.name], new[knob.name])) is not None:
                file = str(preview.after.sources[knob.file].path)
                yield Problem(severity="warning", key=knob.name, message=f"{knob.name}: {warning}", file=file)

    def _problems(self, loaded: LoadedFiles) -> tuple[Problem, ...]:
        problems = located(self._framework.config.check(loaded.files), loaded)
        if self._accepted == _shas(loaded):
            return _as_warnings(problems, "accepted by the framework itself")
        return _as_warnings(problems, "forced") if self._forced else problems

    def _edited_knobs(self, preview: EditPreview) -> list[Knob]:
        """Knobs and other keys that the files set to another value than before, or that lie above or below
        one.
        """
        changed = {
            (role, table) for role, keys in preview.changes.items() for key in keys for table in above(key)
        }
        lists = (self._catalog.of(preview.before.files), self._catalog.of(preview.after.files))
        knobs = {
            (knob.file, knob.key): knob
            for knob_list in lists
            for knob in (*knob_list.knobs, *knob_list.others)
        }
        return [knob for location, knob in knobs.items() if location in changed]

    def _changed_knobs(self, knobs: list[Knob], preview: EditPreview, running: Running) -> list[Knob]:
        """Knobs whose new value differs from the file's, or from a running reader's.

        A step to resume from may be requested again: the one that the reader was passed counts.
        """
        new = self._values(knobs, preview.after.files)
        old = self._values(knobs, preview.before.files)
        living: dict[str, Mapping[str, TomlValue]] = {
            component: self._values(knobs, files) for component, files in running.items()
        }
        for component, files in running.items():
            got = self._values(knobs, as_passed(files))
            resumed = {knob.name for knob in knobs if knob.key in self._framework.run.resume_keys}
            living[component] = {**living[component], **{name: got[name] for name in resumed}}
        return [
            knob
            for knob in knobs
            if any(
                values[knob.name] != new[knob.name]
                for values in (old, *(living[reader] for reader in knob.readers if reader in living))
            )
        ]

    def _values(self, knobs: Sequence[Knob], files: ConfigFiles) -> Mapping[str, TomlValue]:
        return self._framework.config.values_of(knobs, files)


def _as_warnings(problems: tuple[Problem, ...], reason: str) -> tuple[Problem, ...]:
    return tuple(
        problem.model_copy(update={"severity": "warning", "message": f"{problem.message} ({reason})"})
        if problem.is_error
        else problem
        for problem in problems
    )


def _shas(loaded: LoadedFiles) -> tuple[str, ...]:
    return tuple(source.sha for source in loaded.sources.values())


def _conflict_error(source: Source, current: bytes | None) -> ConflictError:
    """The error for a file that holds `current` instead of `source`; `None`: unknown content."""
    theirs = "" if current is None else current.decode(errors="replace")
    return ConflictError(
        f"{source.path} was changed by someone else meanwhile",
        details=text_diff(source.text, theirs, source.path.name).splitlines() if current is not None else (),
        hint="nothing was written; check the file and try again",
    )
