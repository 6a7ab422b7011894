"""What a log pane paints: the newest lines as they come, or any older ones. Reads only what is in view."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.content import Content
from textual.errors import NoWidget
from textual.geometry import Region
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from rltui.core.lines import Level, LogChange, LogSource, plain_text
from rltui.core.log_query import Query
from rltui.ui.actions import key_of
from rltui.ui.background import is_in_front
from rltui.ui.widgets.log_view import LogStrips, LogViewport, ViewRow, colourless_style, rich_style

POLL_INTERVAL_S = 0.3
_FLOOD_LINES = 1000
"""New lines in one poll that nobody can read: only every second poll is painted then, to spare the line.
After a reset all lines are new, so a jump to the end counts as a flood and a fresh file does not."""
_SEEK_INTERVAL_S = 0.01
_SEEK_SLICES = 3
"""Slices of a huge log indexed at a time while its start is looked for, and the pause between."""
_WAIT_INTERVAL_S = 0.05
"""Likewise where it is indexed on another machine."""
_WHEEL_ROWS = 3
_SIDEWAYS_CELLS = 8
_CUT_MARK = "›"


class PaintedLog(Widget):
    """Follows the end of a log until someone scrolls up; going to the end follows again.

    The border title is the owner's, the subtitle says how far from the end the view is. Without lines the
    pane shows the source's problem or a placeholder. It polls the source on a timer while it can be seen.
    """

    DEFAULT_CSS = """
    PaintedLog {
        width: 1fr;
        height: 1fr;
        & > .log-pane--warning { color: $text-warning; }
        & > .log-pane--error { color: $text-error; }
        & > .log-pane--debug { text-style: dim; }
        & > .log-pane--quiet { text-style: dim; }
        & > .log-pane--found { text-style: bold underline; }
        & > .log-pane--here { background: $block-cursor-blurred-background; }
        & > .log-pane--chosen { text-style: reverse; }
        & > .log-pane--mark { background: $warning-muted; }
        &:nocolor > .log-pane--warning, &:nocolor > .log-pane--error { color: $foreground; text-style: bold; }
        &:nocolor > .log-pane--here, &:nocolor > .log-pane--mark { text-style: bold; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "log-pane--warning",
        "log-pane--error",
        "log-pane--debug",
        "log-pane--quiet",
        "log-pane--found",
        "log-pane--here",
        "log-pane--chosen",
        "log-pane--mark",
    }

    follow = reactive(True, init=False)
    """Whether the view sticks to the newest line."""
    wrap = reactive(False, init=False)
    """Whether long lines take several rows rather than being cut."""
    whole = reactive(False, init=False)
    """Whether what stands before a message is shown as it was written, not in a narrow column, and the names
    of figures in full."""
    raw = reactive(False, init=False)
    """Whether every line is shown as it was written, also those that say nothing new."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._source: LogSource | None = None
        self._placeholder = ""
        self._strips = LogStrips(self._read_line, self._read_label)
        self._viewport = LogViewport(lambda number: len(self._strips.rows(number)))
        self._painted: list[Strip] = []
        self._rows: list[ViewRow] = []
        self._query: Query | None = None
        self._left = 0
        self._seeking_start = False
        self._sought: int | None = None
        """Byte of the log whose line is to be shown, once it is indexed."""
        self.note = ""
        """What the subtitle says first: which other log than the newest this is."""
        self._paint_is_due = False
        self._base = self._quiet = Style()
        self._parts: dict[str, Style] = {}

    @property
    def source(self) -> LogSource | None:
        return self._source

    def set_source(self, source: LogSource | None, placeholder: str = "no output yet") -> None:
        """Show another log from its end, or `placeholder` while there is none or it has no lines."""
        if source is self._source and placeholder == self._placeholder:
            return
        if source is not self._source:
            self._source = source
            self._strips.clear()
            self._left = 0
            self._stay()
            self.follow = True
        self._placeholder = placeholder
        self._lay_out()
        self.refresh()

    def _stay(self) -> None:
        self._seeking_start, self._sought = False, None

    def show_title(self, title: Content) -> None:
        """Change the border title, a single line, and paint its row alone."""
        self._border_title = title  # the property's setter would paint all lines anew (Textual 8.2)
        self._refresh_border_row(-self.content_offset.y)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if not self._painted:
            return self._placeholder_strip(width) if y == (self.size.height - 1) // 2 else self._blank(width)
        if y >= len(self._painted):
            return self._blank(width)
        strip = self._painted[y]
        if strip.cell_length <= self._left + width:
            row = strip.crop_extend(self._left, self._left + width, self._base)
        else:
            mark = Strip.blank(0) if width < 2 else Strip([Segment(_CUT_MARK, self._quiet)], 1)
            row = Strip.join([strip.crop(self._left, self._left + width - 1), mark])
        if (part := self._part_of(self._rows[y].line)) is not None:
            row = self._laid_over(row, self._parts[part])
        if (cells := self._row_selected(self._rows[y])) is None:
            return row
        pieces = list(row.divide([*(min(width, cell) for cell in cells), width]))
        return Strip.join([pieces[0], self._laid_over(pieces[1], self._parts["chosen"]), *pieces[2:]])

    @staticmethod
    def _laid_over(row: Strip, style: Style) -> Strip:
        """With `style` over that of each piece, which `Strip.apply_style` would lay below."""
        pieces = [Segment(piece.text, (piece.style or Style()) + style) for piece in row]
        return Strip(pieces, row.cell_length)

    def _part_of(self, number: int) -> str | None:
        """What sets a line off from the others: `here` or `mark`."""
        del number
        return None

    def _row_selected(self, row: ViewRow) -> tuple[int, int] | None:
        """From which cell of what is shown of a row to which it is selected."""
        del row
        return None

    def notify_style_update(self) -> None:
        """Paint anew in other colours. Textual sees to those of parts of a log only after this."""
        super().notify_style_update()
        if self.is_mounted:
            self._restyle()
            self.call_later(self._restyle)

    def watch_follow(self) -> None:
        """Go to the end, or say that there is more."""
        self._lay_out()

    def watch_wrap(self) -> None:
        self._left = 0
        self._lay_out()

    def watch_whole(self) -> None:
        self._lay_out()

    def watch_raw(self) -> None:
        self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def _read_line(self, number: int) -> str:
        return self._source.line(number) if self._source else ""

    def _read_label(self, number: int) -> str:
        return self._source.label(number) if self._source else ""

    def _lay_out(self) -> None:
        """Bring the view up to date with source, size and position, and repaint the rows that changed."""
        self._paint_is_due = False
        self._strips.set_wrap(self.size.width if self.wrap and self.size.width else None)
        view = self._viewport
        view.start, view.stop = (self._source.start, self._source.stop) if self._source else (0, 0)
        view.height = self.size.height
        self._strips.set_range(view.start, view.stop)
        cells = self.size.width if self.size.width and not self.wrap else None
        self._strips.set_look(whole=self.whole, raw=self.raw, query=self._query, cells=cells)
        if self.follow:
            view.move_to_end()
        else:
            view.clamp()
        rows = self._rows = list(view.rows())
        painted, self._painted = self._painted, [self._strips.rows(row.line)[row.row] for row in rows]
        position = Content(self._position(view.stop - 1 - rows[-1].line if rows else 0))
        if self._border_subtitle != position:
            self._border_subtitle = position  # as in `show_title`
            self._refresh_border_row(self.outer_size.height - 1 - self.content_offset.y)
        self._repaint(painted)

    def _repaint(self, before: list[Strip]) -> None:
        now = self._painted
        if not before or not now:
            self.refresh()
            return
        rows = [y for y in range(max(len(before), len(now))) if before[y : y + 1] != now[y : y + 1]]
        if len(rows) > len(now) // 2:
            self.refresh()
        elif rows:
            self.refresh(*(Region(0, y, self.size.width, 1) for y in rows))

    def _position(self, lines_below: int) -> str:
        """How far from the end the view is, in words; empty while following or at the end."""
        if self._seeking_start:
            return "looking for the start"
        if self._sought is not None:
            return "looking for the line"
        if self.follow or self._source is None or self._viewport.at_end:
            return ""
        lines = max(1, lines_below)  # none where only the rest of the last line is below
        return f"{lines:,} {'line' if lines == 1 else 'lines'} below, {key_of('cursor.last')} follows"

    def _refresh_border_row(self, y: int) -> None:
        """Paint the row `y` of the border, counted from the first row of text."""
        self.refresh(Region(-self.content_offset.x, y, self.outer_size.width, 1))

    def _restyle(self) -> None:
        debug, warning, error = (
            self.get_component_rich_style(f"log-pane--{name}", partial=True)
            for name in ("debug", "warning", "error")
        )
        levels = {Level.TRACE: debug, Level.DEBUG: debug, Level.WARNING: warning}
        self._base = self.rich_style
        levels |= {Level.ERROR: error, Level.CRITICAL: error}
        self._quiet = self._base + self.get_component_rich_style("log-pane--quiet", partial=True)
        self._parts = {
            name: self.get_component_rich_style(f"log-pane--{name}", partial=True)
            for name in ("found", "here", "chosen", "mark")
        }
        sgr_style = colourless_style if self.app.no_color else rich_style
        found = self._parts["found"]
        self._strips.set_styles(self._base, levels, sgr_style, quiet=self._quiet, found=found)
        self._lay_out()

    def _blank(self, width: int) -> Strip:
        return Strip.blank(width, self._base)

    def _placeholder_strip(self, width: int) -> Strip:
        problem = self._source.problem if self._source else None
        text = plain_text(problem or self._placeholder)
        strip = Strip([Segment(text, self._quiet)]).crop(0, width)
        indent = self._blank((width - strip.cell_length) // 2)
        return Strip.join([indent, strip]).extend_cell_length(width, self._base)


class ScrolledLog(PaintedLog):
    """Moves, follows, and looks for places that are not indexed yet. It polls the source on a timer while it
    can be seen.
    """

    def poll(self) -> None:
        """Take up what is new in the log. Does nothing where the pane cannot be seen."""
        if self._source is None or not self._can_be_seen():
            return
        stop = self._source.stop
        painted_stop = self._viewport.stop
        match self._source.poll(may_skip=self.follow):
            case LogChange.NONE if not self._paint_is_due:
                return
            case LogChange.GREW:
                self._strips.forget(stop - 1)
            case LogChange.FILLED:
                self._strips.clear()
            case LogChange.RESET:
                self._strips.clear()
                painted_stop = self._source.start
        flooded = self._source.stop - painted_stop > _FLOOD_LINES
        self._paint_is_due = flooded and not self._paint_is_due
        if not self._paint_is_due:
            self._lay_out()

    def action_toggle_follow(self) -> None:
        self._stay()
        self.follow = not self.follow
        self.poll()
        if self._paint_is_due:
            self._lay_out()

    def action_to_end(self) -> None:
        self._stay()
        self.follow = True

    def action_to_start(self) -> None:
        """Go to the oldest line, indexing what is not indexed yet in slices."""
        if self._source is not None:
            self.set_reactive(PaintedLog.follow, False)
            self._stay()
            self._seeking_start = True
            self._seek_start()

    def show_offset(self, offset: int) -> None:
        """Go to the line that the byte `offset` of the log is in, indexing what is not indexed yet."""
        self.set_reactive(PaintedLog.follow, False)
        self._stay()
        self._sought = offset
        self._seek_offset()

    def action_move_rows(self, rows: int) -> None:
        if self._source is None:
            return
        self._stay()
        if self._paint_is_due:
            self._lay_out()  # the line numbers of before a reset mean nothing now
        if rows < 0 and self._viewport.top.line + rows - self._viewport.height < self._source.start:
            self._load_older()
        self._viewport.move(rows)
        self.set_reactive(PaintedLog.follow, self._viewport.at_end)
        self._lay_out()

    def action_move_pages(self, pages: float) -> None:
        """Move by pages, one row less each to keep a line for the eye."""
        self.action_move_rows(round(pages * max(1, self._viewport.height - 1)))

    def action_move_sideways(self, direction: int) -> None:
        """Show what lies right (1) or left (-1) of the view."""
        widest = max((strip.cell_length for strip in self._painted), default=0)
        left = self._left + direction * _SIDEWAYS_CELLS
        self._left = max(0, min(left, widest - self.size.width))
        self.refresh()

    def on_mount(self) -> None:
        self._restyle()
        self.set_interval(POLL_INTERVAL_S, self.poll, name="poll log")

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.action_move_rows(-_WHEEL_ROWS)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.action_move_rows(_WHEEL_ROWS)

    def _can_be_seen(self) -> bool:
        """Whether part of the pane is on the top screen or behind a dialog, rather than scrolled away."""
        if not is_in_front(self):
            return False
        try:
            return bool(self.screen.find_widget(self).visible_region)
        except NoWidget:  # not laid out yet
            return False

    def _load_older(self) -> bool:
        """Index a slice of older lines. The oldest line known so far may have been cut at its start."""
        if self._source is None:
            return False
        self._strips.forget(self._source.start)
        return self._source.load_older()

    def _seek_start(self) -> None:
        if not (self._seeking_start and self._source):
            return
        if self._source.is_waiting:
            self.poll()
        self._seeking_start = all(self._load_older() for _ in range(_SEEK_SLICES))
        self._viewport.top = ViewRow(self._source.start, 0)
        self._lay_out()
        if self._seeking_start:
            pause_s = _WAIT_INTERVAL_S if self._source.is_waiting else _SEEK_INTERVAL_S
            self.set_timer(pause_s, self._seek_start, name="seek start of log")

    def _seek_offset(self) -> None:
        source, offset = self._source, self._sought
        if source is None or offset is None:
            return
        if source.is_waiting:
            self.poll()
        number = source.number_at(offset)
        if number is None and (
            source.is_waiting or any(self._can_index_to(offset) for _ in range(_SEEK_SLICES))
        ):
            self._lay_out()
            pause_s = _WAIT_INTERVAL_S if source.is_waiting else _SEEK_INTERVAL_S
            self.set_timer(pause_s, self._seek_offset, name="seek place in log")
            return
        self._sought = None
        if number is not None:
            self._viewport.top = ViewRow(max(source.start, number - self.size.height // 3), 0)
            self._move_to_found(number)
        self._lay_out()

    def _move_to_found(self, number: int) -> None:
        """Move sideways where what is found in the line would be cut off."""
        rows = self._strips.rows(number) if self._query is not None and not self.wrap else []
        found = next(self._query.spans(rows[0].text), None) if self._query is not None and rows else None
        if found is None:
            return
        first, last = (cell_len(rows[0].text[:at]) for at in found)
        width = self.size.width - len(_CUT_MARK)
        if first < self._left or last > self._left + width:
            self._left = 0 if last <= width else max(0, first - width // 3)
            self.refresh()

    def _can_index_to(self, offset: int) -> bool:
        """Index a slice more in its direction. `False` where there is no more, or it is indexed."""
        source = self._source
        if source is None or source.number_at(offset) is not None:
            return False
        if source.start < source.stop and offset < source.offset(source.start):
            return self._load_older()
        self._strips.forget(source.stop - 1)
        return source.poll(may_skip=False) is LogChange.GREW
