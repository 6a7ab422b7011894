"""All runs of another machine, and those of several machines in one list."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from threading import Condition
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter

from rltui.client.laptop import calls
from rltui.client.laptop.experiment import RemoteExperiment
from rltui.client.local_runs import LocalRuns
from rltui.client.protocol import Experiment, Runs
from rltui.client.transports.frames import Packet, understood
from rltui.client.transports.ssh import HostLink
from rltui.core import hints
from rltui.core.rollouts import RolloutSource
from rltui.core.runs import RunChange, RunMetadata, RunRow
from rltui.core.series import SeriesSource
from rltui.errors import LinkDownError, RltuiError, UsageError

if TYPE_CHECKING:
    from rltui.core.compare import Comparison
    from rltui.core.forks import ForkPlan, ForkRequest
    from rltui.core.queue import QueueAction, RunQueue
    from rltui.core.report import Draw

_Answer = TypeVar("_Answer")
_FIRST_S = 5.0
"""For the first rows: who asks is a thread, and shows nothing meanwhile."""
_UNSEEN_S = 10.0
"""The list is not told any more when nobody has looked at it for so long."""


class OwnFiles:
    """The part of `Runs` that is the person's own, and of this machine, wherever the runs are."""

    def __init__(self, own: LocalRuns) -> None:
        self._own = own
        self.readonly = own.readonly
        self.kept, self.keep = own.kept, own.keep
        self.give_to_tmux, self.keep_copy = own.give_to_tmux, own.keep_copy
        self.settings, self.edit_settings = own.settings, own.edit_settings
        self.replace_settings = own.replace_settings


class RemoteRuns(OwnFiles):
    """`Runs` of one other machine. For threads."""

    hosts: tuple[str, ...] = ()

    def __init__(self, link: HostLink, own: LocalRuns) -> None:
        """`own`: of this machine, for what is the person's own."""
        super().__init__(own)
        self.link, self.host = link, link.host.name
        self._changed = Condition()
        self._channel = 0
        self._known: dict[str, RunRow] = {}
        self._rows: tuple[RunRow, ...] | None = ()
        """As they were asked for last; `None`: something has changed since."""
        self._queue: RunQueue | None = None
        self._before: set[str] = set()
        """Runs that were known when they began to be told, and have not been told yet."""
        self._looked_at = 0.0
        self._problem = ""

    @property
    def trouble(self) -> str:
        return self.link.told() or self._problem

    def rows(self) -> tuple[RunRow, ...]:
        """Those that were told; the first time, once they were."""
        with self._changed:
            found = self.told_rows()
            if self._queue is None and self._channel:
                self._changed.wait_for(
                    lambda: self._queue is not None or not self._channel or self._problem, _FIRST_S
                )
                found = self.told_rows()
            return found

    def told_rows(self) -> tuple[RunRow, ...]:
        """Those that were told up to now. From now on they are, for as long as somebody asks."""
        self._looked_at = time.monotonic()
        with self._changed:
            if not self._channel:
                self._before = set(self._known)
                self._channel = self.link.ask(self._take, "rows", None)
            if self._rows is None:
                self._rows = tuple(self._known.values())
            return self._rows

    def _take(self, answer: Packet | RltuiError) -> None:
        """From the link's thread; or at once, where it is down."""
        with self._changed:
            if isinstance(answer, RltuiError):
                self._channel = 0
                self._problem = "" if isinstance(answer, LinkDownError) else answer.title
            else:
                self._take_rows(answer.data)
                if time.monotonic() - self._looked_at > _UNSEEN_S:
                    self._channel = 0
                    self.link.cancel(answer.channel)
            self._changed.notify_all()

    def _take_rows(self, said: Any) -> None:  # noqa: ANN401 - JSON
        from rltui.core.queue import RunQueue

        try:
            with understood(f"{self.host}, of its runs,"):
                new = [_row(each) for each in said["rows"]]
                gone = set(map(str, said["gone"]))
                if said["queue"] is not None:
                    self._queue = RunQueue.model_validate(said["queue"])
                is_whole = bool(said["is_whole"])
        except RltuiError as error:
            self._problem = error.title
            return
        self._problem = ""
        self._before -= {row.id for row in new}
        self._known |= {row.id: replace(row, host=self.host) for row in new}
        if is_whole:  # those of an earlier connection that were not told again are not there any more
            gone |= self._before
            self._before = set()
        self._known = {id_: row for id_, row in self._known.items() if id_ not in gone}
        self._rows = None

    def queue(self) -> RunQueue:
        """As it was told with the rows."""
        from rltui.core.queue import RunQueue

        return self._queue or RunQueue()

    def _ask(self, method: Callable[..., _Answer], *arguments: object, **named: object) -> _Answer:
        call = calls.of_runs(method.__name__)
        given = call.asked(arguments, named)
        asked = {"name": method.__name__, "readonly": self.readonly, "arguments": given}
        result: _Answer = call.result(self.link.call("runs", asked).data)
        return result

    def catch_up(self) -> tuple[str, ...]:
        """There. Nothing, while nobody can be asked: that is told all the time."""
        try:
            return self._ask(Runs.catch_up)
        except LinkDownError:
            return ()

    def configs(self, ids: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        return self._ask(Runs.configs, [*ids])

    def change(self, id_: str, change: RunChange) -> RunRow:
        return replace(self._ask(Runs.change, id_, change), host=self.host)

    def opened(self, answer: Packet) -> Experiment | None:
        """What was named when the link was opened; of no name the only one that lives, `None` where it is not
        just one.
        """
        return None if answer.data is None else RemoteExperiment(self.link, answer.data)

    def open(self, id_: str, *, again: bool = False) -> Experiment:
        said = self.link.call("open", {"word": id_, "is_id": True, "again": again, "readonly": self.readonly})
        return RemoteExperiment(self.link, said.data)

    def compare(self, ids: Sequence[str], metrics: Sequence[str] = ()) -> Comparison:
        return self._ask(Runs.compare, [*ids], [*metrics])

    def plan_fork(self, id_: str, wish: ForkRequest) -> ForkPlan:
        return self._ask(Runs.plan_fork, id_, wish)

    def fork(self, id_: str, wish: ForkRequest) -> tuple[str, ...]:
        return self._ask(Runs.fork, id_, wish)

    def row(self, id_: str) -> RunRow:
        if (row := self._known.get(id_)) is None:
            raise UsageError("that run is not in the index any more")
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
            f"a report is written where the run is, on {self.host}",
            hint=hints.EXPORT_ON_HOST(host=self.host, run=self.row(id_).name),
        )

    def change_queue(self, action: QueueAction, entry: str = "", *, place: str = "") -> None:
        self._ask(Runs.change_queue, action, entry, place=place)


@cache
def _adapter() -> TypeAdapter[RunRow]:
    return TypeAdapter(RunRow)


def _row(said: object) -> RunRow:
    """Raises ValueError where that is none."""
    RunMetadata.parsed(said)
    return _adapter().validate_python(said)


class AllRuns(OwnFiles):
    """`Runs` of this machine and of others, in one list. For threads."""

    host = ""

    def __init__(self, own: LocalRuns, others: Sequence[RemoteRuns]) -> None:
        super().__init__(own)
        self.queue, self.change_queue = own.queue, own.change_queue
        self._others = tuple(others)
        self.hosts = tuple(other.host for other in others)
        self._parts: tuple[tuple[RunRow, ...], ...] = ()
        self._rows: tuple[RunRow, ...] = ()

    @property
    def trouble(self) -> str:
        return "; ".join(other.trouble for other in self._others if other.trouble)

    def rows(self) -> tuple[RunRow, ...]:
        """One that two of them have, through a folder that they share, is that of the first."""
        for other in self._others:
            other.link.begin()
        parts = (self._own.rows(), *(other.told_rows() for other in self._others))
        if len(parts) != len(self._parts) or any(
            new is not old for new, old in zip(parts, self._parts, strict=True)
        ):
            self._parts = parts
            by_id: dict[str, RunRow] = {}
            for part in parts:
                for row in part:
                    by_id.setdefault(row.id, row)
            self._rows = tuple(by_id.values())
        return self._rows

    def _owner(self, id_: str) -> Runs:
        owners: tuple[Runs, ...] = (self._own, *self._others)
        for owner, part in zip(owners, self._parts, strict=False):
            if any(row.id == id_ for row in part):
                return owner
        return self._own  # which says that there is none

    def _by_owner(self, ids: Iterable[str]) -> dict[Runs, list[str]]:
        found: dict[Runs, list[str]] = {}
        for id_ in ids:
            found.setdefault(self._owner(id_), []).append(id_)
        return found

    def catch_up(self) -> tuple[str, ...]:
        up: list[Runs] = [other for other in self._others if other.link.is_up]
        return tuple(text for runs in [self._own, *up] for text in runs.catch_up())

    def configs(self, ids: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        """Those of a machine that cannot be reached are empty."""
        found: dict[str, Mapping[str, Any]] = {}
        for owner, own in self._by_owner(ids).items():
            try:
                found |= owner.configs(own)
            except LinkDownError:
                found |= {id_: {} for id_ in own}
        return found

    def change(self, id_: str, change: RunChange) -> RunRow:
        return self._owner(id_).change(id_, change)

    def open(self, id_: str, *, again: bool = False) -> Experiment:
        return self._owner(id_).open(id_, again=again)

    def compare(self, ids: Sequence[str], metrics: Sequence[str] = ()) -> Comparison:
        from rltui.core.compare import compared_evals, compared_metrics, comparison

        owners = self._by_owner(ids)
        if len(owners) == 1:
            return next(iter(owners)).compare(ids, metrics)
        known: dict[str, RunRow] = {row.id: row for row in self.rows()}
        if not known.keys() >= {*ids}:
            raise UsageError("one of these runs is not in the index any more")
        rows = [known[id_] for id_ in ids]
        series = [self.open_series(id_) for id_ in ids]
        for each in series:
            each.look()
        own = [self._owner(id_).compare([id_]).evaluations for id_ in ids]
        ended = [[each for found in evals for each in found.evaluations if each is not None] for evals in own]
        found = compared_metrics(rows, series, metrics)
        return comparison(rows, self.configs(ids), found, compared_evals(ended))

    def plan_fork(self, id_: str, wish: ForkRequest) -> ForkPlan:
        return self._owner(id_).plan_fork(id_, wish)

    def fork(self, id_: str, wish: ForkRequest) -> tuple[str, ...]:
        return self._owner(id_).fork(id_, wish)

    def open_series(self, id_: str) -> SeriesSource:
        return self._owner(id_).open_series(id_)

    def open_rollouts(self, id_: str) -> RolloutSource:
        return self._owner(id_).open_rollouts(id_)

    def export(self, id_: str, folder: str, draw: Draw, *, samples: int) -> str:
        return self._owner(id_).export(id_, folder, draw, samples=samples)
