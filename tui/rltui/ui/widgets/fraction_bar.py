"""A share of a GPU's memory as a bar, and what it means in GiB. Pure but for the widget's two values."""

from __future__ import annotations

from textual.app import RenderResult
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from rltui.core.gpu.report import MemoryVerdict
from rltui.core.text import gib

_FAINT = "$foreground 60%"
_MARKS = {"fits": ("✓", "$text-success"), "unknown": ("?", _FAINT)}
_BAD = ("⚠", "$text-warning")


def bar_line(fraction: float | None, safe: float | None, width: int, style: str = "$primary") -> Content:
    """`width` cells from 0 to 1: what the engine takes, and where its safe limit is."""
    cells = max(0, width - 2)
    filled = 0 if fraction is None else round(min(1.0, max(0.0, fraction)) * cells)
    at = None if safe is None else min(cells - 1, round(safe * cells))
    bar = Content.assemble(("█" * filled, style), ("░" * (cells - filled), _FAINT))
    if at is not None and 0 <= at < cells:
        bar = bar[:at] + Content.styled("┊", "bold reverse" if at < filled else "bold") + bar[at + 1 :]
    return Content("▕") + bar + Content("▏")


def _figures_line(verdict: MemoryVerdict) -> Content:
    """Budget, what is left, what the trainer is known to need."""
    mark, style = _MARKS.get(verdict.verdict, _BAD)
    parts = []
    if verdict.budget_bytes is not None:
        total = "" if verdict.total_bytes is None else f" of {gib(verdict.total_bytes)}"
        parts.append(f"budget {gib(verdict.budget_bytes)}{total} GiB on GPU {verdict.device}")
    if verdict.left_bytes is not None:
        parts.append(f"leaves the trainer {gib(verdict.left_bytes)} GiB")
    if verdict.peak_bytes is not None:
        parts.append(f"it held up to {gib(verdict.peak_bytes)}")
    if verdict.safe_utilization is not None:
        parts.append(f"┊ safe up to {verdict.safe_utilization:g}")
    return Content.assemble((f"{mark} ", style), " · ".join(parts) or verdict.text)


class FractionBar(Widget):
    """Below the field: the bar as typed, the figures as soon as they are planned."""

    fraction: reactive[float | None] = reactive(None)
    verdict: reactive[MemoryVerdict | None] = reactive(None, layout=True)

    def render(self) -> RenderResult:
        """One line, and the figures below it where they are known."""
        verdict = self.verdict
        width = self.size.width
        safe = None if verdict is None else verdict.safe_utilization
        is_bad = verdict is not None and verdict.is_bad
        line = bar_line(self.fraction, safe, width, _BAD[1] if is_bad else "$primary")
        return line if verdict is None else line + Content("\n") + _figures_line(verdict)
