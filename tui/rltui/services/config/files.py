"""Config files on the disk: read, parsed, put to their roles, edited in memory, copied."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar, TypeVarTuple

from rltui.core.config_report import Problem
from rltui.core.toml import edit
from rltui.core.toml.scan import BOM
from rltui.core.toml.values import format_key, split_key
from rltui.errors import ConfigError
from rltui.frameworks import registry
from rltui.frameworks.base import ConfigFile, ConfigFiles, Framework
from rltui.services import checkout
from rltui.services.config.source import Source, read_file
from rltui.services.own_files import make_folder, read_regular, write_atomically

_PASSED = "passed.json"
Args = TypeVarTuple("Args")
T = TypeVar("T")


# --- the files of an experiment -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoadedFiles:
    sources: Mapping[str, Source]
    passed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By role, of copies: what a component got in place of what they say."""

    @property
    def files(self) -> ConfigFiles:
        return {
            role: ConfigFile(role, str(source.path), source.data, passed=self.passed.get(role, {}))
            for role, source in self.sources.items()
        }


def detect(paths: Sequence[Path], *, workspace: Path) -> Framework:
    """The framework that these files are for: the one whose checkout is at hand, if its programs read such
    files, else the one that knows most of their keys.

    Raises:
        AmbiguousConfigError: if several know as many.
        ConfigError: if a file cannot be read, or no framework knows them.
    """
    parsed = [(str(source.path), source.data) for source in map(read_file, paths)]
    installed = next(
        (
            name
            for known in registry.checkouts()
            if (name := checkout.installed_generation(known, workspace=workspace, config_files=paths))
        ),
        None,
    )
    try:
        return registry.detect(parsed, installed=installed)
    except registry.AmbiguousConfigError as error:
        if (likely := registry.likely(error, parsed)) is None:
            raise
        return registry.get(likely)


def named(paths: Sequence[Path]) -> tuple[Path, ...]:
    """The config files meant on a command line: absolute, and in place of a folder its TOML files, by name.

    Raises:
        ConfigError: if a folder has none.
    """
    found: list[Path] = []
    for path in paths:
        files = sorted(path.glob("*.toml")) if path.is_dir() else [path]
        if not files:
            raise ConfigError(f"{path} holds no TOML file", hint="name the config file, or another folder")
        found.extend(file.absolute() for file in files)
    return tuple(found)


def with_companions(path: Path) -> tuple[Path, ...]:
    """The file of one program of prime-rl, and those of the others where these lie beside it, one each: they
    belong to one run.

    Raises:
        ConfigError: if the file cannot be read.
    """
    framework, own = registry.get("prime-rl-split"), read_file(path.absolute())
    sources = [own]
    for file in sorted(own.path.parent.glob("*.toml")):
        with suppress(ConfigError):  # whatever else lies there
            sources += [] if file == own.path else [read_file(file)]
    parsed = [(str(source.path), source.data) for source in sources]
    parts = [file for file in parsed if framework.role(*file) not in (None, "sft")]
    is_one_run = parsed[0] in parts and framework.fit(parts) is not None
    return tuple(Path(name) for name, _ in parts) if is_one_run else (own.path,)


def load_files(paths: Sequence[Path], framework: Framework) -> LoadedFiles:
    """Read the files, and those the framework looks for beside the first one.

    Raises:
        ConfigError: if one cannot be read or has no role, or a required one is missing.
    """
    sources: dict[str, Source] = {}
    for path in paths:
        source = read_file(path)
        role = framework.role(str(source.path), source.data)
        if role is None:
            raise ConfigError(
                f"{path} is not a config file of {framework.title}", hint="see its example files"
            )
        if role in sources:
            raise ConfigError(
                f"{path} and {sources[role].path} are both the {role!r} file of {framework.title}",
                hint="give one of them; what `@ base.toml @ overlay.toml` merges, write into one file: "
                "a copy of the base with the tables of the overlay",
            )
        sources[role] = source
    _require(framework, sources)
    for role, name in framework.companions.items():
        beside = next(iter(sources.values())).path.parent / name if sources else Path(name)
        if role not in sources and beside.exists():
            sources[role] = read_file(beside)
    return LoadedFiles(sources)


def _require(framework: Framework, sources: Mapping[str, Source]) -> None:
    if not framework.required or any(roles <= sources.keys() for roles in framework.required):
        return
    given = ", ".join(str(source.path) for source in sources.values()) or "no file"
    beside = " and ".join(framework.companions.values())
    missing = sorted(framework.required[0] - sources.keys())
    alone = f"; {given} is for {next(iter(sources))} alone" if len(sources) == 1 else f"; given: {given}"
    raise ConfigError(
        f"{framework.title} needs its {' and '.join(f'{role}.toml' for role in missing)}{alone}",
        hint=f"name that file; {beside} beside it is found by itself"
        if beside
        else "name that file too; one program alone is run by a layout of your own, with framework = "
        '"generic" and its command',
    )


def located(problems: Iterable[Problem], loaded: LoadedFiles) -> tuple[Problem, ...]:
    """The problems with line and column: of the key, or of the table it would belong to."""
    return tuple(_located(problem, loaded) for problem in problems)


def _located(problem: Problem, loaded: LoadedFiles) -> Problem:
    for role, source in loaded.sources.items():
        if problem.key is None or problem.line is not None or problem.file != str(source.path):
            continue
        path = split_key(problem.key)
        for keys in (path, path[1:] if path[0] == role else path):
            if place := _nearest(source.text, keys):
                return problem.model_copy(update={"line": place[0], "column": place[1]})
    return problem


def _nearest(text: str, keys: tuple[str, ...]) -> tuple[int, int] | None:
    for depth in range(len(keys), 0, -1):
        if place := edit.locate(text, format_key(keys[:depth])):
            return place
    return None


class OfFiles(Generic[*Args, T]):
    """A function of config files and hashable arguments, whose results are kept until files are read again.

    What raises is not kept.
    """

    def __init__(self, work: Callable[[ConfigFiles, *Args], T]) -> None:
        self._work = work
        self._files: ConfigFiles = {}
        self._results: dict[tuple[*Args], T] = {}

    def __call__(self, files: ConfigFiles, *args: *Args) -> T:
        # Of one reading. Equal values will not do: `1` equals `1.0` and `true`.
        if files.keys() != self._files.keys() or any(
            file.data is not self._files[role].data or file.path != self._files[role].path
            for role, file in files.items()
        ):
            self._files, self._results = files, {}
        if args not in self._results:
            self._results[args] = self._work(files, *args)
        return self._results[args]


# --- copies, as an attempt was started with them --------------------------------------------------------


def write_snapshot(loaded: LoadedFiles, folder: Path) -> ConfigFiles:
    """Copy the files as `<role>.toml` into `folder`, for nobody else to read: they may hold secrets. A byte
    order mark is left out: few programs take one.

    Raises:
        RltuiError: if they cannot be written.
    """
    copies: dict[str, ConfigFile] = {}
    make_folder(folder, mode=0o700)
    for role, source in loaded.sources.items():
        copy = folder.absolute() / f"{role}.toml"
        write_atomically(copy, source.text.removeprefix(BOM).encode())
        copies[role] = ConfigFile(role, str(copy), source.data)
    return copies


def read_snapshot(folder: Path, framework: Framework) -> LoadedFiles:
    """The files that `write_snapshot` left. Empty where there are none.

    Raises:
        ConfigError: if one was damaged since.
    """
    sources = [read_file(path) for path in sorted(folder.glob("*.toml"))]
    roles = (framework.role(str(source.path), source.data) or source.path.stem for source in sources)
    return LoadedFiles(dict(zip(roles, sources, strict=True)), _read_passed(folder))


def load_snapshot(folder: Path, framework: Framework) -> ConfigFiles:
    """The files that `write_snapshot` left in `folder`; empty where there are none.

    Raises:
        ConfigError: if one was damaged since.
    """
    return read_snapshot(folder, framework).files


def write_passed(folder: Path, passed: Mapping[str, Mapping[str, Any]]) -> None:
    """Keep beside a snapshot what its component gets in place of what the files say.

    Raises:
        RltuiError: if it cannot be written.
    """
    write_atomically(folder / _PASSED, json.dumps(passed).encode())


def _read_passed(folder: Path) -> Mapping[str, Mapping[str, Any]]:
    """Nothing where nobody wrote it down, such as an earlier rltui."""
    try:
        found = json.loads(read_regular(folder / _PASSED))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {role: values for role, values in found.items() if isinstance(values, dict)}
