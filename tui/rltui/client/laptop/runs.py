"""Runs of another machine, and runs of several machines in one list."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from threading import Condition
from typing import TYPE_CHECKING, Any

from rltui.base.questions import Question, question_of
from rltui.client.experiment import Experiment
from rltui.client.laptop.experiment import RemoteExperiment
from rltui.client.laptop.remote_object import RemoteObject
from rltui.client.laptop.server import OpenedExperiment, RemoteServer
from rltui.client.local_runs import LocalRuns
from rltui.client.runs import Runs
from rltui.client.transports.frames import Packet
from rltui.client.transports.ssh import HostLink
from rltui.core import hints
from rltui.core.metrics.series import SeriesSource
from rltui.core.rollouts.batches import RolloutSource
from rltui.core.runs.row import RunChange, RunRow
from rltui.errors import LinkDownError, RltuiError, UsageError

if TYPE_CHECKING:
    from rltui.client.laptop.run_feed import RunUpdate
    from rltui.core.runs.compare import Comparison
    from rltui.core.runs.queue import RunQueue
    from rltui.views.report import Draw

_FIRST_S = 5.0
"""Seconds that the first rows are waited for: a thread asks, and shows nothing meanwhile."""
_UNSEEN_S = 10.0
"""Seconds after which the list is not sent any more where nobody looks at it."""


class RemoteRuns(Runs):
    """`Runs` of one other machine. Thread-safe."""

    hosts: tuple[str, ...] = ()

    def __init__(self, link: HostLink, *, readonly: bool = False) -> None:
        self.link, self.host, self.readonly = link, link.host.name, readonly
        self._server = RemoteObject(link, "server")
        self._list = RemoteObject(link, "run list", whose=f"{self.host} (runs)")
        self._far = RemoteObject(link, "runs", readonly)
        self._changed = Condition()
        self._channel = 0
        self._by_id: dict[str, RunRow] = {}
        self._rows: tuple[RunRow, ...] | None = ()
        """Rows of the last call; `None`: outdated."""
        self._queue: RunQueue | None = None
        self._unconfirmed: set[str] = set()
        """Runs that were known when they began to be told, and have not been told yet."""
        self._viewed_at = 0.0
        self._problem = ""

    @property
    def trouble(self) -> str:
        return self.link.trouble() or self._problem

    def rows(self) -> tuple[RunRow, ...]:
        """The rows that came; the first call waits for them."""
        with self._changed:
            rows = self.current_rows()
            if self._queue is None and self._channel:
                self._changed.wait_for(
                    lambda: self._queue is not None or not self._channel or self._problem, _FIRST_S
                )
                rows = self.current_rows()
            return rows

    def current_rows(self) -> tuple[RunRow, ...]:
        """The rows that came up to now. From now on they are sent, for as long as somebody asks."""
        self._viewed_at = time.monotonic()
        with self._changed:
            if not self._channel:
                from rltui.client.laptop.run_feed import RunFeed  # an experiment's first frame need not wait

                self._unconfirmed = set(self._by_id)
                self._channel = self._list.send_for_all(self._take, RunFeed.rows)
            if self._rows is None:
                self._rows = tuple(self._by_id.values())
            return self._rows

    def _take(self, update: RunUpdate | RltuiError | None) -> None:
        """Called in the link's thread, or at once while the link is down."""
        with self._changed:
            if update is not None and not isinstance(update, RltuiError):
                self._take_rows(update)
                if time.monotonic() - self._viewed_at > _UNSEEN_S:
                    self._stop_telling()
            else:
                self._problem = update.title if update and not isinstance(update, LinkDownError) else ""
                self._stop_telling()
            self._changed.notify_all()

    def _stop_telling(self) -> None:
        channel, self._channel = self._channel, 0
        self.link.cancel(channel)

    def _take_rows(self, update: RunUpdate) -> None:
        removed_ids = set(update.gone)
        if update.queue is not None:
            self._queue = update.queue
        self._problem = ""
        self._unconfirmed -= {row.id for row in update.rows}
        self._by_id |= {row.id: replace(row, host=self.host) for row in update.rows}
        if update.is_whole:  # those of an earlier connection that were not told again are not there any more
            removed_ids |= self._unconfirmed
            self._unconfirmed = set()
        self._by_id = {id_: row for id_, row in self._by_id.items() if id_ not in removed_ids}
        self._rows = None

    def queue(self) -> RunQueue:
        """The queue as it came with the rows."""
        from rltui.core.runs.queue import RunQueue

        return self._queue or RunQueue()

    def ask_now(self, question: Question, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401
        return self._far.ask_now(question, arguments)

    def catch_up(self) -> tuple[str, ...]:
        try:
            return super().catch_up()
        except LinkDownError:
            return ()

    def change(self, id_: str, change: RunChange) -> RunRow:
        return replace(super().change(id_, change), host=self.host)

    def opened(self, answer: Packet) -> Experiment | None:
        """The experiment that was named as the link was opened; without a name, the only running one, `None`
        if there are none or several.
        """
        opened: OpenedExperiment | None = self._server.answer(question_of(RemoteServer.open), answer)
        return None if opened is None else RemoteExperiment(self.link, opened)

    def open(self, id_: str, *, again: bool = False) -> Experiment:
        return RemoteExperiment(
            self.link, self._server.call(RemoteServer.open_run, id_, again, self.readonly)
        )

    def row(self, id_: str) -> RunRow:
        if (row := self._by_id.get(id_)) is None:
            raise UsageError("that run is no longer in the index")
        return row

    def open_series(self, id_: str) -> SeriesSource:
        from rltui.client.laptop.series import RemoteSeries

        return RemoteSeries(self.link, f"{self.row(id_).control}/metrics")

    def open_rollouts(self, id_: str) -> RolloutSource:
        from rltui.client.laptop.rollouts import RemoteRollouts

        row = self.row(id_)
        return RemoteRollouts(self.link, row.run_dir or row.folder)

    def export(self, id_: str, folder: str, draw: Draw, *, samples: int) -> str:
        """Refused: a report is made of all files of a run."""
        del folder, draw, samples
        raise UsageError(
            f"a report is written on the run's machine, {self.host}",
            hint=hints.EXPORT_ON_HOST(host=self.host, run=self.row(id_).name),
        )


class AllRuns(Runs):
    """`Runs` of this machine and of others, in one list. Thread-safe."""

    host = ""

    def __init__(self, local_runs: LocalRuns, remote_runs: Sequence[RemoteRuns]) -> None:
        self._own, self._remote_runs = local_runs, tuple(remote_runs)
        self.readonly = local_runs.readonly
        self.hosts = tuple(remote.host for remote in remote_runs)
        self._row_lists: tuple[tuple[RunRow, ...], ...] = ()
        self._rows: tuple[RunRow, ...] = ()

    @property
    def trouble(self) -> str:
        return "; ".join(remote.trouble for remote in self._remote_runs if remote.trouble)

    def rows(self) -> tuple[RunRow, ...]:
        """A run that two machines have, through a shared folder, is the first one's."""
        for remote in self._remote_runs:
            remote.link.begin()
        row_lists = (self._own.rows(), *(remote.current_rows() for remote in self._remote_runs))
        if len(row_lists) != len(self._row_lists) or any(
            new is not old for new, old in zip(row_lists, self._row_lists, strict=True)
        ):
            self._row_lists = row_lists
            by_id: dict[str, RunRow] = {}
            for rows in row_lists:
                for row in rows:
                    by_id.setdefault(row.id, row)
            self._rows = tuple(by_id.values())
        return self._rows

    def _owner(self, id_: str) -> Runs:
        owners: tuple[Runs, ...] = (self._own, *self._remote_runs)
        for owner, rows in zip(owners, self._row_lists, strict=False):
            if any(row.id == id_ for row in rows):
                return owner
        return self._own  # which says that there is none

    def _by_owner(self, ids: Iterable[str]) -> dict[Runs, list[str]]:
        ids_by_owner: dict[Runs, list[str]] = {}
        for id_ in ids:
            ids_by_owner.setdefault(self._owner(id_), []).append(id_)
        return ids_by_owner

    def catch_up(self) -> tuple[str, ...]:
        reachable: list[Runs] = [remote for remote in self._remote_runs if remote.link.is_up]
        return tuple(text for runs in [self._own, *reachable] for text in runs.catch_up())

    def configs(self, ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """Configs of runs whose machine cannot be reached are empty."""
        configs: dict[str, Mapping[str, Any]] = {}
        for owner, own_ids in self._by_owner(ids).items():
            try:
                configs |= owner.configs(own_ids)
            except LinkDownError:
                configs |= {id_: {} for id_ in own_ids}
        return configs

    def ask_now(self, question: Question, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """Asks the machine that has the run, or this one where the question is about none."""
        id_ = arguments.get("id_")
        return getattr(self._own if id_ is None else self._owner(id_), question.name)(**arguments)

    def queue(self) -> RunQueue:
        """The queue of this machine."""
        return self._own.queue()

    def open(self, id_: str, *, again: bool = False) -> Experiment:
        return self._owner(id_).open(id_, again=again)

    def compare(self, ids: Sequence[str], metrics: Sequence[str] = ()) -> Comparison:
        from rltui.core.runs.compare import compared_evals, compared_metrics, comparison

        owners = self._by_owner(ids)
        if len(owners) == 1:
            return next(iter(owners)).compare(ids, metrics)
        rows_by_id: dict[str, RunRow] = {row.id: row for row in self.rows()}
        if not rows_by_id.keys() >= {*ids}:
            raise UsageError("one of these runs is no longer in the index")
        rows = [rows_by_id[id_] for id_ in ids]
        series = [self.open_series(id_) for id_ in ids]
        for source in series:
            source.poll()
        by_run = [self._owner(id_).compare([id_]).evaluations for id_ in ids]
        evaluations = [
            [
                source
                for metrics_of_runs in evals
                for source in metrics_of_runs.evaluations
                if source is not None
            ]
            for evals in by_run
        ]
        metrics_of_runs = compared_metrics(rows, series, metrics)
        return comparison(rows, self.configs(ids), metrics_of_runs, compared_evals(evaluations))

    def open_series(self, id_: str) -> SeriesSource:
        return self._owner(id_).open_series(id_)

    def open_rollouts(self, id_: str) -> RolloutSource:
        return self._owner(id_).open_rollouts(id_)

    def export(self, id_: str, folder: str, draw: Draw, *, samples: int) -> str:
        return self._owner(id_).export(id_, folder, draw, samples=samples)
