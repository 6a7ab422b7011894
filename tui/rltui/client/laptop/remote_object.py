"""Something on another machine that is asked over a link: which object, which of its methods, with what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping
from queue import SimpleQueue
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from rltui.base.questions import Question, question_of
from rltui.client.transports.frames import Packet, decoding
from rltui.client.transports.ssh import HostLink
from rltui.errors import RltuiError

_Parameters = ParamSpec("_Parameters")
_Answer = TypeVar("_Answer")


class RemoteStream(Generic[_Answer]):
    """Answers of the other end as they come, for a thread that waits for them."""

    def __init__(self, link: HostLink, send: Callable[[Callable[[Any], None]], int]) -> None:
        """`send` asks, and calls its argument with each answer, and with `None` after the last."""
        self._link = link
        self._answers: SimpleQueue[_Answer | RltuiError | None] = SimpleQueue()
        self._channel = send(self._answers.put)

    def __iter__(self) -> Iterator[_Answer]:
        return self

    def __next__(self) -> _Answer:
        answer = self._answers.get()
        if isinstance(answer, RltuiError):
            raise answer
        if answer is None:
            raise StopIteration
        return answer

    def cancel(self) -> None:
        """End the stream, from any thread."""
        self._link.cancel(self._channel)
        self._answers.put(None)


class RemoteObject:
    """The object of a `kind` with an `address` at the other end of a link. Its methods are those of the class
    that answers there.
    """

    def __init__(self, link: HostLink, kind: str, address: object = None, *, whose: str = "") -> None:
        """`whose` names the sender in errors about answers that cannot be parsed; the host by default."""
        self._link, self._kind, self._address = link, kind, address
        self._whose = whose or link.host.name

    def ask_now(self, question: Question, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """Ask and wait. Not for the event loop."""
        return self.answer(question, self._link.call(*self._request(question, arguments)))

    async def ask(self, question: Question, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """Ask without blocking, for the event loop."""
        packet = await asyncio.wrap_future(self._link.future(*self._request(question, arguments)))
        return self.answer(question, packet)

    @overload
    def call(
        self,
        method: Callable[Concatenate[Any, _Parameters], Coroutine[Any, Any, _Answer]],
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> _Answer: ...

    @overload
    def call(
        self,
        method: Callable[Concatenate[Any, _Parameters], _Answer],
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> _Answer: ...

    def call(self, method: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        """Call a method of the class that answers, and wait for the answer."""
        question = question_of(method)
        return self.ask_now(question, question.arguments(self, *args, **kwargs))

    def send(
        self,
        take: Callable[[_Answer | RltuiError], object],
        method: Callable[Concatenate[Any, _Parameters], _Answer],
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> int:
        """Ask, and have `take` called with the answer, in the link's thread. Returns the channel; 0 where the
        link is down, which `take` is told.
        """
        question = question_of(method)
        return self._send(take, question, question.arguments(self, *args, **kwargs))

    def send_for_all(
        self,
        take: Callable[[_Answer | RltuiError | None], object],
        method: Callable[Concatenate[Any, _Parameters], AsyncIterator[_Answer]],
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> int:
        """Like `send`, but `take` gets each answer of a stream, and `None` after the last one."""
        question = question_of(method)
        return self._send(take, question, question.arguments(self, *args, **kwargs))

    def stream(
        self,
        method: Callable[Concatenate[Any, _Parameters], Iterator[_Answer] | AsyncIterator[_Answer]],
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> RemoteStream[_Answer]:
        """The answers of a stream as they come, for a thread."""
        question = question_of(method)
        arguments = question.arguments(self, *args, **kwargs)
        return RemoteStream(self._link, lambda take: self._send(take, question, arguments))

    async def stream_later(
        self,
        method: Callable[Concatenate[Any, _Parameters], AsyncIterator[_Answer]],
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> AsyncGenerator[_Answer, None]:
        """Like `stream`, for the event loop."""
        loop = asyncio.get_running_loop()
        answers: asyncio.Queue[_Answer | RltuiError | None] = asyncio.Queue()

        def take(answer: _Answer | RltuiError | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(answers.put_nowait, answer)

        channel = self.send_for_all(take, method, *args, **kwargs)
        try:
            while not isinstance(answer := await answers.get(), RltuiError) and answer is not None:
                yield answer
        finally:
            self._link.cancel(channel)
        if isinstance(answer, RltuiError):
            raise answer

    def _send(self, take: Callable[[Any], object], question: Question, arguments: Mapping[str, Any]) -> int:
        def receive(packet: Packet | RltuiError) -> None:
            answer: Any = packet
            if isinstance(packet, Packet):
                try:
                    is_end = question.is_stream and packet.data is None
                    answer = None if is_end else self.answer(question, packet)
                except RltuiError as error:
                    answer = error
            take(answer)

        return self._link.ask(receive, *self._request(question, arguments))

    def _request(self, question: Question, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Method and parameters, as `HostLink.ask` takes them."""
        params = {"of": self._address, "arguments": question.encode(arguments)}
        return f"{self._kind}.{question.name}", params

    def answer(self, question: Question, packet: Packet) -> Any:  # noqa: ANN401 - as the question says
        """Raises RltuiError if it cannot be understood."""
        with decoding(self._whose):
            data = {**packet.data, "blob": packet.blob} if packet.blob else packet.data
            return question.decode_answer(data)
