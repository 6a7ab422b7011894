"""Lines that say which processes outlived their component: small, but above everything else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from rltui.core.api import Orphan
from rltui.core.text import gib, listed, shortened
from rltui.ui.text import clean_line
from rltui.wording import brief_orphan, by_attempt, orphan_count, owner_text, ports_text

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
        orphans = _aged(self.orphans, self._clock() - self._told_at)
        lines = bar_lines(orphans, width, rows=rows, hint=self._hint)
        if lines != self._lines:
            self._lines = lines
            self.update(Content("\n".join(lines)))


def _aged(orphans: Sequence[Orphan], by_s: float) -> list[Orphan]:
    """As they are `by_s` seconds later."""
    return [
        orphan if orphan.age_s is None else orphan.model_copy(update={"age_s": orphan.age_s + by_s})
        for orphan in orphans
    ]


def bar_lines(orphans: Sequence[Orphan], width: int, *, rows: int, hint: str) -> list[str]:
    """A line per attempt, at most `rows` of them; `hint` (which key ends them) closes the last one.

    What there is no room for goes in this order: further processes, names, and what they hold.
    """
    groups = by_attempt(orphans)
    room = max(0, width - len(hint))
    if len(groups) > rows:
        owners = listed([owner_text(group[0]) for group in groups])
        held = _held_text(orphans)
        short = f"⚠ {orphan_count(orphans)}"
        holding = f"{short}: {held}" if held else short
        texts = [f"{short} of {owners}: {held}" if held else f"{short} of {owners}", holding, short]
        return [_first_that_fits(texts, room) + hint]
    lines = [_group_line(group, room) for group in groups]
    return [*lines[:-1], lines[-1] + hint] if lines else []


def _group_line(group: Sequence[Orphan], width: int) -> str:
    group = sorted(group, key=_weight)
    whose = f"⚠ {orphan_count(group)} of {owner_text(group[0])}"
    held = _held_text(group)
    all_named = ", ".join(map(brief_orphan, group))
    first_named = brief_orphan(group[0]) + (", …" if len(group) > 1 else "")
    return _first_that_fits(
        [f"{whose}: {all_named}", f"{whose}: {first_named}", f"{whose}: {held}" if held else whose, whose],
        width,
    )


def _first_that_fits(texts: Sequence[str], width: int) -> str:
    clean = list(map(clean_line, texts))
    return next((text for text in clean if len(text) <= width), shortened(clean[-1], width))


def _weight(orphan: Orphan) -> tuple[int, bool, bool]:
    """What holds most comes first, Python's own helper, which holds nothing, last."""
    return -(orphan.gpu_bytes or 0), not orphan.ports, "resource_tracker" in orphan.command


def _held_text(orphans: Sequence[Orphan]) -> str:
    """What they hold together, `58.0 GiB, :8000`; empty where nothing is known of it."""
    memory = sum(orphan.gpu_bytes or 0 for orphan in orphans)
    ports = ports_text([port for orphan in orphans for port in orphan.ports])
    return ", ".join(part for part in (f"{gib(memory)} GiB" if memory else "", ports) if part)
