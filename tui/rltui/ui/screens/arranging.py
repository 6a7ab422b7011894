"""Panels that a person moves, resizes, hides: the keys for it, and the actions of the overview."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from rltui.ui.actions import KeyContext, Scope, key_of
from rltui.ui.key_bindings import keys, own
from rltui.ui.panels.arrangement import CHARTS, Arrangement, Direction
from rltui.ui.shared import UiStateStore
from rltui.ui.widgets.body import Body, PaneActions

_ROWS, _CELLS = 2, 4
"""That a key moves a border by."""


class ArrangedPanes(PaneActions):
    """Has another arrangement where a person wants it, which is kept with the layout."""

    layout_memory: UiStateStore
    """Of all experiments with this layout."""

    @property
    def default_arrangement(self) -> Arrangement:
        """As the layout says."""
        raise NotImplementedError

    def fill(self) -> None:
        """Panes that are shown for the first time get their values."""
        raise NotImplementedError

    @on(Body.Rearranged)
    def _keep_arrangement(self) -> None:
        self.layout_memory.note("arrangement", self.body.arrangement.to_json())
        self.fill()
        self.refresh_bindings()

    def action_arrange(self) -> None:
        self.app.push_screen(ArrangeLine(self))

    async def action_hide_pane(self) -> None:
        """The one that has the keys; they go to the next one."""
        body, pane = self.body, self.current_pane
        if (name := body.name_of(pane)) is not None:
            if len(body.panes) > 1:
                self.action_focus_beside(1)
            await body.rearrange(body.arrangement.hide(name))

    async def action_show_all_panes(self) -> None:
        body = self.body
        names = set(body.arrangement.hidden) - self.default_arrangement.hidden
        await body.rearrange(body.arrangement.show(*names))

    async def action_usual_panes(self) -> None:
        await self.body.rearrange(self.default_arrangement)

    async def action_toggle_charts(self) -> None:
        arrangement = self.body.arrangement
        is_hidden = CHARTS in arrangement.hidden
        await self.body.rearrange(arrangement.show(CHARTS) if is_hidden else arrangement.hide(CHARTS))

    async def move_pane(self, direction: Direction) -> None:
        body = self.body
        if (name := body.name_of(self.current_pane)) is not None:
            visible = {name for name in map(body.name_of, body.panes) if name is not None}
            await body.rearrange(body.arrangement.move(name, direction, visible))

    async def resize_pane(self, cells: int, rows: int) -> None:
        """Wider or higher by so many steps, or less."""
        body = self.body
        name = body.name_of(self.current_pane)
        nearest = body.geometry.border_of(name, between_columns=bool(cells)) if name is not None else None
        if nearest is not None:
            border, direction = nearest
            distance = direction * (cells * _CELLS + rows * _ROWS)
            await body.rearrange(body.geometry.drag(body.arrangement, border, distance))


class ArrangeLine(ModalScreen[None]):
    """A line that says the keys, over the panels they are for."""

    CSS_PATH: ClassVar = ["arranging.tcss"]
    BINDINGS = keys(
        KeyContext.ARRANGE,
        own("arrange.left", "h,left", "move('left')", "left", "To the column at the left", Scope.ARRANGE),
        own("arrange.down", "j,down", "move('down')", "down", "Carry it further down", Scope.ARRANGE),
        own("arrange.up", "k,up", "move('up')", "up", "Carry it further up", Scope.ARRANGE),
        own("arrange.right", "l,right", "move('right')", "right", "To the column at the right",
            Scope.ARRANGE),
        own("arrange.higher", "plus", "resize(0, 1)", "higher", "More rows for it", Scope.ARRANGE),
        own("arrange.lower", "minus", "resize(0, -1)", "lower", "Fewer rows", Scope.ARRANGE),
        own("arrange.wider", "greater_than_sign", "resize(1, 0)", "wider", "A wider column", Scope.ARRANGE),
        own("arrange.narrower", "less_than_sign", "resize(-1, 0)", "narrower", "A narrower one",
            Scope.ARRANGE),
        own("arrange.hide", "x", "hide", "hide", "Hide it", Scope.ARRANGE),
        own("arrange.charts", "c", "charts", "charts", "Show charts beside the others, or no more",
            Scope.ARRANGE),
        own("arrange.all", "a", "show_all", "all", "Show what was hidden", Scope.ARRANGE),
        own("arrange.usual", "0,equals_sign", "usual", "as usual", "As the layout has them", Scope.ARRANGE),
        own("arrange.next", "tab,w", "focus_beside(1)", "next", "Go on with the next panel", Scope.ARRANGE),
        own("arrange.previous", "shift+tab", "focus_beside(-1)", "previous", "The panel before",
            Scope.ARRANGE),
        own("arrange.end", "escape,enter,ctrl+w,q", "end", "end", "That is all", Scope.ARRANGE),
    )  # fmt: skip

    def __init__(self, panes: ArrangedPanes) -> None:
        super().__init__()
        self._panes = panes
        self._line = Static(id="arrange-line", markup=False)

    def compose(self) -> ComposeResult:
        yield self._line

    def on_mount(self) -> None:
        self._show_line()

    def on_resize(self) -> None:
        self._show_line()

    def _show_line(self) -> None:
        name = self._panes.body.name_of(self._panes.current_pane) or "panels"
        self._line.update(arrange_words(name, self.app.size.width))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        event.stop()
        self.dismiss()

    async def action_move(self, direction: Direction) -> None:
        await self._panes.move_pane(direction)

    async def action_resize(self, cells: int, rows: int) -> None:
        await self._panes.resize_pane(cells, rows)

    async def action_hide(self) -> None:
        await self._panes.action_hide_pane()
        self._show_line()

    async def action_charts(self) -> None:
        await self._panes.action_toggle_charts()

    async def action_show_all(self) -> None:
        await self._panes.action_show_all_panes()

    async def action_usual(self) -> None:
        await self._panes.action_usual_panes()

    def action_focus_beside(self, step: int) -> None:
        self._panes.action_focus_beside(step)
        self._show_line()

    def action_end(self) -> None:
        self.dismiss()


_WORDS = {
    "move": ("left", "down", "up", "right"),
    "height": ("higher", "lower"),
    "width": ("narrower", "wider"),
    "hide": ("hide",),
    "charts": ("charts",),
    "all": ("all",),
    "as usual": ("usual",),
    "next": ("next",),
}


def arrange_words(name: str, width: int) -> Content:
    """`Arrange trainer  h j k l move · …  esc ends`, as far as there is room."""
    line = Content.assemble((f" Arrange {name} ", "bold $accent"))
    end = Content.assemble((f" {key_of('arrange.end')}", "bold $accent"), (" ends", ""))
    for words, actions in _WORDS.items():
        keys = " ".join(key_of(f"arrange.{action}") for action in actions)
        part = Content.assemble((f" {keys}", "bold $accent"), (f" {words} ", ""))
        if line.cell_length + part.cell_length + end.cell_length > width:
            break
        line += part
    return line + end
