"""The GPU panel: a memory bar per device, by component."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.widget import Widget

from rltui.core.gpu.report import GpuReport
from rltui.ui.widgets.gpu_lines import gpu_lines, gpu_summary


class GpuBars(Widget):
    """The lines themselves, as high as they need."""

    report: reactive[GpuReport | None] = reactive(None, repaint=False)

    def watch_report(self, before: GpuReport | None, report: GpuReport | None) -> None:
        """Paint the lines that changed; lay out anew only where there are more or fewer."""
        width = self.size.width
        old, new = gpu_lines(before, width), gpu_lines(report, width)
        if len(old) != len(new):
            self.refresh(layout=True)
        elif changed := [y for y, line in enumerate(new) if not line.is_same(old[y])]:
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Lines at this width: the legend wraps."""
        del container, viewport
        return len(gpu_lines(self.report, width))

    def render(self) -> Content:
        """All lines."""
        return Content("\n").join(gpu_lines(self.report, self.size.width))


class GpuPanel(VerticalScroll):
    """Scrolls where there are more devices than room."""

    BORDER_TITLE = "GPUs"

    def compose(self) -> ComposeResult:
        """The bars."""
        yield GpuBars()

    def show(self, report: GpuReport) -> None:
        """Take over a new reading; the time alone is no news."""
        bars = self.query_one(GpuBars)
        report = report.model_copy(update={"sampled_at": None})
        if report != bars.report:
            bars.report = report
            self._update_title()

    def on_resize(self) -> None:
        """A folded panel says in its title what cannot be seen."""
        self._update_title()

    def _update_title(self) -> None:
        report = self.query_one(GpuBars).report
        title = Content.styled("GPUs", "bold")
        if self.size.height == 0 and report is not None:
            title += Content.styled(f" · {gpu_summary(report)}", "$foreground 60%")
        self.border_title = title
