"""The bottom line: the keys that work now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.binding import ActiveBinding
from textual.content import Content
from textual.widget import Widget

from rltui.ui.actions import FOOTER_RANKS, key_text

if TYPE_CHECKING:
    from textual.screen import Screen

_UNRANKED = len(FOOTER_RANKS)
_KEPT_LONGEST = ("detach", "palette", "help")
"""Dropped last when the line is narrow."""


def footer_entries(active: dict[str, ActiveBinding]) -> list[tuple[str, str, str, str]]:
    """Id, key, label and action of what is shown, in the table's order; the focused pane's own come late."""
    rank_of_detach = FOOTER_RANKS["detach"]
    entries: dict[str, tuple[float, tuple[str, str, str, str]]] = {}
    for _, binding, enabled, _ in active.values():
        if not (binding.show and enabled and binding.description):
            continue
        binding_id = binding.id or binding.action
        rank = FOOTER_RANKS.get(binding_id, rank_of_detach - 0.5)
        key = binding.key_display or key_text(binding.key)
        entries.setdefault(binding.action, (rank, (binding_id, key, binding.description, binding.action)))
    return [entry for _, entry in sorted(entries.values(), key=lambda item: item[0])]


def footer_line(entries: list[tuple[str, str, str, str]], width: int) -> Content:
    """As many entries as fit `width` cells."""
    shown: set[str] = set()
    for binding_id, key, label, _ in sorted(entries, key=_droppable):
        cells = len(key) + len(label) + 3
        if cells <= width or not shown:
            shown.add(binding_id)
            width -= cells
    line = Content("")
    for _, key, label, _ in (entry for entry in entries if entry[0] in shown):
        line += Content.assemble((f" {key}", "bold $accent"), (f" {label} ", ""))
    return line


def _droppable(entry: tuple[str, str, str, str]) -> int:
    binding_id = entry[0]
    if binding_id in _KEPT_LONGEST:
        return -1
    return FOOTER_RANKS.get(binding_id, _UNRANKED + 100)


class KeyBar(Widget):
    """A footer drawn as one line: no child widgets, nothing to compose on each change of focus."""

    def on_mount(self) -> None:
        """Follow what is possible."""
        self.screen.bindings_updated_signal.subscribe(self, self._bindings_changed)

    def _bindings_changed(self, screen: Screen[object]) -> None:
        if screen is self.screen:
            self.refresh()

    def render(self) -> Content:
        """The line for the screen's present bindings."""
        return footer_line(footer_entries(self.screen.active_bindings), self.size.width)
