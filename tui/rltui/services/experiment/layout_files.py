"""Finds and reads layout files, with readable errors."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from rltui import paths
from rltui.base.text import did_you_mean, join_some
from rltui.core.experiment.instances import expand_instances
from rltui.core.experiment.layout import (
    ComponentSpec,
    GpuSourceSpec,
    Layout,
    LogSpec,
    Ready,
    Restart,
    Screen,
    Stall,
    Stop,
    with_components,
)
from rltui.core.hosts.specs import HOST_TABLES
from rltui.errors import ConfigError, NotFoundError
from rltui.frameworks.registry import family_of
from rltui.services.config import model_errors
from rltui.services.config.config_file import content_of, parse_file
from rltui.services.experiment.files import ExperimentRecord

_TABLES: Mapping[str, type[BaseModel]] = {
    "component": ComponentSpec,
    "log": LogSpec,
    "gpu_source": GpuSourceSpec,
    **HOST_TABLES,
    "ready": Ready,
    "stop": Stop,
    "restart": Restart,
    "stall": Stall,
    "screen": Screen,
}
"""Key of a table → its model."""
_NAMES = {"component": "id", "log": "id", "gpu_source": "name", "node": "name"}
"""Table that may occur several times → key that identifies it."""

_MOST_NAMED = 8


def folders(config_dir: Path | None) -> tuple[Path, ...]:
    """The folders with layouts in the order of the search: the user's, the project's, the shipped ones."""
    user = paths.config_dir() / "layouts"
    project = (config_dir / paths.STATE_FOLDER / "layouts",) if config_dir is not None else ()
    return (user, *project, paths.shipped_dir("layouts"))


def available(config_dir: Path | None = None) -> tuple[Path, ...]:
    """The file of every layout, by name; an earlier folder hides a later one's."""
    by_name: dict[str, Path] = {}
    for folder in folders(config_dir):
        for path in sorted(folder.glob("*.toml")):
            by_name.setdefault(path.stem, path)
    return tuple(by_name[name] for name in sorted(by_name))


def find(name_or_path: str, config_dir: Path | None = None) -> Path:
    """The file of a layout that is given by name or by path (anything with a `/` or ending in `.toml`).

    Raises:
        NotFoundError: if there is none; names the existing ones.
    """
    if "/" in name_or_path or name_or_path.endswith(".toml"):
        path = Path(name_or_path).expanduser()
        if not path.is_file():
            raise NotFoundError(f"file not found: {name_or_path}")
        return path.absolute()
    by_name = {path.stem: path for path in available(config_dir)}
    if name_or_path not in by_name:
        hint = did_you_mean(name_or_path, by_name) or f"known: {join_some([*by_name], _MOST_NAMED)}"
        raise NotFoundError(f"unknown layout: {name_or_path}", hint=hint)
    return by_name[name_or_path].absolute()


def load(path: Path) -> Layout:
    """The layout in a file.

    Raises:
        ConfigError: if it is missing, malformed or breaks a rule: names file, line, key and what is wrong.
    """
    absolute = path.expanduser().absolute()
    return _layout(absolute, content_of(absolute, display_path=path))


@functools.lru_cache(maxsize=32)
def _layout(path: Path, content: bytes) -> Layout:
    source = parse_file(path, content)
    try:
        return Layout.model_validate(source.data)
    except ValidationError as error:
        lines = model_errors.error_lines(source, error, root=Layout, tables=_TABLES, name=_name)
        raise ConfigError(lines[0], details=lines[1:], hint="fix the layout file") from error


def load_for(record: ExperimentRecord) -> Layout:
    """The layout of an experiment, with a component for each of its instances, and the common components.

    Raises:
        ConfigError: as `load`, or if the instances do not fit into it.
    """
    path = Path(record.layout_file).expanduser().absolute()
    options = tuple((kind, tuple(values.items())) for kind, values in record.host_options.items())
    family = None if record.observed else family_of(record.framework)
    content = content_of(path, display_path=Path(record.layout_file))
    return _layout_for(path, content, tuple(record.instances.items()), record.external, options, family)


@functools.lru_cache(maxsize=32)
def _layout_for(
    path: Path,
    content: bytes,
    instances: tuple[tuple[str, tuple[str, ...]], ...],
    external: tuple[str, ...],
    host_options: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...],
    family: str | None,
) -> Layout:
    """Load a layout once for the same arguments: thousands of runs have few layouts."""
    layout = with_instances(_layout(path, content), dict(instances), path, without=external)
    layout = layout.with_host_options({kind: dict(values) for kind, values in host_options})
    if family is None:
        return layout
    common = with_instances(Layout(component=parts(family)), dict(instances), path)
    return with_components(layout, common.component)


@functools.cache
def parts(family: str) -> tuple[ComponentSpec, ...]:
    """Components that every layout has unless it says otherwise: those of the frameworks of a family, then
    those of all.

    Raises:
        ConfigError: as `load`.
    """
    folder = paths.shipped_dir("layouts") / "parts"
    files = [path for name in (family, "any") if (path := folder / f"{name}.toml").exists()]
    return tuple(spec for path in files for spec in load(path).component)


def with_instances(
    layout: Layout, instances: Mapping[str, Sequence[str]], path: Path, *, without: Collection[str] = ()
) -> Layout:
    """The layout read from `path` with a component for each instance, `without` those that run elsewhere.

    Raises:
        ConfigError: if that is no layout any more, such as one without components.
    """
    try:
        return expand_instances(layout, instances, without=without)
    except ValidationError as error:
        message = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise ConfigError(
            f"{path}: with the instances of this config: {message}", hint="fix the layout file"
        ) from error


def _name(location: model_errors.Location, data: Mapping[str, Any]) -> str:
    """Label like `component 'trainer', stop.signal: `, or nothing for the complete file."""
    segments = [str(segment) for segment in location]
    if len(segments) < 2 or segments[0] not in _NAMES:
        return f"{'.'.join(segments)}: " if segments else ""
    tables, index = data.get(segments[0]), location[1]
    table = tables[index] if isinstance(tables, list) and isinstance(index, int) else None
    number_text = f"number {segments[1]}"
    name = table.get(_NAMES[segments[0]], number_text) if isinstance(table, dict) else number_text
    return (
        f"{segments[0]} {name!r}, {'.'.join(segments[2:])}: " if segments[2:] else f"{segments[0]} {name!r}: "
    )
