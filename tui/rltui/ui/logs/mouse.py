"""Selecting in a log view by mouse: characters under a drag, a word, a line."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.geometry import Offset
from textual.timer import Timer
from textual.widget import Widget

from rltui.ui.logs.model import LogModel
from rltui.ui.logs.selection import TextPosition

_SCROLL_INTERVAL_S = 0.05
"""Between two steps while the pointer is held beyond an edge."""
_MAX_SCROLL_ROWS = 5
"""Rows in a step, the further away the more."""


class MouseSelection:
    """Selects with the mouse; `on_change` repaints the view."""

    def __init__(self, view: Widget, model: LogModel, on_change: Callable[[], object]) -> None:
        self._view, self._model, self._on_change = view, model, on_change
        self._start: TextPosition | None = None
        """Position where the button was pressed, while it is down."""
        self._was_following = False
        self._has_moved = False
        """The button went down for more than a click."""
        self._pointer = Offset()
        self._scroll_timer: Timer | None = None

    def press(self, event: events.MouseDown) -> None:
        """Perhaps the beginning of a selection; with shift, its other end."""
        position = self._position_at(event)
        if event.button != 1 or position is None:
            return
        event.stop()
        self._has_moved = event.shift and self._model.selection is not None
        if self._has_moved:
            self._start = None
            self._model.extend_selection(position)
            self._on_change()
            return
        self._start, self._was_following = position, self._model.window.follow
        self._model.window.follow = False  # what was aimed at stays below the pointer

    def move(self, event: events.MouseMove) -> None:
        if self._start is None:
            return
        event.stop()
        if not event.button:  # it went up where nobody saw it
            self._end_drag()
            return
        self._pointer = event.offset - self._view.content_offset
        if self._view.app.mouse_captured is not self._view:
            self._view.capture_mouse()
            self._has_moved = True
        is_beyond = not 0 <= self._pointer.y < self._view.size.height
        if is_beyond and self._scroll_timer is None:
            self._scroll_timer = self._view.set_interval(_SCROLL_INTERVAL_S, self._scroll, name="scroll on")
        elif not is_beyond:
            self._stop_scrolling()
        self._select_to_pointer()

    def release(self, event: events.MouseUp) -> None:
        if self._start is not None:
            event.stop()
            self._end_drag()

    def click(self, event: events.Click) -> None:
        """Twice: a word; three times: a line; once: nothing any more. On the border it is for others."""
        position = self._position_at(event)
        if position is None:
            return
        if self._has_moved:
            self._has_moved = False
        elif event.chain == 2:
            self._model.select_word(position)
            self._on_change()
        elif event.chain > 2:
            self._model.select(position, position, lines=True)
            self._on_change()
        elif self._model.selection is not None:
            self._model.selection = None
            self._on_change()
        if event.chain > 1:
            event.stop()

    def _position_at(self, event: events.MouseEvent) -> TextPosition | None:
        offset = event.get_content_offset(self._view)
        return self._model.position_at(*offset) if offset is not None else None

    def _select_to_pointer(self) -> None:
        """Extend the selection through the character under the pointer."""
        end = self._model.position_at(*self._pointer)
        if end is not None and self._start is not None:
            self._model.select_through(self._start, end)
            self._on_change()

    def _scroll(self) -> None:
        y = self._pointer.y
        rows = y if y < 0 else y - self._view.size.height + 1
        self._model.window.scroll(max(-_MAX_SCROLL_ROWS, min(rows, _MAX_SCROLL_ROWS)))
        self._model.lay_out()
        self._select_to_pointer()

    def _stop_scrolling(self) -> None:
        if self._scroll_timer is not None:
            self._scroll_timer.stop()
            self._scroll_timer = None

    def _end_drag(self) -> None:
        self._start = None
        self._stop_scrolling()
        if self._was_following and not self._has_moved:
            self._model.window.follow = True
            self._on_change()
        if self._view.app.mouse_captured is self._view:
            self._view.release_mouse()
