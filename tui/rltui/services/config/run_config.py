"""A config that belongs to one run: several files merged, with the options of a command line applied as
edits. The user's files stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from rltui import paths
from rltui.base.toml.edit import edit, parse
from rltui.base.toml.values import TomlValue
from rltui.core.config import merge
from rltui.core.config.data import deep_leaves
from rltui.core.config.knobs import Knob, display, find_knob, parse_untyped
from rltui.core.experiment.request import ConfigLine, ConfigOverlay, Override
from rltui.errors import ConfigError, RltuiError
from rltui.frameworks import registry
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFile, ConfigFiles
from rltui.services.config import origins
from rltui.services.config.change import FileChange
from rltui.services.config.config_file import read_file, with_key
from rltui.services.config.document import ConfigDocument
from rltui.services.config.files import load_files
from rltui.services.config.models import informed
from rltui.services.config.origins import ConfigOrigin
from rltui.services.experiment.checkout import NearbyCheckout
from rltui.services.own_files import make_folder, write_atomically

_NEGATED = re.compile(r"^no_(?P<all>.+)$|(?P<table>^.*\.)no_(?P<last>[^.]+)$")
"""Older releases negate the last segment of a key, newer ones the complete key."""
_MERGED_NAME = "rl.toml"
"""File name of a run config that is merged of files for tables alone."""
_SWITCH_VALUES = {"true": True, "false": False, "none": False}
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
        self._override(files)
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

    # --- overriding ---------------------------------------------------------------------------------------

    def _override(self, files: tuple[Path, ...]) -> None:
        if not self._line.overrides and not self._line.edits:
            return
        framework = informed(self._choose(files), self._workspace, files)
        edits: dict[str, TomlValue] = dict(self._line.edits)
        document = ConfigDocument(files, framework)
        for override in self._line.overrides:
            key, values = _without_negation(override, document.knobs)
            if tables := _tables(key, document.knobs):
                _switch_tables(document.files, tables, key, values)
                document.load()
                continue
            selected = _selected_knobs(key, document.knobs)
            for knob in selected:
                if values == ("None",) and knob.nullable and knob.default is not None:
                    _write_none(knob, document.files[knob.file], framework)
                    document.load()
                else:
                    edits[knob.name] = _value(override, knob, values)
            if not selected:  # the files may have it, or the edit says what is wrong
                edits[key] = values[0] if len(values) == 1 else [*map(parse_untyped, values)] or "true"
        for change in document.with_edits(edits, force=self._force).changes.values():
            write_atomically(change.path, change.after.content)


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


# --- what an option means -------------------------------------------------------------------------------


def _without_negation(override: Override, knobs: Sequence[Knob]) -> tuple[str, tuple[str, ...]]:
    """Key and values, where a negation is the value `false`."""
    key, values = override.key, override.values
    if not values and (match := _NEGATED.search(key)) and not _named_exactly(key, knobs):
        return match["all"] or match["table"] + match["last"], ("false",)
    return key, values


def _switch_tables(
    files: ConfigFiles, tables: Iterable[tuple[str, str]], key: str, values: Sequence[str]
) -> None:
    """Add or remove complete tables, as `_tables` names them.

    Raises:
        ConfigError: if the values say neither.
    """
    text = values[0].lower() if len(values) == 1 else "" if values else "true"
    if text not in _SWITCH_VALUES:
        raise ConfigError(
            f"{key} is a table, not a value", hint=f"set a key of the table: --{key}.NAME VALUE"
        )
    change = merge.with_table if _SWITCH_VALUES[text] else merge.without_key
    for role, inner in tables:
        write_atomically(Path(files[role].path), change(files[role].text, inner).encode())


def _write_none(knob: Knob, file: ConfigFile, framework: Framework) -> None:
    """Raises ConfigError if the file format cannot express it."""
    none = framework.config.none_text(file)
    if none is None:
        default = display(knob.default, key=knob.key)
        raise ConfigError(f"{knob.name} cannot be none: without a value, its default {default} applies")
    write_atomically(Path(file.path), with_key(file, knob.key, none).content)


def _selected_knobs(key: str, knobs: Sequence[Knob]) -> list[Knob]:
    """The knobs that a key stands for: several if programs with a file each share it. Empty if the framework
    has none.
    """
    shared = [knob for knob in knobs if knob.key == key and knob.name != key]
    if selected := _named_exactly(key, knobs) or shared or _shared_default(key, knobs):
        return selected
    with suppress(ConfigError):
        return [find_knob(knobs, key)]
    return []


def _named_exactly(key: str, knobs: Iterable[Knob]) -> list[Knob]:
    return [knob for knob in knobs if knob.name == key]


def _shared_default(key: str, knobs: Iterable[Knob]) -> list[Knob]:
    """The one knob with that ending that is the default of all others, such as `monitors.wandb.project`."""
    matches = sorted(
        (knob for knob in knobs if knob.name.endswith(f".{key}")), key=lambda knob: len(knob.name)
    )
    return [
        default
        for default in matches[:1]
        if all(knob.name.endswith(f".{default.name}") for knob in matches[1:])
    ]


def _tables(key: str, knobs: Sequence[Knob]) -> list[tuple[str, str]]:
    """Role and key of the tables that a name stands for."""
    if _named_exactly(key, knobs):
        return []
    inside = [knob for knob in knobs if knob.name.startswith(f"{key}.")]
    inside = inside or [knob for knob in knobs if knob.key.startswith(f"{key}.")]
    tables = {
        (knob.file, key.removeprefix(f"{knob.namespace}.") if knob.namespace else key)
        for knob in inside
        if key != knob.namespace
    }
    return sorted(tables)


def _value(override: Override, knob: Knob, values: Sequence[str]) -> TomlValue:
    if not values:
        if knob.kind != "bool":
            raise ConfigError(f"{override.option} needs a value: {knob.name} is {knob.expected}")
        return "true"
    if knob.kind == "list" and not (len(values) == 1 and values[0].lstrip().startswith("[")):
        items = values[0].split(",") if len(values) == 1 else values
        return None if list(items) == ["None"] else [parse_untyped(item.strip()) for item in items]
    if len(values) > 1:
        raise ConfigError(f"{override.option} takes one value, not {len(values)}: {' '.join(values)}")
    return values[0]
