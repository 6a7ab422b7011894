"""`Runs` of this machine, over the index, and from there to a single one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltui import paths
from rltui.client import launch
from rltui.client.local_experiment import LocalExperiment
from rltui.client.runs import Runs
from rltui.core import hints
from rltui.errors import ConflictError, RltuiError, UsageError
from rltui.services.experiment.files import ControlFolder, same_folder
from rltui.services.experiment.registry import find_experiment
from rltui.services.metrics.store import SeriesReader
from rltui.services.own_files import file_fingerprint

if TYPE_CHECKING:
    from rltui.core.metrics.series import SeriesSource
    from rltui.core.rollouts.batches import RolloutSource
    from rltui.core.runs.bench import Bench
    from rltui.core.runs.compare import Comparison
    from rltui.core.runs.forks import ForkPlan, ForkRequest
    from rltui.core.runs.queue import QueueAction, RunQueue
    from rltui.core.runs.row import RunChange, RunRow
    from rltui.services.runs.index import RunIndex
    from rltui.services.runs.query import RunQuery
    from rltui.views.report import Draw

_MEASURING_S = 3.0
"""Time limit of each `catch_up`: the sizes of large folders may come later."""


class LocalRuns(Runs):
    """The index answers what `Runs` asks. Thread-safe: one thread at a time uses the connection.

    Most imports are lazy: an experiment's first frame need not wait for them.
    """

    host = ""
    trouble = ""
    hosts: tuple[str, ...] = ()

    def __init__(self, index: RunIndex | None = None, *, readonly: bool = False) -> None:
        """`index`: by default the user's, which is opened at the first call."""
        self.readonly = readonly
        self._index_argument = index
        self._lock = threading.Lock()
        self._stamp: tuple[int, object, frozenset[int]] = (-1, None, frozenset())
        """State behind the rows: revision of the index, fingerprint of the queue, silent supervisors."""
        self._by_id: dict[str, RunRow] = {}
        self._rows: tuple[RunRow, ...] = ()

    @cached_property
    def _index(self) -> RunIndex:
        from rltui.services.runs.index import RunIndex

        return self._index_argument or RunIndex()

    def rows(self) -> tuple[RunRow, ...]:
        from rltui.services.runs.index import current_rows, silent_supervisors

        with self._lock:
            revision, queue = self._index.revision(), file_fingerprint(paths.queue_file())
            silent = silent_supervisors(self._by_id.values())
            if (revision, queue, silent) == self._stamp:
                return self._rows
            last_revision = self._stamp[0]
            if revision < last_revision:  # it was made anew, by somebody who may not know the folders
                from rltui.services.runs import catalog

                last_revision, self._by_id = -1, {}
                if not self._index.is_whole:
                    catalog.catch_up(self._index)
                    revision = self._index.revision()
            changed_rows = {row.id: row for row in self._index.rows(last_revision)}
            ids = self._index.ids()
            if not ids <= self._by_id.keys() | changed_rows.keys():  # it was made anew, and has grown since
                changed_rows = {row.id: row for row in self._index.rows()}
            self._by_id = {id_: row for id_, row in (self._by_id | changed_rows).items() if id_ in ids}
            self._stamp = (revision, queue, silent)
            self._rows = tuple(current_rows(self._by_id.values()))
            return self._rows

    def select(self, query: RunQuery) -> Sequence[str]:
        with self._lock:
            return self._index.select_ids(query)

    def catch_up(self) -> tuple[str, ...]:
        from rltui.services.runs import catalog
        from rltui.services.runs.index import RunIndex

        with self._lock:
            messages = catalog.catch_up(self._index).messages
        with suppress(RltuiError):  # it is tried again
            catalog.measure(RunIndex(self._index.path), within_s=_MEASURING_S)
        return messages

    def find(self, reference: str) -> str:
        """Id of the run that a reference means, after a look at the folders.

        Raises:
            UsageError: as `references.find_run`.
        """
        from rltui.services.runs import catalog
        from rltui.services.runs.references import find_run

        with self._lock:
            catalog.catch_up(self._index)
            return find_run(self._index, reference).id

    def configs(self, ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        with self._lock:
            return self._index.configs(ids)

    def change(self, id_: str, change: RunChange) -> RunRow:
        from rltui.services.runs.organize import change_run

        if self.readonly:
            raise ConflictError("read-only client", code="read_only")
        row = self._row(id_)
        if change.name is not None:
            self._end_idle_supervisor(row)
        with self._lock:
            return change_run(self._index, row, change)

    @staticmethod
    def _end_idle_supervisor(row: RunRow) -> None:
        """A supervisor has the name of its experiment for as long as it lives."""
        from rltui.client.down import stop_idle_supervisor
        from rltui.services.runs.catalog import record_of

        with suppress(RltuiError):  # `change_run` says what is wrong
            stop_idle_supervisor(record_of(row))

    def _row(self, id_: str) -> RunRow:
        row = next((listed_row for listed_row in self.rows() if listed_row.id == id_), None)
        if row is None:
            raise UsageError("that run is no longer in the index", hint=f"{hints.RUNS} lists all")
        return row

    def open(self, id_: str, *, again: bool = False) -> LocalExperiment:
        from rltui.services.runs.catalog import record_of

        row = self._row(id_)
        record = record_of(row)
        if launch.has_supervisor(record):
            return LocalExperiment(record, readonly=self.readonly)
        if not again or self.readonly:
            return LocalExperiment(record, readonly=self.readonly, finished=True)
        same_name = find_experiment(record.name)
        if same_name is None or not same_folder(same_name.output_dir, record.output_dir):
            where = "in the trash" if row.trashed_at is not None else "no longer on the list of experiments"
            raise ConflictError(
                f"cannot restart {record.name}: the run is {where}"
                if same_name is None
                else f"the name {record.name} is taken by the experiment in {same_name.output_dir}",
                hint=f"a new run with its config: {hints.RERUN(run=row.id)}",
            )
        experiment = LocalExperiment(record)
        asyncio.run(experiment.start_supervisor())
        return experiment

    # --- beside each other --------------------------------------------------------------------------------

    def compare(self, ids: Sequence[str], metrics: Sequence[str] = ()) -> Comparison:
        from rltui.core.runs.compare import compared_evals, compared_metrics, comparison
        from rltui.services.runs.evaluations import EvalFolder

        rows = [self._row(id_) for id_ in ids]
        metrics_of_runs = compared_metrics(rows, [self._series(row) for row in rows], metrics)
        evaluations = [EvalFolder(ControlFolder(Path(row.control).parent)).ended() for row in rows]
        return comparison(rows, self.configs(ids), metrics_of_runs, compared_evals(evaluations))

    # --- another one --------------------------------------------------------------------------------------

    def plan_fork(self, id_: str, wish: ForkRequest) -> ForkPlan:
        from rltui.client.fork import plan_fork  # knows the frameworks

        with plan_fork(self._row(id_), wish) as prepared_fork:
            return prepared_fork.plan

    def fork(self, id_: str, wish: ForkRequest) -> tuple[str, ...]:
        from rltui.client import starting
        from rltui.client.fork import plan_fork, request_of_fork
        from rltui.client.queue import commands
        from rltui.core.runs.queue import QueueOptions

        if self.readonly:
            raise ConflictError("read-only client", code="read_only")
        row = self._row(id_)
        if not wish.is_queued:
            order = starting.StartOrder(request=request_of_fork(row, wish), needs_memory=True)
            return starting.start_in_subprocess(order).notes
        with plan_fork(row, wish) as planned:
            commands.add_to_queue([commands.fork_for_queue(planned)], QueueOptions())
        return ()

    def start_demo(self) -> str:
        from rltui.client import demo, starting  # know the frameworks
        from rltui.services.runs import catalog

        if self.readonly:
            raise ConflictError("read-only client", code="read_only")
        folder = starting.start_in_subprocess(demo.demo_order(Path(demo.FOLDER).absolute())).output_dir
        with self._lock:
            catalog.read_folders(self._index, [Path(folder)])
            row = self._index.in_folder(folder)
        if row is None:
            raise RltuiError(f"the demo runs in {folder}, but is not in the index of runs")
        return row.id

    def open_series(self, id_: str) -> SeriesSource:
        return self._series(self._row(id_))

    @staticmethod
    def _series(row: RunRow) -> SeriesReader:
        return SeriesReader(ControlFolder(Path(row.control).parent).series)

    def open_rollouts(self, id_: str) -> RolloutSource:
        from rltui.services.rollouts import open_rollouts

        row = self._row(id_)
        return open_rollouts(Path(row.run_dir or row.folder))

    def export(self, id_: str, folder: str, draw: Draw, *, samples: int) -> str:
        from rltui.client.report import ReportSources, write_report  # knows the config files

        row = self._row(id_)
        parent = next((listed_row for listed_row in self.rows() if listed_row.id == row.parent), None)
        sources = ReportSources(
            run=row,
            parent=parent,
            comparison=self.compare([id_] if parent is None else [parent.id, id_]),
            series=self._series(row),
            rollouts=self.open_rollouts(id_),
        )
        return str(write_report(sources, Path(folder) if folder else None, draw, samples=samples))

    # --- agents and the queue -------------------------------------------------------------------------------

    def pause_agents(self) -> str:
        from rltui.services.experiment.rights import pause_text, set_pause

        if self.readonly:
            raise ConflictError("read-only client")
        set_pause(is_paused=not pause_text())
        return pause_text()

    def queue(self) -> RunQueue:
        from rltui.services.runs.queue_file import read_queue

        return read_queue()

    def benches(self) -> tuple[Bench, ...]:
        from rltui.services.runs.bench_file import read_benches

        return read_benches()

    def change_queue(self, action: QueueAction, entry: str = "", *, place: str = "") -> None:
        """Changes the file of the queue, which its daemon watches."""
        from rltui.client.queue import commands

        if self.readonly:
            raise ConflictError("read-only client", code="read_only")
        match action:
            case "pause":
                commands.pause()
            case "resume":
                commands.resume()
            case "remove":
                commands.remove([entry])
            case "retry":
                commands.retry([entry])
            case "move":
                commands.move(entry, place)
