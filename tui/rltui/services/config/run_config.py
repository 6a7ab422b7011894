"""A config that belongs to one run: several files merged, with the options of a command line applied as edits
(`overrides.py`). The user's files stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from rltui import paths
from rltui.base.toml.edit import edit, parse
from rltui.core.config import merge
from rltui.core.config.data import deep_leaves
from rltui.core.experiment.request import ConfigLine, ConfigOverlay
from rltui.errors import RltuiError
from rltui.frameworks import registry
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFile
from rltui.services.config import origins
from rltui.services.config.change import FileChange
from rltui.services.config.config_file import read_file
from rltui.services.config.files import load_files
from rltui.services.config.models import informed
from rltui.services.config.origins import ConfigOrigin
from rltui.services.config.overrides import override
from rltui.services.experiment.checkout import NearbyCheckout
from rltui.services.own_files import make_folder, write_atomically

_MERGED_NAME = "rl.toml"
"""File name of a run config that is merged of files for tables alone."""
Choose = Callable[[tuple[Path, ...]], Framework]


@dataclass(frozen=True, slots=True)
class RunConfig:
    """The files of a config line, or run configs if it asks for more than the files."""

    files: tuple[Path, ...]
    changes: tuple[FileChange, ...] = ()
    """The run configs without the overrides, and with them. Empty: these are the user's own files."""
    warnings: tuple[str, ...] = ()
    """Surprising effects of a merge."""

    def with_user_paths(self, text: str) -> str:
        """`text` with the user's files in place of the temporary run configs."""
        return _with_user_paths(text, self.files if self.changes else ())

    def changed_since(self, own: Iterable[Path]) -> tuple[str, ...]:
        """The user's files whose content differs by now from what the run configs `own` were made of."""
        files = [change.before for change in self.changes] or [read_file(path) for path in self.files]
        now = {Path(file.path).name: self_contained_text(file) for file in files}
        sources = {path: origin for path in own if (origin := origins.origin(path)) is not None}
        return tuple(source.words for path, source in sources.items() if now.get(path.name) != source.text)

    def save(self, folder: Path) -> tuple[tuple[Path, ...], Mapping[str, str]]:
        """Write the run configs into `folder`, without the overrides. Returns their paths, and path → text of
        those that the overrides change.

        Raises:
            RltuiError: if they cannot be written.
        """
        make_folder(folder, mode=0o700)
        sources = {path.name: origins.origin(path) for path in self.files}
        origins.save(folder, {name: origin for name, origin in sources.items() if origin is not None})
        saved = {folder / change.path.name: change for change in self.changes}
        for path, change in saved.items():
            write_atomically(path, change.before.content)
        edited = {str(path): change.after.text for path, change in saved.items() if not change.is_empty}
        return tuple(saved), edited


def _with_user_paths(text: str, copies: Iterable[Path]) -> str:
    for path in copies:
        if (origin := origins.origin(path)) is not None:
            replacement = partial(_user_position, path, origin)
            text = re.sub(rf"{re.escape(str(path))}(?::(\d+))?(?::\d+)?", replacement, text)
    return text


def _user_position(copy: Path, origin: ConfigOrigin, position: re.Match[str]) -> str:
    """File and line number that a line of the run config comes from: of the last file that has it exactly
    once; else all files.
    """
    lines = copy.read_text().splitlines() if position[1] and len(origin.paths) > 1 else []
    line = lines[int(position[1]) - 1].strip() if lines else ""
    for file in reversed(origin.paths) if line else ():
        numbers = [
            number
            for number, content in enumerate(read_file(Path(file)).text.splitlines(), 1)
            if content.strip() == line
        ]
        if len(numbers) == 1:
            return f"{file}:{numbers[0]}"
    return origin.words


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for run configs that exists while the context lasts."""
    make_folder(paths.state_dir())
    with TemporaryDirectory(prefix="config-", dir=paths.state_dir()) as name:
        yield Path(name).resolve()


class RunConfigBuilder:
    """Makes the run configs of one config line. `choose` finds the framework of some files."""

    def __init__(self, line: ConfigLine, choose: Choose, *, workspace: Path, force: bool = False) -> None:
        """`workspace` as for `NearbyCheckout`, `force` as for `ConfigDocument.with_edits`."""
        self._line = line
        self._choose = choose
        self._workspace = workspace
        self._force = force
        self._warnings: tuple[str, ...] = ()

    @contextmanager
    def build(self) -> Iterator[RunConfig]:
        """Provide the run configs while the context lasts; errors raised in it name the user's files.

        Raises:
            ConfigError: if a file cannot be read, or an override has an unknown key or an invalid value.
        """
        if self._line.is_plain:
            yield RunConfig(self._line.files)
            return
        with temporary_folder() as folder:
            try:
                yield self._build(folder)
            except RltuiError as error:
                copies = list(folder.rglob("*.toml"))
                error.title, error.hint = (
                    _with_user_paths(error.title, copies),
                    _with_user_paths(error.hint, copies),
                )
                error.details = tuple(_with_user_paths(line, copies) for line in error.details)
                raise

    def _build(self, folder: Path) -> RunConfig:
        documents = self._documents(folder)
        is_changed = self._line.overrides or self._line.edits or self._line.is_copied
        if not is_changed and all(document.is_original for document in documents):
            return RunConfig(tuple(document.paths[0] for document in documents))
        files = _write(folder, documents)
        unedited = [read_file(path) for path in files]
        if self._line.overrides or self._line.edits:
            framework = informed(self._choose(files), self._workspace, files)
            override(files, framework, self._line, force=self._force)
        changes = tuple(FileChange(file, read_file(Path(file.path))) for file in unedited)
        return RunConfig(files, changes, self._warnings)

    # --- merging ------------------------------------------------------------------------------------------

    def _documents(self, folder: Path) -> list[_Document]:
        if self._line.program:
            name = f"{self._line.program}.toml"
            return [_Document(name, (self._workspace.absolute() / name,), "", original_text="")]
        segments = [*map(ConfigOverlay, self._line.files), *self._line.overlays]
        if not self._line.overlays or self._are_standalone(segments):
            return self._standalone_documents([segment.path for segment in segments])
        document = _merge(segments, deep=True)
        if len(segments) == 1 and not segments[0].table:
            return self._standalone_documents([segments[0].path])
        (folder / "merged").mkdir()
        framework = self._choose(_write(folder / "merged", [document]))
        if not self._is_deep(framework, document):
            shallow = _merge(segments, deep=False)
            self._warnings = tuple(_dropped_keys(document.text, shallow.text, framework.title))
            document = shallow
        candidates = (document.paths[0].with_name(name) for name in framework.config.companions.values())
        companions = [path for path in candidates if path.exists() and path not in document.paths]
        return [document, *(_Document(path.name, (path,), read_file(path).text) for path in companions)]

    def _standalone_documents(self, files: Sequence[Path]) -> list[_Document]:
        """A document per file, including companions that are read with them."""
        paths_read = tuple(path.absolute() for path in files)
        sources = load_files(paths_read, self._choose(paths_read)).values()
        documents: dict[str, _Document] = {}
        for source in sources:
            path = Path(source.path)
            origin, name = origins.origin(path), path.name
            if name in documents:
                name = f"{path.parent.name}-{name}"
            originals = (path,) if origin is None else tuple(map(Path, origin.paths))
            first_text = None if origin is None else origin.text
            documents[name] = _Document(name, originals, self_contained_text(source), first_text)
        return list(documents.values())

    def _are_standalone(self, segments: Sequence[ConfigOverlay]) -> bool:
        """True if each file is a config of its own, rather than a table of one: `--trainer @ a.toml
        --orchestrator @ b.toml` is read in either way, by another generation each.
        """
        sources = [read_file(segment.path) for segment in segments]
        documents = [(source.path, source.data) for source in sources]
        split_framework = registry.get(registry.FILE_PER_PROGRAM)
        if [split_framework.config.role(path, data) for path, data in documents] != [
            segment.table for segment in segments
        ]:
            return False
        if split_framework.checkout is not None:
            nearby = NearbyCheckout(
                split_framework.checkout,
                workspace=self._workspace,
                config_files=[Path(source.path) for source in sources],
            )
            if nearby.generation is not None:
                return nearby.generation == split_framework.id
        document = _merge(segments, deep=True)
        one_file = [(document.name, parse(document.text, document.name))]
        fits = [other.config.fit(one_file) for other in registry.other_generations(split_framework)]
        split_fit = split_framework.config.fit(documents)
        return split_fit is not None and all(fit is None or split_fit <= fit for fit in fits)

    def _is_deep(self, framework: Framework, document: _Document) -> bool:
        project = framework.checkout
        if project is not None and project.merges_tables:
            folder = NearbyCheckout(project, workspace=self._workspace, config_files=document.paths).folder
            if folder is not None:
                return not (folder / project.merges_tables).exists()
        return framework.config.merges_deeply(parse(document.text, document.name))


@dataclass(frozen=True, slots=True)
class _Document:
    name: str
    paths: tuple[Path, ...]
    text: str
    original_text: str | None = None
    """The first content of a run config that the user's file already is."""

    @property
    def is_original(self) -> bool:
        return (
            self.original_text is None and len(self.paths) == 1 and self.text == read_file(self.paths[0]).text
        )


def _merge(segments: Sequence[ConfigOverlay], *, deep: bool) -> _Document:
    text = ""
    for number, segment in enumerate(segments):
        own = self_contained_text(read_file(segment.path))
        own = merge.nest_in_table(own, segment.table) if segment.table else own
        text = merge.merge_texts(text, own, deep=deep) if number else own
    name = next((segment.path.name for segment in segments if not segment.table), _MERGED_NAME)
    return _Document(name, tuple(segment.path.absolute() for segment in segments), text)


def self_contained_text(source: ConfigFile) -> str:
    """The text with the files that it inherits from, which are relative to its folder, as absolute paths."""
    inherited = source.data.get("toml_files")
    if not isinstance(inherited, list):
        return source.text
    above = Path(source.path).parent
    return edit(source.text, {"toml_files": [str(above / name) for name in map(str, inherited)]})


def _dropped_keys(deep: str, shallow: str, title: str) -> Iterator[str]:
    """Warnings about keys that are lost because tables are replaced completely."""
    remaining = deep_leaves(parse(shallow, "merged"))
    dropped = [key for key in deep_leaves(parse(deep, "merged")) if key not in remaining]
    for table in dict.fromkeys(key.partition(".")[0] for key in dropped):
        keys = [key for key in dropped if key.startswith(f"{table}.")]
        yield (
            f"[{table}] of the later file replaces the whole table, as in {title}; dropped from the"
            f" earlier file: {', '.join(keys)}"
        )


def _write(folder: Path, documents: Iterable[_Document]) -> tuple[Path, ...]:
    by_name = {document.name: document for document in documents}
    for name, document in by_name.items():
        write_atomically(folder / name, document.text.encode())
    notes = {
        name: ConfigOrigin(tuple(map(str, document.paths)), document.original_text or document.text)
        for name, document in by_name.items()
    }
    origins.save(folder, notes)
    return tuple(folder / name for name in by_name)
