"""The config that a run was last started with. Edits since then are for its next start.

Its files are stored by hash in the state folder as the run is read, and survive it; a new run can be made of
them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rltui import paths
from rltui.core import hints
from rltui.core.runs.row import RunConfigFile, RunRow
from rltui.errors import ConfigError, RltuiError
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFiles
from rltui.services.config import origins
from rltui.services.config.change import FileChange
from rltui.services.config.config_file import parse_file, read_file, sha_of
from rltui.services.config.content_store import ContentStore
from rltui.services.config.files import load_files, read_snapshot, snapshot_dir
from rltui.services.config.origins import ConfigOrigin
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.own_files import write_atomically

if TYPE_CHECKING:  # knows how configs are merged: only a new run needs it
    from rltui.services.config.run_config import RunConfig


def last_run_files(record: ExperimentRecord, framework: Framework, run_jobs: Collection[str]) -> ConfigFiles:
    """The files of its newest attempt, of the run itself if there is any; else the current files."""
    folders = sorted(
        record.control.newest_attempts(),
        key=lambda folder: (
            folder.parent.name in run_jobs,
            snapshot_dir(folder).exists() and folder.stat().st_mtime,
        ),
        reverse=True,
    )
    for folder in folders:
        with suppress(ConfigError):
            if snapshot := read_snapshot(folder, framework):
                return snapshot
    with suppress(ConfigError):
        return load_files(record.config_paths, framework)
    return {}


def last_max_steps(
    record: ExperimentRecord,
    framework: Framework,
    run_jobs: Collection[str],
    files: ConfigFiles | None = None,
) -> int | None:
    """Number of steps of the run; `None` if it is unknown. `files`: those of `last_run_files`."""
    files = last_run_files(record, framework, run_jobs) if files is None else files
    return framework.run.max_steps(files) if files or record.observed else None


def save_config_files(
    files: ConfigFiles, record: ExperimentRecord, framework: Framework
) -> tuple[RunConfigFile, ...]:
    """Store the contents of the files by hash. Returns their paths and hashes."""
    paths_by_role = {}
    for name in record.config_files:
        with suppress(ConfigError):
            paths_by_role[framework.config.role(name, read_file(Path(name)).data) or Path(name).stem] = name
    recorded = []
    for role, file in files.items():
        sha = sha_of(file.content)
        with suppress(RltuiError):  # no room: the attempt has a copy
            recorded_contents().save(file.content)
        default_path = record.config_files[0] if len(record.config_files) == 1 else file.path
        if (companion := framework.config.companions.get(role)) is not None:
            default_path = str(Path(default_path).with_name(companion))
        recorded.append(RunConfigFile(path=paths_by_role.get(role, default_path), sha256=sha))
    return tuple(recorded)


def recorded_contents() -> ContentStore:
    """The contents of all runs' config files, which survive the runs."""
    return ContentStore(paths.state_dir() / "configs", is_nested=True)


@contextmanager
def recorded_config(row: RunRow) -> Iterator[RunConfig]:
    """Provide copies of the files of `row` while the context lasts, for a new run with its own config.
    Inherited files are named by their absolute paths.

    Raises:
        ConfigError: if one of them is not recorded, or cannot be read.
    """
    from rltui.services.config.run_config import RunConfig, self_contained_text, temporary_folder

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
    content = recorded_contents().content(file.sha256)
    if content is None:
        raise ConfigError(
            f"{file.path} as it was run is no longer stored",
            hint=f"if the run still has the file, record it again: {hints.RUNS_REBUILD}",
        )
    return content
