"""The widget that shows a log: it paints the rows of a `LogModel`, and takes the keys and the mouse."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol, runtime_checkable

from textual import events, on
from textual.content import Content
from textual.errors import NoWidget
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from rltui.core.logs.lines import plain_text
from rltui.core.logs.query import Query
from rltui.core.logs.source import LogSource
from rltui.errors import RltuiError
from rltui.ui import verbs
from rltui.ui.actions import Footer, InPalette, KeyContext, Scope, key_of
from rltui.ui.background import is_in_front
from rltui.ui.copying import CopyRequested
from rltui.ui.dialogs.search_line import SearchLine
from rltui.ui.key_bindings import bind, keys, own
from rltui.ui.logs.model import LogModel, VisibleRow
from rltui.ui.logs.mouse import MouseSelection
from rltui.ui.logs.painter import PARTS, LogPainter
from rltui.ui.logs.search import LogSearch, OpenSearch
from rltui.ui.logs.window import LogWindow

POLL_INTERVAL_S = 0.3
_PROGRESS_INTERVAL_S = 0.1
_WHEEL_ROWS = 3


@runtime_checkable
class ManyLogs(Protocol):
    """A screen of several logs."""

    def log_of_errors(self, log: LogView, /) -> LogView:
        """The one in which to look for errors first, asked for in `log`."""


class LogView(Widget, can_focus=True):
    """Follows the end of a log until someone scrolls up; going to the end follows again.

    The border title is the owner's, the subtitle says how far from the end the view is. Without lines it
    shows the source's problem or a placeholder. It polls the source on a timer while it can be seen.
    """

    DEFAULT_CSS = """
    LogView {
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
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"log-pane--{part}" for part in PARTS}
    BINDINGS = keys(
        KeyContext.LOG,
        bind(verbs.FILTER, "model.cycle_level", "Filter by level: warnings and errors, errors, all lines",
             palette=InPalette.WHILE_FOCUSED),
        bind(verbs.SEARCH, "search", "Search for text or a regular expression", footer=Footer.YES,
             palette=InPalette.WHILE_FOCUSED),
        bind(verbs.GROUP, "model.toggle('raw')", "Fold repeated lines, progress bars, duplicate tracebacks",
             palette=InPalette.WHILE_FOCUSED),
        bind(verbs.MARK, "model.toggle_bookmark", "Mark or unmark the line", palette=InPalette.WHILE_FOCUSED),
        own("mark.go", "apostrophe", "model.go_to_bookmark", "to mark", "Go to the previous mark (wraps)",
            Scope.PICKING, palette=InPalette.WHILE_FOCUSED),
        own("select", "v", "select", "select", "Select lines; then copy or write them", Scope.PICKING,
            palette=InPalette.WHILE_FOCUSED),
        bind(verbs.COPY, "copy", "Copy the selected lines, or those in view",
             palette=InPalette.WHILE_FOCUSED),
        bind(verbs.WRITE, "save", "Write the selected lines, or those in view",
             palette=InPalette.WHILE_FOCUSED),
        bind(verbs.CURSOR_DOWN, "model.move_rows(1)"),
        bind(verbs.CURSOR_UP, "model.move_rows(-1)"),
        bind(verbs.CURSOR_LEFT, "window.scroll_sideways(-1)"),
        bind(verbs.CURSOR_RIGHT, "window.scroll_sideways(1)"),
        bind(verbs.PAGE_DOWN, "model.scroll_pages(1)"),
        bind(verbs.PAGE_UP, "model.scroll_pages(-1)"),
        bind(verbs.PAGE_HALF_DOWN, "model.scroll_pages(0.5)"),
        bind(verbs.PAGE_HALF_UP, "model.scroll_pages(-0.5)"),
        bind(verbs.CURSOR_FIRST, "window.move_to_start"),
        bind(verbs.CURSOR_LAST, "window.move_to_end", "Go to the end, and follow new lines"),
        bind(verbs.EARLIER, "attempt(-1)", "Go to the earlier attempt"),
        bind(verbs.LATER, "attempt(1)", "Go to the later attempt"),
        bind(verbs.FIND_NEXT, "model.go_to_match(1)"),
        bind(verbs.FIND_PREVIOUS, "model.go_to_match(-1)"),
        own("find.only", "ampersand", "toggle_only", "only matches", "Show only the lines that match, or all",
            Scope.LOGS, palette=InPalette.WHILE_FOCUSED),
        bind(verbs.FIND_ERRORS, footer=Footer.FIRST_TO_GO, palette=InPalette.WHILE_FOCUSED),
        bind(verbs.WHOLE, "model.toggle('whole')", "Show prefixes and figures as written, or shortened",
             palette=InPalette.WHILE_FOCUSED),
        own("log.wrap", "w", "model.toggle('wrap')", "wrap", "Wrap long lines, or cut them", Scope.LOGS,
            footer=Footer.FIRST_TO_GO, palette=InPalette.WHILE_FOCUSED),
        own("log.follow", "", "model.toggle_follow", "follow", "Follow new lines, or stop",
            Scope.LOGS, palette=InPalette.WHILE_FOCUSED),
        own("log.pager", "", "pager", "pager", "Open the log in $PAGER", Scope.LOGS,
            palette=InPalette.WHILE_FOCUSED),
        bind(verbs.BACK, "leave"),
    )  # fmt: skip
    ALLOW_SELECT = False  # Textual's own selection knows nothing of rows that were never painted
    place: ClassVar = KeyContext.LOG

    @dataclass
    class Searched(Message):
        """A thread has gone through the log."""

        search: LogSearch

    @dataclass
    class NoErrors(Message):
        """A log was searched for errors in vain, or is not there."""

        view: LogView

    class SearchRequested(Message):
        """A person wants to search what is no single file, or not there yet."""

    @dataclass
    class AttemptRequested(Message):
        """The log of an earlier (-1) or later (1) attempt is to be shown."""

        step: int

    @dataclass
    class PagerRequested(Message):
        """A file is to be opened in a program of the person's own."""

        path: str

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        run_search = partial(self.run_worker, name="search log", group="search", thread=True)
        self.model = LogModel(run_search, self._post_searched, key_of)
        self.log_path: str | None = None
        """The file that is shown, where it is one."""
        self.log_name = ""
        """Name for a file to which lines are saved."""
        self._title = Content("")
        self._painted: list[VisibleRow] = []
        self._painted_left = 0
        self._painter = LogPainter()
        self._will_restyle = False
        self._seek_timer: Timer | None = None
        self._progress_timer: Timer | None = None
        self._mouse = MouseSelection(self, self.model, self._show_selection)

    @property
    def window(self) -> LogWindow:
        """The window of the model; some keys are bound to its methods."""
        return self.model.window

    # the log

    def set_source(
        self,
        source: LogSource | None,
        placeholder: str = "no output yet",
        *,
        search: OpenSearch | None = None,
    ) -> None:
        """Show another log from its end, or `placeholder` while there is none or it has no lines.

        Without `search` it is not searched here.
        """
        self.model.set_log(source, placeholder, search)
        self._update()

    def poll(self) -> None:
        """Take up what is new in the log. Does nothing where the view cannot be seen."""
        if self.model.log is not None and self._can_be_seen() and self.model.poll():
            self._update()

    def _can_be_seen(self) -> bool:
        """Whether part of it is on the top screen or behind a dialog, rather than scrolled away."""
        if not is_in_front(self):
            return False
        try:
            return bool(self.screen.find_widget(self).visible_region)
        except NoWidget:  # not laid out yet
            return False

    def on_mount(self) -> None:
        self._restyle()
        self.set_interval(POLL_INTERVAL_S, self.poll, name="poll log")

    def on_unmount(self) -> None:
        self.model.end_search()

    def on_resize(self) -> None:
        self._update()
        self.show_title(self._title)

    # painting

    def _update(self) -> None:
        """Lay the log out anew, repaint the rows that changed, and wait for what goes on."""
        model, window = self.model, self.window
        window.width, window.height = self.size
        model.lay_out()
        self._repaint()
        status = Content.styled(model.status, "" if window.follow else "$text-warning")
        if self._border_subtitle != status:
            self._border_subtitle = status  # as in `show_title`
            self._refresh_border_row(self.outer_size.height - 1 - self.content_offset.y)
            self.show_title(self._title)
        if (pause_s := window.seek_pause_s) is not None and self._seek_timer is None:
            self._seek_timer = self.set_timer(pause_s, self._continue_seeking, name="seek place in log")
        is_searching = model.search is not None and model.search.is_running
        if is_searching and self._progress_timer is None:
            self._progress_timer = self.set_interval(_PROGRESS_INTERVAL_S, self._show_progress)
        elif not is_searching and self._progress_timer is not None:
            self._progress_timer.stop()
            self._progress_timer = None

    def _repaint(self) -> None:
        before, self._painted = self._painted, self.model.visible
        left, now = self.window.left, self._painted
        has_moved, self._painted_left = left != self._painted_left, left
        self._painter.forget_others(now)
        if not before or not now or has_moved:
            self.refresh()
            return
        rows = [y for y in range(max(len(before), len(now))) if before[y : y + 1] != now[y : y + 1]]
        if len(rows) > len(now) // 2:
            self.refresh()
        elif rows:
            self.refresh(*(Region(0, y, self.size.width, 1) for y in rows))

    def render_line(self, y: int) -> Strip:
        width, painter = self.size.width, self._painter
        if y < len(self._painted):
            return painter.row(self._painted[y], self._painted_left, width)
        if self._painted or y != (self.size.height - 1) // 2:
            return painter.blank(width)
        source = self.window.source
        problem = source.problem if source is not None else None
        return painter.centred(plain_text(problem or self.model.placeholder), width)

    def show_title(self, title: Content) -> None:
        """Change the border title, a single line, and paint its row alone.

        Without a lower border the status stands behind its first fact, or before it where there is no room.
        """
        self._title = title
        status = self._border_subtitle
        if status and self.styles.border_bottom[0] in ("", "none"):
            first, *facts = title.split(" · ")
            fits = first.cell_length + status.cell_length + 3 <= self.outer_size.width - 4
            title = Content(" · ").join([first, status, *facts] if fits else [status, first, *facts])
        if title != self._border_title:
            self._border_title = title  # the property's setter would paint all lines anew (Textual 8.2)
            self._refresh_border_row(-self.content_offset.y)

    def _refresh_border_row(self, y: int) -> None:
        """Paint the row `y` of the border, counted from the first row of text."""
        self.refresh(Region(-self.content_offset.x, y, self.outer_size.width, 1))

    def notify_style_update(self) -> None:
        """Paint anew in other colours, later: Textual sees to those of parts of a log only after this."""
        super().notify_style_update()
        if self.is_mounted and not self._will_restyle:
            self._will_restyle = True
            self.call_later(self._restyle)

    def _restyle(self) -> None:
        self._will_restyle = False
        parts = {part: self.get_component_rich_style(f"log-pane--{part}", partial=True) for part in PARTS}
        self._painter.set_styles(self.rich_style, parts, colourless=self.app.no_color)
        self._update()
        self.refresh()

    # moving

    def action_command(self, command: str, *arguments: object) -> None:
        """`model.move_rows`: a method of the model, or of its window; what it has changed is shown."""
        part, _, method = command.rpartition(".")
        getattr(getattr(self, part), method)(*arguments)
        self._update()

    def go_to_offset(self, offset: int) -> None:
        """Show the line that begins at that byte, set off from the others."""
        self.model.go_to(offset)
        self._update()

    def _continue_seeking(self) -> None:
        self._seek_timer = None
        self.window.continue_seeking()
        self._update()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.action_command("model.move_rows", -_WHEEL_ROWS)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.action_command("model.move_rows", _WHEEL_ROWS)

    # searching

    def mark_matches(self, query: Query) -> None:
        """Set off its matches in the lines that are shown, which were searched elsewhere."""
        self.window.query = query
        self._update()

    def action_search(self) -> None:
        if self.model.open_search is None:
            self.post_message(self.SearchRequested())
        else:
            self.prompt_search()

    def prompt_search(self) -> None:
        """Open the line even if there is no log yet: what is typed after the key is never taken for keys."""
        query, place = self.window.query, self.model.place()

        def show(text: str) -> None:
            self.model.go_to_place(place)
            self._search_text(text)

        def go_back() -> None:
            self.model.go_to_place(place)
            self._update()

        self.app.push_screen(
            SearchLine(
                query.text if query is not None else "",
                "text, or a regular expression; uppercase letters match case",
                show=show,
                status=lambda: self.model.search_status,
                move=partial(self.action_command, "model.go_to_match"),
                go_back=go_back,
            )
        )

    def _search_text(self, text: str) -> None:
        if self.model.open_search is None:
            return
        try:
            self.model.search_text(text)
        except RltuiError as error:
            self.notify(error.title, severity="error", markup=False)
        self._update()

    def action_toggle_only(self) -> None:
        if self.window.query is None:
            self.action_search()
            self.model.only = True
            return
        self.model.toggle_only()
        self._update()

    def action_errors(self) -> None:
        """Go to the newest error; the next and previous matches are errors from then on. Where others are
        beside this log, it may be in one of them.
        """
        search = self.model.search
        log = self.screen.log_of_errors(self) if isinstance(self.screen, ManyLogs) else self
        if log is self and search is not None and search.offsets and search.is_of_errors:
            self.action_command("model.go_to_match", -1)
        else:
            log.find_errors()

    def find_errors(self) -> None:
        if self.model.open_search is None:
            self.post_message(self.NoErrors(self))
            return
        self.model.search_errors()
        self._update()

    def _post_searched(self, search: LogSearch) -> None:
        """In the thread of the search."""
        with suppress(RuntimeError):  # the app is gone
            self.post_message(self.Searched(search))

    @on(Searched)
    def _show_results(self, message: Searched) -> None:
        message.stop()
        if message.search is not self.model.search:
            return
        if self.model.take_results(message.search):
            self.post_message(self.NoErrors(self))
        self._update()
        self.refresh_bindings()

    def _show_progress(self) -> None:
        if self.model.shows_matches_alone:
            self.poll()
        self._update()

    # selecting and copying

    @property
    def has_selection(self) -> bool:
        return self.model.selection is not None

    def action_select(self) -> None:
        self.model.toggle_selection()
        self._show_selection()

    def _show_selection(self) -> None:
        self._update()
        self.refresh_bindings()

    def action_copy(self) -> None:
        self._copy("")

    def action_save(self) -> None:
        self._copy(f"{self.log_name}.log")

    def _copy(self, file_name: str) -> None:
        """The selection, else the lines in view."""
        if self.model.log is None or not self.model.visible:
            return
        text, description = self.model.copied()
        self.post_message(CopyRequested(text, description, file_name))
        if self.has_selection:
            self.model.selection = None
            self._show_selection()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._mouse.press(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._mouse.move(event)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        self._mouse.release(event)

    def on_click(self, event: events.Click) -> None:
        self._mouse.click(event)

    # what its owner does

    def action_attempt(self, step: int) -> None:
        self.post_message(self.AttemptRequested(step))

    def action_pager(self) -> None:
        if self.log_path is not None:
            self.post_message(self.PagerRequested(self.log_path))

    def action_leave(self) -> None:
        self.model.leave()
        self._update()
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "leave" and self.model.search is None and not self.has_selection:
            return False
        if action == "command" and parameters[0] == "model.go_to_match":
            return self.model.search is not None
        return super().check_action(action, parameters)

    def restore(self, state: Mapping[str, Any]) -> None:
        self.model.restore(state)
        self._update()
