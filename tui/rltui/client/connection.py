"""The UI's connection to a supervisor: typed, asynchronous, back again after the supervisor was killed.

A read-only one says so first on every connection, whereupon the supervisor refuses it every change.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Collection, Sequence
from pathlib import Path
from typing import Any, Literal

from rltui.client.by_hand import PUBLISH, SHELL, publication, publish_request, shell_request
from rltui.client.launch import not_running
from rltui.client.protocol import ConfigText, Event, TakenDownError
from rltui.client.wire import CONNECT_TIMEOUT_S, SupervisorGoneError, check_hello, result_of
from rltui.core.api import (
    EVENT_MODELS,
    ComponentState,
    Down,
    JournalEntry,
    Plan,
    Publication,
    Request,
    Status,
)
from rltui.core.checkpoints import CheckpointReport, PrunePlan, Retention
from rltui.core.config_report import Conversion
from rltui.core.evals import EvalReport, EvalRequest, QueuedEval
from rltui.core.gpu.report import GpuHistories
from rltui.core.layout import Screen
from rltui.core.lines import Level, LogEntry, LogSearching, LogSource, MergedSource
from rltui.core.log_query import Query
from rltui.core.rollouts import RolloutSource
from rltui.core.series import SeriesSource
from rltui.errors import ConfigError, ConflictError, RltuiError, UsageError
from rltui.services import layout_files, outside
from rltui.services.config.files import content_of
from rltui.services.logs.index import LogFile
from rltui.services.logs.listing import all_logs
from rltui.services.logs.merged import MergedLog, offset_at
from rltui.services.logs.search import LogSearch
from rltui.services.metrics.store import SeriesReader
from rltui.services.outside import in_terminal
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord, KeptFiles
from rltui.services.runs.experiments import find_socket
from rltui.services.runs.journal import Journal, JournalFeed

_FALLBACK = "vi"
_PAGER = "less"


def read_config(path: str) -> ConfigText:
    """A config file as it is now, byte order mark and line endings included.

    Raises:
        ConfigError: if it cannot be read, is no regular file, too large, or not UTF-8.
    """
    try:
        content = content_of(Path(path))
        text = content.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start})", hint="convert it first") from error
    return ConfigText(path=path, text=text, sha256=hashlib.sha256(content).hexdigest())


def edit_text(path: str, text: str) -> str:
    """Let a person edit `text` in `$VISUAL`, `$EDITOR` or vi, and return what was saved. Takes the terminal.

    `path` only gives the copy its name.

    Raises:
        UsageError: if there is no such editor.
        RltuiError: if it failed, or left something that is no UTF-8 text.
    """
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or _FALLBACK
    with tempfile.TemporaryDirectory(prefix="rltui-edit-") as folder:
        copy = Path(folder) / Path(path).name
        try:
            copy.write_bytes(text.encode())
            if code := in_terminal([*shlex.split(command), str(copy)]):
                raise RltuiError(f"the editor ended with code {code}: {command}", hint="nothing was written")
            return copy.read_bytes().decode()
        except ValueError as error:  # no closing quotation, or no UTF-8
            raise RltuiError(f"{command}: {error}", hint="nothing was written") from error
        except FileNotFoundError as error:
            raise UsageError(
                f"there is no editor {command!r}", hint="set VISUAL or EDITOR to one that is installed"
            ) from error
        except OSError as error:
            raise RltuiError(
                f"cannot edit a copy of {path}: {error.strerror}", hint="nothing was written"
            ) from error


def pager_command(path: str) -> list[str]:
    """The pager of `$PAGER`, or less, for a file.

    Raises:
        UsageError: if there is no such program.
    """
    wanted = os.environ.get("PAGER") or _PAGER
    try:
        words = shlex.split(wanted)
    except ValueError as error:
        raise UsageError(f"$PAGER {wanted!r}: {error}") from None
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"there is no pager {wanted!r}", hint="set PAGER to one that is installed")
    return [*words, path]


_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
"""One of them is set where a browser can be seen; an editor's terminal sets the last one."""
_BROWSER_TIMEOUT_S = 10.0
_BROWSE = """
import os, sys, webbrowser
nothing = os.open(os.devnull, os.O_RDWR)
for number in range(3):
    os.dup2(nothing, number)
sys.exit(not webbrowser.open(sys.argv[1]))
"""
"""A browser that goes on must not write where nobody reads any more."""


async def open_url(url: str) -> bool:
    """Have a browser show a page, without a word on this terminal; false where there is none to be seen."""
    if sys.platform != "darwin" and not any(map(os.environ.get, _DISPLAYS)):
        return False
    try:
        done = await outside.run((sys.executable, "-c", _BROWSE, url), timeout_s=_BROWSER_TIMEOUT_S)
    except RltuiError:
        return False
    return done.code == 0


_START_TIMEOUT_S = 60.0
"""For another rltui to start a supervisor: it has limits of its own, which are shorter."""
_LINE_LIMIT = 64 << 20
"""Longest answer, in bytes."""


class SupervisedExperiment:
    """`Experiment` over the socket. Each call has its own short connection; events have one of their own.

    A `readonly` one changes nothing and starts no supervisor.
    """

    def __init__(self, record: ExperimentRecord, *, readonly: bool = False) -> None:
        self._record = record
        self.name = record.name
        self.observed = record.observed
        self.readonly = readonly or record.observed
        self._may_start = not readonly
        self._down: Down | None = None
        """The end that its last supervisor told of."""
        self._journal_file = ControlFolder(Path(record.output_dir)).journal_file
        self._journal = JournalFeed(self._journal_file)
        self._kept = KeptFiles(ControlFolder(Path(record.output_dir)).path)
        layout = layout_files.load_for(record)
        self.screen: Screen = layout.screen
        self.component_ids = tuple(spec.id for spec in layout.automatic)
        self.log_ids = tuple(spec.id for spec in layout.log)

    @property
    def run_id(self) -> str:
        """As its sheet says."""
        from rltui.services.runs.run_sheet import read_sheet  # the first frame need not wait for it

        sheet = read_sheet(ControlFolder(Path(self._record.output_dir)).path)
        return "" if sheet is None else sheet.id

    async def events(self) -> AsyncGenerator[Event, None]:
        """Current values, then changes. Ends when the supervisor does; the next call starts another.

        Ends likewise when the supervisor drops us, which it does where we do not read for long.
        """
        reader, writer = await self._open()
        try:
            writer.write(b'{"id":0,"method":"subscribe"}\n')
            await writer.drain()
            while line := await reader.readline():
                message = _message(line)
                if "error" in message:
                    result_of(message)
                if (model := EVENT_MODELS.get(message["event"])) is not None:
                    event = model.model_validate(message["data"])
                    if isinstance(event, Status):
                        self._down = event.down
                    yield event  # type: ignore[misc]
            self._refuse_revival()
        finally:
            writer.close()

    async def plan(self, request: Request) -> Plan:
        """What `request` would do."""
        return Plan.model_validate(await self._call("plan", request.model_dump(), wished=True))

    async def execute(self, request: Request) -> Plan:
        """Do it."""
        return Plan.model_validate(await self._call("execute", request.model_dump(), wished=True))

    async def gpu_history(self) -> GpuHistories:
        """Memory of each device over time."""
        return GpuHistories.model_validate(await self._call("gpu_history", {}))

    async def checkpoints(self) -> CheckpointReport:
        """Those that lie in the run's folder now."""
        return CheckpointReport.model_validate(await self._call("checkpoints", {}))

    async def plan_prune(self, retention: Retention) -> PrunePlan:
        """Which of them `retention` leaves over."""
        return PrunePlan.model_validate(await self._call("plan_prune", retention.model_dump()))

    async def prune(self, retention: Retention, only: Collection[int]) -> PrunePlan:
        """Delete those that were shown."""
        params = {"retention": retention.model_dump(), "only": sorted(only)}
        return PrunePlan.model_validate(await self._call("prune", params, wished=True))

    async def evals(self) -> EvalReport:
        """All of them."""
        return EvalReport.model_validate(await self._call("evals", {}))

    async def evaluate(self, request: EvalRequest) -> QueuedEval:
        """Put one behind the others."""
        return QueuedEval.model_validate(await self._call("evaluate", request.model_dump(), wished=True))

    async def cancel_eval(self, id_: str) -> EvalReport:
        """Take one away."""
        return EvalReport.model_validate(await self._call("cancel_eval", {"id": id_}, wished=True))

    async def order_evals(self, every: int, request: EvalRequest) -> EvalReport:
        """The standing order."""
        params = {"every": every, "request": request.model_dump()}
        return EvalReport.model_validate(await self._call("order_evals", params, wished=True))

    async def convert(
        self, to: Literal["tokens", "rollouts"], mean_tokens: float | None = None
    ) -> Conversion:
        """The batch counted the other way."""
        answer = await self._call("convert", {"to": to, "mean_tokens": mean_tokens})
        return Conversion.model_validate(answer)

    def read_config(self, path: str) -> ConfigText:
        """A config file as it is now."""
        return read_config(path)

    def edit_text(self, path: str, text: str) -> str:
        """What a person made of `text`."""
        return edit_text(path, text)

    def open_log(self, path: str) -> LogSource:
        """Open the output of an attempt."""
        return LogFile(Path(path))

    def logs(self) -> tuple[LogEntry, ...]:
        """Every log there is now."""
        return all_logs(self._record)

    def open_merged(self, logs: Sequence[LogEntry]) -> MergedSource:
        """Several of them as one."""
        return MergedLog(logs)

    def log_offset_at(self, log: LogEntry, at: float) -> int | None:
        """The place of a moment in one of them."""
        return offset_at(Path(log.path), at, log.started_at)

    def search_log(self, path: str, query: Query | None, level: Level | None, start: int) -> LogSearching:
        """A search through one of them."""
        return LogSearch(Path(path), query, level=level, start=start)

    def open_series(self) -> SeriesSource:
        """Open the metrics of the run."""
        return SeriesReader(ControlFolder(Path(self._record.output_dir)).series)

    async def journal(self) -> tuple[JournalEntry, ...]:
        """Everything that happened, from the file."""
        return await asyncio.to_thread(self._journal.read)

    async def note(self, text: str) -> JournalEntry:
        """Have it kept by the supervisor, or in the file where the experiment was taken down."""
        if not self._may_start:
            raise RltuiError("this client is read-only: no note was made", hint=f"rltui note -n {self.name}")
        try:
            return JournalEntry.model_validate(await self._call("note", {"text": text}))
        except TakenDownError:
            return await asyncio.to_thread(Journal(self._journal_file).note, text)

    def pins(self) -> tuple[str, ...]:
        """Charts that a person has pinned."""
        return self._kept.pins()

    def keep_pins(self, pins: Sequence[str]) -> None:
        """Keep these instead; by a client that may only look, until it ends."""
        if not self.readonly or self.observed:
            self._kept.keep_pins(pins)

    def save(self, name: str, text: str) -> str:
        """Write an export."""
        return str(self._kept.save(name, text))

    def open_rollouts(self, folder: str = "") -> RolloutSource:
        """The rollouts of the run, or of an evaluation."""
        from rltui.services.runs.rollouts import open_rollouts  # the first frame need not wait for it

        return open_rollouts(Path(folder or self._record.run_dir))

    def pager_command(self, path: str) -> list[str]:
        """`$PAGER`, or less."""
        return pager_command(path)

    async def publication(self, what: str, repo: str) -> Publication:
        """What it consists of."""
        return await asyncio.to_thread(publication, self._record, what, repo)

    async def publish(self, published: Publication, *, private: bool) -> None:
        """Begin it."""
        chosen = published.model_copy(update={"private": private})
        plan = await self.execute(publish_request(chosen))
        if PUBLISH not in plan.start:
            raise ConflictError("an upload is under way", hint="wait for its end")

    async def open_shell(self, like: str | None) -> str:
        """Return once it runs, or has ended."""
        await self.execute(await asyncio.to_thread(shell_request, self._record, like=like))
        async with contextlib.aclosing(self.events()) as events:
            async for event in events:
                if isinstance(event, Status) and not event.transaction and not _begins(event, SHELL):
                    break
        return SHELL

    async def open_url(self, url: str) -> bool:
        """By the person's browser."""
        return await open_url(url)

    def attach_command(self, component: str) -> list[str]:
        """Another rltui, which becomes the tmux client that shows the component's pane."""
        command = [sys.executable, "-m", "rltui", "attach", component, "-n", self.name]
        return [*command, "--readonly"] if self.readonly else command

    async def _call(self, method: str, params: dict[str, Any], *, wished: bool = False) -> dict[str, Any]:
        reader, writer = await self._open(wished=wished, changes_run=method != "note")
        try:
            request = {"id": 1, "method": method, "params": params}
            writer.write(json.dumps(request).encode() + b"\n")
            await writer.drain()
            return result_of(_message(await reader.readline()))
        except ConnectionError as error:
            raise SupervisorGoneError("the supervisor ended while it was asked") from error
        finally:
            writer.close()

    async def _open(
        self, *, wished: bool = False, changes_run: bool = True
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection. `wished`: a person wants something done, be it after a `down`. For what never
        `changes_run`, an observed one is as good as any.
        """
        try:
            reader, writer = await asyncio.open_unix_connection(find_socket(self._record), limit=_LINE_LIMIT)
        except OSError:
            if not wished:
                self._refuse_revival()
            if not self._may_start:
                raise not_running(self.name) from None
            await self._start_supervisor()
            reader, writer = await asyncio.open_unix_connection(find_socket(self._record), limit=_LINE_LIMIT)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                check_hello(_message(await reader.readline()))
                if self.readonly and (changes_run or not self._may_start):
                    writer.write(b'{"id":0,"method":"readonly"}\n')
                    result_of(_message(await reader.readline()))
        except TimeoutError:
            writer.close()
            raise RltuiError(
                "the supervisor does not answer", hint="is it stopped? rltui status says its pid"
            ) from None
        except BaseException:
            writer.close()
            raise
        return reader, writer

    def _refuse_revival(self) -> None:
        """What was taken down stays so. What its supervisor said counts as much as what it could write."""
        from rltui.services.runs.intent import IntentFile  # the first frame need not wait for it

        noted = IntentFile(ControlFolder(Path(self._record.output_dir)).intent_file).read().down
        for down in (self._down, noted):
            if down is not None and down.complete:
                left = f"; cannot be ended: {', '.join(down.left)}" if down.left else ""
                raise TakenDownError(f"{self.name} was taken down by {down.by}{left}")

    async def _start_supervisor(self) -> None:
        command = (sys.executable, "-m", "rltui.client", self.name)
        done = await outside.run(command, timeout_s=_START_TIMEOUT_S)
        if done.code != 0:
            raise RltuiError(
                "no supervisor can be started", details=done.errors.decode(errors="replace").splitlines()
            )


def _begins(status: Status, component: str) -> bool:
    """It is on its way.

    Raises:
        RltuiError: if it failed.
    """
    for each in status.components:
        if each.id == component and each.state is ComponentState.FAILED:
            raise RltuiError(f"{component} failed: {each.reason}")
    on_the_way = (ComponentState.WAITING, ComponentState.STARTING)
    return any(each.id == component and each.state in on_the_way for each in status.components)


def _message(line: bytes) -> dict[str, Any]:
    if not line:
        raise SupervisorGoneError("the supervisor ended while it was asked")
    message: dict[str, Any] = json.loads(line)
    return message
