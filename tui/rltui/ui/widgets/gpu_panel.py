"""The GPU panel: a memory bar per device, by component."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from rltui.core.api import GpuReport
from rltui.ui.widgets.gpu_lines import gpu_lines, gpu_summary


class GpuBars(Widget):
    """The lines themselves, as high as they need."""

    report: reactive[GpuReport | None] = reactive(None, layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Lines at this width: the legend wraps."""
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
        """Take over a new reading."""
        bars = self.query_one(GpuBars)
        if report.model_copy(update={"sampled_at": None}) != (
            bars.report and bars.report.model_copy(update={"sampled_at": None})
        ):
            bars.report = report
            self.border_title = Content.assemble(
                ("GPUs", "bold"), (f" · {gpu_summary(report)}", "$text-muted")
            )  # type: ignore[assignment]
