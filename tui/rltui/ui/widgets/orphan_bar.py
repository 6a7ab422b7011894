"""Lines that say which processes outlived their component: small, but above everything else."""

from __future__ import annotations

from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from rltui.core.api import Orphan
from rltui.ui.orphans import bar_lines

ROWS_ON_TALL_SCREENS = 3
TALL_ROWS = 36
"""A lower screen has one line for all of them."""


class OrphanBar(Static):
    """Shows the newest `orphans`; takes no room where there are none."""

    orphans: reactive[tuple[Orphan, ...]] = reactive(())

    def __init__(self, *, hint: str) -> None:
        """`hint` closes the last line: which key ends them."""
        super().__init__(markup=False)
        self._hint = hint

    def watch_orphans(self) -> None:
        """Show what is true now."""
        self.set_class(bool(self.orphans), "-shown")
        self._write()

    def on_resize(self) -> None:
        """Say as much as there is room for."""
        self._write()

    def _write(self) -> None:
        width = self.content_size.width or self.app.size.width - 2
        rows = ROWS_ON_TALL_SCREENS if self.app.size.height >= TALL_ROWS else 1
        self.update(Content("\n".join(bar_lines(self.orphans, width, rows=rows, hint=self._hint))))
