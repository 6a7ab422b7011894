"""An experiment on another machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rltui.base.questions import Question
from rltui.client.experiment import Event, Experiment, JournalTail
from rltui.client.laptop.logs import RemoteLog, RemoteSearch
from rltui.client.laptop.remote_object import RemoteObject
from rltui.client.laptop.server import OpenedExperiment, RemoteServer, event_of
from rltui.client.transports.ssh import HostLink
from rltui.core.experiment.journal import JournalEntry
from rltui.core.logs.lines import Level
from rltui.core.logs.query import Query
from rltui.core.logs.source import LogEntry, LogScan, LogSource, MergedSource
from rltui.core.metrics.series import SeriesSource
from rltui.core.rollouts.batches import RolloutSource
from rltui.errors import LinkDownError, RltuiError
from rltui.services.experiment.files import free_file

_LOOPBACK, _HTTP = ("localhost", "127.0.0.1", "::1"), 80


class RemoteExperiment(Experiment):
    """`Experiment` over a link. Editor, browser and exports run on this machine."""

    def __init__(self, link: HostLink, opened: OpenedExperiment) -> None:
        super().__init__(opened.description, host=link.host.name)
        self._link, self._handle = link, opened.handle
        self._far = RemoteObject(link, "experiment", opened.handle.as_json())
        self._server = RemoteObject(link, "server")
        self._run_id, self._run_dir, self._series = opened.run_id, opened.run_dir, opened.series
        self._first_events = [event_of(push) for push in opened.events]
        """First items of the first `events` call."""
        self._journal: list[JournalEntry] = []

    async def ask(self, question: Question, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401
        return await self._far.ask(question, arguments)

    def ask_now(self, question: Question, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401
        return self._far.ask_now(question, arguments)

    @property
    def run_id(self) -> str:
        """The id from when it was opened; asked for again where it had none."""
        if not self._run_id:
            self._run_id = self.read_run_id()
        return self._run_id

    async def events(self) -> AsyncGenerator[Event, None]:
        """Events that the other end pushes. Ends when the supervisor does.

        Raises:
            LinkDownError: while the link is down.
        """
        async with contextlib.aclosing(
            self._server.stream_later(RemoteServer.events, self._handle)
        ) as pushes:
            first_events, self._first_events = self._first_events, []
            for event in first_events:
                yield event
            async for push in pushes:
                yield event_of(push)

    async def journal(self) -> tuple[JournalEntry, ...]:
        """Fetch only new entries; while the link is down, return the cached ones."""
        before = self._journal
        try:
            tail: JournalTail = await self.journal_after(len(before), before[-1].at if before else None)
        except LinkDownError:
            return tuple(before)
        if self._journal is before:  # nobody else has asked meanwhile
            self._journal = [*tail.entries] if tail.is_new else [*before, *tail.entries]
        return tuple(self._journal)

    # --- logs, metrics, rollouts --------------------------------------------------------------------------

    def open_log(self, path: str) -> LogSource:
        return RemoteLog(self._link, self._handle, path=path)

    def open_merged(self, logs: Sequence[LogEntry]) -> MergedSource:
        return RemoteLog(self._link, self._handle, entries=tuple(logs))

    def search_log(
        self, path: str, query: Query | None, level: Level | None, start: int, *, with_text: bool = True
    ) -> LogScan:
        return RemoteSearch(self._link, self._handle, path, query, level, start, with_text=with_text)

    def open_series(self) -> SeriesSource:
        from rltui.client.laptop.series import RemoteSeries  # the first frame need not wait for it

        return RemoteSeries(self._link, self._series)

    def open_rollouts(self, folder: str = "") -> RolloutSource:
        from rltui.client.laptop.rollouts import RemoteRollouts  # likewise

        return RemoteRollouts(self._link, folder or self._run_dir)

    # --- what is done here --------------------------------------------------------------------------------

    def save(self, name: str, text: str) -> str:
        """Write into the working directory of this machine: the folder of the run is out of reach."""
        path = free_file(Path.cwd(), name)
        try:
            path.write_text(text, encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise RltuiError(f"cannot write {path}: {error.strerror}") from error
        return str(path)

    async def reachable_url(self, url: str) -> str:
        """Pages that only that machine's own programs reach come through a port of this one."""
        split = urlsplit(url)
        if split.hostname not in _LOOPBACK:
            return url
        port = await asyncio.to_thread(self._link.forwards.port, split.port or _HTTP)
        return split._replace(netloc=f"localhost:{port}").geturl()

    def pager_command(self, path: str) -> list[str]:
        """A pager on the other machine, in this terminal."""
        return self._link.host.running(["less", path], terminal=True)

    def attach_command(self, component: str) -> list[str]:
        """`rltui attach` on the other machine, in this terminal."""
        argv = [self._link.host.rltui, "attach", self.name, "-c", component]
        return self._link.host.running([*argv, "--readonly"] if self.readonly else argv, terminal=True)
