"""The keys that go from pane to pane, and what is selected by going there."""

from __future__ import annotations

from textual import on
from textual.events import DescendantFocus
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget

from rltui.ui.widgets.body import Body, reader_id
from rltui.ui.widgets.knob_table import KnobPanel


class PaneActions(Screen[None]):
    """Moves the focus over the panes of its `Body`; the last component or log file it was on is selected."""

    selected: reactive[str | None] = reactive(None, init=False, bindings=True)
    """Component that the component keys act on, or log file that is looked at."""

    @property
    def body(self) -> Body:
        """The panes."""
        return self.query_one(Body)

    @property
    def current_pane(self) -> Widget | None:
        """The pane that has the keys."""
        return self.body.pane_of(self.focused) if self.focused else None

    def focus_first(self) -> None:
        """The first pane that is not over."""
        if self.body.panes:
            self.body.focus_pane(self.body.panes[0])

    @on(DescendantFocus)
    def _select_focused(self) -> None:
        """By what has the focus now: the event may be older than the last key."""
        self._select(self.current_pane)
        self.refresh_bindings()

    def _select(self, pane: Widget | None) -> None:
        if (name := reader_id(pane)) is not None:
            self.selected = name

    def _go_to(self, pane: Widget) -> None:
        """Focus and select at once: the next key may have been typed already, and must act on this one."""
        self.body.focus_pane(pane)
        self._select(pane)

    def watch_selected(self, selected: str | None) -> None:
        """Mark the selected pane."""
        for pane in self.body.readers:
            pane.selected = reader_id(pane) == selected

    def _focus_beside(self, step: int) -> None:
        self.body.focus_beside(self.current_pane, step)
        self._select(self.current_pane)

    def action_focus_next_pane(self) -> None:
        """In the order of the columns."""
        self._focus_beside(1)

    def action_focus_previous_pane(self) -> None:
        """Backwards."""
        self._focus_beside(-1)

    def _select_beside(self, step: int) -> None:
        panes = [pane for pane in self.body.readers if not pane.has_class("-over")]
        if panes:
            ids = [reader_id(pane) for pane in panes]
            at = ids.index(self.selected) if self.selected in ids else -step
            self._go_to(panes[(at + step) % len(panes)])

    def action_select_next(self) -> None:
        """Down the column."""
        self._select_beside(1)

    def action_select_previous(self) -> None:
        """Up the column."""
        self._select_beside(-1)

    def action_focus_component(self, component_id: str) -> None:
        """Straight to one."""
        if (pane := self.body.component(component_id) or self.body.log_file(component_id)) is not None:
            self._go_to(pane)

    def action_focus_knobs(self) -> None:
        """Straight to the knobs."""
        for panel in self.query(KnobPanel):
            self.body.focus_pane(panel)

    def action_zoom(self) -> None:
        """The focused pane alone, or all again."""
        self.body.zoom(None if self.body.zoomed else self.current_pane)
        self.refresh_bindings()

    def action_back(self) -> None:
        """All panes again."""
        self.body.zoom(None)
        self.refresh_bindings()

    def pane_sense(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether a pane key makes sense now; `None` for other keys."""
        match action:
            case "focus_component":
                # Nothing while the panes are being replaced: the footer asks at any time.
                return any(body.has_reader(str(parameters[0])) for body in self.query(Body))
            case "focus_knobs":
                return bool(self.query(KnobPanel))
            case _:
                return None
