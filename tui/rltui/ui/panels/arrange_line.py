"""The line that says the keys for moving, resizing and hiding panels, while they are for that."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from rltui.ui.actions import KeyContext, Scope, key_of
from rltui.ui.commands.panels import PanelCommands
from rltui.ui.key_bindings import keys, own
from rltui.ui.panels.arrangement import Direction


class ArrangeLine(ModalScreen[None]):
    CSS_PATH: ClassVar = ["arrange_line.tcss"]
    BINDINGS = keys(
        KeyContext.ARRANGE,
        own("arrange.left", "h,left", "move('left')", "left", "Move the panel left", Scope.ARRANGE),
        own("arrange.down", "j,down", "move('down')", "down", "Move the panel down", Scope.ARRANGE),
        own("arrange.up", "k,up", "move('up')", "up", "Move the panel up", Scope.ARRANGE),
        own("arrange.right", "l,right", "move('right')", "right", "Move the panel right",
            Scope.ARRANGE),
        own("arrange.higher", "plus", "resize(0, 1)", "higher", "Make the panel taller", Scope.ARRANGE),
        own("arrange.lower", "minus", "resize(0, -1)", "lower", "Make the panel shorter", Scope.ARRANGE),
        own("arrange.wider", "greater_than_sign", "resize(1, 0)", "wider", "Make the column wider",
            Scope.ARRANGE),
        own("arrange.narrower", "less_than_sign", "resize(-1, 0)", "narrower", "Make the column narrower",
            Scope.ARRANGE),
        own("arrange.hide", "x", "hide", "hide", "Hide the panel", Scope.ARRANGE),
        own("arrange.charts", "c", "charts", "charts", "Show or hide the charts",
            Scope.ARRANGE),
        own("arrange.all", "a", "show_all", "all", "Show the hidden panels", Scope.ARRANGE),
        own("arrange.usual", "0,equals_sign", "usual", "reset", "Reset to the panels of the layout",
            Scope.ARRANGE),
        own("arrange.next", "tab,w", "focus_adjacent(1)", "next", "Select the next panel", Scope.ARRANGE),
        own("arrange.previous", "shift+tab", "focus_adjacent(-1)", "previous", "Select the previous panel",
            Scope.ARRANGE),
        own("arrange.end", "escape,enter,q", "end", "done", "End arranging", Scope.ARRANGE),
    )  # fmt: skip

    def __init__(self, panels: PanelCommands) -> None:
        super().__init__()
        self._panels = panels
        self._line = Static(id="arrange-line", markup=False)

    def compose(self) -> ComposeResult:
        yield self._line

    def on_mount(self) -> None:
        self._show_line()

    def on_resize(self) -> None:
        self._show_line()

    def _show_line(self) -> None:
        name = self._panels.body.name_of(self._panels.current_pane) or "panels"
        self._line.update(arrange_words(name, self.app.size.width))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        event.stop()
        self.dismiss()

    async def action_move(self, direction: Direction) -> None:
        await self._panels.move(direction)

    async def action_resize(self, cells: int, rows: int) -> None:
        await self._panels.resize(cells, rows)

    async def action_hide(self) -> None:
        await self._panels.hide()
        self._show_line()

    async def action_charts(self) -> None:
        await self._panels.toggle_charts()

    async def action_show_all(self) -> None:
        await self._panels.show_all()

    async def action_usual(self) -> None:
        await self._panels.reset()

    def action_focus_adjacent(self, step: int) -> None:
        self._panels.focus_adjacent(step)
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
    "reset": ("usual",),
    "next": ("next",),
}


def arrange_words(name: str, width: int) -> Content:
    """`Arrange trainer  h j k l move · …  esc ends`, as far as there is room."""
    line = Content.assemble((f" Arrange {name} ", "bold $accent"))
    end = Content.assemble((f" {key_of('arrange.end')}", "bold $accent"), (" ends", ""))
    for label, actions in _WORDS.items():
        keys = " ".join(key_of(f"arrange.{action}") for action in actions)
        hint = Content.assemble((f" {keys}", "bold $accent"), (f" {label} ", ""))
        if line.cell_length + hint.cell_length + end.cell_length > width:
            break
        line += hint
    return line + end
