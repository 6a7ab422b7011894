"""The panes in their columns: order, focus and zoom, and the keys that go from pane to pane."""

from __future__ import annotations

from collections.abc import Callable

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.events import DescendantFocus
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget

from rltui.core.layout import Screen as ScreenLayout
from rltui.ui.widgets.gpu_panel import GpuPanel
from rltui.ui.widgets.knob_table import KnobPanel, KnobRows
from rltui.ui.widgets.panes import ComponentPane, LogFilePane, OpenLog, ReaderPane

PANELS = ("gpus", "knobs")


def columns(layout: ScreenLayout, pane_ids: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The layout's columns, without unknown names; by default components and logs left, panels right."""
    wanted = layout.columns or (pane_ids, PANELS)
    known = {*pane_ids, *PANELS}
    return tuple(tuple(name for name in column if name in known) for column in wanted)


def column_widths(layout: ScreenLayout, count: int) -> tuple[str, ...]:
    """The layout's widths; by default the first column is twice as wide."""
    return layout.widths or ("2fr", *("1fr",) * (count - 1))


def reader_id(pane: Widget | None) -> str | None:
    """Id of the component or log file that a pane shows; `None` for any other."""
    return pane.reader_id if isinstance(pane, ReaderPane) else None


class Body(Horizontal):
    """Columns side by side, or stacked where the screen is narrow (see the style sheet)."""

    def __init__(
        self,
        layout: ScreenLayout,
        component_ids: tuple[str, ...],
        open_log: OpenLog,
        clock: Callable[[], float],
        *,
        log_ids: tuple[str, ...] = (),
        readonly: bool = False,
    ) -> None:
        super().__init__(id="body")
        self._readonly = readonly
        self._log_ids = log_ids
        self._columns = columns(layout, (*component_ids, *log_ids))
        self._widths = column_widths(layout, len(self._columns))
        self._open_log = open_log
        self._clock = clock
        self.zoomed: Widget | None = None

    def compose(self) -> ComposeResult:
        """A vertical container per column."""
        for names, width in zip(self._columns, self._widths, strict=True):
            only_panels = all(name in PANELS for name in names)
            with Vertical(classes="column panels" if only_panels else "column") as column:
                column.styles.width = width
                for name in names:
                    yield self._pane(name)

    def _pane(self, name: str) -> Widget:
        if name == "gpus":
            return GpuPanel(classes="pane panel")
        if name == "knobs":
            return KnobPanel(classes="pane panel", readonly=self._readonly)
        if name in self._log_ids:
            return LogFilePane(name, self._open_log, self._clock)
        return ComponentPane(name, self._open_log, self._clock, readonly=self._readonly)

    @property
    def panes(self) -> list[Widget]:
        """Down the columns, left to right, without those that are over."""
        return list(self.query(".pane").exclude(".-over"))

    @property
    def components(self) -> list[ComponentPane]:
        """Every component's pane, also those that are over."""
        return list(self.query(ComponentPane))

    def component(self, component_id: str) -> ComponentPane | None:
        """The pane of a component, if the layout shows it."""
        return next((pane for pane in self.components if pane.reader_id == component_id), None)

    @property
    def logs(self) -> list[LogFilePane]:
        """The pane of every log file."""
        return list(self.query(LogFilePane))

    def log_file(self, log_id: str) -> LogFilePane | None:
        """The pane of a log file, if the layout shows it."""
        return next((pane for pane in self.logs if pane.reader_id == log_id), None)

    def has_reader(self, name: str) -> bool:
        """Whether a component or log file of that id is shown."""
        return self.component(name) is not None or self.log_file(name) is not None

    @property
    def readers(self) -> list[ReaderPane]:
        """What can be read, down the columns: panes of components, also those that are over, and of logs."""
        return list(self.query(ReaderPane))

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
