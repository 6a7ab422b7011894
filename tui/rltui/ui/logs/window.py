"""A window of some rows and columns onto a log: which of its rows are in view, and how it gets elsewhere."""

from __future__ import annotations

from typing import NamedTuple

from rich.cells import cell_len

from rltui.core.logs.query import Query
from rltui.core.logs.source import LogChange, LogSource
from rltui.ui.logs.rows import Display, LogRows, TextRow
from rltui.ui.logs.viewport import LogViewport, ViewRow

CUT_CELLS = 1
"""Width of the sign at the right edge that a line goes on."""
_FLOOD_LINES = 1000
"""New lines in one poll that nobody can read: only every second poll is laid out then, to spare the line.
After a reset all lines are new, so a jump to the end counts as a flood and a fresh file does not."""
_SEEK_SLICES = 3
"""Slices of a huge log indexed at a time while a place in it is looked for."""
_SEEK_PAUSE_S = 0.01
_WAIT_PAUSE_S = 0.05
"""Pause between two looks at a log that is indexed on another machine."""
_SIDEWAYS_CELLS = 8


class WindowRow(NamedTuple):
    position: ViewRow
    text: TextRow


class LogWindow:
    """Follows the end of a log until someone moves up; going to the end follows again.

    What a method changes is in `visible` after the next `lay_out`.
    """

    def __init__(self) -> None:
        self.source: LogSource | None = None
        self.rows = LogRows(_no_line)
        self.width = self.height = 0
        self.left = 0
        """Cells that are out of view at the left."""
        self.visible: list[WindowRow] = []
        self.follow = True
        """Whether it sticks to the newest line."""
        self.wrap = self.whole = self.raw = False
        """The fields of `Display` of these names."""
        self.query: Query | None = None
        """Set off in the lines that are shown, also where it is searched for elsewhere."""
        self.sought_offset: int | None = None
        """Byte of the log whose line is to be shown, once it is indexed."""
        self.is_seeking_start = False
        self._viewport = LogViewport(lambda number: len(self.rows.rows(number)))
        self._is_layout_due = False

    def set_source(self, source: LogSource | None) -> None:
        if source is not self.source:
            self.source = source
            self.rows = LogRows(_no_line) if source is None else LogRows(source.line, source.label)
            self.left = 0
            self._stop_seeking()
            self.follow = True

    def poll(self) -> bool:
        """Take up what is new in the log; returns whether there is anything to lay out."""
        if self.source is None:
            return False
        stop, laid_out_stop = self.source.stop, self._viewport.stop
        match self.source.poll(may_skip=self.follow):
            case LogChange.NONE if not self._is_layout_due:
                return False
            case LogChange.GREW:
                self.rows.forget(stop - 1)
            case LogChange.FILLED:
                self.rows.clear()
            case LogChange.RESET:
                self.rows.clear()
                laid_out_stop = self.source.start
        is_flood = self.source.stop - laid_out_stop > _FLOOD_LINES
        self._is_layout_due = is_flood and not self._is_layout_due
        return not self._is_layout_due

    def lay_out(self) -> None:
        """Bring `visible` up to date with log, size, position and the way of showing."""
        self._is_layout_due = False
        source, view = self.source, self._viewport
        view.start, view.stop = (source.start, source.stop) if source is not None else (0, 0)
        view.height = self.height
        self.rows.set_range(view.start, view.stop)
        width = self.width or None
        wrap_cells, figure_cells = (width, None) if self.wrap else (None, width)
        self.rows.set_display(Display(self.query, self.whole, self.raw, wrap_cells, figure_cells))
        if self.follow:
            view.move_to_end()
        else:
            view.clamp()
        self.visible = [WindowRow(row, self.rows.rows(row.line)[row.row]) for row in view.rows()]

    # what is in view

    @property
    def first_line(self) -> int:
        """Number of the first line in view; at least one must be."""
        return self.visible[0].position.line

    @property
    def last_line(self) -> int:
        """Number of the last line in view; at least one must be."""
        return self.visible[-1].position.line

    @property
    def lines_below(self) -> int:
        """How many lines there are below the view; 1 where only the rest of a line is, 0 at the end."""
        if self.source is None or self.follow or self._viewport.at_end:
            return 0
        return max(1, self._viewport.stop - 1 - self.last_line if self.visible else 0)

    def number_at(self, offset: int | None) -> int | None:
        """The line that the byte `offset` is in; `None` where it is not indexed, or there is no offset."""
        return None if offset is None or self.source is None else self.source.number_at(offset)

    def is_in_view(self, offset: int) -> bool:
        number = self.number_at(offset)
        return number is not None and bool(self.visible) and self.first_line <= number <= self.last_line

    def cells_above(self, position: ViewRow) -> int:
        """Cells of the same line in the rows above."""
        return sum(row.cells for row in self.rows.rows(position.line)[: position.row])

    # moving

    def toggle_follow(self) -> None:
        self._stop_seeking()
        self.follow = not self.follow

    def move_to_end(self) -> None:
        self._stop_seeking()
        self.follow = True

    def move_to_start(self) -> None:
        """Go to the oldest line, indexing what is not indexed yet in slices."""
        if self.source is not None:
            self.follow = False
            self._stop_seeking()
            self.is_seeking_start = True
            self.continue_seeking()

    def show_offset(self, offset: int) -> None:
        """Go to the line that the byte `offset` of the log is in, indexing what is not indexed yet."""
        self.follow = False
        self._stop_seeking()
        self.sought_offset = offset
        self.continue_seeking()

    def show_line(self, number: int, rows: int) -> None:
        """Move by lines as far as `rows` would, unless the line is in view."""
        self.follow = False
        if self.visible and not self.first_line <= number <= self.last_line:
            self._viewport.top = ViewRow(self._viewport.top.line + rows, 0)

    def scroll(self, rows: int) -> None:
        if self.source is None:
            return
        self._stop_seeking()
        if self._is_layout_due:
            self.lay_out()  # the line numbers of before a reset mean nothing now
        if rows < 0 and self._viewport.top.line + rows - self.height < self.source.start:
            self._load_older()
        self._viewport.move(rows)
        self.follow = self._viewport.at_end

    def scroll_sideways(self, direction: int) -> None:
        """1: to the right; -1: to the left."""
        widest = max((row.text.cells for row in self.visible), default=0)
        left = self.left + direction * _SIDEWAYS_CELLS
        self.left = max(0, min(left, widest - self.width))

    # looking for a place that is not indexed yet

    @property
    def seek_pause_s(self) -> float | None:
        """How long to wait before `continue_seeking`; `None`: no place is looked for."""
        if self.source is None or not (self.is_seeking_start or self.sought_offset is not None):
            return None
        return _WAIT_PAUSE_S if self.source.is_waiting else _SEEK_PAUSE_S

    def continue_seeking(self) -> None:
        """Index some more slices towards the place that is looked for, and show it once it is there."""
        source, offset = self.source, self.sought_offset
        if source is None or self.seek_pause_s is None:
            return
        if source.is_waiting:
            self.poll()
        if offset is None:
            self.is_seeking_start = all(self._load_older() for _ in range(_SEEK_SLICES))
            self._viewport.top = ViewRow(source.start, 0)
            return
        number = source.number_at(offset)
        if number is None and (
            source.is_waiting or any(self._index_towards(offset) for _ in range(_SEEK_SLICES))
        ):
            return
        self.sought_offset = None
        if number is not None:
            self._viewport.top = ViewRow(max(source.start, number - self.height // 3), 0)
            self._move_to_match(number)

    def _stop_seeking(self) -> None:
        self.is_seeking_start, self.sought_offset = False, None

    def _load_older(self) -> bool:
        """Index a slice of older lines. The oldest line known so far may have been cut at its start."""
        if self.source is None:
            return False
        self.rows.forget(self.source.start)
        return self.source.load_older()

    def _index_towards(self, offset: int) -> bool:
        """Index a slice more in its direction. `False` where there is no more, or it is indexed."""
        source = self.source
        if source is None or source.number_at(offset) is not None:
            return False
        if source.start < source.stop and offset < source.offset(source.start):
            return self._load_older()
        self.rows.forget(source.stop - 1)
        return source.poll(may_skip=False) is LogChange.GREW

    def _move_to_match(self, number: int) -> None:
        """Move sideways where the first match in the line would be cut off."""
        rows = self.rows.rows(number) if self.query is not None and not self.wrap else []
        match = next(self.query.spans(rows[0].text), None) if self.query is not None and rows else None
        if match is None:
            return
        first, last = (cell_len(rows[0].text[:index]) for index in match)
        width = self.width - CUT_CELLS
        if first < self.left or last > self.left + width:
            self.left = 0 if last <= width else max(0, first - width // 3)


def _no_line(number: int) -> str:
    del number
    return ""
