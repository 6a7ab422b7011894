"""Folders of runs that are not where they were: found again by the id in them, or why they are gone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import orjson

from rltui import paths
from rltui.core.runs import RunId, run_id
from rltui.errors import RltuiError
from rltui.services.own_files import read_own
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord, same_folder
from rltui.services.runs.experiments import find_experiment, free_name
from rltui.services.runs.run_sheet import FILE_NAME

TRASH = ".rltui-trash"
"""Beside a run: the folder that it is put into when it is thrown away."""
_MOST_LOOKED_AT = 5000
"""Entries of one folder."""
_TABLE_OF_DISKS = Path("/etc/fstab")


def sheet_id(place: Path) -> RunId | None:
    """Id of the run in that output folder; `None` where there is none, or it cannot be read."""
    try:
        return run_id(orjson.loads(read_own(place / paths.STATE_FOLDER / FILE_NAME))["id"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


class MovedRunFinder:
    """Looks for runs near where they were. What a folder holds is looked at once."""

    def __init__(self, parents: Callable[[], Iterable[str]]) -> None:
        """`parents`: folders that other runs lie in."""
        self._parents = parents
        self._others: tuple[Path, ...] | None = None
        self._held: dict[Path, dict[str, Path]] = {}

    def find(self, id_: str, place: Path) -> Path | None:
        """The output folder that the run with that id lies in now; it was at `place`."""
        for folder in self._near(place):
            if (found := self._in(folder).get(id_)) is not None:
                return found
        # a folder above it may have got another name
        there = _nearest(place)
        below = place.relative_to(there).parts[1:]
        if not below:
            return None
        places = (there.joinpath(name, *below) for name in _names(there))
        return next((each for each in places if sheet_id(each) == id_), None)

    def _near(self, place: Path) -> Iterable[Path]:
        yield place.parent
        yield place.parent / TRASH
        if place.parent.name == TRASH:
            yield place.parent.parent
        if self._others is None:
            self._others = tuple(map(Path, sorted(self._parents())))
        for other in self._others:
            yield other
            yield other / TRASH

    def _in(self, folder: Path) -> dict[str, Path]:
        if folder not in self._held:
            held: dict[str, Path] = {}
            self._held[folder] = held
            for name in _names(folder):
                if (id_ := sheet_id(folder / name)) is not None:
                    held.setdefault(id_, folder / name)
        return self._held[folder]


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry, _ in zip(entries, range(_MOST_LOOKED_AT), strict=False)]
    except OSError:  # not there, or not for us to read
        return []


def _nearest(place: Path) -> Path:
    return next((parent for parent in place.parents if parent.is_dir()), Path("/"))


def why_gone(place: Path) -> str:
    """Why there is no such folder any more, as far as that can be told."""
    try:
        place.stat()
    except OSError as error:
        if isinstance(error, PermissionError):
            return f"{place} cannot be looked at: permission denied"
    for disk in _disks():
        if place.is_relative_to(disk) and not disk.is_mount():
            return f"{place} is on a disk that is not mounted: {disk}"
    there = _nearest(place)
    if there == place.parent:
        return f"{place} was deleted or moved away"
    return (
        f"{place} is gone, and all of {there / place.relative_to(there).parts[0]}: deleted, or not mounted?"
    )


def _disks() -> list[Path]:
    """Where disks belong that are not always there."""
    with suppress(OSError, UnicodeDecodeError):
        lines = (line.split() for line in _TABLE_OF_DISKS.read_text().splitlines())
        found = (words[1] for words in lines if len(words) > 2 and not words[0].startswith("#"))
        return [Path(each) for each in found if each.startswith("/") and each != "/"]
    return []


def at_its_place(record: ExperimentRecord, place: Path) -> ExperimentRecord:
    """The record of an experiment that was at another place: its own paths as they are now."""
    old, new = record.output_dir, str(place)

    def moved(path: str) -> str:
        return new + path[len(old) :] if path == old or path.startswith(f"{old}/") else path

    return replace(
        record,
        output_dir=new,
        run_dir=moved(record.run_dir),
        workspace=moved(record.workspace),
        layout_file=moved(record.layout_file),
        config_files=tuple(map(moved, record.config_files)),
    )


def take_over(record: ExperimentRecord) -> ExperimentRecord:
    """Write down, there and on the user's list, that an experiment lies where `record` says. Where another
    has its name, it gets a new one.

    Raises:
        RltuiError: if that cannot be written.
    """
    place = Path(record.output_dir)
    with suppress(RltuiError):  # one that is damaged has the name all the same
        other = find_experiment(record.name)
        if other is not None and not same_folder(other.output_dir, record.output_dir):
            record = replace(record, name=free_name(record.name, place))
    ControlFolder(place).write_record(record)
    return record
