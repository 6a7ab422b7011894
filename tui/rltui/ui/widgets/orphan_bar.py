"""Lines that say which processes outlived their component: small, but above everything else."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from rltui.core.api import Orphan
from rltui.ui.orphans import aged, bar_lines

ROWS_ON_TALL_SCREENS = 3
TALL_ROWS = 36
"""A lower screen has one line for all of them."""


class OrphanBar(Static):
    """Shows the newest `orphans`, getting older; takes no room where there are none."""

    orphans: reactive[tuple[Orphan, ...]] = reactive(())

    def __init__(self, *, hint: str, clock: Callable[[], float]) -> None:
        """`hint` closes the last line: which key ends them."""
        super().__init__(markup=False)
        self._hint = hint
        self._clock = clock
        self._told_at = 0.0
        self._lines: list[str] = []

    def watch_orphans(self) -> None:
        """Show what is true now."""
        self._told_at = self._clock()
        self.set_class(bool(self.orphans), "-shown")
        self.update_ages()

    def on_resize(self) -> None:
        """Say as much as there is room for."""
        self.update_ages()

    def update_ages(self) -> None:
        """Add the time since they were told of; repaints only where the text is another one."""
        width = self.content_size.width or self.app.size.width - 2
        rows = ROWS_ON_TALL_SCREENS if self.app.size.height >= TALL_ROWS else 1
        orphans = aged(self.orphans, self._clock() - self._told_at)
        lines = bar_lines(orphans, width, rows=rows, hint=self._hint)
        if lines != self._lines:
            self._lines = lines
            self.update(Content("\n".join(lines)))
