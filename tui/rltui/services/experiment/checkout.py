"""The user's own checkout of a framework: its location and state, and how its programs are called."""

from __future__ import annotations

import configparser
import contextlib
import os
import re
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from rltui.base.template import Missing
from rltui.errors import ConfigError
from rltui.frameworks.base import Checkout
from rltui.frameworks.evaluation import Program
from rltui.services.config.origins import original_files
from rltui.services.own_files import read_regular

VENV_PROGRAMS = ".venv/bin"
_PACKAGE = re.compile(r"[A-Za-z0-9][\w.-]*")
"""Matches the package name at the beginning of a requirement."""


class NearbyCheckout:
    """A framework's checkout near a workspace and config files, as far as there is one."""

    def __init__(
        self,
        spec: Checkout,
        *,
        workspace: Path,
        config_files: Sequence[Path] = (),
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._spec, self._workspace = spec, workspace
        self._config_files, self._environment = config_files, environment

    @cached_property
    def folder(self) -> Path | None:
        """`None` if there is none.

        Searched in the workspace, in the folder of the environment variable, then from the config files (of
        run configs: their sources) and the workspace upward, also in a folder of the project's name, as in
        projects that contain one.

        Raises:
            ConfigError: if the environment variable names a folder that is no such checkout.
        """
        spec = self._spec
        if _is_checkout(self._workspace, spec):
            return self._workspace
        if configured := self._environment.get(spec.variable):
            folder = Path(configured).expanduser().absolute()
            if _is_checkout(folder, spec):
                return folder
            raise ConfigError(
                f"{spec.variable} names {folder}, which is not a checkout of {spec.project}",
                hint=f"set it to the folder with {spec.project}'s pyproject.toml, or unset it",
            )
        nearby = (
            folder
            for start in (*original_files(self._config_files), self._workspace / "any")
            for parent in start.absolute().parents
            for folder in (parent, parent / spec.project)
        )
        return next((folder for folder in nearby if _is_checkout(folder, spec)), None)

    @property
    def project(self) -> Path | None:
        """The project in whose environment it is installed. Raises as `folder`."""
        return None if self.folder is None else project_of(self.folder, self._spec)

    @property
    def generation(self) -> str | None:
        """Id of the framework that it is, for configs that could be for several. Raises as `folder`."""
        return None if self.folder is None else generation_of(self.folder, self._spec)

    @property
    def lacking(self) -> Missing | None:
        """The reason why the packages installed for its users do not include such programs, if that is so.

        Raises as `folder`.
        """
        if self.project is None or self._spec.lacking is None:
            return None
        reason = self._spec.lacking(installed_packages(self.project, environment=self._environment))
        return Missing(f"{reason} ({self.folder})", hint=self._spec.instead) if reason else None

    def run_prefix(self) -> tuple[str, ...] | Missing:
        """Arguments before a program's name that run the checkout's own program, from the workspace.

        `uv run` as its users type it, which first updates the virtual environment. If that is current, or
        without uv, the environment goes first on the path.
        """
        spec = self._spec
        try:
            project, missing = self.project, self.lacking
        except ConfigError as error:
            return Missing(error.title, error.hint)
        if missing is not None:
            return missing
        path = self._environment.get("PATH", os.defpath)
        if project is None:
            if all(shutil.which(program, path=path) for program in spec.programs):
                return ()
            return Missing(
                f"no checkout of {spec.project} found",
                hint=f"name its folder: --workspace FOLDER, or export {spec.variable}=FOLDER",
            )
        programs = project / VENV_PROGRAMS
        if shutil.which("uv", path=path) and not _is_current(project, spec):
            return ("uv", "run") if project == self._workspace else ("uv", "run", "--project", str(project))
        if programs.is_dir():
            return ("env", f"VIRTUAL_ENV={programs.parent}", f"PATH={programs}{os.pathsep}{path}")
        return Missing(
            f"{project} has no {VENV_PROGRAMS}, and uv is not on PATH",
            hint=f"install uv, or create the environment: cd {project} && uv sync --all-extras",
        )

    def traits(self) -> frozenset[str] | None:
        """The names in `Checkout.traits` that apply to it; `None` if there is none."""
        try:
            folder = self.folder
        except ConfigError:
            return None  # told where its programs are looked for
        if folder is None:
            return None
        return frozenset(name for name, path, text in self._spec.traits if _holds(folder / path, text))

    def programs(self) -> Path | None:
        """The folder of the programs that `run_prefix` runs; `None` if unknown. Raises as `folder`."""
        if self.project is None:
            path = self._environment.get("PATH", os.defpath)
            paths = [program for name in self._spec.programs if (program := shutil.which(name, path=path))]
            return Path(paths[0]).resolve().parent if paths else None
        python = interpreter(self.project, environment=self._environment)
        return None if python is None else Path(python[0]).parent


def _is_checkout(folder: Path, checkout: Checkout) -> bool:
    """True if the folder is the root of one, by the name or the dependencies in its `pyproject.toml`."""
    data = _read_pyproject(folder)
    project = data.get("project")
    if not isinstance(project, dict):
        return False
    return project.get("name") == checkout.project or _depends_on(data, checkout.dependents)


def _depends_on(data: Mapping[str, Any], packages: Sequence[str]) -> bool:
    """True if a `pyproject.toml` with this content requires one of the packages, in whatever group."""
    project = data["project"]
    lists = [project.get("dependencies"), *_values(project.get("optional-dependencies"))]
    lists += _values(data.get("dependency-groups"))
    requirements = (
        requirement
        for group in lists
        if isinstance(group, list)
        for requirement in group
        if isinstance(requirement, str)
    )
    names = (_PACKAGE.match(requirement) for requirement in requirements)
    return any(name is not None and _normalized_name(name[0]) in packages for name in names)


def _values(table: object) -> list[object]:
    return list(table.values()) if isinstance(table, dict) else []


def _normalized_name(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def _read_pyproject(folder: Path) -> Mapping[str, Any]:
    """Content of the `pyproject.toml` in `folder`; empty if there is none that can be read."""
    try:
        return tomllib.loads(read_regular(folder / "pyproject.toml").decode())
    except (OSError, ValueError, RecursionError):
        return {}


def _is_current(project: Path, checkout: Checkout) -> bool:
    """True if its environment has all programs, and is newer than the files that uv reads."""
    installed = [project / VENV_PROGRAMS / program for program in checkout.programs]
    sources = [source for name in ("uv.lock", "pyproject.toml") if (source := project / name).exists()]
    try:
        return max(map(_changed_at, installed)) > max(map(_changed_at, sources), default=0)
    except OSError:
        return False


def _changed_at(path: Path) -> int:
    return path.stat().st_mtime_ns


def _holds(path: Path, text: str) -> bool:
    try:
        return text.encode() in read_regular(path)
    except OSError:
        return False


def generation_of(folder: Path, checkout: Checkout) -> str | None:
    """Id of the framework that the checkout is; `None` if its files do not show it."""
    return next((name for path, name in checkout.generations if (folder / path).exists()), None)


def project_of(folder: Path, checkout: Checkout) -> Path:
    """The project in whose environment the checkout in `folder` is installed: itself, or one around it that
    declares it, as for a submodule.
    """
    if (folder / VENV_PROGRAMS).is_dir():
        return folder
    for parent in folder.parents:
        sources = _read_pyproject(parent).get("tool", {}).get("uv", {}).get("sources", {})
        source = sources.get(checkout.project, {}) if isinstance(sources, dict) else {}
        path = source.get("path") if isinstance(source, dict) else None
        if isinstance(path, str) and (parent / path).resolve() == folder.resolve():
            return parent
    return folder


def interpreter(folder: Path, *, environment: Mapping[str, str] = os.environ) -> tuple[str, ...] | None:
    """Arguments that run python with the packages of the project in `folder`, without installing any; `None`
    if there is none.
    """
    python = folder / VENV_PROGRAMS / "python"
    if python.exists():
        return (str(python),)
    environment_folder = environment.get("UV_PROJECT_ENVIRONMENT")
    python = folder / environment_folder / "bin/python" if environment_folder else python
    return (str(python),) if python.exists() else None


def installed_packages(folder: Path, *, environment: Mapping[str, str] = os.environ) -> Mapping[str, str]:
    """Name → version of packages that are installed for the checkout in `folder`; runs nothing."""
    python = interpreter(folder, environment=environment)
    return {} if python is None else _packages(Path(python[0]).parent)


def _packages(programs: Path) -> dict[str, str]:
    """Normalized name → version of all packages in the environment whose programs are in this folder."""
    entries = sorted(programs.parent.glob("lib/python3.*/site-packages/*.dist-info"))
    name_parts = (entry.name.removesuffix(".dist-info").rpartition("-") for entry in entries)
    return {_normalized_name(name): version for name, _, version in name_parts if name}


def installed(programs: Path, names: Sequence[str]) -> dict[str, str]:
    """Name → version of packages in the environment whose programs are in the folder `programs`."""
    versions = _packages(programs)
    return {name: versions[key] for name in names if (key := _normalized_name(name)) in versions}


def console_scripts(programs: Path, packages: Sequence[str]) -> dict[str, Program]:
    """Name → program of the `packages` in the environment whose programs are in the folder `programs`."""
    by_name: dict[str, Program] = {}
    for package, version in installed(programs, packages).items():
        stem = f"{package.replace('-', '_')}-{version}.dist-info"
        for file in programs.parent.glob(f"lib/python3.*/site-packages/{stem}/entry_points.txt"):
            parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
            with contextlib.suppress(OSError, ValueError, configparser.Error):  # then it has none
                parser.read_string(file.read_text())
                if parser.has_section("console_scripts"):
                    scripts = parser.items("console_scripts")
                    by_name.update({name: Program(version, target) for name, target in scripts})
    return by_name
