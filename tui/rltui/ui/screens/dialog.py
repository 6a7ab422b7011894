"""What all dialogs share."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen

from rltui.ui.actions import Scope, bindings

Answer = TypeVar("Answer")


class AnsweredOnce(ModalScreen[Answer], Generic[Answer]):
    """Is left once, while it is on top. A second key in haste would else leave what is below."""

    def dismiss(self, result: Answer | None = None) -> AwaitComplete:
        """Leave, unless that has happened or another screen lies on top."""
        return super().dismiss(result) if self.is_active else AwaitComplete()


class Dialog(AnsweredOnce[Answer], Generic[Answer]):
    """A box in the middle. `esc` leaves it without an answer."""

    CSS_PATH: ClassVar = ["dialog.tcss"]
    BINDINGS = bindings(Scope.DIALOG)
    VERTICAL_BREAKPOINTS = [(0, "-short"), (36, "-tall")]  # noqa: RUF012 - as Textual declares it

    def __init__(self) -> None:
        super().__init__(classes="dialog")

    def action_no(self) -> None:
        """Leave things as they are."""
        self.dismiss(None)

    def action_yes(self) -> None:
        """A dialog that asks nothing has no yes."""

    def action_scroll_lines(self, lines: int) -> None:
        """A long plan."""
        for body in self.query(".scroll"):
            body.scroll_relative(y=lines, animate=False)

    def action_other(self) -> None:
        """To the other button."""
        self.focus_next("Button")
