"""Answers another machine's questions about the experiments, runs, logs, metrics and rollouts of this one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from rltui.base.questions import Question, questions_of, remote_method
from rltui.base.values import from_plain
from rltui.client import launch
from rltui.client.experiment import Description, Event, Experiment
from rltui.client.laptop.log_feed import KnownLine, LogFeed, LogUpdate
from rltui.client.local_experiment import LocalExperiment
from rltui.client.local_runs import LocalRuns
from rltui.client.runs import Runs
from rltui.client.transports.frames import chunks
from rltui.core.experiment.api import EVENT_MODELS, EventKind
from rltui.core.logs.lines import Level
from rltui.core.logs.query import Query
from rltui.core.logs.source import LogEntry, LogHit
from rltui.errors import RltuiError
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.experiment.registry import find_experiment

_LOG_POLL_S = 0.4
"""Poll interval of a log, as that of a log pane."""
_FIRST_EVENTS, _FIRST_S = 3, 1.0
"""Status, GPUs and knobs; and how long they are waited for when an experiment is opened."""
_PROGRESS_S = 0.5
"""Interval between two progress reports of a search."""
_MOST_HITS = 2000
"""Hits of a search in one item."""
_Item = TypeVar("_Item")
_KINDS = {model: kind for kind, model in EVENT_MODELS.items()}


@dataclass(frozen=True, slots=True)
class ExperimentAddress:
    """Address of an open experiment: enough to open it again after the link was lost."""

    output_dir: str
    supervised: bool
    """Through its supervisor; else from its files alone."""
    readonly: bool

    def as_json(self) -> dict[str, Any]:
        """The address of a `RemoteObject` of this experiment."""
        return asdict(self)


class PushedEvent(NamedTuple):
    """An event of an experiment, by its kind."""

    event: EventKind
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class OpenedExperiment:
    """First answer about an experiment that is opened."""

    handle: ExperimentAddress
    description: Description
    run_id: str
    run_dir: str
    series: str
    events: tuple[PushedEvent, ...]
    """First events, as far as they come at once: the first frame need not ask for them."""


@dataclass(frozen=True, slots=True)
class SearchUpdate:
    """Hits of a search since the last update, and its progress."""

    progress: float
    """Share of the log that is searched, from 0 to 1."""
    size: int
    """Number of bytes that are searched."""
    hits: tuple[LogHit, ...]


def event_of(push: PushedEvent) -> Event:
    """The event that was pushed at the other end."""
    event: Any = EVENT_MODELS[push.event].from_plain(push.data)
    return cast("Event", event)


class RemoteServer:
    """Opens what is asked for, and keeps what is looked at open, for one connection.

    Experiments, runs, logs, metrics and rollouts are asked themselves, by the methods of their classes; what
    is told for as long as somebody wants it is a stream of this one.
    """

    def __init__(self) -> None:
        self._runs = {False: LocalRuns(), True: LocalRuns(readonly=True)}
        """Keyed by whether they are read-only."""
        self._experiments: dict[ExperimentAddress, LocalExperiment] = {}
        self._logs: dict[int, LogFeed] = {}
        """Keyed by the number that the client gave them."""
        self._folders: dict[tuple[str, str], Any] = {}
        """Readers of metrics and rollouts, by kind and folder."""

    def owner(self, kind: str, address: Any) -> tuple[object, Mapping[str, Question]]:  # noqa: ANN401 - JSON
        """The object that answers and its questions. Blocks.

        Raises:
            RltuiError: if it does not exist, or there is no such kind.
        """
        if kind == "server":
            return self, questions_of(RemoteServer)
        if kind == "experiment":
            return self._experiment(from_plain(ExperimentAddress, address)), questions_of(Experiment)
        if kind == "runs":
            return self._runs[bool(address)], questions_of(Runs)
        if kind == "run list":
            from rltui.client.laptop.run_feed import RunFeed

            return RunFeed(self._runs[False]), questions_of(RunFeed)
        if kind == "log":
            if (log := self._logs.get(address)) is None:
                raise RltuiError("that log is no longer available")
            return log, questions_of(LogFeed)
        if kind == "series":
            from rltui.client.laptop.series import SeriesFeed

            return self._reader(kind, address, SeriesFeed), questions_of(SeriesFeed)
        if kind == "rollouts":
            from rltui.client.laptop.rollouts import RolloutFeed

            return self._reader(kind, address, RolloutFeed), questions_of(RolloutFeed)
        return None, {}

    def _reader(self, kind: str, address: object, make: Callable[[Path], object]) -> object:
        folder = str(address)
        if (kind, folder) not in self._folders:
            self._folders[kind, folder] = make(Path(folder))
        return self._folders[kind, folder]

    # --- experiments --------------------------------------------------------------------------------------

    @remote_method
    async def open(self, word: str, readonly: bool) -> OpenedExperiment | None:
        """An experiment or run by a word, or the only one that lives; `None` where that is not clear."""
        experiment = await asyncio.to_thread(self._find, word, readonly)
        return None if experiment is None else await self._opened(experiment, readonly)

    @remote_method
    async def open_run(self, id_: str, again: bool, readonly: bool) -> OpenedExperiment:
        """The run `id_`, as `Runs.open`."""
        experiment = await asyncio.to_thread(self._runs[readonly].open, id_, again=again)
        return await self._opened(experiment, readonly)

    def _find(self, name: str, readonly: bool) -> LocalExperiment | None:
        record = find_experiment(name) if name else launch.only_running()
        if record is not None:
            return self._through_supervisor(record, readonly=readonly)
        runs = self._runs[readonly]
        return runs.open(runs.find(name)) if name else None

    async def _opened(self, experiment: LocalExperiment, readonly: bool) -> OpenedExperiment:
        record = experiment.record
        handle = ExperimentAddress(record.output_dir, not experiment.finished, readonly)
        self._experiments[handle] = experiment
        return OpenedExperiment(
            handle=handle,
            description=experiment.description,
            run_id=await asyncio.to_thread(experiment.read_run_id),
            run_dir=record.run_dir,
            series=str(record.control.series),
            events=await self._first_events(handle),
        )

    async def _first_events(self, handle: ExperimentAddress) -> tuple[PushedEvent, ...]:
        pushes: list[PushedEvent] = []
        with contextlib.suppress(RltuiError, OSError, TimeoutError):
            async with asyncio.timeout(_FIRST_S), contextlib.aclosing(self.events(handle)) as events:
                async for push in events:
                    pushes.append(push)
                    if len(pushes) == _FIRST_EVENTS:
                        break
        return tuple(pushes)

    @staticmethod
    def _through_supervisor(record: ExperimentRecord, *, readonly: bool) -> LocalExperiment:
        if readonly and not launch.has_supervisor(record):
            raise launch.not_running(record.name)
        if not readonly:
            launch.connect_or_start(record).close()
        return LocalExperiment(record, readonly=readonly)

    def _experiment(self, handle: ExperimentAddress) -> LocalExperiment:
        """The experiment as it was opened, be it over an earlier connection. Blocks."""
        experiment = self._experiments.get(handle)
        if experiment is None:
            record = ControlFolder(Path(handle.output_dir)).read_record()
            if record is None:
                raise RltuiError(f"no experiment in {handle.output_dir}")
            experiment = self._experiments[handle] = LocalExperiment(
                record, readonly=handle.readonly, finished=not handle.supervised
            )
        return experiment

    @remote_method
    async def events(self, handle: ExperimentAddress) -> AsyncGenerator[PushedEvent, None]:
        """The events of an experiment, from the current state on."""
        experiment = await asyncio.to_thread(self._experiment, handle)
        async with contextlib.aclosing(experiment.events()) as events:
            async for event in events:
                yield PushedEvent(_KINDS[type(event)], event.to_plain())

    # --- logs ---------------------------------------------------------------------------------------------

    @remote_method
    async def log(
        self,
        number: int,
        handle: ExperimentAddress,
        path: str | None,
        entries: tuple[LogEntry, ...],
        known: KnownLine | None,
    ) -> AsyncIterator[LogUpdate]:
        """The end of a log, or of `entries` as one, and what is new. By `number`, as long as it is told, it
        is asked for more. `known`: a line that who asks has.
        """
        feed = self._logs[number] = await asyncio.to_thread(self._feed, handle, path, entries, known)
        try:
            while True:
                if (update := await asyncio.to_thread(feed.news)) is not None:
                    yield update
                await asyncio.sleep(_LOG_POLL_S)
        finally:
            del self._logs[number]
            feed.close()

    def _feed(
        self,
        handle: ExperimentAddress,
        path: str | None,
        entries: tuple[LogEntry, ...],
        known: KnownLine | None,
    ) -> LogFeed:
        experiment = self._experiment(handle)
        source = experiment.open_merged(entries) if path is None else experiment.open_log(path)
        return LogFeed(source, known)

    @remote_method
    async def search(
        self,
        handle: ExperimentAddress,
        path: str,
        query: str | None,
        level: Level | None,
        start: int,
        with_text: bool,
    ) -> AsyncIterator[SearchUpdate]:
        """Hits of a search in a log as they are found, and its progress."""
        from_text = None if query is None else Query.from_text(query)
        experiment = await asyncio.to_thread(self._experiment, handle)
        scan = experiment.search_log(path, from_text, level, start)
        batches = (chunk for batch in scan.batches() for chunk in chunks(batch, _MOST_HITS))
        try:
            async for batch in items_in_threads(batches, pause_s=_PROGRESS_S):
                hits = tuple(hit if with_text else hit._replace(text="") for hit in batch or [])
                yield SearchUpdate(scan.progress, scan.size, hits)
        finally:
            scan.cancel()


async def items_in_threads(
    items: Iterator[_Item], pause_s: float | None = None
) -> AsyncGenerator[_Item | None, None]:
    """Iterate a blocking iterator in threads. With `pause_s`, `None` where the next item takes longer."""
    while True:
        next_item = asyncio.create_task(asyncio.to_thread(next, items, _OVER))
        while not (await asyncio.wait([next_item], timeout=pause_s))[0]:
            yield None
        item = next_item.result()
        if item is _OVER:
            return
        yield item


_OVER: Any = object()
