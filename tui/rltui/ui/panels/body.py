"""The panes in their places: order, focus and zoom, and the keys that go from pane to pane."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pkgutil import resolve_name

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.geometry import NULL_OFFSET, NULL_SPACING, Offset, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.message import Message
from textual.widget import Widget

from rltui.core.experiment.api import Status
from rltui.ui.actions import key_of
from rltui.ui.panels.arrangement import CHARTS, GPUS, KNOBS, PANELS, Arrangement
from rltui.ui.panels.geometry import EMPTY, Attention, Border, Geometry, PanelState, fit
from rltui.ui.state import ExperimentState
from rltui.ui.styles import FAINT
from rltui.ui.widgets.gpu_panel import GpuPanel
from rltui.ui.widgets.knob_table import KnobPanel, KnobRows
from rltui.ui.widgets.panes import ComponentPane, LogFilePane, ReaderPane, rows_of_a_line

_QUIET_ROWS = 4
"""Height of a healthy server in a frame: its title and its newest two lines."""
_BARS = 2
"""Rows above and below the body that are always there."""


class _PlacedLayout(Layout):
    """Each child of a `Body` where that has placed it; what has no place is not seen."""

    name = "placed"

    def arrange(
        self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True
    ) -> ArrangeResult:
        del greedy
        assert isinstance(parent, Body)
        parent.pre_layout(self)
        regions = parent.regions(size)
        return [
            WidgetPlacement(regions[child], NULL_OFFSET, NULL_SPACING, child)
            for child in children
            if child in regions
        ]


_PLACED = _PlacedLayout()


@dataclass(frozen=True, slots=True)
class _BorderDrag:
    """A button that went down on a border, and how everything was then."""

    border: Border
    start: Offset
    arrangement: Arrangement
    geometry: Geometry

    def to(self, pointer: Offset) -> Arrangement:
        distance = pointer - self.start
        cells = distance.x if self.border.between_columns else distance.y
        return self.geometry.drag(self.arrangement, self.border, cells)


class Body(Widget):
    """Places its panes by an `Arrangement`, and by what happens in them. Its borders are dragged by mouse."""

    class Rearranged(Message):
        """A person wants it otherwise from now on."""

    def __init__(
        self,
        state: ExperimentState,
        arrangement: Arrangement,
        component_ids: tuple[str, ...],
        log_ids: tuple[str, ...],
    ) -> None:
        super().__init__(id="body")
        self._state = state
        self._log_ids = log_ids
        self._reader_ids = (*component_ids, *log_ids)
        self.arrangement = arrangement
        self._extra_ids: set[str] = set()
        self._panes = {name: self._pane(name) for name in self._visible_names()}
        self.geometry = Geometry()
        self.zoomed: Widget | None = None
        self._pins: tuple[str, ...] = ()
        self._attention = Attention()
        self._drag: _BorderDrag | None = None
        """Set while a button is down on a border."""

    @property
    def layout(self) -> Layout:
        """The style sheet has no say in it."""
        return _PLACED

    def compose(self) -> ComposeResult:
        self._set_classes(self._fit(self.app.size - Size(0, _BARS)))
        yield from self._panes.values()

    def _pane(self, name: str) -> Widget:
        if name == GPUS:
            return GpuPanel(classes="pane frame")
        if name == KNOBS:
            return KnobPanel(classes="pane frame", readonly=self._state.experiment.readonly)
        if name == CHARTS:
            # numpy: only now
            chart_class: Callable[..., Widget] = resolve_name("rltui.ui.charts.panel:ChartPanel")
            return chart_class(self._state, classes="pane frame")
        if name in self._log_ids:
            return LogFilePane(name, self._state)
        return ComponentPane(name, self._state)

    # panes

    @property
    def panes(self) -> list[Widget]:
        """Down the columns, left to right, without those that are hidden or gone."""
        names = [name for column in self.arrangement.columns for name in column]
        return [
            self._panes[name]
            for name in names
            if name in self._panes and name not in self.arrangement.hidden and not _is_gone(self._panes[name])
        ]

    @property
    def readers(self) -> list[ReaderPane]:
        """Down the columns."""
        return [pane for pane in self.panes if isinstance(pane, ReaderPane)]

    @property
    def components(self) -> list[ComponentPane]:
        """Panes of components, also of those that are gone from the layout."""
        return [pane for pane in self._panes.values() if isinstance(pane, ComponentPane)]

    @property
    def knob_panels(self) -> list[KnobPanel]:
        """The panel of knobs; there is one at most."""
        return [pane for pane in self._attached if isinstance(pane, KnobPanel)]

    @property
    def _gpu_panels(self) -> list[GpuPanel]:
        return [pane for pane in self._attached if isinstance(pane, GpuPanel)]

    @property
    def _attached(self) -> list[Widget]:
        """The panes, at a hundredth of the price of a query, which looks at all that is in them."""
        return [pane for pane in self._panes.values() if pane.is_attached]

    def reader(self, name: str) -> ReaderPane | None:
        """The pane of a component or log file, if there is one, also one that is gone."""
        pane = self._panes.get(name)
        return pane if isinstance(pane, ReaderPane) else None

    async def show_extra(self, component_ids: Collection[str]) -> None:
        """Show just these components besides those of the layout, below those of the first column."""
        for name in self._extra_ids - set(component_ids):
            self._extra_ids.remove(name)
            await self._panes.pop(name).remove()
        for name in component_ids:
            if name not in self._panes and name not in self.arrangement.hidden:
                self._extra_ids.add(name)
                if self.arrangement.column_of(name) is None:
                    self.arrangement = self.arrangement.with_panel(name)
                self._panes[name] = self._pane(name)
                await self.mount(self._panes[name])

    def pane_of(self, widget: Widget) -> Widget | None:
        panes = self._panes.values()
        return next((node for node in widget.ancestors_with_self if node in panes), None)  # type: ignore[return-value]

    def name_of(self, pane: Widget | None) -> str | None:
        return next((name for name, other in self._panes.items() if other is pane), None)

    def pane_named(self, name: object) -> Widget | None:
        """`None` where the pane is hidden or gone."""
        return next((pane for pane in self.panes if self.name_of(pane) == name), None)

    # values

    def fill(self) -> None:
        self.show_knobs(self._pins)
        self.show_gpus()
        if self._state.status is not None:
            self.show_status(self._state.status)

    def show_status(self, status: Status) -> None:
        for component in status.components:
            pane = self.reader(component.id)
            if isinstance(pane, ComponentPane):
                pane.status = component
        for log in status.logs:
            pane = self.reader(log.id)
            if isinstance(pane, LogFilePane):
                pane.log_file = log
        self.update_layout()

    def show_gpus(self) -> None:
        state = self._state
        hint = "" if state.experiment.readonly else f" · {key_of('process.free')}"
        for panel in self._gpu_panels:
            if state.gpus is not None:
                panel.show(state.gpus, state.clock(), hint=hint)

    def show_knobs(self, pins: tuple[str, ...]) -> None:
        """The newest knobs; `pins`: keys of those that a person keeps first."""
        self._pins = pins
        state = self._state
        for panel in self.knob_panels:
            panel.show(state.table, state.staged, pins, state.edited)

    def update_ages(self) -> None:
        """Uptimes, and how old readings are; only what differs is painted."""
        for pane in self._attached:
            if isinstance(pane, ReaderPane):
                pane.update_title()
        for panel in self._gpu_panels:
            panel.update_age(self._state.clock())

    # layout

    def regions(self, size: Size) -> dict[Widget, Region]:
        """The body has this size from now on."""
        geometry = self._fit(size)
        if geometry != self.geometry:
            self.geometry = geometry
            self.call_later(self._set_classes, geometry)
        return {
            self._panes[name]: Region(rectangle.x, rectangle.y, rectangle.width, rectangle.height)
            for name, rectangle in geometry.rectangles.items()
        }

    def update_layout(self) -> None:
        """Lay out again where what has happened in a pane, or another focus, makes a difference."""
        if self.size and (geometry := self._fit(self.size)) != self.geometry:
            self.geometry = geometry
            self._set_classes(geometry)
            self._clear_arrangement_cache()  # Textual clears those of its ancestors alone
            self.refresh(layout=True)

    async def rearrange(self, arrangement: Arrangement) -> None:
        """A person wants another arrangement."""
        await self.use(arrangement)
        self.post_message(self.Rearranged())

    async def use(self, arrangement: Arrangement) -> None:
        """Use another arrangement; panels that are new in it get the newest values."""
        self.arrangement = arrangement
        new = {name: self._pane(name) for name in self._visible_names() if name not in self._panes}
        if new:
            self._panes |= new
            await self.mount(*new.values())
        if self.zoomed is not None and self.name_of(self.zoomed) in arrangement.hidden:
            self.zoom(None)
        self.fill()
        self.update_layout()

    def _visible_names(self) -> list[str]:
        """Names of the panels that exist and are not hidden, down the columns."""
        names = {*self._reader_ids, *PANELS}
        hidden_names = self.arrangement.hidden
        return [
            name for column in self.arrangement.columns for name in column if name in names - hidden_names
        ]

    def _fit(self, size: Size) -> Geometry:
        zoomed = self.name_of(self.zoomed)
        return fit(
            self.arrangement, (size.width, size.height), self._states(), self._attention, zoomed=zoomed
        )

    def _states(self) -> dict[str, PanelState]:
        panes = {name: pane for name, pane in self._panes.items() if not _is_gone(pane)}
        readers = [pane for pane in panes.values() if isinstance(pane, ReaderPane)]
        some_live = any(not pane.is_idle for pane in readers)
        some_work = any(not (pane.is_idle or pane.is_quiet) for pane in readers)
        states = {}
        for name, pane in panes.items():
            match pane:
                case ReaderPane():
                    may_fold = some_live or pane.may_always_fold
                    # Unless a person looks at it, or has given it a height.
                    is_large = name == self._attention.selected or name in self.arrangement.heights
                    is_small = pane.is_quiet and some_work and not is_large
                    rows = _quiet_rows if is_small else pane.rows
                    states[name] = PanelState(rows=rows, is_idle=pane.is_idle and may_fold)
                case GpuPanel() | KnobPanel():
                    states[name] = PanelState(rows=pane.rows_needed, is_side=True)
                case _:
                    rows = rows_of_a_line if pane.has_class(EMPTY) else None
                    states[name] = PanelState(rows=rows, is_side=True)
        return states

    def _set_classes(self, geometry: Geometry) -> None:
        self.set_class(geometry.is_flat, "-flat")
        for name, pane in self._panes.items():
            rectangle = geometry.rectangles.get(name)
            pane.set_class(rectangle is not None and rectangle.is_folded, "-folded")

    def render(self) -> Content:
        """The captions that stand where no pane does."""
        rows = {caption.y: caption for caption in self.geometry.captions}
        lines = []
        for y in range(max(rows, default=-1) + 1):
            caption = rows.get(y)
            text = "" if caption is None else " " * caption.x + caption.text
            lines.append(Content.styled(text, FAINT))
        return Content("\n").join(lines)

    # mouse

    def on_mouse_down(self, event: events.MouseDown) -> None:
        start = event.screen_offset - self.region.offset
        border = None
        if self.zoomed is None and event.button == 1:
            border = self.geometry.border_at(start.x, start.y)
        self._drag = None if border is None else _BorderDrag(border, start, self.arrangement, self.geometry)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """The border follows the pointer while the button is down."""
        if self._drag is None:
            return
        if not event.button:  # it went up where nobody saw it
            self._end_drag()
            return
        if self.app.mouse_captured is not self:
            self.capture_mouse()
        self.arrangement = self._drag.to(event.screen_offset - self.region.offset)
        self.update_layout()

    def on_mouse_up(self) -> None:
        self._end_drag()

    def _end_drag(self) -> None:
        if self.app.mouse_captured is self:
            self.release_mouse()
            self.post_message(self.Rearranged())
        self._drag = None

    def on_click(self, event: events.Click) -> None:
        """Twice: the pane alone, and all again. A row of knobs has a meaning of its own for it."""
        if event.chain != 2 or isinstance(event.widget, KnobRows) or event.widget is None:
            return
        if (pane := self.pane_of(event.widget)) is not None:
            self.zoom(None if self.zoomed else pane)

    # focus and zoom

    def attend(self, focused: Widget | None, selected: str | None) -> None:
        """Lay out for these: the pane that has the keys, and the one that was read last."""
        self._attention = Attention(self.name_of(focused), selected)
        for pane in self.readers:
            pane.selected = pane.reader_id == selected
        self.update_layout()

    def focus_pane(self, pane: Widget) -> None:
        """Give a pane the keys; a zoomed screen shows it alone."""
        if self.zoomed is not None and self.zoomed is not pane:
            self.zoom(pane)
        match pane:
            case ReaderPane():
                target: Widget = pane.log_pane
            case KnobPanel():
                target = pane.rows
            case _:
                target = pane
        # at once: the next key may have been typed already
        self.screen.set_focus(target, scroll_visible=False)

    def focus_adjacent(self, pane: Widget | None, step: int) -> None:
        """Focus the pane `step` further on, round and round."""
        panes = self.panes
        if panes:
            index = panes.index(pane) if pane in panes else -step
            self.focus_pane(panes[(index + step) % len(panes)])

    def zoom(self, pane: Widget | None) -> None:
        """Show `pane` alone; `None` shows all."""
        self.zoomed = pane
        self.set_class(pane is not None, "-zoomed")
        self.update_layout()


def _quiet_rows(width: int) -> int:
    del width
    return _QUIET_ROWS


def _is_gone(pane: Widget) -> bool:
    """A component that only a person starts, and that is over: nothing is to be seen of it."""
    return isinstance(pane, ComponentPane) and pane.is_over
