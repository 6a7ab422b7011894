"""An experiment on another machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar, cast

from rltui.client import programs
from rltui.client.laptop import calls
from rltui.client.laptop.logs import RemoteLog, RemoteSearch
from rltui.client.protocol import ConfigText, Event, Experiment
from rltui.client.transports.frames import Packet, understood
from rltui.client.transports.ssh import HostLink
from rltui.core.api import EVENT_MODELS, JournalEntry, Plan, Publication, Request
from rltui.core.batch import Way
from rltui.core.checkpoints import CheckpointReport, PrunePlan, Retention
from rltui.core.config_report import Conversion
from rltui.core.evals import EvalReport, EvalRequest, QueuedEval
from rltui.core.gpu.report import GpuHistories
from rltui.core.layout import Screen
from rltui.core.lines import Level, LogEntry, LogSearching, LogSource, MergedSource
from rltui.core.log_query import Query
from rltui.core.rollouts import RolloutSource
from rltui.core.series import SeriesSource
from rltui.errors import LinkDownError, RltuiError
from rltui.services.runs.experiment_files import free_file

_Answer = TypeVar("_Answer")


class RemoteExperiment:
    """`Experiment` over a link. What is the person's own is done here: editor, browser, exports."""

    def __init__(self, link: HostLink, opened: Mapping[str, Any]) -> None:
        """`opened`: what the other end says of it."""
        self._link = link
        self.host = link.host.name
        with understood(self.host):
            self._key = opened["key"]
            self.name = str(opened["name"])
            self.layout_name = str(opened["layout_name"])
            self.screen = Screen.model_validate(opened["screen"])
            self.readonly, self.observed = bool(opened["readonly"]), bool(opened["observed"])
            self.finished = bool(opened["finished"])
            self.component_ids = tuple(map(str, opened["component_ids"]))
            self.log_ids = tuple(map(str, opened["log_ids"]))
            self._run_id = str(opened["run_id"])
            self._run_dir, self._series = str(opened["run_dir"]), str(opened["series"])
            told = [*map(_event, opened["events"])]
        self._journal: list[JournalEntry] = []
        self._told: list[Event] = told
        """What `events` begins with for the first time."""

    @property
    def run_id(self) -> str:
        """As it was when it was opened; asked for again where it had none."""
        if not self._run_id:
            self._run_id = str(self._link.call("run id", {"key": self._key}).data)
        return self._run_id

    # --- what is asked there ------------------------------------------------------------------------------

    async def events(self) -> AsyncGenerator[Event, None]:
        """As they are pushed there. Ends when the supervisor does.

        Raises:
            LinkDownError: while the link is down.
        """
        loop = asyncio.get_running_loop()
        came: asyncio.Queue[Packet | RltuiError] = asyncio.Queue()

        def take(answer: Packet | RltuiError) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(came.put_nowait, answer)

        channel = self._link.ask(take, "events", {"key": self._key})
        try:
            told, self._told = self._told, []
            for event in told:
                yield event
            while not isinstance(answer := await came.get(), RltuiError) and answer.data is not None:
                with understood(self.host):
                    event = _event(answer.data)
                yield event
        finally:
            self._link.cancel(channel)
        if isinstance(answer, RltuiError):
            raise answer

    def _asked(
        self, method: Callable[..., object], arguments: Sequence[object], named: dict[str, object]
    ) -> tuple[str, dict[str, Any]]:
        name = method.__name__
        asked = calls.of_experiment(name).asked(arguments, named)
        return "experiment", {"key": self._key, "name": name, "arguments": asked}

    async def _ask(
        self, method: Callable[..., Coroutine[Any, Any, _Answer]], *arguments: object, **named: object
    ) -> _Answer:
        answer = await asyncio.wrap_future(self._link.future(*self._asked(method, arguments, named)))
        result: _Answer = calls.of_experiment(method.__name__).result(answer.data)
        return result

    def _ask_now(self, method: Callable[..., _Answer], *arguments: object) -> _Answer:
        answer = self._link.call(*self._asked(method, arguments, {}))
        result: _Answer = calls.of_experiment(method.__name__).result(answer.data)
        return result

    async def plan(self, request: Request) -> Plan:
        return await self._ask(Experiment.plan, request)

    async def execute(self, request: Request) -> Plan:
        return await self._ask(Experiment.execute, request)

    async def gpu_history(self) -> GpuHistories:
        return await self._ask(Experiment.gpu_history)

    async def checkpoints(self) -> CheckpointReport:
        return await self._ask(Experiment.checkpoints)

    async def plan_prune(self, retention: Retention) -> PrunePlan:
        return await self._ask(Experiment.plan_prune, retention)

    async def prune(self, retention: Retention, only: Collection[int]) -> PrunePlan:
        return await self._ask(Experiment.prune, retention, sorted(only))

    async def bring_back(self, name: str) -> CheckpointReport:
        return await self._ask(Experiment.bring_back, name)

    async def evals(self) -> EvalReport:
        return await self._ask(Experiment.evals)

    async def evaluate(self, request: EvalRequest) -> QueuedEval:
        return await self._ask(Experiment.evaluate, request)

    async def cancel_eval(self, id_: str) -> EvalReport:
        return await self._ask(Experiment.cancel_eval, id_)

    async def order_evals(self, every: int, request: EvalRequest) -> EvalReport:
        return await self._ask(Experiment.order_evals, every, request)

    async def convert(self, to: Way, mean_tokens: float | None = None) -> Conversion:
        return await self._ask(Experiment.convert, to, mean_tokens)

    async def note(self, text: str) -> JournalEntry:
        return await self._ask(Experiment.note, text)

    async def publication(self, what: str, repo: str) -> Publication:
        return await self._ask(Experiment.publication, what, repo)

    async def publish(self, published: Publication, *, private: bool) -> None:
        await self._ask(Experiment.publish, published, private=private)

    async def open_shell(self, like: str | None) -> str:
        """There; `attach_command` shows it here."""
        return await self._ask(Experiment.open_shell, like)

    async def journal(self) -> tuple[JournalEntry, ...]:
        """What is new of it is asked for; what is known, where nobody can be asked."""
        known = self._journal
        asked = {"key": self._key, "known": len(known), "last": known[-1].at if known else None}
        try:
            said = (await asyncio.wrap_future(self._link.future("journal", asked))).data
        except LinkDownError:
            return tuple(known)
        with understood(self.host):
            new = [JournalEntry.model_validate(entry) for entry in said["entries"]]
            is_new = bool(said["is_new"])
        if self._journal is known:  # nobody else has asked meanwhile
            self._journal = new if is_new else [*known, *new]
        return tuple(self._journal)

    def read_config(self, path: str) -> ConfigText:
        return self._ask_now(Experiment.read_config, path)

    def pins(self) -> tuple[str, ...]:
        return self._ask_now(Experiment.pins)

    def keep_pins(self, pins: Sequence[str]) -> None:
        self._ask_now(Experiment.keep_pins, pins)

    # --- logs, metrics, rollouts --------------------------------------------------------------------------

    def open_log(self, path: str) -> LogSource:
        return RemoteLog(self._link, {"key": self._key, "path": path})

    def logs(self) -> tuple[LogEntry, ...]:
        return self._ask_now(Experiment.logs)

    def open_merged(self, logs: Sequence[LogEntry]) -> MergedSource:
        return RemoteLog(
            self._link, {"key": self._key, "path": None, "entries": [asdict(log) for log in logs]}
        )

    def log_offset_at(self, log: LogEntry, at: float) -> int | None:
        return self._ask_now(Experiment.log_offset_at, log, at)

    def search_log(
        self, path: str, query: Query | None, level: Level | None, start: int, *, with_text: bool = True
    ) -> LogSearching:
        return RemoteSearch(self._link, self._key, path, query, level, start, with_text=with_text)

    def open_series(self) -> SeriesSource:
        from rltui.client.laptop.series import RemoteSeries  # the first frame need not wait for it

        return RemoteSeries(self._link, self._series)

    def open_rollouts(self, folder: str = "") -> RolloutSource:
        from rltui.client.laptop.rollouts import RemoteRollouts  # likewise

        return RemoteRollouts(self._link, folder or self._run_dir)

    # --- what is done here --------------------------------------------------------------------------------

    def edit_text(self, path: str, text: str) -> str:
        """In the editor of this machine."""
        return programs.edit_text(path, text)

    def save(self, name: str, text: str) -> str:
        """Into the working folder here: what lies beside the run is out of reach."""
        path = free_file(Path.cwd(), name)
        try:
            path.write_text(text, encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise RltuiError(f"cannot write {path}: {error.strerror}") from error
        return str(path)

    def pager_command(self, path: str) -> list[str]:
        """A pager there, on this terminal."""
        return self._link.host.running(["less", path], terminal=True)

    async def open_url(self, url: str) -> bool:
        """By the browser of this machine."""
        return await programs.open_url(url)

    def attach_command(self, component: str) -> list[str]:
        """The terminal there, on this one."""
        words = [self._link.host.rltui, "attach", component, "-n", self.name]
        return self._link.host.running([*words, "--readonly"] if self.readonly else words, terminal=True)


def _event(said: Mapping[str, Any]) -> Event:
    """Of what the other end pushes, which has the same protocol."""
    event: Any = EVENT_MODELS[said["event"]].model_validate(said["data"])
    return cast("Event", event)
