"""The UI's connection to a supervisor: typed, asynchronous, back again after the supervisor was killed.

A read-only one says so first on every connection, whereupon the supervisor refuses it every change.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Collection, Sequence
from typing import Any

from rltui.client.actor import actor
from rltui.client.launch import not_running
from rltui.client.manual_components import PUBLISH, SHELL, publication, publish_request, shell_request, tokens
from rltui.client.protocol import Event, ShutDownError
from rltui.client.reading import ReadExperiment
from rltui.client.transports.unix import CONNECT_TIMEOUT_S, SupervisorGoneError, check_hello, result_of
from rltui.core import hints
from rltui.core.api import EVENT_MODELS, Down, JournalEntry, Plan, Publication, Request, Status
from rltui.core.batch import Way
from rltui.core.checkpoints import CheckpointReport, PrunePlan, Retention
from rltui.core.config_report import Conversion
from rltui.core.evals import EvalReport, EvalRequest, QueuedEval
from rltui.core.gpu.report import GpuHistories
from rltui.core.interpreter import module_command
from rltui.core.states import ComponentState
from rltui.errors import ConflictError, RltuiError
from rltui.services import subprocesses
from rltui.services.runs.experiment_files import ExperimentRecord
from rltui.services.runs.experiments import find_socket
from rltui.services.runs.journal import Journal

_START_TIMEOUT_S = 60.0
"""For another rltui to start a supervisor: it has limits of its own, which are shorter."""
_LINE_LIMIT = 64 << 20
"""Longest answer, in bytes."""


class SupervisedExperiment(ReadExperiment):
    """`Experiment` over the socket. Each call has its own short connection; events have one of their own.

    A `readonly` one changes nothing and starts no supervisor.
    """

    finished = False

    def __init__(self, record: ExperimentRecord, *, readonly: bool = False) -> None:
        super().__init__(record)
        self.readonly = readonly or record.observed
        self._may_start = not readonly
        self._down: Down | None = None
        """The end that its last supervisor told of."""
        self._is_away = asyncio.Lock()
        """Held while there must be no supervisor."""

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
        return Plan.model_validate(await self._call("plan", request.model_dump(), wished=True))

    async def execute(self, request: Request) -> Plan:
        told = request.model_copy(update={"by": actor()}).model_dump()
        return Plan.model_validate(await self._call("execute", told, wished=True))

    async def gpu_history(self) -> GpuHistories:
        return GpuHistories.model_validate(await self._call("gpu_history", {}))

    async def checkpoints(self) -> CheckpointReport:
        return CheckpointReport.model_validate(await self._call("checkpoints", {}))

    async def plan_prune(self, retention: Retention) -> PrunePlan:
        return PrunePlan.model_validate(await self._call("plan_prune", retention.model_dump()))

    async def prune(self, retention: Retention, only: Collection[int]) -> PrunePlan:
        params = {"retention": retention.model_dump(), "only": sorted(only)}
        return PrunePlan.model_validate(await self._call("prune", params, wished=True))

    async def bring_back(self, name: str) -> CheckpointReport:
        from rltui.client import down, offline  # seldom needed

        if self.readonly:
            raise ConflictError("this client only looks")
        async with self._is_away:
            await asyncio.to_thread(down.send_away, self.record)
            await asyncio.to_thread(offline.bring_back, self.record, name)
        return CheckpointReport.model_validate(await self._call("checkpoints", {}, wished=True))

    async def evals(self) -> EvalReport:
        return EvalReport.model_validate(await self._call("evals", {}))

    async def evaluate(self, request: EvalRequest) -> QueuedEval:
        return QueuedEval.model_validate(await self._call("evaluate", request.model_dump(), wished=True))

    async def cancel_eval(self, id_: str) -> EvalReport:
        return EvalReport.model_validate(await self._call("cancel_eval", {"id": id_}, wished=True))

    async def order_evals(self, every: int, request: EvalRequest) -> EvalReport:
        params = {"every": every, "request": request.model_dump()}
        return EvalReport.model_validate(await self._call("order_evals", params, wished=True))

    async def convert(self, to: Way, mean_tokens: float | None = None) -> Conversion:
        answer = await self._call("convert", {"to": to, "mean_tokens": mean_tokens})
        return Conversion.model_validate(answer)

    async def note(self, text: str) -> JournalEntry:
        """Have it kept by the supervisor, or in the file where the experiment was taken down."""
        if not self._may_start:
            raise RltuiError("this client is read-only: no note was made", hint=hints.NOTE(name=self.name))
        try:
            return JournalEntry.model_validate(await self._call("note", {"text": text}))
        except ShutDownError:
            return await asyncio.to_thread(Journal(self._control.journal_file).note, text)

    def keep_pins(self, pins: Sequence[str]) -> None:
        """Keep these instead; by a client that may only look, until it ends."""
        if not self.readonly or self.observed:
            self._kept.keep_pins(pins)

    async def publication(self, what: str, repo: str) -> Publication:
        return await asyncio.to_thread(publication, self.record, what, repo)

    async def publish(self, published: Publication, *, private: bool) -> None:
        chosen = published.model_copy(update={"private": private})
        await self._call("tokens", tokens(), wished=True)
        plan = await self.execute(publish_request(chosen))
        if PUBLISH not in plan.start:
            raise ConflictError("an upload is under way", hint="wait for its end")

    async def open_shell(self, like: str | None) -> str:
        await self.execute(await asyncio.to_thread(shell_request, self.record, like=like))
        async with contextlib.aclosing(self.events()) as events:
            async for event in events:
                if isinstance(event, Status) and not event.transaction and not _begins(event, SHELL):
                    break
        return SHELL

    def attach_command(self, component: str) -> list[str]:
        """Another rltui, which becomes the tmux client that shows the component's pane."""
        command = module_command("rltui", "attach", component, "-n", self.name)
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
            reader, writer = await asyncio.open_unix_connection(find_socket(self.record), limit=_LINE_LIMIT)
        except OSError:
            if not wished:
                self._refuse_revival()
            if not self._may_start:
                raise not_running(self.name) from None
            async with self._is_away:
                await self.start_supervisor()
            reader, writer = await asyncio.open_unix_connection(find_socket(self.record), limit=_LINE_LIMIT)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                check_hello(_message(await reader.readline()))
                if self.readonly and (changes_run or not self._may_start):
                    writer.write(b'{"id":0,"method":"readonly"}\n')
                    result_of(_message(await reader.readline()))
        except TimeoutError:
            writer.close()
            raise RltuiError(
                "the supervisor does not answer", hint=f"is it stopped? {hints.STATUS} says its pid"
            ) from None
        except BaseException:
            writer.close()
            raise
        return reader, writer

    def _refuse_revival(self) -> None:
        """What was taken down stays so. What its supervisor said counts as much as what it could write."""
        from rltui.services.runs.intent import IntentFile  # the first frame need not wait for it

        noted = IntentFile(self._control.intent_file).read().down
        for down in (self._down, noted):
            if down is not None and down.complete:
                left = f"; cannot be ended: {', '.join(down.left)}" if down.left else ""
                raise ShutDownError(f"{self.name} was taken down by {down.by}{left}")

    async def start_supervisor(self) -> None:
        """Have one started, unless one listens, also after a `down`.

        Raises:
            RltuiError: if that does not work; its last words are in the details.
        """
        done = await subprocesses.run(module_command("rltui.client", self.name), timeout_s=_START_TIMEOUT_S)
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
