"""Folders of runs that are not where they were: found again by the id in them, or explained."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import orjson

from rltui.core.runs.row import RunId, run_id
from rltui.errors import RltuiError
from rltui.services.experiment.files import ControlFolder, ExperimentRecord, same_folder
from rltui.services.experiment.registry import find_experiment, free_name
from rltui.services.own_files import entry_names, read_own
from rltui.services.runs.metadata import FILE_NAME

TRASH = ".rltui-trash"
"""Name of the trash folder next to a run."""
_MAX_ENTRIES = 5000
"""Limit of entries that are read of one folder."""
_FSTAB = Path("/etc/fstab")


def metadata_id(folder: Path) -> RunId | None:
    """`None` if there is no run in that output folder, or it cannot be read."""
    try:
        return run_id(orjson.loads(read_own(ControlFolder(folder).path / FILE_NAME))["id"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


class MovedRunFinder:
    """Searches for runs near their former locations. Each folder is read once."""

    def __init__(self, parents: Callable[[], Iterable[str]]) -> None:
        """`parents`: folders that contain other runs."""
        self._parents = parents
        self._others: tuple[Path, ...] | None = None
        self._runs_in: dict[Path, dict[str, Path]] = {}

    def find(self, id_: str, old_folder: Path) -> Path | None:
        """The current output folder of the run with that id; it was at `old_folder`."""
        for folder in self._near(old_folder):
            if (new_folder := self._in(folder).get(id_)) is not None:
                return new_folder
        # a folder above it may have got another name
        nearest = _nearest(old_folder)
        relative_parts = old_folder.relative_to(nearest).parts[1:]
        if not relative_parts:
            return None
        candidates = (nearest.joinpath(name, *relative_parts) for name in entry_names(nearest, _MAX_ENTRIES))
        return next((candidate for candidate in candidates if metadata_id(candidate) == id_), None)

    def _near(self, old_folder: Path) -> Iterable[Path]:
        yield old_folder.parent
        yield old_folder.parent / TRASH
        if old_folder.parent.name == TRASH:
            yield old_folder.parent.parent
        if self._others is None:
            self._others = tuple(map(Path, sorted(self._parents())))
        for parent in self._others:
            yield parent
            yield parent / TRASH

    def _in(self, folder: Path) -> dict[str, Path]:
        if folder not in self._runs_in:
            by_id: dict[str, Path] = {}
            self._runs_in[folder] = by_id
            for name in entry_names(folder, _MAX_ENTRIES):
                if (id_ := metadata_id(folder / name)) is not None:
                    by_id.setdefault(id_, folder / name)
        return self._runs_in[folder]


def _nearest(path: Path) -> Path:
    return next((parent for parent in path.parents if parent.is_dir()), Path("/"))


def gone_reason(path: Path) -> str:
    """Say why there is no such folder any more, as far as that is known."""
    try:
        path.stat()
    except OSError as error:
        if isinstance(error, PermissionError):
            return f"{path}: permission denied"
    for disk in _disks():
        if path.is_relative_to(disk) and not disk.is_mount():
            return f"{path} is on a disk that is not mounted: {disk}"
    nearest = _nearest(path)
    if nearest == path.parent:
        return f"{path} was deleted or moved away"
    return (
        f"{path} is gone with everything in {nearest / path.relative_to(nearest).parts[0]}: deleted or not"
        " mounted"
    )


def _disks() -> list[Path]:
    """Mount points of disks that are not always mounted."""
    with suppress(OSError, UnicodeDecodeError):
        lines = (line.split() for line in _FSTAB.read_text().splitlines())
        mount_points = (fields[1] for fields in lines if len(fields) > 2 and not fields[0].startswith("#"))
        return [
            Path(mount_point)
            for mount_point in mount_points
            if mount_point.startswith("/") and mount_point != "/"
        ]
    return []


def register_moved(record: ExperimentRecord) -> ExperimentRecord:
    """Register, there and on the user's list, that an experiment is where `record` says. If another has its
    name, it gets a new one.

    Raises:
        RltuiError: if that cannot be written.
    """
    folder = Path(record.output_dir)
    with suppress(RltuiError):  # one that is damaged has the name all the same
        listed = find_experiment(record.name)
        if listed is not None and not same_folder(listed.output_dir, record.output_dir):
            record = replace(record, name=free_name(record.name, folder))
    ControlFolder(folder).write_record(record)
    return record
