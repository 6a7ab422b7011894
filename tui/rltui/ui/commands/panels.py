"""Commands on the panels of the overview: which one has the keys, where they stand, which are seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.geometry import Size
from textual.widget import Widget

from rltui.core.experiment.api import ComponentStatus
from rltui.ui import verbs
from rltui.ui.actions import Footer, InPalette, Scope
from rltui.ui.base_screen import BaseScreen
from rltui.ui.key_bindings import bind, own
from rltui.ui.logs.view import LogView
from rltui.ui.panels.arrangement import CHARTS, Arrangement, Direction
from rltui.ui.panels.body import Body
from rltui.ui.requests import component_of_role
from rltui.ui.state import UiStateStore
from rltui.ui.widgets.panes import ComponentPane, ReaderPane

_CHARTS_FROM_CELLS = 200
"""Least width of a screen that has charts beside the other panels by default."""
_TINY_ROWS = 9
"""Below this, a pane is zoomed from the start."""
_ROWS, _CELLS = 2, 4
"""The distance that a key moves a border by."""

PANEL_KEYS = (
    bind(verbs.COMPONENT_INFERENCE, "panels.focus_role('inference')"),
    bind(verbs.COMPONENT_ORCHESTRATOR, "panels.focus_role('orchestrator')"),
    bind(verbs.COMPONENT_TRAINER, "panels.focus_role('trainer')"),
    own("knob.focus", "ctrl+k", "panels.focus_knobs", "knobs", "Go to the knobs", Scope.KNOBS),
    own("panels.hide", "", "panels.hide", "hide panel", "Hide the focused panel", Scope.LOOKING),
    bind(verbs.PANE_NEXT, "panels.focus_adjacent(1)"),
    bind(verbs.PANE_PREVIOUS, "panels.focus_adjacent(-1)"),
    bind(verbs.ZOOM, "panels.zoom", footer=Footer.YES),
    own("panels.all", "", "panels.show_all", "all panels", "Show the hidden panels", Scope.LOOKING),
    bind(verbs.CHARTS, "panels.toggle_charts", "Show or hide the charts"),
    own("panels.usual", "", "panels.reset", "usual panels", "Reset the panels to those of the layout",
        Scope.LOOKING),
    bind(verbs.CURSOR_NEXT, "panels.select_adjacent(1)", "Go to the next component"),
    bind(verbs.CURSOR_PREVIOUS, "panels.select_adjacent(-1)", "Go to the previous component"),
    bind(verbs.FIND_ERRORS, "panels.find_errors", palette=InPalette.NO),
)  # fmt: skip
"""Keys of a screen whose `panels` are `PanelCommands`."""


class PanelCommands:
    """Moves the focus over the panes of a screen's `Body`. The last one that can be read is selected."""

    def __init__(
        self, screen: BaseScreen, layout_state: UiStateStore, default: Callable[[bool], Arrangement]
    ) -> None:
        """`layout_state`: saved of the layout. `default`: the arrangement that the layout says, where the
        screen is wide and where it is not.
        """
        self._screen = screen
        self._layout_state = layout_state
        self._make_default = default
        self.selected: str | None = None
        """Component that the component keys act on, or log file that is looked at."""
        self._proposed: str | None = None
        """The panel that was selected without a person: another one that works may take its place."""
        self._is_wide = False
        """False until the first frame has been seen: charts take their time."""
        self._is_tiny = False
        self._attended_failures: tuple[str, ...] = ()
        """Components that have failed and were selected for it."""
        self._next_with_errors: Sequence[ReaderPane] = ()
        """The panes to search for errors next; the last is where that began."""

    def allows(self, command: str, *arguments: object) -> bool:
        """The target panel has to exist: while panels are being replaced none does."""
        match command:
            case "focus_role":
                return any(self._of_role(body, str(arguments[0])) for body in self.bodies)
            case "focus_knobs":
                return any(body.knob_panels for body in self.bodies)
            case _:
                return True

    @property
    def bodies(self) -> list[Body]:
        """The body of the panes; there is none while it is being replaced, else one."""
        return [child for child in self._screen.children if isinstance(child, Body)]

    @property
    def body(self) -> Body:
        return self._screen.query_one(Body)

    @property
    def component(self) -> ComponentStatus | None:
        """The selected component: where a log file is selected, the only one there is."""
        if (status := self._screen.state.status) is None:
            return None
        component = next((item for item in status.components if item.id == self.selected), None)
        is_log = any(log.id == self.selected for log in status.logs)
        return status.components[0] if is_log and len(status.components) == 1 else component

    @property
    def _default(self) -> Arrangement:
        return self._make_default(self._is_wide)

    @property
    def arrangement(self) -> Arrangement:
        """The saved arrangement, as far as the panels are still the same."""
        return Arrangement.from_json(self._layout_state.values.get("arrangement"), self._default)

    @property
    def current_pane(self) -> Widget | None:
        """The pane that has the keys; none while the panes are being replaced."""
        widget = self._screen.focused
        if widget is None:
            return None
        return next((body.pane_of(widget) for body in self.bodies), None)

    # focus and selection

    def select(self, pane: Widget | None) -> None:
        """The component keys act on `pane` from now on, if it can be read."""
        if isinstance(pane, ReaderPane) and pane.reader_id != self.selected:
            self.selected = pane.reader_id
            self._screen.refresh_bindings()
        for body in self.bodies:
            body.attend(pane, self.selected)

    def go_to(self, pane: Widget) -> None:
        """Focus and select at once: the next key may have been typed already, and must act on this one."""
        self.body.focus_pane(pane)
        self.select(pane)

    def focus_first(self) -> None:
        """Focus the first pane in which most happens."""
        panes = self.body.panes
        readers = [pane for pane in panes if isinstance(pane, ReaderPane)]
        for pane in [*sorted(readers, key=lambda pane: (pane.is_idle, pane.is_quiet)), *panes][:1]:
            self._propose(pane)

    @property
    def is_untouched(self) -> bool:
        """No person has gone to another panel."""
        pane = self.current_pane
        return pane is None or self.body.name_of(pane) in (
            self._proposed,
            self.body.name_of(self.body.panes[0]),
        )

    def attend(self, failed: tuple[str, ...]) -> None:
        """Select what has failed since the last call, else what works. `failed`: components."""
        new = [name for name in failed if name not in self._attended_failures]
        self._attended_failures = failed
        if new:
            self.focus_component(new[0])
        else:
            self._follow_work()

    def _follow_work(self) -> None:
        """Select what works where little happens in the selected pane, unless a person has chosen that or
        works in another panel.
        """
        pane = self.current_pane
        if self._proposed is None:
            self._proposed = self.body.name_of(pane)
        readers = [reader for reader in self.body.readers if not (reader.is_idle or reader.is_quiet)]
        is_proposed = pane is None or (isinstance(pane, ReaderPane) and pane.reader_id == self._proposed)
        if is_proposed and readers and pane not in readers and self.body.zoomed is None:
            self._propose(readers[0])

    def _propose(self, pane: Widget) -> None:
        self._proposed = self.body.name_of(pane)
        self.go_to(pane)

    def leave_gone(self) -> None:
        """Go elsewhere where the selected component is over that only a person starts."""
        pane = self.body.reader(self.selected or "")
        if isinstance(pane, ComponentPane) and pane.is_over:
            self.focus_first()

    def focus_adjacent(self, step: int) -> None:
        self.body.focus_adjacent(self.current_pane, step)
        self.select(self.current_pane)

    def select_adjacent(self, step: int) -> None:
        panes = self.body.readers
        if panes:
            ids = [pane.reader_id for pane in panes]
            index = ids.index(self.selected) if self.selected in ids else -step
            self.go_to(panes[(index + step) % len(panes)])

    def focus_component(self, component_id: str) -> None:
        if (pane := self.body.reader(component_id)) is not None:
            self.go_to(pane)

    def focus_role(self, role: str) -> None:
        if (pane := self._of_role(self.body, role)) is not None:
            self.go_to(pane)

    @staticmethod
    def _of_role(body: Body, role: str) -> ReaderPane | None:
        id_ = component_of_role(role, [pane.reader_id for pane in body.readers])
        return None if id_ is None else body.reader(id_)

    def focus_knobs(self) -> None:
        for body in self.bodies:
            for panel in body.knob_panels:
                self.go_to(panel)

    def zoom(self) -> None:
        self.body.zoom(None if self.body.zoomed else self.current_pane)
        self._screen.refresh_bindings()

    # errors, in whichever log has one

    def find_errors(self) -> None:
        """Find the newest error from any panel that is no log."""
        if self.body.readers:
            self.log_of_errors(None).find_errors()

    def log_of_errors(self, log: LogView | None) -> LogView:
        """The log of what has failed, else `log`; the other logs are searched after it until one has an
        error.
        """
        panes = self.body.readers
        current = next((pane for pane in panes if pane.log_pane is log), None)
        failed = [pane for pane in panes if pane.has_failed]
        if current is None or (failed and current not in failed):
            current = failed[0] if failed else panes[0]
            self.go_to(current)
        index = panes.index(current)
        self._next_with_errors = [*panes[index + 1 :], *panes[:index], current]
        return current.log_pane

    def find_errors_elsewhere(self, log: LogView) -> None:
        """Search the log after `log`; back where the search began, say that there is no error."""
        log.action_leave()
        if self._next_with_errors:
            pane, *self._next_with_errors = self._next_with_errors
            self.go_to(pane)
            if self._next_with_errors:
                pane.log_pane.find_errors()
            else:
                self._screen.notify("No errors in any log", markup=False)

    # arrangement

    def save_arrangement(self) -> None:
        self._layout_state.note("arrangement", self.body.arrangement.to_json())

    def fit(self, screen: Size) -> None:
        """Charts stand on a wide screen by default, a pane fills a tiny one."""
        if (is_wide := screen.width >= _CHARTS_FROM_CELLS) != self._is_wide:
            self._is_wide = is_wide
            self._screen.call_after_refresh(self._use_default)
        is_tiny, body = screen.height < _TINY_ROWS, self.body
        if is_tiny != self._is_tiny and body.panes:
            self._is_tiny = is_tiny
            body.zoom((self.current_pane or body.panes[0]) if is_tiny else None)

    async def _use_default(self) -> None:
        """Use the default arrangement of now, unless a person has another."""
        for body in self.bodies:
            if body.arrangement != self.arrangement:
                await body.use(self.arrangement)

    async def hide(self) -> None:
        """Hide the panel that has the keys; they go to the next one."""
        body, pane = self.body, self.current_pane
        if (name := body.name_of(pane)) is not None:
            if len(body.panes) > 1:
                self.focus_adjacent(1)
            await body.rearrange(body.arrangement.hide(name))

    async def show_all(self) -> None:
        body = self.body
        names = set(body.arrangement.hidden) - self._default.hidden
        await body.rearrange(body.arrangement.show(*names))

    async def reset(self) -> None:
        await self.body.rearrange(self._default)

    async def toggle_charts(self) -> None:
        arrangement = self.body.arrangement
        is_hidden = CHARTS in arrangement.hidden
        await self.body.rearrange(arrangement.show(CHARTS) if is_hidden else arrangement.hide(CHARTS))

    async def move(self, direction: Direction) -> None:
        body = self.body
        if (name := body.name_of(self.current_pane)) is not None:
            visible = {name for name in map(body.name_of, body.panes) if name is not None}
            await body.rearrange(body.arrangement.move(name, direction, visible))

    async def resize(self, cells: int, rows: int) -> None:
        body = self.body
        name = body.name_of(self.current_pane)
        nearest = body.geometry.border_of(name, between_columns=bool(cells)) if name is not None else None
        if nearest is not None:
            border, direction = nearest
            distance = direction * (cells * _CELLS + rows * _ROWS)
            await body.rearrange(body.geometry.drag(body.arrangement, border, distance))
