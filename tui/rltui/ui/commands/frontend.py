"""The interface of a screen to the commands of its keys."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Literal, Protocol

from textual.message import Message
from textual.screen import Screen, ScreenResultType

from rltui.errors import RltuiError


class Frontend(Protocol):
    """`BaseScreen` is one; tests have one without an app."""

    def work(self, coroutine: Coroutine[None, None, None], *, changes: bool = True) -> None:
        """Carry it out, one at a time; not where it `changes` something and nothing may be changed.

        An `RltuiError` ends it, and is told in a dialog.
        """

    async def prompt(self, dialog: Screen[ScreenResultType]) -> ScreenResultType | None:
        """The answer to a dialog; `None` where it was left without one."""

    def waiting(self, label: str, *, cancels: bool = False) -> AbstractAsyncContextManager[None]:
        """Say that `label` is waited for; `cancels`: a person may end the wait."""

    def suspend(self) -> AbstractContextManager[None]:
        """Lend the terminal to another program.

        Raises:
            SuspendNotSupported: where it cannot be lent.
        """

    async def show_error(self, error: RltuiError) -> None: ...

    def notify(
        self,
        message: str,
        *,
        severity: Literal["information", "warning", "error"] = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None: ...

    def post_message(self, message: Message) -> bool: ...
