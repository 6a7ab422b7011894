"""The panes in their columns: order, focus and zoom, and the keys that go from pane to pane."""

from __future__ import annotations

from collections.abc import Collection

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.events import DescendantFocus
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget

from rltui.core.layout import Screen as ScreenLayout
from rltui.ui.shared import Shared
from rltui.ui.widgets.gpu_panel import GpuPanel
from rltui.ui.widgets.knob_table import KnobPanel, KnobRows
from rltui.ui.widgets.panes import ComponentPane, LogFilePane, ReaderPane

_PANELS = ("gpus", "knobs")


def _columns(layout: ScreenLayout, pane_ids: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The layout's columns, without unknown names; by default components and logs left, panels right."""
    known = {*pane_ids, *_PANELS}
    wanted = layout.columns or (pane_ids, _PANELS)
    return tuple(tuple(name for name in column if name in known) for column in wanted)


class Body(Horizontal):
    """Columns side by side, or stacked where the screen is narrow (see the style sheet)."""

    def __init__(
        self,
        shared: Shared,
        layout: ScreenLayout,
        component_ids: tuple[str, ...],
        log_ids: tuple[str, ...],
    ) -> None:
        super().__init__(id="body")
        self._shared = shared
        self._log_ids = log_ids
        self._columns = _columns(layout, (*component_ids, *log_ids))
        self._widths = layout.widths or ("2fr", *("1fr",) * (len(self._columns) - 1))
        self._besides: set[str] = set()
        self.zoomed: Widget | None = None

    def compose(self) -> ComposeResult:
        """A vertical container per column."""
        for names, width in zip(self._columns, self._widths, strict=True):
            only_panels = all(name in _PANELS for name in names)
            with Vertical(classes="column panels" if only_panels else "column") as column:
                column.styles.width = width
                for name in names:
                    yield self._pane(name)

    def _pane(self, name: str) -> Widget:
        if name == "gpus":
            return GpuPanel(classes="pane panel")
        if name == "knobs":
            return KnobPanel(classes="pane panel", readonly=self._shared.experiment.readonly)
        if name in self._log_ids:
            return LogFilePane(name, self._shared)
        return ComponentPane(name, self._shared)

    @property
    def panes(self) -> list[Widget]:
        """Down the columns, left to right, without those that are over."""
        return list(self.query(".pane").exclude(".-over"))

    @property
    def components(self) -> list[ComponentPane]:
        """Every component's pane, also those that are over."""
        return list(self.query(ComponentPane))

    @property
    def logs(self) -> list[LogFilePane]:
        """The pane of every log file."""
        return list(self.query(LogFilePane))

    @property
    def readers(self) -> list[ReaderPane]:
        """What can be read, down the columns: panes of components, also those that are over, and of logs."""
        return list(self.query(ReaderPane))

    def reader(self, name: str) -> ReaderPane | None:
        """The pane of a component or log file, if the layout shows it."""
        return next((pane for pane in self.readers if pane.reader_id == name), None)

    async def show_besides(self, component_ids: Collection[str]) -> None:
        """Just these components besides those of the layout, below those of the first column."""
        for pane in self.components:
            if pane.reader_id in self._besides and pane.reader_id not in component_ids:
                self._besides.remove(pane.reader_id)
                await pane.remove()
        for name in component_ids:
            if self.reader(name) is None:
                self._besides.add(name)
                await self.query(Vertical).first().mount(self._pane(name))

    def pane_of(self, widget: Widget) -> Widget | None:
        """The pane that holds `widget`."""
        return next(
            (
                node
                for node in widget.ancestors_with_self
                if isinstance(node, Widget) and node.has_class("pane")
            ),
            None,
        )

    def focus_pane(self, pane: Widget) -> None:
        """Give it the keys; a zoomed screen shows it alone."""
        if self.zoomed is not None and self.zoomed is not pane:
            self.zoom(pane)
        match pane:
            case ReaderPane():
                target: Widget = pane.log_pane
            case KnobPanel():
                target = pane.query_one(KnobRows)
            case _:
                target = pane
        if target.focusable:
            self.screen.set_focus(target)  # at once: the next key may have been typed already
        else:  # what the zoom uncovers can have the focus only after it is laid out
            self.call_after_refresh(target.focus)

    def focus_beside(self, pane: Widget | None, step: int) -> None:
        """The next pane, round and round."""
        panes = self.panes
        at = panes.index(pane) if pane in panes else -step
        self.focus_pane(panes[(at + step) % len(panes)])

    def zoom(self, pane: Widget | None) -> None:
        """Show `pane` alone; `None` shows all."""
        self.zoomed = pane
        self.set_class(pane is not None, "-zoomed")
        for other in self.panes:
            other.set_class(other is pane, "-zoom")
            if other.parent is not None and isinstance(other.parent, Widget):
                other.parent.set_class(
                    any(child.has_class("-zoom") for child in other.parent.children), "-zoom"
                )


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
        """The pane that has the keys; none while the panes are being replaced."""
        focused = self.focused
        return next((body.pane_of(focused) for body in self.query(Body)), None) if focused else None

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
        if isinstance(pane, ReaderPane):
            self.selected = pane.reader_id

    def _go_to(self, pane: Widget) -> None:
        """Focus and select at once: the next key may have been typed already, and must act on this one."""
        self.body.focus_pane(pane)
        self._select(pane)

    def watch_selected(self, selected: str | None) -> None:
        """Mark the selected pane."""
        for pane in self.body.readers:
            pane.selected = pane.reader_id == selected

    def action_focus_beside(self, step: int) -> None:
        """In the order of the columns, or backwards."""
        self.body.focus_beside(self.current_pane, step)
        self._select(self.current_pane)

    def action_select_beside(self, step: int) -> None:
        """Down the column, or up."""
        panes = [pane for pane in self.body.readers if not pane.has_class("-over")]
        if panes:
            ids = [pane.reader_id for pane in panes]
            at = ids.index(self.selected) if self.selected in ids else -step
            self._go_to(panes[(at + step) % len(panes)])

    def action_focus_component(self, component_id: str) -> None:
        """Straight to one."""
        if (pane := self.body.reader(component_id)) is not None:
            self._go_to(pane)

    def action_focus_knobs(self) -> None:
        """Straight to the knobs."""
        for panel in self.query(KnobPanel):
            self.body.focus_pane(panel)

    def action_zoom(self) -> None:
        """The focused pane alone, or all again."""
        self.body.zoom(None if self.body.zoomed else self.current_pane)
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """No key to a pane that there is not."""
        return self._pane_allows(action, parameters) and super().check_action(action, parameters)

    def _pane_allows(self, action: str, parameters: tuple[object, ...]) -> bool:
        match action:
            case "focus_component":
                # Nothing while the panes are being replaced: the footer asks at any time.
                return any(body.reader(str(parameters[0])) is not None for body in self.query(Body))
            case "focus_knobs":
                return bool(self.query(KnobPanel))
            case _:
                return True
