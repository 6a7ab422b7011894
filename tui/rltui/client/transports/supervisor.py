"""The connection to a supervisor of this machine: typed, asynchronous, back again after it was killed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from rltui.base.interpreter import module_command
from rltui.base.protocol import plain
from rltui.base.questions import Question, questions_of
from rltui.client.experiment import Event, ShutDownError
from rltui.client.launch import not_running
from rltui.client.transports.unix import (
    CONNECT_TIMEOUT_S,
    IDENTIFY,
    SupervisorGoneError,
    check_hello,
    identification,
    is_outdated,
    message_of,
    peer_pid,
    result_of,
)
from rltui.core import hints
from rltui.core.experiment.api import EVENT_MODELS, Down, Status
from rltui.core.experiment.questions import SupervisorApi
from rltui.core.runs.state import no_answer
from rltui.errors import RltuiError
from rltui.services.experiment import heartbeat
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.registry import find_socket

NOTE = questions_of(SupervisorApi)["note"]
_START_TIMEOUT_S = 60.0
"""Time limit for another rltui to start a supervisor: its own limits are shorter."""
_LINE_LIMIT = 64 << 20
"""Longest answer, in bytes."""


class SupervisorClient(SupervisorApi):
    """Asks the supervisor of one experiment. Each question has its own short connection; events have one of
    their own.
    """

    def __init__(self, record: ExperimentRecord, *, may_start: bool) -> None:
        """`may_start`: start a supervisor where none runs. Clients without it send `readonly` first on every
        connection, whereupon the supervisor refuses every change.
        """
        self.record = record
        self._may_start = self._may_replace = may_start
        self._down: Down | None = None
        """The end that its last supervisor told of."""
        self.is_away = asyncio.Lock()
        """The lock is held while no supervisor may run."""

    async def ask(
        self, question: Question, arguments: Mapping[str, Any], *, starts_supervisor: bool = False
    ) -> Any:  # noqa: ANN401
        """Ask one question. `starts_supervisor`: one is started for it, even after a `down`; so it is for a
        question that says so itself.
        """
        is_note = question.name == NOTE.name  # for which an observed experiment is as good as any
        reader, writer = await self._open(
            starts_supervisor=starts_supervisor or question.starts_supervisor, changes_run=not is_note
        )
        try:
            request = {"id": 1, "method": question.name, "params": question.encode(arguments)}
            writer.write(json.dumps(request, default=plain).encode() + b"\n")
            await writer.drain()
            return question.decode_answer(await _answer(reader))
        except ConnectionError as error:
            raise SupervisorGoneError from error
        finally:
            writer.close()

    async def events(self) -> AsyncGenerator[Event, None]:
        """Current values, then changes. Ends when the supervisor does; the next call starts another. One that
        hangs has a status that says so.

        Ends likewise when the supervisor drops us, which it does where we do not read for long.
        """
        reader, writer = await self._open()
        status: Status | None = None
        is_silent = False
        try:
            writer.write(b'{"id":0,"method":"subscribe"}\n')
            await writer.drain()
            while (line := await _next_line(reader)) != b"":
                if line is None:
                    was_silent = is_silent
                    is_silent = heartbeat.has_fallen_silent(self.record.name, self.record.output_dir)
                    if status is not None and is_silent != was_silent:
                        pid = peer_pid(writer.get_extra_info("socket"))
                        stalled = {"state": "stalled", "reason": no_answer(pid)}
                        yield status.replace(**stalled) if is_silent else status
                    continue
                message = message_of(line)
                if message.get("id") == IDENTIFY:
                    continue
                if "error" in message:
                    result_of(message)
                if (model := EVENT_MODELS.get(message["event"])) is not None:
                    event = model.from_plain(message["data"])
                    if isinstance(event, Status):
                        self._down, status, is_silent = event.down, event, False
                    yield event  # type: ignore[misc]
            self._refuse_revival()
        finally:
            writer.close()

    async def _open(
        self, *, starts_supervisor: bool = False, changes_run: bool = True
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection. `starts_supervisor`: even after a `down`. For what never `changes_run`, an observed
        experiment is as good as any.
        """
        try:
            reader, writer, hello = await self._connect()
        except OSError:
            if not starts_supervisor:
                self._refuse_revival()
            if not self._may_start:
                raise not_running(self.record.name) from None
            reader, writer, hello = await self._connect_to_new()
        if self._may_replace and is_outdated(hello):
            writer.close()
            reader, writer, hello = await self._connect_to_new()
            self._may_replace = not is_outdated(hello)
        if not self._may_start or (self.record.observed and changes_run):
            async with _first_answer(writer):
                writer.write(b'{"id":0,"method":"readonly"}\n')
                await _answer(reader)
        return reader, writer

    async def _connect_to_new(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, dict[str, Any]]:
        async with self.is_away:
            await self.start_supervisor()
        return await self._connect()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, dict[str, Any]]:
        """A connection, and the hello of the supervisor."""
        reader, writer = await asyncio.open_unix_connection(find_socket(self.record), limit=_LINE_LIMIT)
        async with _first_answer(writer):
            hello = message_of(await reader.readline())
            check_hello(hello)
            writer.write(identification())
        return reader, writer, hello

    def _refuse_revival(self) -> None:
        """An experiment that was shut down stays so. The supervisor's message counts as much as its file."""
        from rltui.services.experiment.intent import IntentFile  # the first frame need not wait for it

        control = self.record.control
        saved_down = IntentFile(control.intent_file).read().down
        for down in (self._down, saved_down):
            if down is not None and down.complete:
                survivors = f"; cannot be ended: {', '.join(down.left)}" if down.left else ""
                raise ShutDownError(f"{self.record.name} was shut down by {down.by}{survivors}")

    async def start_supervisor(self) -> None:
        """Have one started, also after a `down`, unless one listens that is not outdated.

        Raises:
            RltuiError: if that does not work; its last words are in the details.
        """
        from rltui.services.processes import subprocesses  # 7 ms, which the first frame need not wait for

        process = await subprocesses.run(
            module_command("rltui.client", self.record.name), timeout_s=_START_TIMEOUT_S
        )
        if process.code != 0:
            raise RltuiError(
                "cannot start a supervisor", details=process.errors.decode(errors="replace").splitlines()
            )


@asynccontextmanager
async def _first_answer(writer: asyncio.StreamWriter) -> AsyncGenerator[None, None]:
    """Limits the time for an answer on a new connection, which is closed if there is none, or a refusal.

    Raises:
        RltuiError: if none comes in time.
    """
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            yield
    except TimeoutError:
        writer.close()
        raise RltuiError(
            "the supervisor does not respond", hint=f"it may be stopped; {hints.STATUS} shows its pid"
        ) from None
    except BaseException:
        writer.close()
        raise


async def _answer(reader: asyncio.StreamReader) -> dict[str, Any]:
    """The answer to the question that was asked.

    Raises:
        SupervisorGoneError: if the supervisor ended.
        RltuiError: what it refused it with.
    """
    while (message := message_of(await reader.readline())).get("id") == IDENTIFY:
        continue
    return result_of(message)


async def _next_line(reader: asyncio.StreamReader) -> bytes | None:
    """The next line, empty at the end; `None` if none came for so long that the supervisor may hang."""
    try:
        async with asyncio.timeout(heartbeat.SILENCE_S / 3):
            return await reader.readline()
    except TimeoutError:
        return None
