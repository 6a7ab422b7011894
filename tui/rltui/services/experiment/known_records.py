"""The user's list of experiments as it was last read, kept in the index of runs: of thousands of entries only
those are opened that have changed. The files count; without the index all of them are opened.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.errors import RltuiError
from rltui.services.experiment.files import ExperimentRecord, copy_on_list, list_dir
from rltui.services.own_files import foreign_folder_reason

if TYPE_CHECKING:
    from rltui.services.runs.index import RunIndex

_RACY_NS = 2 * 10**9
"""A file that was changed so recently may change again without another time of change."""

FileMark = tuple[int, int, int]
"""Inode, time of change (which nobody can set) and size of a file."""


def file_mark(path: Path) -> FileMark | None:
    """Return the mark of a file; `None` if there is none."""
    try:
        info = os.stat(path)  # noqa: PTH116 - a third faster, and there are thousands
    except OSError:
        return None
    return info.st_ino, info.st_ctime_ns, info.st_size


class KnownRecords:
    """Reads what the index has; `save` writes what was read anew."""

    def __init__(self, index: RunIndex) -> None:
        self._index = index
        self._known: dict[str, tuple[str, bytes]] = {}
        self._new: dict[str, tuple[str, bytes]] = {}
        with suppress(RltuiError):  # without it, all are opened
            self._known = index.listed()

    @classmethod
    def of_user(cls) -> KnownRecords:
        from rltui.services.runs.index import BRIEF_TIMEOUT_S, RunIndex  # sqlite: only where the list is long

        return cls(RunIndex(timeout_s=BRIEF_TIMEOUT_S))

    def record(self, name: str) -> ExperimentRecord | None:
        """The record of that name, where neither its entry nor the file in its folder has changed since."""
        if (known := self._known.get(name)) is None:
            return None
        mark, content = known
        try:
            record = copy_on_list(content)
        except ValueError:
            return None
        entry, own = file_mark(list_dir() / name), file_mark(record.control.record_file)
        if mark != _mark(entry, own) or record.name != name or foreign_folder_reason(record.control.path):
            return None
        return record

    def add(self, name: str, content: bytes, entry: FileMark | None, own: FileMark | None) -> None:
        """An entry that equals the record in the folder, and the marks of both before they were read."""
        if entry is None or own is None or max(entry[1], own[1]) > time.time_ns() - _RACY_NS:
            return
        self._new[name] = _mark(entry, own), content.partition(b"\n")[0]

    def save(self, names: Collection[str]) -> None:
        """`names`: of all on the list; others are forgotten."""
        if self._new or not self._known.keys() <= frozenset(names):
            with suppress(RltuiError):  # they are opened again
                self._index.keep_listed(self._new, names)


def _mark(entry: FileMark | None, own: FileMark | None) -> str:
    return f"{entry} {own}"
