"""The GPU panel: a memory bar per device, by component."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.widget import Widget

from rltui.core.gpu.report import GpuReport
from rltui.core.text import duration
from rltui.ui.widgets.gpu_lines import gpu_lines, gpu_summary
from rltui.ui.widgets.gpu_words import stale_age_s


class GpuBars(Widget):
    """The lines themselves, as high as they need."""

    report: reactive[GpuReport | None] = reactive(None, repaint=False)
    is_stale: reactive[bool] = reactive(False, repaint=False)
    hint = ""
    """Says which key ends a process that may be ended."""

    def __init__(self) -> None:
        super().__init__()
        self._painted: list[Content] = []

    def watch_report(self) -> None:
        """News."""
        self._paint_changes()

    def watch_is_stale(self) -> None:
        """No news for too long, or news again."""
        self._paint_changes()

    def _paint_changes(self) -> None:
        """Paint the lines that changed; lay out anew only where there are more or fewer."""
        width = self.size.width
        old, new = self._painted, self._lines(width)
        if len(old) != len(new):
            self.refresh(layout=True)
        elif changed := [y for y, line in enumerate(new) if not line.is_same(old[y])]:
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def _lines(self, width: int) -> list[Content]:
        return gpu_lines(self.report, width, is_stale=self.is_stale, hint=self.hint)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Lines at this width: the legend wraps."""
        del container, viewport
        return len(self._lines(width))

    def render(self) -> Content:
        """All lines."""
        self._painted = self._lines(self.size.width)
        return Content("\n").join(self._painted)


class GpuPanel(VerticalScroll):
    """Scrolls where there are more devices than room."""

    BORDER_TITLE = "GPUs"

    def __init__(self, *, classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self._sampled: GpuReport | None = None
        self._age = ""

    def compose(self) -> ComposeResult:
        """The bars."""
        yield GpuBars()

    def show(self, report: GpuReport, now: float, *, hint: str = "") -> None:
        """Take over a new reading; the time alone is no news. `hint`: as that of `GpuBars`."""
        bars = self.query_one(GpuBars)
        bars.hint = hint
        self._sampled = report
        report = without_times(report)
        if report != bars.report:
            bars.report = report
            self._update_title()
        self.update_age(now)

    def update_age(self, now: float) -> None:
        """Whether what is shown may still be true at `now`; repaints only where that is another answer."""
        age_s = None if self._sampled is None else stale_age_s(self._sampled, now)
        self.query_one(GpuBars).is_stale = age_s is not None
        age = "" if age_s is None else f"{duration(age_s)} old"
        if age != self._age:
            self._age = age
            self._update_title()

    def on_resize(self) -> None:
        """A folded panel says in its title what cannot be seen."""
        self._update_title()

    def _update_title(self) -> None:
        report = self.query_one(GpuBars).report
        title = Content.styled("GPUs", "bold")
        if self._age:
            title += Content.styled(f" · ⚠ {self._age}", "$text-warning")
        if self.size.height == 0 and report is not None:
            title += Content.styled(f" · {gpu_summary(report)}", "$foreground 60%")
        self.border_title = title


def without_times(report: GpuReport) -> GpuReport:
    """As `report`, but equal to the next one if nothing but the time has changed."""
    sources = tuple(source.model_copy(update={"sampled_at": None}) for source in report.sources)
    return report.model_copy(update={"sampled_at": None, "sources": sources})
