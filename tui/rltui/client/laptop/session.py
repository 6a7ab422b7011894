"""The answering end of one link: a task for each question; blocking calls run in threads."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import threading
from collections.abc import AsyncGenerator, Iterator
from typing import Any

from rltui.client.experiment import ShutDownError
from rltui.client.laptop.server import RemoteServer, items_in_threads
from rltui.client.transports.frames import Frames, Packet, PacketKind
from rltui.client.transports.ssh import NOT_FOUND, SHUT_DOWN
from rltui.errors import NotFoundError, RltuiError, UsageError

logger = logging.getLogger(__name__)


class LinkSession:
    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._tasks: dict[int, asyncio.Task[None]] = {}
        """Channel → task that answers."""
        self._server = RemoteServer()

    async def serve(self) -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        receiver = threading.Thread(target=self._receive, args=(loop, over), name="receive", daemon=True)
        receiver.start()
        await over.wait()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _receive(self, loop: asyncio.AbstractEventLoop, over: asyncio.Event) -> None:
        """Runs in a thread of its own."""
        try:
            while (packet := self._frames.receive()) is not None:
                loop.call_soon_threadsafe(self._take, packet)
        except RltuiError as error:
            logger.warning("%s", error)
        finally:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(over.set)

    def _take(self, packet: Packet) -> None:
        channel = packet.channel
        if packet.kind is PacketKind.CANCEL:
            self._frames.drop(channel)
            if (task := self._tasks.get(channel)) is not None:
                task.cancel()
        elif packet.kind is PacketKind.CALL and channel not in self._tasks:
            task = asyncio.create_task(self._handle(channel, packet.data))
            self._tasks[channel] = task
            task.add_done_callback(lambda _: self._tasks.pop(channel, None))

    async def _handle(self, channel: int, call: Any) -> None:  # noqa: ANN401 - JSON
        """Answer one question, or tell until nobody asks any more."""
        try:
            method, params = str(call["method"]), call["params"]
            kind, _, name = method.partition(".")
            target = None if params is None else params["of"]
            owner, questions = await asyncio.to_thread(self._server.owner, kind, target)
            if (question := questions.get(name)) is None:
                raise UsageError(
                    f"this rltui has no {method[:40]!r}", hint="its version may be older than yours"
                )
            answer = getattr(owner, name)
            arguments = question.decode(params["arguments"])
            if question.is_stream:
                await self._tell_all(channel, answer(**arguments))
            elif asyncio.iscoroutinefunction(answer):
                self._send(channel, await answer(**arguments))
            else:
                self._send(channel, await asyncio.to_thread(answer, **arguments))
        except RltuiError as error:
            self._refuse(channel, error)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, re.error) as error:
            logger.exception("a question was not understood")
            self._refuse(channel, RltuiError(f"invalid request: {error!r}"))
        except OSError as error:
            self._refuse(channel, RltuiError(f"cannot read a file there: {error.strerror or error}"))
        except Exception as error:  # a bug: who asked is told, and may go on
            logger.exception("a question was not answered")
            self._refuse(channel, RltuiError(f"internal error: {error!r}"))

    async def _tell_all(self, channel: int, answers: Iterator[Any] | AsyncGenerator[Any, None]) -> None:
        """A stream, until it ends or nobody wants more of it."""
        later = items_in_threads(answers) if isinstance(answers, Iterator) else answers
        async with contextlib.aclosing(later) as items:
            async for item in items:
                await self._tell(channel, item)
        self._frames.send(Packet(channel, PacketKind.RESULT))

    def _send(self, channel: int, answer: object) -> None:
        """An answer, and its `blob`, a field of bytes, behind it."""
        self._frames.send(Packet(channel, PacketKind.RESULT, answer, getattr(answer, "blob", b"")))

    async def _tell(self, channel: int, item: object) -> None:
        """Returns once it is on its way: what is not taken is not made."""
        loop, is_sent = asyncio.get_running_loop(), asyncio.Event()

        def on_sent() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(is_sent.set)

        self._frames.send(Packet(channel, PacketKind.ITEM, item), on_sent)
        await is_sent.wait()

    def _refuse(self, channel: int, error: RltuiError) -> None:
        kind = ""
        if isinstance(error, ShutDownError):
            kind = SHUT_DOWN
        elif isinstance(error, NotFoundError):
            kind = NOT_FOUND
        reply = {**error.to_plain(), "exit_code": int(error.exit_code), "kind": kind}
        self._frames.send(Packet(channel, PacketKind.ERROR, reply))
