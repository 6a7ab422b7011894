"""What somebody far away is told of the experiments, runs, logs, metrics and rollouts of this machine.

A question comes as JSON of the other end, and is answered as JSON and bytes, or by items for as long as
somebody wants them. What blocks goes to threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import TypeAdapter

from rltui.client import launch
from rltui.client.connection import SupervisedExperiment
from rltui.client.laptop import calls
from rltui.client.laptop.log_feed import KnownLine, LogFeed
from rltui.client.local_runs import LocalRuns
from rltui.client.protocol import Experiment
from rltui.client.reading import ReadExperiment
from rltui.core.api import EVENT_MODELS
from rltui.core.lines import Level, LogEntry
from rltui.core.log_query import Query
from rltui.core.rollouts import RolloutSource
from rltui.core.runs import RunRow
from rltui.errors import RltuiError, UsageError
from rltui.services.metrics.store import SeriesReader
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.runs.experiments import find_experiment

_LOOK_AT_LOG_S = 0.4
"""Between two looks at a log: as often as a pane looks."""
_LOOK_AT_RUNS_S = 1.0
_FIRST_EVENTS, _FIRST_S = 3, 1.0
"""Status, GPUs and knobs; and how long they are waited for when an experiment is opened."""
_PROGRESS_S = 0.5
"""Between two words of how far a search is."""
_ROWS_AT_ONCE = 100
"""Of the index of runs, in one item."""
_SEARCHED_AT_ONCE = 20
"""Rollouts, in one item."""
_MOST_HITS = 2000
"""Of a search, in one item."""
_Found = TypeVar("_Found")
_KINDS = {model: kind for kind, model in EVENT_MODELS.items()}


@dataclass(frozen=True, slots=True)
class RemoteHandle:
    """What somebody looks at: enough to open it again after the link was lost."""

    output_dir: str
    supervised: bool
    """Through its supervisor; else from its files alone."""
    done: bool
    """It came to its end, as the index says; of a supervised one it does not matter."""
    readonly: bool


_OPENED: TypeAdapter[RemoteHandle] = TypeAdapter(RemoteHandle)


Answer = Callable[[Any], Coroutine[Any, Any, tuple[Any, bytes]]]
"""From a question to JSON and bytes."""
Telling = Callable[[int, Any], AsyncGenerator[Any, None]]
"""From the channel and the question to items of JSON."""


class RemoteServer:
    """By what is asked, how it is answered. Keeps what is looked at open, for one connection."""

    def __init__(self) -> None:
        self._runs = {False: LocalRuns(), True: LocalRuns(readonly=True)}
        """By whether they may only be looked at."""
        self._experiments: dict[RemoteHandle, Experiment] = {}
        self._feeds: dict[int, LogFeed] = {}
        """By the channel of who has them told."""
        self._series: dict[str, tuple[threading.Lock, SeriesReader]] = {}
        """By folder."""
        self._rollouts: dict[str, RolloutSource] = {}
        self.answers: Mapping[str, Answer] = {
            "open": self._open,
            "experiment": self._experiment_call,
            "run id": self._run_id,
            "journal": self._journal,
            "runs": self._runs_call,
            "log.lines": self._of_log(
                lambda feed, asked: feed.lines(int(asked["first"]), int(asked["stop"]))
            ),
            "log.at": self._of_log(lambda feed, asked: feed.at(int(asked["offset"]))),
            "log.older": self._of_log(lambda feed, _: feed.older()),
            "log.near": self._of_log(lambda feed, asked: feed.near(float(asked["at"]))),
            "series": self._series_told,
            "rollouts.look": self._of_rollouts("looked"),
            "rollouts.table": self._of_rollouts("tabled"),
            "rollouts.open": self._of_rollouts("opened"),
        }
        self.tellings: Mapping[str, Telling] = {
            "events": self._events,
            "rows": self._rows,
            "log": self._log,
            "search": self._search,
            "rollouts.search": self._rollouts_searched,
            "rollouts.same": self._rollouts_same,
        }

    # --- experiments --------------------------------------------------------------------------------------

    async def _open(self, asked: Any) -> tuple[Any, bytes]:  # noqa: ANN401 - JSON, as below
        """By the id of a run, a word, or the only one that lives; `None` where that is not clear."""
        said = await asyncio.to_thread(self._opened, asked)
        if said is not None:
            said["events"] = await self._first_events(said["key"])
        return said, b""

    async def _first_events(self, key: Any) -> list[Any]:  # noqa: ANN401
        """What is pushed first, as far as it comes at once: the first frame need not ask for it."""
        found: list[Any] = []
        with contextlib.suppress(RltuiError, OSError, TimeoutError):
            async with (
                asyncio.timeout(_FIRST_S),
                contextlib.aclosing(self._events(0, {"key": key})) as events,
            ):
                async for event in events:
                    found.append(event)
                    if len(found) == _FIRST_EVENTS:
                        break
        return found

    def _opened(self, asked: Any) -> dict[str, Any] | None:  # noqa: ANN401
        word, readonly, runs = (
            str(asked["word"]),
            bool(asked["readonly"]),
            self._runs[bool(asked["readonly"])],
        )
        experiment: Experiment | None
        if asked["is_id"]:
            experiment = runs.open(word, again=bool(asked["again"]))
        else:
            record = find_experiment(word) if word else launch.only_living()
            if record is not None:
                experiment = self._through_supervisor(record, readonly=readonly)
            elif not word:
                return None
            else:
                experiment = runs.open(runs.find(word))
        assert isinstance(experiment, ReadExperiment)
        record, is_done = experiment.record, bool(getattr(experiment, "is_done", False))
        key = RemoteHandle(record.output_dir, not experiment.finished, is_done, readonly)
        self._experiments[key] = experiment
        return {
            "key": _OPENED.dump_python(key),
            "name": experiment.name,
            "layout_name": experiment.layout_name,
            "screen": experiment.screen.model_dump(mode="json"),
            "readonly": experiment.readonly,
            "observed": experiment.observed,
            "finished": experiment.finished,
            "component_ids": experiment.component_ids,
            "log_ids": experiment.log_ids,
            "run_id": experiment.run_id,
            "run_dir": experiment.record.run_dir,
            "series": str(ControlFolder(Path(experiment.record.output_dir)).series),
        }

    @staticmethod
    def _through_supervisor(record: ExperimentRecord, *, readonly: bool) -> Experiment:
        if readonly and not launch.is_alive(record):
            raise launch.not_running(record.name)
        if not readonly:
            launch.reach(record).close()
        return SupervisedExperiment(record, readonly=readonly)

    def _experiment(self, key: Any) -> Experiment:  # noqa: ANN401
        """As it was opened, be it in an earlier connection. Blocks."""
        opened = _OPENED.validate_python(key)
        found = self._experiments.get(opened)
        if found is None:
            record = ControlFolder(Path(opened.output_dir)).read_record()
            if record is None:
                raise RltuiError(f"there is no experiment in {opened.output_dir} any more")
            if opened.supervised:
                found = SupervisedExperiment(record, readonly=opened.readonly)
            else:
                from rltui.client.finished import FinishedRun  # knows the frameworks

                found = FinishedRun(record, is_done=opened.done, may_write=not opened.readonly)
            self._experiments[opened] = found
        return found

    async def _experiment_call(self, asked: Any) -> tuple[Any, bytes]:  # noqa: ANN401
        name = asked["name"]
        if name not in calls.OF_EXPERIMENT:
            raise UsageError(f"nobody may ask {str(name)[:40]!r} from afar")
        experiment = await asyncio.to_thread(self._experiment, asked["key"])
        return await _called(experiment, calls.of_experiment(name), name, asked["arguments"]), b""

    async def _run_id(self, asked: Any) -> tuple[Any, bytes]:  # noqa: ANN401
        return await asyncio.to_thread(lambda: self._experiment(asked["key"]).run_id), b""

    async def _journal(self, asked: Any) -> tuple[Any, bytes]:  # noqa: ANN401
        """What was appended since so many entries."""
        experiment = await asyncio.to_thread(self._experiment, asked["key"])
        entries = await experiment.journal()
        known = int(asked["known"])
        is_same = 0 < known <= len(entries) and entries[known - 1].at == asked["last"]
        new = entries[known:] if is_same else entries
        return {"is_new": not is_same, "entries": [entry.model_dump(mode="json") for entry in new]}, b""

    async def _events(self, channel: int, asked: Any) -> AsyncGenerator[Any, None]:  # noqa: ANN401
        del channel
        experiment = await asyncio.to_thread(self._experiment, asked["key"])
        async with contextlib.aclosing(experiment.events()) as events:  # type: ignore[type-var]
            async for event in events:
                yield {"event": _KINDS[type(event)], "data": event.model_dump(mode="json")}

    # --- all runs -----------------------------------------------------------------------------------------

    async def _runs_call(self, asked: Any) -> tuple[Any, bytes]:  # noqa: ANN401
        name = asked["name"]
        if name not in calls.OF_RUNS:
            raise UsageError(f"nobody may ask {str(name)[:40]!r} from afar")
        runs = self._runs[bool(asked["readonly"])]
        return await _called(runs, calls.of_runs(name), name, asked["arguments"]), b""

    async def _rows(self, channel: int, asked: Any) -> AsyncGenerator[Any, None]:  # noqa: ANN401
        """All of them, the newest first, and then what changes; the queue with it."""
        del channel, asked
        runs = self._runs[False]
        rows: tuple[RunRow, ...] | None = None
        known: dict[str, RunRow] = {}
        queue: Any = None
        while True:
            now = await asyncio.to_thread(runs.rows)
            queued = (await asyncio.to_thread(runs.queue)).model_dump(mode="json")
            if now is not rows or queued != queue:
                changed = [row for row in now if known.get(row.id) is not row]
                changed.sort(key=lambda row: row.started_at or row.created_at, reverse=True)
                gone = known.keys() - {row.id for row in now}
                said = {"gone": sorted(gone), "queue": queued if queued != queue else None}
                rows, queue, known = now, queued, {row.id: row for row in now}
                parts = [*_parts(changed, _ROWS_AT_ONCE)]
                for number, part in enumerate(parts, 1):
                    told = [orjson.loads(orjson.dumps(row)) for row in part]
                    yield {**said, "rows": told, "is_whole": number == len(parts)}
                    said = {"gone": [], "queue": None}
            await asyncio.sleep(_LOOK_AT_RUNS_S)

    # --- logs ---------------------------------------------------------------------------------------------

    async def _log(self, channel: int, asked: Any) -> AsyncGenerator[Any, None]:  # noqa: ANN401
        """Its end, and what is new. Others may ask for more of it as long as it is told."""
        known = None if asked["known"] is None else KnownLine(**asked["known"])
        feed = self._feeds[channel] = await asyncio.to_thread(self._feed, asked, known)
        try:
            while True:
                if (news := await asyncio.to_thread(feed.news)) is not None:
                    yield news
                await asyncio.sleep(_LOOK_AT_LOG_S)
        finally:
            del self._feeds[channel]
            feed.close()

    def _feed(self, asked: Any, known: KnownLine | None) -> LogFeed:  # noqa: ANN401
        experiment = self._experiment(asked["key"])
        if asked["path"] is not None:
            return LogFeed(experiment.open_log(asked["path"]), known)
        return LogFeed(experiment.open_merged(tuple(LogEntry(**each) for each in asked["entries"])))

    def _of_log(self, answer: Callable[[LogFeed, Any], dict[str, Any]]) -> Answer:
        async def answered(asked: Any) -> tuple[Any, bytes]:  # noqa: ANN401
            if (feed := self._feeds.get(asked["log"])) is None:
                raise RltuiError("that log is not told any more")
            return await asyncio.to_thread(answer, feed, asked), b""

        return answered

    async def _search(self, channel: int, asked: Any) -> AsyncGenerator[Any, None]:  # noqa: ANN401
        """What is found, as it is found, and how far it is."""
        del channel
        query = None if asked["query"] is None else Query.typed(asked["query"])
        level = None if asked["level"] is None else Level(asked["level"])
        experiment = await asyncio.to_thread(self._experiment, asked["key"])
        searching = experiment.search_log(asked["path"], query, level, int(asked["start"]))

        def item(hits: list[Any]) -> dict[str, Any]:
            texts = [hit.text if asked["with_text"] else "" for hit in hits]
            place = {"progress": searching.progress, "size": searching.size}
            return {**place, "offsets": [hit.offset for hit in hits], "texts": texts}

        batches = (part for batch in searching.batches() for part in _parts(batch, _MOST_HITS))
        try:
            async for found in _followed(batches, pause_s=_PROGRESS_S):
                yield item(found or [])
        finally:
            searching.cancel()

    # --- metrics and rollouts -----------------------------------------------------------------------------

    async def _series_told(self, asked: Any) -> tuple[Any, bytes]:  # noqa: ANN401
        from rltui.client.laptop import series

        folder = str(asked["folder"])

        def answer() -> tuple[Any, bytes]:
            if folder not in self._series:
                self._series[folder] = (threading.Lock(), SeriesReader(Path(folder)))
            lock, reader = self._series[folder]
            with lock:
                return series.told(reader, asked["stamp"], asked["wanted"])

        return await asyncio.to_thread(answer)

    def _rollouts_of(self, asked: Any) -> RolloutSource:  # noqa: ANN401
        from rltui.services.runs.rollouts import open_rollouts

        folder = str(asked["folder"])
        return self._rollouts.setdefault(folder, open_rollouts(Path(folder)))

    def _of_rollouts(self, name: str) -> Answer:
        """By a function of `client/remote/rollouts.py`, which is loaded once somebody looks at rollouts."""

        async def answered(asked: Any) -> tuple[Any, bytes]:  # noqa: ANN401
            from rltui.client.laptop import rollouts

            said: tuple[Any, bytes] = await asyncio.to_thread(
                getattr(rollouts, name), self._rollouts_of(asked), asked
            )
            return said

        return answered

    async def _rollouts_searched(self, channel: int, asked: Any) -> AsyncGenerator[Any, None]:  # noqa: ANN401
        from rltui.client.laptop import rollouts

        del channel
        source = self._rollouts_of(asked)
        key, samples = rollouts.key_of(asked["key"]), [rollouts.sample_of(each) for each in asked["samples"]]
        pattern = re.compile(asked["pattern"], int(asked["flags"]))
        found = source.search(key, samples, pattern)
        async for part in _followed(iter(lambda: [*islice(found, _SEARCHED_AT_ONCE)], [])):
            yield part

    async def _rollouts_same(self, channel: int, asked: Any) -> AsyncGenerator[Any, None]:  # noqa: ANN401
        from rltui.client.laptop import rollouts

        del channel
        source, key = self._rollouts_of(asked), rollouts.key_of(asked["key"])
        transcript = await asyncio.to_thread(source.open, key, rollouts.sample_of(asked["sample"]))
        async for other in _followed(source.same_prompt(key, transcript)):
            yield other


async def _called(owner: object, call: calls.Call, name: str, asked: Any) -> Any:  # noqa: ANN401
    """Carry out a method, in a thread where it blocks."""
    arguments = call.understood(asked)
    method = getattr(owner, name)
    if asyncio.iscoroutinefunction(method):
        return call.answered(await method(**arguments))
    return call.answered(await asyncio.to_thread(method, **arguments))


def _parts(items: list[_Found], size: int) -> Iterator[list[_Found]]:
    """Some at a time; of none, one empty part."""
    yield from (items[at : at + size] for at in range(0, len(items) or 1, size))


async def _followed(
    items: Iterator[_Found], pause_s: float | None = None
) -> AsyncGenerator[_Found | None, None]:
    """What a blocking iterator gives, in threads. With `pause_s`, `None` where the next takes longer."""
    while True:
        asking = asyncio.create_task(asyncio.to_thread(next, items, _OVER))
        while not (await asyncio.wait([asking], timeout=pause_s))[0]:
            yield None
        found = asking.result()
        if found is _OVER:
            return
        yield found


_OVER: Any = object()
