"""The config of an experiment: what the files say, what an edit would do, and the edit itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rltui.core import tomldoc
from rltui.core.api import KnobInfo, KnobScalar, KnobTable, Problem
from rltui.core.knob_values import resolve_edits
from rltui.core.knobs import Knob, TomlValue
from rltui.errors import ConfigError, ConflictError
from rltui.frameworks.base import ConfigFiles, Framework
from rltui.frameworks.config_data import effective, value_at
from rltui.frameworks.generic import ANY_COMPONENT
from rltui.services import config_files, toml_source
from rltui.services.atomic_write import replace_files
from rltui.services.config_files import LoadedFiles
from rltui.services.config_problems import located
from rltui.services.file_diff import unified_diff
from rltui.services.knob_rows import knob_rows
from rltui.services.toml_source import Source


@dataclass(frozen=True, slots=True)
class EditPreview:
    """What an edit would do. Nothing has been written."""

    before: LoadedFiles
    after: LoadedFiles
    diff: str
    """Unified diff of all files, empty where nothing changes."""
    readers: Mapping[str, tuple[str, ...]]
    """Name of each changed knob → components that read it."""
    problems: tuple[Problem, ...]
    """What is wrong with the files after the edit."""

    @property
    def changed(self) -> tuple[str, ...]:
        """Names of the knobs that get another value."""
        return tuple(self.readers)

    @property
    def blocked(self) -> bool:
        """An error forbids it."""
        return any(problem.severity == "error" for problem in self.problems)


class ConfigStore:
    """The config files `paths` of one experiment. Blocking, for one thread; reads only when asked to."""

    def __init__(
        self, paths: Sequence[Path], framework: Framework, *, components: Sequence[str] = ()
    ) -> None:
        """`components`: ids of the layout, who read the knobs of which nobody knows the readers."""
        self._paths = tuple(paths)
        self._framework = framework
        self._components = tuple(components)
        self._loaded: LoadedFiles | None = None

    @property
    def files(self) -> ConfigFiles:
        """The files as last loaded with success; loads them at the first call.

        Raises:
            ConfigError: if they never could be loaded.
        """
        return self._last().files

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """The framework's knobs for these files."""
        return self._knobs_of(self.files)

    def load(self) -> ConfigFiles:
        """Read the files again; if that fails, those read before stay.

        Raises:
            ConfigError: if a file is missing, unreadable or malformed, in words with place and remedy.
        """
        self._loaded = config_files.load(self._paths, self._framework)
        return self._loaded.files

    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the files as last loaded, with lines and columns."""
        loaded = self._last()
        return located(self._framework.check(loaded.files), loaded)

    def knob_table(self, running: Mapping[str, ConfigFiles]) -> KnobTable:
        """Every knob, from the files as they are now.

        `running`: living component → the files it was started with.

        Raises:
            ConfigError: if a file cannot be read or is malformed.
        """
        files = self.load()
        return KnobTable(
            files=tuple(file.path for file in files.values()),
            knobs=self.rows(running),
            problems=self.problems(),
        )

    def rows(self, running: Mapping[str, ConfigFiles]) -> tuple[KnobInfo, ...]:
        """Every knob, from the files as last loaded; `running` as for `knob_table`."""
        return knob_rows(self.knobs, self.files, running, self._framework)

    def preview(
        self, edits: Mapping[str, TomlValue], *, running: Mapping[str, ConfigFiles] | None = None
    ) -> EditPreview:
        """What setting knobs would do to the files as they are now; `None` or `unset` removes the key.

        `running` as for `knob_table`: a knob also counts as changed if a living reader has another value.

        Raises:
            ConfigError: if a file cannot be read, a knob is unknown, or a value has a wrong type or bound.
        """
        self.load()
        before = self._last()
        wanted = resolve_edits(self.knobs, edits)
        sources = dict(before.sources)
        for knob, value in wanted.items():
            sources[knob.file] = _edited(sources[knob.file], knob, value)
        after = LoadedFiles(sources)
        changed = self._changed(list(wanted), before.files, after.files, running or {})
        return EditPreview(
            before=before,
            after=after,
            diff=unified_diff(before, after),
            readers={knob.name: knob.readers for knob in changed},
            problems=located(self._framework.check(after.files), after),
        )

    def apply(self, preview: EditPreview) -> None:
        """Write what was previewed.

        Raises:
            ConfigError: if the result breaks a rule; nothing was written.
            ConflictError: if a file changed since the preview; nothing was written.
            RltuiError: if the disk does not take it; nothing was written.
        """
        if preview.blocked:
            errors = [problem.message for problem in preview.problems if problem.severity == "error"]
            raise ConfigError(errors[0], details=errors[1:], hint="nothing was written")
        changed = {
            source.path: source.content
            for role, source in preview.after.sources.items()
            if source.content != preview.before.sources[role].content
        }
        for source in preview.before.sources.values():
            if source.path in changed:
                _require_unchanged(source)
        if changed:
            replace_files(changed)
        self._loaded = preview.after

    def snapshot(self, folder: Path) -> ConfigFiles:
        """Copy the files as last loaded into `folder`, and return the copies.

        Raises:
            RltuiError: if they cannot be written.
        """
        return config_files.write_snapshot(self._last(), folder)

    def _last(self) -> LoadedFiles:
        if self._loaded is None:
            self._loaded = config_files.load(self._paths, self._framework)
        return self._loaded

    def _knobs_of(self, files: ConfigFiles) -> tuple[Knob, ...]:
        listed = (*self._framework.knobs, *self._framework.more_knobs(files))
        return tuple(self._with_known_readers(knob) for knob in listed if knob.file in files)

    def _with_known_readers(self, knob: Knob) -> Knob:
        return replace(knob, readers=self._components) if ANY_COMPONENT in knob.readers else knob

    def _changed(
        self, wanted: list[Knob], before: ConfigFiles, after: ConfigFiles, running: Mapping[str, ConfigFiles]
    ) -> list[Knob]:
        """Knobs whose new value is not what the file held, or not what a living reader has."""
        new = self._values(after)
        old = self._values(before)
        living = {component: self._values(files) for component, files in running.items()}
        return [
            knob
            for knob in wanted
            if any(
                values[knob.name] != new[knob.name]
                for values in (old, *(living[reader] for reader in knob.readers if reader in living))
            )
        ]

    def _values(self, files: ConfigFiles) -> Mapping[str, TomlValue]:
        return effective(self.knobs, files, self._framework.defaults(files))


def load_snapshot(folder: Path, framework: Framework) -> ConfigFiles:
    """The files that `ConfigStore.snapshot` left in `folder`; empty where there are none.

    Raises:
        ConfigError: if one was damaged since.
    """
    return config_files.read_snapshot(folder, framework)


def _edited(source: Source, knob: Knob, value: KnobScalar) -> Source:
    """The source after the edit.

    Raises:
        ConfigError: if the text resists; then it is left to the person.
    """
    text = tomldoc.edit(source.text, {knob.key: value})
    edited = toml_source.parse(source.path, text.encode())
    if value_at(edited.data, knob.key) != value:
        raise ConfigError(
            f"{source.path}: cannot set {knob.key} without risk to the rest",
            hint="edit it in the file itself",
        )
    return edited


def _require_unchanged(source: Source) -> None:
    try:
        current = source.path.read_bytes()
    except OSError as error:
        raise ConflictError(
            f"{source.path} cannot be read any more: {error.strerror}", hint="nothing was written"
        ) from error
    if current != source.content:
        raise ConflictError(
            f"{source.path} was changed by somebody else meanwhile",
            hint="nothing was written; look at the file and try again",
        )
