"""A screen for commands, without an app: a test gives the answers to dialogs, and reads what was said."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

from textual.message import Message
from textual.screen import Screen, ScreenResultType

from rltui.errors import RltuiError


class FakeFrontend:
    """A `Frontend`."""

    def __init__(self, *answers: object) -> None:
        """`answers`: to the dialogs, in their order, or functions that make them of the dialogs; a dialog
        without one fails the test.
        """
        self._answers = list(answers)
        self._work: list[Coroutine[None, None, None]] = []
        self.dialogs: list[Screen[Any]] = []
        self.notices: list[str] = []
        self.waits: list[str] = []
        self.messages: list[Message] = []
        self.errors: list[RltuiError] = []

    async def done(self) -> None:
        """Until all work that commands have begun has ended."""
        while self._work:
            try:
                await self._work.pop(0)
            except RltuiError as error:
                await self.show_error(error)

    def work(self, coroutine: Coroutine[None, None, None], *, changes: bool = True) -> None:
        del changes
        self._work.append(coroutine)

    async def prompt(self, dialog: Screen[ScreenResultType]) -> ScreenResultType | None:
        self.dialogs.append(dialog)
        answer = self._answers.pop(0)
        return cast("ScreenResultType | None", answer(dialog) if callable(answer) else answer)

    @asynccontextmanager
    async def waiting(self, what: str, *, cancels: bool = False) -> AsyncIterator[None]:
        del cancels
        self.waits.append(what)
        yield

    @contextmanager
    def suspend(self) -> Iterator[None]:
        yield

    async def show_error(self, error: RltuiError) -> None:
        self.errors.append(error)

    def notify(
        self,
        message: str,
        *,
        severity: str = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        del severity, timeout, markup
        self.notices.append(message)

    def post_message(self, message: Message) -> bool:
        self.messages.append(message)
        return True
