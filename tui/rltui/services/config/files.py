"""Config files on the disk: read, parsed, assigned to roles, edited in memory, copied."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, TypeVar, TypeVarTuple

from rltui.base.toml import edit
from rltui.base.toml.scan import BOM
from rltui.base.toml.values import format_key, split_key
from rltui.core.config.report import Problem
from rltui.errors import ConfigError
from rltui.frameworks import registry
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFile, ConfigFiles
from rltui.services.config.config_file import read_file
from rltui.services.experiment.checkout import NearbyCheckout
from rltui.services.own_files import make_folder, read_regular, write_atomically

_PASSED = "passed.json"
Args = TypeVarTuple("Args")
T = TypeVar("T")


# --- the files of an experiment -------------------------------------------------------------------------


def detect(paths: Sequence[Path], *, workspace: Path) -> Framework:
    """The framework that these files are for: the one whose checkout is near, if its programs read such
    files, else the one that knows most of their keys.

    Raises:
        AmbiguousConfigError: if several know equally many.
        ConfigError: if a file cannot be read, or no framework knows them.
    """
    parsed = [(file.path, file.data) for file in map(read_file, paths)]
    installed = next(
        (
            name
            for project in registry.checkouts()
            if (name := NearbyCheckout(project, workspace=workspace, config_files=paths).generation)
        ),
        None,
    )
    try:
        return registry.detect(parsed, installed=installed)
    except registry.AmbiguousConfigError as error:
        if (guess := registry.likely(error, parsed)) is None:
            raise
        return registry.get(guess)


def named(paths: Sequence[Path]) -> tuple[Path, ...]:
    """The config files meant on a command line: absolute, and a folder replaced by its TOML files, by name.

    Raises:
        ConfigError: if a folder has none.
    """
    paths_named: list[Path] = []
    for path in paths:
        files = sorted(path.glob("*.toml")) if path.is_dir() else [path]
        if not files:
            raise ConfigError(f"{path} has no TOML file", hint="name the config file or another folder")
        paths_named.extend(file.absolute() for file in files)
    return tuple(paths_named)


def with_companion_files(path: Path) -> tuple[Path, ...]:
    """The file of one program of a framework with those of the other programs in its folder, one each, since
    they belong to one run.

    Raises:
        ConfigError: if the file cannot be read.
    """
    framework, own = registry.get(registry.FILE_PER_PROGRAM), read_file(path.absolute())
    parsed = [(own.path, own.data)]
    for other in sorted(path.absolute().parent.glob("*.toml")):
        with suppress(ConfigError):  # whatever else lies there
            parsed += [] if str(other) == own.path else [(str(other), read_file(other).data)]
    role_files = [file for file in parsed if framework.config.role(*file) not in (None, "sft")]
    is_one_run = parsed[0] in role_files and framework.config.fit(role_files) is not None
    return tuple(Path(name) for name, _ in (role_files if is_one_run else parsed[:1]))


def load_files(paths: Sequence[Path], framework: Framework) -> ConfigFiles:
    """Read the files, and those the framework looks for beside the first one.

    Raises:
        ConfigError: if one cannot be read or has no role, or a required one is missing.
    """
    files: dict[str, ConfigFile] = {}
    for path in paths:
        file = read_file(path)
        role = framework.config.role(file.path, file.data)
        if role is None:
            raise ConfigError(
                f"{path} is not a config file of {framework.title}", hint="see its example files"
            )
        if role in files:
            raise ConfigError(
                f"{path} and {files[role].path} are both the {role!r} file of {framework.title}",
                hint=(
                    "pass only one; to merge `@ base.toml @ overlay.toml`, write one file: a"
                    " copy of the base with the tables of the overlay"
                ),
            )
        files[role] = replace(file, role=role)
    _require(framework, files)
    folder = Path(next(iter(files.values())).path).parent if files else Path()
    for role, name in framework.config.companions.items():
        if role not in files and (folder / name).exists():
            files[role] = read_file(folder / name, role)
    return files


def _require(framework: Framework, files: ConfigFiles) -> None:
    if not framework.config.required or any(roles <= files.keys() for roles in framework.config.required):
        return
    given_names = ", ".join(file.path for file in files.values()) or "no file"
    companions = " and ".join(framework.config.companions.values())
    missing_roles = sorted(framework.config.required[0] - files.keys())
    scope = (
        f"; {given_names} is for {next(iter(files))} alone" if len(files) == 1 else f"; given: {given_names}"
    )
    raise ConfigError(
        f"{framework.title} needs its {' and '.join(f'{role}.toml' for role in missing_roles)}{scope}",
        hint=f"name that file; {companions} next to it is found automatically"
        if companions
        else "name that file too; to run one program alone, write a layout with framework = "
        '"generic" and its command',
    )


def located(problems: Iterable[Problem], files: ConfigFiles) -> tuple[Problem, ...]:
    """The problems with line and column: of the key, or of the table that it would belong to."""
    return tuple(_located(problem, files) for problem in problems)


def _located(problem: Problem, files: ConfigFiles) -> Problem:
    for role, file in files.items():
        if problem.key is None or problem.line is not None or problem.file != file.path:
            continue
        path = split_key(problem.key)
        paths = (path, path[1:]) if path[0] == role else (path,)
        for keys in (whole[:depth] for whole in paths for depth in range(len(whole), 0, -1)):
            if position := edit.locate(file.text, format_key(keys)):
                return problem.replace(line=position[0], column=position[1])
    return problem


class FilesCache(Generic[*Args, T]):
    """A function of config files and hashable arguments, whose results are cached until files are read again.

    Exceptions are not cached.
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


def snapshot_dir(attempt_dir: Path) -> Path:
    return attempt_dir / "config"


def write_snapshot(files: ConfigFiles, attempt_dir: Path) -> ConfigFiles:
    """Copy the files as `<role>.toml` into the folder of an attempt, readable by the user alone: they may
    hold secrets. A byte order mark is dropped, since few programs accept one.

    Raises:
        RltuiError: if they cannot be written.
    """
    folder = snapshot_dir(attempt_dir).absolute()
    copies: dict[str, ConfigFile] = {}
    make_folder(folder, mode=0o700)
    for role, file in files.items():
        copy, content = folder / f"{role}.toml", file.text.removeprefix(BOM).encode()
        write_atomically(copy, content)
        copies[role] = ConfigFile(role, str(copy), file.data, content=content)
    return copies


def read_snapshot(attempt_dir: Path, framework: Framework) -> ConfigFiles:
    """The files that `write_snapshot` wrote. Empty if there are none.

    Raises:
        ConfigError: if one was damaged since.
    """
    folder = snapshot_dir(attempt_dir)
    passed = _load_passed(folder / _PASSED)
    copies: dict[str, ConfigFile] = {}
    for path in sorted(folder.glob("*.toml")):
        file = read_file(path)
        role = framework.config.role(file.path, file.data) or path.stem
        copies[role] = replace(file, role=role, passed=passed.get(role, {}))
    return copies


def write_passed(attempt_dir: Path, passed: Mapping[str, Mapping[str, Any]]) -> None:
    """Store next to a snapshot what its component gets in place of what the files say.

    Raises:
        RltuiError: if it cannot be written.
    """
    write_atomically(snapshot_dir(attempt_dir) / _PASSED, json.dumps(passed).encode())


def _load_passed(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """Empty if it was never written, or is damaged."""
    try:
        document = json.loads(read_regular(path))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {role: values for role, values in document.items() if isinstance(values, dict)}
