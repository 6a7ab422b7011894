"""The top line: what runs, how far it is, how well it does."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from rltui.core.api import Status
from rltui.core.text import duration
from rltui.ui.states import SEPARATOR, TROUBLES, experiment_badge
from rltui.ui.text import clean_line, progress_bar, rate, sparkline


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the line. Where the line is too narrow, the part of the highest rank goes first."""

    rank: int
    spans: tuple[tuple[str, str], ...]

    @property
    def width(self) -> int:
        """Cells, including the separator in front."""
        return 3 + sum(len(text) for text, _ in self.spans)


def header_parts(status: Status, *, bar_width: int, readonly: bool = False) -> list[Part]:
    """All that could be said, in the order of the line."""
    badge = experiment_badge(status)
    progress = status.progress
    step = status.step if progress.step is None else progress.step
    max_steps = status.max_steps if progress.max_steps is None else progress.max_steps
    reward = status.reward if progress.reward is None else progress.reward
    parts = [
        Part(0, ((clean_line(status.experiment), "bold"),)),
        Part(6, ((clean_line(status.title or status.framework), ""),)),
        Part(1, ((f"{badge.symbol} {badge.word}", f"bold {badge.style}"),)),
    ]
    if readonly and not status.observed:
        parts.insert(1, Part(0, (("read-only", "bold $text-warning"),)))
    if step is not None:
        parts.append(Part(1, ((f"step {step}" + (f"/{max_steps}" if max_steps else ""), ""),)))
        if max_steps:
            filled, empty = progress_bar(step / max_steps, bar_width)
            percent = f" {100 * min(step, max_steps) // max_steps} %"
            parts.append(Part(7, ((filled, "$primary"), (empty, "$foreground 60%"), (percent, ""))))
    moves = status.state == "running" and not status.done and badge not in TROUBLES
    if progress.eta_s is not None and moves:
        parts.append(Part(3, (("ETA ", "$foreground 60%"), (duration(progress.eta_s), ""))))
    if reward is not None:
        parts.append(Part(2, (("reward ", "$foreground 60%"), (f"{reward:.2f}", "bold"))))
        if not status.done and (graph := sparkline(progress.rewards, 12)):
            parts.append(Part(5, ((graph, "$text-success"),)))
    if progress.tokens_per_s is not None and moves:
        parts.append(Part(4, ((f"{rate(progress.tokens_per_s)} tok/s", ""),)))
    return parts


def header_line(status: Status, width: int, *, readonly: bool = False) -> Content:
    """As much of the header as fits `width` cells."""
    name = " rltui "
    parts = header_parts(status, bar_width=max(8, min(24, width // 8)), readonly=readonly)
    while len(parts) > 1 and len(name) + sum(part.width for part in parts) > width:
        parts.remove(max(parts, key=lambda part: part.rank))
    spans: list[tuple[str, str]] = [(name, "bold $accent")]
    for position, part in enumerate(parts):
        spans.append(SEPARATOR if position else (" ", ""))
        spans.extend(part.spans)
    return Content.assemble(*spans)


class HeaderBar(Widget):
    """Shows the newest `status`, and whether this client may only badge."""

    status: reactive[Status | None] = reactive(None)

    def __init__(self, *, readonly: bool = False) -> None:
        super().__init__()
        self._readonly = readonly

    def render(self) -> Content:
        """One line, whatever the width."""
        if self.status is None:
            return Content.assemble((" rltui ", "bold $accent"), (" connecting…", "$foreground 60%"))
        return header_line(self.status, self.size.width, readonly=self._readonly)
