"""The config files of a run as it last read them, even if the files have changed since."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rltui.core import hints
from rltui.core.runs import RunConfigFile, RunRow
from rltui.errors import ConfigError, RltuiError
from rltui.services.config import origins
from rltui.services.config.change import FileChange
from rltui.services.config.config_file import parse_file, read_file, sha_of
from rltui.services.config.origins import ConfigOrigin
from rltui.services.config.run_config import RunConfig, self_contained_text, temporary_folder
from rltui.services.own_files import read_own, write_atomically
from rltui.services.runs.run_row import content_file


@contextmanager
def recorded_config(row: RunRow) -> Iterator[RunConfig]:
    """Provide copies of them while the context lasts, for a new run with its own config. Inherited files are
    named by their absolute paths.

    Raises:
        ConfigError: if one of them is not recorded, or cannot be read.
    """
    if not row.configs:
        raise ConfigError(
            f"no config is recorded for {row.name}", hint="it was not started by rltui, or has no config"
        )
    with temporary_folder() as folder:
        changes: dict[Path, FileChange] = {}
        notes: dict[str, ConfigOrigin] = {}
        for file in row.configs:
            path = Path(file.path)
            copy = folder / path.name
            if copy in changes:  # two of them may have one name
                copy = folder / f"{path.parent.name}-{path.name}"
            text = self_contained_text(parse_file(path, _recorded_content(file)))
            write_atomically(copy, text.encode())
            recorded = parse_file(copy, text.encode())
            changes[copy] = FileChange(recorded, recorded)
            source = origins.origin(path)
            notes[copy.name] = source or ConfigOrigin((file.path,), text)
        origins.save(folder, notes)
        yield RunConfig(tuple(changes), tuple(changes.values()))


def changed_files(row: RunRow) -> tuple[str, ...]:
    """The files whose content differs by now, or which are gone."""
    return tuple(file.path for file in row.configs if _sha_now(Path(file.path)) != file.sha256)


def _sha_now(path: Path) -> str:
    try:
        return sha_of(read_file(path).content)
    except RltuiError:
        return ""


def _recorded_content(file: RunConfigFile) -> bytes:
    try:
        return read_own(content_file(file.sha256))
    except OSError as error:
        raise ConfigError(
            f"{file.path} as it was run is no longer stored: {error.strerror}",
            hint=f"if the run still has the file, record it again: {hints.RUNS_REBUILD}",
        ) from error
