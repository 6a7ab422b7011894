"""The other end of a link: `rltui serve --stdio`, on the machine whose experiments are looked at from afar.

One task for each question; what blocks goes to threads. It ends with its stdin.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import threading
from typing import Any

from rltui.client.transports.frames import Frames, NoHelloError, Packet, PacketKind
from rltui.client.transports.ssh import OURS, TAKEN_DOWN
from rltui.errors import RltuiError, UsageError

logger = logging.getLogger(__name__)

_HELLO_S = 10.0
"""It was sent when the connection was begun."""


def serve(reading: int, writing: int) -> None:
    """Answer who is at the other end of these descriptors, until it is gone.

    Raises:
        RltuiError: if that is no rltui.
    """
    os.write(writing, OURS.line())  # before all that takes long to load
    frames = Frames(reading, writing)
    try:
        theirs = frames.hear(_HELLO_S)
    except NoHelloError as error:
        if error.is_late:
            raise RltuiError(
                "the rltui at the other end of the connection says nothing",
                hint="what it said may have been read by a login file of this machine, such as ~/.bashrc: "
                "there, only an interactive shell may read its input",
            ) from error
        if not error.said:
            return
        raise RltuiError(
            "this is for another rltui, at the other end of a connection", hint="there: rltui --host HOST"
        ) from error
    if (theirs.link, theirs.api) == (OURS.link, OURS.api):  # else the other end says so
        asyncio.run(_Serving(frames).serve())


class _Serving:
    """One link."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._tasks: dict[int, asyncio.Task[None]] = {}
        """By channel."""
        from rltui.client.laptop.answers import RemoteServer

        self._answers = RemoteServer()

    async def serve(self) -> None:
        """Until the other end is gone."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        receiving = threading.Thread(target=self._receive, args=(loop, over), name="receive", daemon=True)
        receiving.start()
        await over.wait()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _receive(self, loop: asyncio.AbstractEventLoop, over: asyncio.Event) -> None:
        """In a thread."""
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
            method, asked = str(call["method"]), call["params"]
            if (tell := self._answers.tellings.get(method)) is not None:
                async with contextlib.aclosing(tell(channel, asked)) as items:
                    async for item in items:
                        await self._tell(channel, item)
                self._frames.send(Packet(channel, PacketKind.RESULT))
                return
            if (answer := self._answers.answers.get(method)) is None:
                raise UsageError(f"this rltui knows no {method[:40]!r}", hint="it may be older than yours")
            data, blob = await answer(asked)
            self._frames.send(Packet(channel, PacketKind.RESULT, data, blob))
        except RltuiError as error:
            self._refuse(channel, error)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, re.error) as error:
            logger.exception("a question was not understood")
            self._refuse(channel, RltuiError(f"a question that is not understood: {error!r}"))
        except OSError as error:
            self._refuse(channel, RltuiError(f"it cannot be read there: {error.strerror or error}"))
        except Exception as error:  # a bug: who asked is told, and may go on
            logger.exception("a question was not answered")
            self._refuse(channel, RltuiError(f"an error in rltui itself: {error!r}"))

    async def _tell(self, channel: int, item: object) -> None:
        """Returns once it is on its way: what is not taken is not made."""
        loop, sent = asyncio.get_running_loop(), asyncio.Event()

        def on_sent() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(sent.set)

        self._frames.send(Packet(channel, PacketKind.ITEM, item), on_sent)
        await sent.wait()

    def _refuse(self, channel: int, error: RltuiError) -> None:
        from rltui.client.protocol import ShutDownError

        kind = TAKEN_DOWN if isinstance(error, ShutDownError) else ""
        said = {"exit_code": int(error.exit_code), "title": error.title, "details": error.details}
        self._frames.send(Packet(channel, PacketKind.ERROR, {**said, "hint": error.hint, "kind": kind}))
