"""All runs as clients see them: over the index, and from there to a single one."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rltui.client import launch
from rltui.client.connection import SupervisedExperiment
from rltui.client.protocol import Experiment
from rltui.core.run_columns import RunView
from rltui.core.runs import RunChange, RunRow
from rltui.errors import RltuiError, UsageError
from rltui.services.runs import run_view
from rltui.services.runs.experiment_files import ControlFolder
from rltui.services.runs.index import RunIndex


class KnownRuns:
    """`Runs` over the index. For any thread: one at a time uses the connection."""

    def __init__(self, index: RunIndex | None = None, *, readonly: bool = False) -> None:
        """Without an index, the user's."""
        self.readonly = readonly
        self._index = index or RunIndex()
        self._lock = threading.Lock()
        self._stamp = -1
        self._by_id: dict[str, RunRow] = {}
        self._rows: tuple[RunRow, ...] = ()

    def rows(self) -> tuple[RunRow, ...]:
        """All of them. Only what has changed is read."""
        with self._lock:
            stamp = self._index.stamp()
            if stamp == self._stamp:
                return self._rows
            if stamp < self._stamp:  # it was made anew
                self._stamp, self._by_id = -1, {}
            changed = {row.id: row for row in self._index.rows(self._stamp)}
            known = self._index.ids()
            if not known <= self._by_id.keys() | changed.keys():  # it was made anew, and has grown since
                changed = {row.id: row for row in self._index.rows()}
            self._by_id = {id_: row for id_, row in (self._by_id | changed).items() if id_ in known}
            self._stamp, self._rows = stamp, tuple(self._by_id.values())
            return self._rows

    def catch_up(self) -> tuple[str, ...]:
        """What is on the disk counts."""
        return ()

    def configs(self, ids: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        """Of these."""
        with self._lock:
            return self._index.configs(ids)

    def change(self, id_: str, change: RunChange) -> RunRow:
        """In its sheet, and in the index."""
        from rltui.services.runs import keeping

        with self._lock:
            row = self._found(id_)
            if change.add_tags or change.remove_tags:
                row = keeping.set_tags(self._index, row, add=change.add_tags, remove=change.remove_tags)
            if change.note is not None:
                row = keeping.set_note(self._index, row, change.note)
            if change.is_best is not None:
                row = keeping.set_best(self._index, row, change.is_best)
            if change.is_archived is not None:
                row = (keeping.archive if change.is_archived else keeping.unarchive)(self._index, row)
            if change.is_trashed is not None:
                row = (keeping.trash if change.is_trashed else keeping.restore)(self._index, row)
            return row

    def _found(self, id_: str) -> RunRow:
        """As the index has it now."""
        row = next((each for each in self._index.named(id_) if each.id == id_), None)
        if row is None:
            raise UsageError("that run is not in the index any more", hint="rltui runs lists those that are")
        return row

    def view(self) -> RunView:
        """Also that of the command line."""
        return run_view.read_view()

    def keep_view(self, view: RunView) -> None:
        """For the command line too."""
        run_view.keep_view(view)

    def open(self, id_: str, *, again: bool = False) -> Experiment:
        """Through its supervisor, or from its files."""
        row = next((each for each in self.rows() if each.id == id_), None)
        if row is None:
            raise UsageError("that run is not in the index any more", hint="rltui runs lists those that are")
        record = ControlFolder(Path(row.folder)).read_record()
        if record is None:
            raise RltuiError(f"nothing is known of the run in {row.folder}", hint=row.problem)
        may_start = again or launch.is_alive(record)
        return SupervisedExperiment(record, readonly=self.readonly or not may_start)
