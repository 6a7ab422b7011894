"""A copy of the config that belongs to one run: what several files say together, with the options of a
command line as edits of it. The user's files stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from rltui import paths
from rltui.core.config_data import deep_leaves
from rltui.core.knobs import Knob, find_knob, shown, typed
from rltui.core.toml import merge
from rltui.core.toml.edit import edit, parse
from rltui.core.toml.values import TomlValue
from rltui.errors import ConfigError, RltuiError
from rltui.frameworks import registry
from rltui.frameworks.base import Framework
from rltui.services import checkout
from rltui.services.config import origins
from rltui.services.config.models import informed
from rltui.services.config.origins import ConfigOrigin
from rltui.services.config.source import Source, parse_file, read_file, with_key
from rltui.services.config.store import ConfigStore
from rltui.services.own_files import make_folder, write_atomically

_NEGATED = re.compile(r"^no_(?P<all>.+)$|(?P<table>^.*\.)no_(?P<last>[^.]+)$")
"""Older releases negate the last name of a key, newer ones all of it."""
_MERGED_NAME = "rl.toml"
"""Of a copy that is made of files for tables alone."""
_SPLIT, _ONE_FILE = "prime-rl-split", ("prime-rl", "prime-rl-merged")
"""Whose configs `--trainer @ a.toml --orchestrator @ b.toml` may be."""
_SWITCHED = {"true": True, "false": False, "none": False}
Choose = Callable[[tuple[Path, ...]], Framework]


@dataclass(frozen=True, slots=True)
class ConfigPart:
    """A file behind `@`."""

    path: Path
    table: str = ""
    """The table that it is for, as in `--orchestrator @ orch.toml`; empty: a whole config."""


@dataclass(frozen=True, slots=True)
class Override:
    """An option that sets a key of the config: `--model.name X`."""

    key: str
    """In snake case."""
    values: tuple[str, ...] = ()
    """None for a switch; several make a list."""

    @property
    def option(self) -> str:
        return f"--{self.key}"


@dataclass(frozen=True, slots=True)
class ConfigLine:
    files: tuple[Path, ...] = ()
    """Files that stand by themselves, each for what it is."""
    parts: tuple[ConfigPart, ...] = ()
    """Files that are merged, in this order; behind `files`, if there are any."""
    overrides: tuple[Override, ...] = ()
    edits: Mapping[str, str] = field(default_factory=dict)
    """Values by the names of knobs, as `rltui set` takes them."""
    is_copied: bool = False
    """Copies are made even where nothing is changed in them."""
    program: str = ""
    """The one program that it is for, where that has no file, just overrides."""

    @property
    def is_plain(self) -> bool:
        return not (self.parts or self.overrides or self.edits or self.is_copied or self.program)


@dataclass(frozen=True, slots=True)
class Staged:
    """The files of a config line, copies of them where it asks for more than the files."""

    files: tuple[Path, ...]
    plain: Mapping[str, str] = field(default_factory=dict)
    """By name of a copy: its text without the overrides. Empty: these are the user's own files."""
    told: tuple[str, ...] = ()
    """What a person may not expect of a merge, in words."""

    def in_words(self, text: str) -> str:
        """`text` with the user's files in place of copies, which are soon gone."""
        return _in_words(text, self.files if self.plain else ())

    def changed_since(self, own: Iterable[Path]) -> tuple[str, ...]:
        """Of copies that were made of the same files: those files that say something else by now."""
        now = self.plain or {path.name: whole_text(read_file(path)) for path in self.files}
        known = {path: origin for path in own if (origin := origins.origin(path)) is not None}
        return tuple(each.words for path, each in known.items() if now.get(path.name) != each.text)

    def keep(self, folder: Path) -> tuple[tuple[Path, ...], Mapping[str, str]]:
        """Write the copies into `folder`, without the overrides: their paths, and the text of each that the
        overrides change.

        Raises:
            RltuiError: if they cannot be written.
        """
        make_folder(folder, mode=0o700)
        known = {path.name: origins.origin(path) for path in self.files}
        origins.keep(folder, {name: origin for name, origin in known.items() if origin is not None})
        for name, text in self.plain.items():
            write_atomically(folder / name, text.encode())
        texts = {path.name: path.read_bytes().decode() for path in self.files}
        changed = {str(folder / name): text for name, text in texts.items() if text != self.plain[name]}
        return tuple(folder / name for name in texts), changed


def _in_words(text: str, copies: Iterable[Path]) -> str:
    for path in copies:
        if (origin := origins.origin(path)) is not None:
            place = partial(_place, path, origin)
            text = re.sub(rf"{re.escape(str(path))}(?::(\d+))?(?::\d+)?", place, text)
    return text


def _place(copy: Path, origin: ConfigOrigin, place: re.Match[str]) -> str:
    """File and number of the line that a line of the copy comes from, the last file's that has it just once;
    else all files.
    """
    lines = copy.read_text().splitlines() if place[1] and len(origin.paths) > 1 else []
    line = lines[int(place[1]) - 1].strip() if lines else ""
    for file in reversed(origin.paths) if line else ():
        numbers = [
            at for at, text in enumerate(read_file(Path(file)).text.splitlines(), 1) if text.strip() == line
        ]
        if len(numbers) == 1:
            return f"{file}:{numbers[0]}"
    return origin.words


class OwnCopy:
    """Makes the copies of one config line. `choose` says whose configs some files are."""

    def __init__(self, line: ConfigLine, choose: Choose, *, workspace: Path, force: bool = False) -> None:
        """`workspace` as for `checkout.find`, `force` as for `ConfigStore.preview`."""
        self._line = line
        self._choose = choose
        self._workspace = workspace
        self._force = force
        self._told: tuple[str, ...] = ()

    @contextmanager
    def staged(self) -> Iterator[Staged]:
        """The copies, as long as the context lasts; errors raised in it name the user's files.

        Raises:
            ConfigError: if a file cannot be read, or an override names no key or a value that it does not
                take.
        """
        if self._line.is_plain:
            yield Staged(self._line.files)
            return
        make_folder(paths.state_dir())
        with TemporaryDirectory(prefix="config-", dir=paths.state_dir()) as name:
            folder = Path(name).resolve()
            try:
                yield self._staged(folder)
            except RltuiError as error:
                copies = list(folder.rglob("*.toml"))
                error.title, error.hint = _in_words(error.title, copies), _in_words(error.hint, copies)
                error.details = tuple(_in_words(line, copies) for line in error.details)
                raise

    def _staged(self, folder: Path) -> Staged:
        documents = self._documents(folder)
        is_changed = self._line.overrides or self._line.edits or self._line.is_copied
        if not is_changed and all(document.is_original for document in documents):
            return Staged(tuple(document.paths[0] for document in documents))
        files = _write(folder, documents)
        self._override(files)
        return Staged(files, {document.name: document.text for document in documents}, self._told)

    # --- merging ------------------------------------------------------------------------------------------

    def _documents(self, folder: Path) -> list[_Document]:
        if self._line.program:
            name = f"{self._line.program}.toml"
            return [_Document(name, (self._workspace.absolute() / name,), "", began_as="")]
        parts = [*map(ConfigPart, self._line.files), *self._line.parts]
        if not self._line.parts or self._stand_alone(parts):
            return self._each([part.path for part in parts])
        document = _merge(parts, deep=True)
        if len(parts) == 1 and not parts[0].table:
            return self._each([parts[0].path])
        (folder / "merged").mkdir()
        framework = self._choose(_write(folder / "merged", [document]))
        if not self._is_deep(framework, document):
            shallow = _merge(parts, deep=False)
            self._told = tuple(_lost(document.text, shallow.text, framework.title))
            document = shallow
        beside = (document.paths[0].with_name(name) for name in framework.companions.values())
        companions = [path for path in beside if path.exists() and path not in document.paths]
        return [document, *(_Document(path.name, (path,), read_file(path).text) for path in companions)]

    def _each(self, files: Sequence[Path]) -> list[_Document]:
        """Each file, and those that are read beside them."""
        wanted = tuple(path.absolute() for path in files)
        sources = ConfigStore(wanted, self._choose(wanted)).load_sources().sources.values()
        found: dict[str, _Document] = {}
        for source in sources:
            origin, name = origins.origin(source.path), source.path.name
            if name in found:
                name = f"{source.path.parent.name}-{name}"
            used = (source.path,) if origin is None else tuple(map(Path, origin.paths))
            held = None if origin is None else origin.text
            found[name] = _Document(name, used, whole_text(source), held)
        return list(found.values())

    def _stand_alone(self, parts: Sequence[ConfigPart]) -> bool:
        """Each file is a config of its own, as in 2025, rather than a table of one."""
        sources = [read_file(part.path) for part in parts]
        parsed = [(str(source.path), source.data) for source in sources]
        split = registry.get(_SPLIT)
        if [split.role(path, data) for path, data in parsed] != [part.table for part in parts]:
            return False
        if split.checkout is not None:
            near = [source.path for source in sources]
            workspace = self._workspace
            known = checkout.installed_generation(split.checkout, workspace=workspace, config_files=near)
            if known is not None:
                return known == split.id
        merged = _merge(parts, deep=True)
        one_file = [(merged.name, parse_file(Path(merged.name), merged.text.encode()).data)]
        fits = [registry.get(name).fit(one_file) for name in _ONE_FILE]
        alone = split.fit(parsed)
        return alone is not None and all(fit is None or alone <= fit for fit in fits)

    def _is_deep(self, framework: Framework, document: _Document) -> bool:
        known = framework.checkout
        if known is not None and known.merges_tables:
            folder = checkout.find(known, workspace=self._workspace, config_files=document.paths)
            if folder is not None:
                return not (folder / known.merges_tables).exists()
        return framework.merges_deeply(parse_file(Path(document.name), document.text.encode()).data)

    # --- overriding ---------------------------------------------------------------------------------------

    def _override(self, files: tuple[Path, ...]) -> None:
        if not self._line.overrides and not self._line.edits:
            return
        framework = informed(self._choose(files), self._workspace, files)
        edits: dict[str, TomlValue] = dict(self._line.edits)
        for override in self._line.overrides:
            store = ConfigStore(files, framework)
            for wanted in _meant(override, store.knobs):
                if isinstance(wanted, _WholeTable):
                    path = store.load_sources().sources[wanted.role].path
                    change = merge.with_table if wanted.is_there else merge.without
                    text = change(path.read_bytes().decode(), wanted.key)
                    write_atomically(path, text.encode())
                elif isinstance(wanted, _NoValue):
                    _write_none(wanted.knob, store, framework)
                else:
                    edits[wanted.name] = wanted.value
        store = ConfigStore(files, framework)
        preview = store.preview(edits, force=self._force)
        for role in preview.roles:
            write_atomically(preview.after.sources[role].path, preview.after.sources[role].content)


@dataclass(frozen=True, slots=True)
class _Document:
    name: str
    paths: tuple[Path, ...]
    text: str
    began_as: str | None = None
    """Where it is a copy already: what that held at first."""

    @property
    def is_original(self) -> bool:
        """It says nothing but what the user's one file says."""
        return self.began_as is None and len(self.paths) == 1 and self.text == read_file(self.paths[0]).text


def _merge(parts: Sequence[ConfigPart], *, deep: bool) -> _Document:
    text = ""
    for number, part in enumerate(parts):
        own = whole_text(read_file(part.path))
        own = merge.below(own, part.table) if part.table else own
        text = merge.merged(text, own, deep=deep) if number else own
    name = next((part.path.name for part in parts if not part.table), _MERGED_NAME)
    return _Document(name, tuple(part.path.absolute() for part in parts), text)


def whole_text(source: Source) -> str:
    """Its text; the files that it inherits from, which are looked for beside it, by their whole paths."""
    inherited = source.data.get("toml_files")
    if not isinstance(inherited, list):
        return source.text
    above = source.path.parent
    return edit(source.text, {"toml_files": [str(above / name) for name in map(str, inherited)]})


def _lost(deep: str, shallow: str, title: str) -> Iterator[str]:
    """What went because tables are replaced as a whole."""
    left = deep_leaves(parse(shallow, "merged"))
    lost = [key for key in deep_leaves(parse(deep, "merged")) if key not in left]
    for table in dict.fromkeys(key.partition(".")[0] for key in lost):
        keys = [key for key in lost if key.startswith(f"{table}.")]
        yield (
            f"[{table}] of the later file takes the place of the whole table, as in {title}: what only the "
            f"earlier one says is gone ({', '.join(keys)})"
        )


def _write(folder: Path, documents: Iterable[_Document]) -> tuple[Path, ...]:
    found = {document.name: document for document in documents}
    for name, document in found.items():
        write_atomically(folder / name, document.text.encode())
    notes = {
        name: ConfigOrigin(tuple(map(str, document.paths)), document.began_as or document.text)
        for name, document in found.items()
    }
    origins.keep(folder, notes)
    return tuple(folder / name for name in found)


# --- what an option means -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Setting:
    name: str
    value: TomlValue


@dataclass(frozen=True, slots=True)
class _WholeTable:
    """That a whole table is there, or is not."""

    role: str
    key: str
    is_there: bool


@dataclass(frozen=True, slots=True)
class _NoValue:
    """That a knob has no value although its default is one."""

    knob: Knob


def _write_none(knob: Knob, store: ConfigStore, framework: Framework) -> None:
    """Raises ConfigError where the file cannot say so."""
    loaded = store.load_sources()
    none = framework.none_text(loaded.files[knob.file])
    if none is None:
        held = shown(knob.default, key=knob.key)
        raise ConfigError(f"{knob.name} is {held} where the file does not have it, and cannot be none")
    source = with_key(loaded.sources[knob.file], knob.key, none)
    write_atomically(source.path, source.content)


def _meant(override: Override, knobs: Sequence[Knob]) -> list[_Setting | _WholeTable | _NoValue]:
    """What is to be set: several keys where programs with a file each share one.

    Raises:
        ConfigError: if it names nothing, or something that takes a value has none.
    """
    key, values = override.key, override.values
    if not values and (found := _NEGATED.search(key)) and not _at(key, knobs):
        key, values = found["all"] or found["table"] + found["last"], ("false",)
    if tables := _tables(key, knobs):
        word = values[0].lower() if len(values) == 1 else "" if values else "true"
        if word not in _SWITCHED:
            raise ConfigError(f"{key} is a table, not a value", hint=f"set a key in it, --{key}.NAME VALUE")
        return [_WholeTable(role, inner, _SWITCHED[word]) for role, inner in tables]
    shared = [knob for knob in knobs if knob.key == key and knob.name != key]
    meant = _at(key, knobs) or shared or _for_all(key, knobs)
    if not meant:
        try:
            meant = [find_knob(knobs, key)]
        except (
            ConfigError
        ):  # it is none of the framework's: the files may have it, or the edit says what is wrong
            unknown = "true" if not values else values[0] if len(values) == 1 else list(map(typed, values))
            return [_Setting(key, unknown)]
    return [
        _NoValue(knob)
        if values == ("None",) and knob.nullable and knob.default is not None
        else _Setting(knob.name, _value(override, knob, values))
        for knob in meant
    ]


def _at(key: str, knobs: Iterable[Knob]) -> list[Knob]:
    return [knob for knob in knobs if knob.name == key]


def _for_all(key: str, knobs: Iterable[Knob]) -> list[Knob]:
    """Of keys that end so, the one that is the default of all others: `monitors.wandb.project`."""
    ending = sorted(
        (knob for knob in knobs if knob.name.endswith(f".{key}")), key=lambda each: len(each.name)
    )
    return [each for each in ending[:1] if all(one.name.endswith(f".{each.name}") for one in ending[1:])]


def _tables(key: str, knobs: Sequence[Knob]) -> list[tuple[str, str]]:
    """Role and key of the tables that a name means."""
    if _at(key, knobs):
        return []
    inside = [knob for knob in knobs if knob.name.startswith(f"{key}.")]
    inside = inside or [knob for knob in knobs if knob.key.startswith(f"{key}.")]
    found = {
        (knob.file, key.removeprefix(f"{knob.namespace}.") if knob.namespace else key)
        for knob in inside
        if key != knob.namespace
    }
    return sorted(found)


def _value(override: Override, knob: Knob, values: Sequence[str]) -> TomlValue:
    if not values:
        if knob.kind != "bool":
            raise ConfigError(f"{override.option} needs a value: {knob.name} is {knob.expected}")
        return "true"
    if knob.kind == "list" and not (len(values) == 1 and values[0].lstrip().startswith("[")):
        words = values[0].split(",") if len(values) == 1 else values
        return None if list(words) == ["None"] else [typed(word.strip()) for word in words]
    if len(values) > 1:
        raise ConfigError(f"{override.option} takes one value, not {len(values)}: {' '.join(values)}")
    return values[0]
