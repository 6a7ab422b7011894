"""All that was said in this session, to be read again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from rltui.base.times import clock_text
from rltui.ui import verbs
from rltui.ui.actions import Footer, InPalette, KeyContext
from rltui.ui.copying import CopyRequested
from rltui.ui.dialogs.base import Dialog, KeyHint, MessageDialog
from rltui.ui.key_bindings import bind, keys
from rltui.ui.messages import Messages, Notification
from rltui.ui.styles import FAINT
from rltui.ui.widgets.row_list import Row, RowList, list_keys, note_row

_TIME_CELLS = 10
_MOST_LINES = 8
"""Lines of the message under the cursor; enter shows all."""


class MessageList(Dialog[None]):
    """The newest first; the one under the cursor with all its lines."""

    BINDINGS: ClassVar = keys(
        KeyContext.MESSAGES, *list_keys("moved_list."),
        bind(verbs.OPEN, "read", "Read the whole message", label="read", footer=Footer.YES,
             palette=InPalette.NO),
        bind(verbs.COPY, footer=Footer.YES, palette=InPalette.NO),
        bind(verbs.MESSAGES, "no", palette=InPalette.NO),
    )  # fmt: skip

    def __init__(self, messages: Messages, clock: Callable[[], float]) -> None:
        super().__init__()
        self._messages = messages
        self._clock = clock
        self.moved_list = RowList(self._rows, id="message-list")

    def compose(self) -> ComposeResult:
        with Vertical(classes="box messages") as box:
            box.border_title = "Messages"
            yield self.moved_list

    def footer_hints(self) -> Sequence[KeyHint]:
        return ("open", "read"), ("copy", ""), ("dialog.no", "close")

    def on_mount(self) -> None:
        self.moved_list.focus()
        self._messages.read()
        self._leave = self._messages.watch(self.moved_list.reload)

    def on_unmount(self) -> None:
        self._leave()

    @property
    def _selected_message(self) -> Notification | None:
        key = self.moved_list.key
        return next(
            (notification for notification in self._messages.said if str(notification.number) == key), None
        )

    def _rows(self, width: int, selected: str | None) -> tuple[Row, ...]:
        notifications = self._messages.said[::-1]
        if not notifications:
            return (note_row("No messages yet", width),)
        return tuple(
            Row(key := str(notification.number), _lines(notification, width, is_open=key == selected))
            for notification in notifications
        )

    def action_read(self) -> None:
        if (notification := self._selected_message) is None:
            return
        if notification.alert is not None:
            self.app.push_screen(MessageDialog.for_alert(notification.alert, self._clock() - notification.at))
        else:
            head, _, rest = notification.full.partition("\n")
            dialog = MessageDialog(
                head, tuple(rest.split("\n")) if rest else (), note=clock_text(notification.at)
            )
            self.app.push_screen(dialog)

    def action_copy(self) -> None:
        if (notification := self._selected_message) is not None:
            title = f"{notification.alert.title}: " if notification.alert is not None else ""
            self.post_message(CopyRequested(f"{title}{notification.text}", "the message"))


def _lines(notification: Notification, width: int, *, is_open: bool) -> tuple[Content, ...]:
    when = Content.styled(f" {clock_text(notification.at)} ", FAINT)
    if not is_open:
        return (when + notification.line(width - _TIME_CELLS),)
    style = f"bold {notification.mark[1]}"
    rows = [
        row
        for line in notification.full.split("\n")
        for row in Content.styled(line, style).wrap(width - _TIME_CELLS)
    ]
    more = len(rows) - _MOST_LINES
    if more > 0:
        rows[_MOST_LINES:] = [Content.styled(f"… {more} more lines: enter", FAINT)]
    return tuple((when if not index else Content(" " * _TIME_CELLS)) + row for index, row in enumerate(rows))
