"""An experiment of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltui.base.interpreter import module_command
from rltui.base.questions import Question, questions_of
from rltui.client import launch
from rltui.client.experiment import (
    ConfigText,
    Description,
    Event,
    Experiment,
    JournalTail,
    ShutDownError,
)
from rltui.client.transports.supervisor import SupervisorClient
from rltui.core import hints
from rltui.core.config.report import KnobTable
from rltui.core.experiment.api import Alert, Publication, Status
from rltui.core.experiment.dashboard import DashboardPage, DashboardPlace
from rltui.core.experiment.description import Panels, RunDescription
from rltui.core.experiment.journal import JournalEntry
from rltui.core.experiment.states import ComponentState
from rltui.core.logs.lines import Level
from rltui.core.logs.query import Query
from rltui.core.logs.source import LogEntry, LogScan, LogSource, MergedSource
from rltui.core.metrics.series import SeriesSource
from rltui.core.runs.checkpoints import CheckpointReport
from rltui.errors import ConfigError, ConflictError, RltuiError, UsageError
from rltui.services.experiment.files import ExperimentRecord, SavedFiles
from rltui.services.experiment.journal import JournalFeed, journal_of
from rltui.services.logs.index import LogFile
from rltui.services.logs.merged import MergedLog, offset_at
from rltui.services.logs.search import FileScan
from rltui.services.metrics.store import SeriesReader

if TYPE_CHECKING:
    from rltui.client.reader import ExperimentReader
    from rltui.core.rollouts.batches import RolloutSource

CHECKPOINTS = questions_of(Experiment)["checkpoints"]
_POLL_S = 3.0
"""Interval of polls whether somebody has started a finished experiment."""


def read_config(path: str) -> ConfigText:
    """A config file as it is now, byte order mark and line endings included.

    Raises:
        ConfigError: if it cannot be read, is no regular file, too large, or not UTF-8.
    """
    from rltui.services.config.config_file import content_of  # the first frame need not wait for it

    try:
        content = content_of(Path(path))
        text = content.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start})", hint="convert it first") from error
    return ConfigText(path=path, text=text, sha256=hashlib.sha256(content).hexdigest())


def _panels_of(record: ExperimentRecord) -> Panels:
    from rltui.services.experiment import layout_files  # pydantic: who asks a supervisor need not pay 100 ms

    return layout_files.load_for(record).panels


class LocalExperiment(Experiment):
    """An experiment of this machine. Its files are read here; other questions go to its supervisor, or to a
    reader of its files, where it is looked at as finished.
    """

    def __init__(
        self,
        record: ExperimentRecord,
        *,
        readonly: bool = False,
        finished: bool = False,
        panels: Panels | None = None,
    ) -> None:
        """`readonly`: nothing is changed, notes and pins neither, and no supervisor is started.
        `finished`: no supervisor is asked. `panels`: of its layout, which is read where they are not given.

        Raises:
            RltuiError: if its layout cannot be understood.
        """
        panels = panels or _panels_of(record)
        super().__init__(
            Description(
                name=record.name,
                layout_name=Path(record.layout_file).stem,
                screen=panels.screen,
                readonly=readonly or finished or record.observed,
                observed=record.observed,
                finished=finished,
                component_ids=panels.component_ids,
                log_ids=panels.log_ids,
            )
        )
        self.record = record
        self._may_write = not readonly
        """Notes and pins, which are the person's own, whoever runs the experiment."""
        self._supervisor = None if finished else SupervisorClient(record, may_start=not readonly)
        self._control = record.control
        self._journal = JournalFeed(self._control.journal_file)
        self._saved_files = SavedFiles(self._control.path)

    @property
    def run_id(self) -> str:
        return self.read_run_id()

    async def ask(self, question: Question, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401
        if self._supervisor is not None:
            return await self._supervisor.ask(question, arguments)
        answer = None if question.changes else getattr(self._reader(), question.name, None)
        if answer is None:
            raise self._nothing_lives()
        return await asyncio.to_thread(answer, **arguments)

    def _reader(self) -> ExperimentReader:
        from rltui.client.reader import ExperimentReader  # knows the frameworks

        return ExperimentReader(self.record)

    def _nothing_lives(self) -> UsageError:
        return UsageError(
            f"{self.name} is not running: this view only reads its files; nothing was done",
            hint=f"start its supervisor: S, or `{hints.OPEN(opened=self.name)}`",
        )

    def _required_supervisor(self) -> SupervisorClient:
        if self._supervisor is None:
            raise self._nothing_lives()
        return self._supervisor

    async def start_supervisor(self) -> None:
        """Have one started, unless one listens, also after a `down`.

        Raises:
            RltuiError: if that does not work; its last words are in the details.
        """
        await self._required_supervisor().start_supervisor()

    async def events(self) -> AsyncGenerator[Event, None]:
        """Ends when the supervisor does, or drops us, as where we do not read for long; the next call starts
        another. Of a finished one: what there is to know, and a word when it lives again; a config that is
        broken becomes an alert.
        """
        events = self._finished_events() if self._supervisor is None else self._supervisor.events()
        async with contextlib.aclosing(events):
            async for event in events:
                yield event

    async def _finished_events(self) -> AsyncGenerator[Event, None]:
        yield await asyncio.to_thread(self._finished_status)
        yield self._reader().gpus()
        yield await asyncio.to_thread(self._knobs)
        is_alive = False
        while True:
            was_alive, is_alive = is_alive, await asyncio.to_thread(launch.has_supervisor, self.record)
            if is_alive and not was_alive:
                yield Alert(
                    kind="notice",
                    severity="information",
                    title=f"{self.name} has a supervisor again",
                    text="This view shows its files as they were. S opens the live run.",
                )
            await asyncio.sleep(_POLL_S)

    def _finished_status(self) -> Status:
        from rltui.services.metrics.sources import update_series_store

        update_series_store(self.record)
        return self._reader().status()

    def _knobs(self) -> KnobTable | Alert:
        try:
            return self._reader().knobs()
        except RltuiError as error:
            return Alert(kind="config", severity="warning", title="cannot read the config", text=str(error))

    # --- requests, journal, tools ---------------------------------------------------------------------------

    async def note(self, text: str) -> JournalEntry:
        """Save a note through the supervisor, or into the file if the experiment was shut down or is
        finished.
        """
        if not self._may_write:
            raise RltuiError(
                "read-only client: no note was added", hint=hints.EVENTS_ADD(name=self.name), code="read_only"
            )
        if self._supervisor is not None:
            with contextlib.suppress(ShutDownError):
                return await self._supervisor.note(text)
        return await asyncio.to_thread(journal_of(self.record).note, text)

    async def journal(self) -> tuple[JournalEntry, ...]:
        return await asyncio.to_thread(self._journal.read)

    async def journal_after(self, count: int, last_at: float | None) -> JournalTail:
        entries = await self.journal()
        is_same = 0 < count <= len(entries) and entries[count - 1].at == last_at
        return JournalTail(not is_same, entries[count:] if is_same else entries)

    async def bring_back(self, name: str) -> CheckpointReport:
        from rltui.client import down  # seldom needed

        supervisor = self._required_supervisor()
        if self.readonly:
            raise ConflictError("read-only client", code="read_only")
        async with supervisor.is_away:
            await asyncio.to_thread(down.stop_idle_supervisor, self.record)
            await asyncio.to_thread(self._reader().bring_back, name)
        report: CheckpointReport = await supervisor.ask(CHECKPOINTS, {}, starts_supervisor=True)
        return report

    async def publication(self, step: int, repo: str) -> Publication:
        from rltui.client.manual_components import publication  # the first frame need not wait for it

        self._required_supervisor()
        return await asyncio.to_thread(publication, self.record, step, repo)

    async def publish(self, published: Publication, *, private: bool) -> None:
        from rltui.client.manual_components import PUBLISH, publish_request, tokens

        request = published.replace(private=private)
        await self._required_supervisor().tokens(**tokens())
        plan = await self.execute(publish_request(request))
        if PUBLISH not in plan.start:
            raise ConflictError("an upload is in progress", hint="wait until it is done", code="busy")

    async def open_shell(self, like: str | None) -> str:
        from rltui.client.manual_components import SHELL, shell_request

        self._required_supervisor()
        await self.execute(await asyncio.to_thread(shell_request, self.record, like=like))
        async with contextlib.aclosing(self.events()) as events:
            async for event in events:
                if isinstance(event, Status) and not event.transaction and not _begins(event, SHELL):
                    break
        return SHELL

    async def show_in_dashboard(self, place: DashboardPlace) -> DashboardPage:
        from rltui.services.runs.dashboard import show_in_dashboard  # knows the frameworks

        return await asyncio.to_thread(show_in_dashboard, self.record, place, may_add=self._may_write)

    def attach_command(self, component: str) -> list[str]:
        """Another rltui, which becomes the tmux client of the component's pane."""
        self._required_supervisor()
        command = module_command("rltui", "attach", self.name, "-c", component)
        return [*command, "--readonly"] if self.readonly else command

    # --- files ----------------------------------------------------------------------------------------------

    def read_run_id(self) -> str:
        from rltui.services.runs.metadata import read_metadata  # the first frame need not wait for it

        metadata = read_metadata(self._control.path)
        return "" if metadata is None else metadata.id

    def describe(self) -> RunDescription:
        return self._reader().describe()

    def read_config(self, path: str) -> ConfigText:
        return read_config(path)

    def open_log(self, path: str) -> LogSource:
        return LogFile(Path(path))

    def logs(self) -> tuple[LogEntry, ...]:
        from rltui.services.logs.listing import all_logs  # the first frame need not wait for it

        return all_logs(self.record)

    def open_merged(self, logs: Sequence[LogEntry]) -> MergedSource:
        return MergedLog(logs)

    def log_offset_at(self, log: LogEntry, at: float) -> int | None:
        return offset_at(Path(log.path), at, log.started_at)

    def search_log(
        self, path: str, query: Query | None, level: Level | None, start: int, *, with_text: bool = True
    ) -> LogScan:
        del with_text  # it costs nothing here
        return FileScan(Path(path), query, level=level, start=start)

    def open_series(self) -> SeriesSource:
        return SeriesReader(self._control.series)

    def pins(self) -> tuple[str, ...]:
        return self._saved_files.pins()

    def save_pins(self, pins: Sequence[str]) -> None:
        """Save them; what a client that may only look pins is forgotten."""
        if self._may_write:
            self._saved_files.save_pins(pins)

    def save(self, name: str, text: str) -> str:
        return str(self._saved_files.save(name, text))

    def open_rollouts(self, folder: str = "") -> RolloutSource:
        from rltui.services.rollouts import open_rollouts  # the first frame need not wait for it

        return open_rollouts(Path(folder or self.record.run_dir))

    def pager_command(self, path: str) -> list[str]:
        from rltui.client import programs  # the first frame need not wait for it

        return programs.pager_command(path)


def _begins(status: Status, component: str) -> bool:
    """True while the component is on its way up.

    Raises:
        RltuiError: if it failed.
    """
    for component_status in status.components:
        if component_status.id == component and component_status.state is ComponentState.FAILED:
            raise RltuiError(f"{component} failed: {component_status.reason}")
    on_the_way = (ComponentState.WAITING, ComponentState.STARTING)
    return any(
        component_status.id == component and component_status.state in on_the_way
        for component_status in status.components
    )
