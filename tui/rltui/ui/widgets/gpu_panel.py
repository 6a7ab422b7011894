"""The GPU panel: a memory bar per device, by component, and who holds how much below."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.widget import Widget

from rltui.base.text import count_text, duration, gib, truncate
from rltui.core.gpu.report import GpuBudget, GpuDevice, GpuReport, GpuShare
from rltui.ui.paragraphs import first_that_fits, flow
from rltui.ui.styles import FAINT
from rltui.ui.text import clean_line
from rltui.ui.widgets.gpu_marks import (
    BUDGET,
    CLAIMED,
    FREE,
    SHARE,
    CellMark,
    Marks,
    freeable_lines,
    holder_text,
    level_sparkline,
    memory_bar,
    owner_marks,
    share_label,
    shares_in_order,
    source_lines,
    unread_lines,
    verdict_lines,
    warning_lines,
)
from rltui.views.gpu.account import (
    free_bytes,
    gib_text,
    load_texts,
    memory_note,
    memory_text,
    short_name,
    stale_age_s,
    starting_labels,
)

_SHARED_LEGEND_LINES = 4
"""More than these, and the legend of many devices leaves out peaks and sizes of budgets."""


def _entry(mark: CellMark, text: str, style: str = "") -> Content:
    return Content.assemble((f"{mark.glyph} ", mark.style), (text, style))


def _budget_text(budget: GpuBudget) -> str:
    return f"budget {budget.utilization:g} {BUDGET.glyph} {gib(budget.budget_bytes)}"


def device_legend(device: GpuDevice, width: int, marks: Marks) -> list[Content]:
    """Each component with peak and budget on a line if it fits; the others and free space share one."""
    budgets = {budget.component: budget for budget in device.budgets}
    lines: list[Content] = []
    small: list[Content] = []
    for share in shares_in_order(device):
        label = share_label(share)
        first = _entry(marks[label], f"{label} {gib_text(share.used_bytes, estimated=share.estimated)}")
        if share.owner != "component":
            small.append(first)
            continue
        texts = [] if share.peak_bytes is None else [f"peak {gib(share.peak_bytes)}"]
        if (budget := budgets.pop(share.component or "", None)) is not None:
            texts.append(_budget_text(budget))
        lines.extend(flow([first, *map(Content, texts)], width, gap=" · ", indent=2))
    for budget in budgets.values():
        name = clean_line(budget.component)
        entry = _entry(marks[name], name, FAINT)
        lines.extend(flow([entry, Content.styled(_budget_text(budget), FAINT)], width, gap=" · ", indent=2))
    small += [_entry(CLAIMED, label) for label in map(clean_line, starting_labels(device.claims))]
    if (free := free_bytes(device)) is not None:
        small.append(_entry(FREE, f"free {gib(free)}", FAINT))
    return [*lines, *flow(small, width)]


def _shared_legend(devices: Sequence[GpuDevice], width: int, marks: Marks) -> list[Content]:
    """One legend for many devices: sums, highest peaks, and all budgets that differ."""
    groups: dict[str, list[GpuShare]] = {}
    for device in devices:
        for share in shares_in_order(device):
            groups.setdefault(share_label(share), []).append(share)
    free = sum(free_bytes(device) or 0 for device in devices)
    free_entry = _entry(FREE, f"free {gib(free)}", FAINT)
    budgets = {budget.component: budget for device in devices for budget in device.budgets}
    rich: list[Content] = []
    small: list[Content] = []
    for label, shares in groups.items():
        first = _entry(marks[label], f"{label} {_sum_text(shares)}")
        if shares[0].owner != "component":
            small.append(first)
            continue
        peaks = [share.peak_bytes for share in shares if share.peak_bytes is not None]
        texts = [f"on {count_text(len(shares), 'GPU')}"]
        texts += [f"peak {gib(max(peaks))}{' each' if len(shares) > 1 else ''}"] if peaks else []
        texts += [_budget_text(budgets[label])] if label in budgets else []
        rich.extend(flow([first, *map(Content, texts)], width, gap=" · ", indent=2))
    labels = starting_labels(claim for device in devices for claim in device.claims)
    small += [_entry(CLAIMED, label) for label in map(clean_line, labels)]
    rich.extend(flow([*small, free_entry], width))
    if len(rich) <= _SHARED_LEGEND_LINES:
        return rich
    utilizations = sorted({budget.utilization for budget in budgets.values()})
    marks_of_budgets = [_entry(BUDGET, f"{utilization:g}") for utilization in utilizations]
    entries = [_entry(marks[label], f"{label} {_sum_text(shares)}") for label, shares in groups.items()]
    return flow([*entries, free_entry, *marks_of_budgets], width)


def _sum_text(shares: Sequence[GpuShare]) -> str:
    estimated = any(share.estimated for share in shares)
    return gib_text(sum(share.used_bytes for share in shares), estimated=estimated)


_FEW_DEVICES = 2
"""Up to so many have a legend of their own."""
_MANY_DEVICES = 4
"""More devices than these have one line apiece."""
_MIN_BAR = 8
_MIN_SPARKLINE = 10
_IN_SUMMARY = 3
"""Devices that a folded panel tells one by one; of more it tells the sum."""
_STALE = "$foreground 45%"


def gpu_lines(
    report: GpuReport | None, width: int, *, is_stale: bool = False, hint: str = ""
) -> list[Content]:
    """The whole panel. `hint` says which key ends a process that may be ended."""
    if report is None:
        return [Content.styled("reading…", FAINT)]
    width = max(1, width)
    lines: list[Content] = []
    if not (report.available and report.devices):
        reason = clean_line(report.reason or "no device found")
        lines = Content.styled(f"No GPUs: {reason}", FAINT).wrap(width)
    if report.devices:
        lines.extend(_device_lines(report, width, is_stale=is_stale))
        lines.extend(freeable_lines(report, width, hint))
        lines.extend(warning_lines(report.devices, width, has_names=len(report.devices) > 1))
    return [*lines, *source_lines(report, width), *verdict_lines(report.verdicts, width)]


def _device_lines(report: GpuReport, width: int, *, is_stale: bool) -> list[Content]:
    marks = owner_marks(report)
    silent = {source.name for source in report.sources if source.problem}
    lines: list[Content] = []
    for host, host_devices in groupby(report.devices, key=lambda device: device.host):
        devices = list(host_devices)
        if host:
            name = truncate(clean_line(host), width)
            lines.append(Content.styled(f"{name} {'─' * (width - len(name) - 1)}".strip(), FAINT))
        host_lines = _host_lines(devices, width, marks, len(report.devices))
        old = is_stale or host in silent
        lines.extend(dimmed(line) for line in host_lines) if old else lines.extend(host_lines)
    if len(report.devices) > _FEW_DEVICES:
        legend = _shared_legend([device for device in report.devices if not device.problem], width, marks)
        lines.extend(dimmed(line) if is_stale else line for line in legend)
    return lines


def dimmed(line: Content) -> Content:
    """Colours are taken away: the values may be out of date."""
    return Content.styled(line.plain, _STALE)


def _host_lines(devices: list[GpuDevice], width: int, marks: Marks, count: int) -> list[Content]:
    lines: list[Content] = []
    label_width = max(len(device.label) for device in devices)
    for device in devices:
        if device.problem:
            lines.extend(unread_lines(device, width))
        elif count > _MANY_DEVICES:
            lines.append(brief_line(device, width, marks, label_width))
        else:
            lines.extend(_full_lines(device, width, marks))
            if count <= _FEW_DEVICES:
                lines.extend(device_legend(device, width, marks))
    return lines


def _full_lines(device: GpuDevice, width: int, marks: Marks) -> list[Content]:
    note = memory_note(device)
    name = f"{device.label} {truncate(short_name(clean_line(device.name)), 20)}".rstrip()
    name = truncate(name, max(len(device.label), width - 8))
    load = first_that_fits(load_texts(device), max(0, width - len(name) - 2))
    gap = max(0, width - len(name) - len(load))
    if note and gap >= len(note) + 5:
        load, gap = f"{note}  {load}".rstrip(), gap - len(note) - 2
    graph = level_sparkline(device.recent, gap - 4) if gap - 4 >= _MIN_SPARKLINE else ""
    spaces = " " * (gap - len(graph) - (2 if graph else 0))
    memory = f" {memory_text(device)}"
    if width - len(memory) < _MIN_BAR:
        memory = memory.removesuffix(" GiB")
    return [
        Content.assemble((name, "bold"), spaces, (graph, "$text-success"), "  " if graph else "", load),
        memory_bar(device, max(4, width - len(memory)), marks) + memory,
    ]


def brief_line(device: GpuDevice, width: int, marks: Marks, label_width: int) -> Content:
    """One line: label, bar, memory, load, temperature; what there is no room for goes from the right."""
    label = f"{device.label:<{label_width}} "
    memory = (
        "" if device.used_bytes is None else f" {gib(device.used_bytes):>4}/{gib(device.total_bytes or 0)}"
    )
    load = "" if device.utilization is None else f"{100 * device.utilization:4.0f}%"
    heat = "" if device.temperature_c is None else f"{device.temperature_c:4.0f}°"
    tails = [memory + load + heat, memory + load, memory, ""]
    room = width - len(label) - _MIN_BAR
    tail = next(text for text in tails if len(text) <= room or not text)
    bar = memory_bar(device, max(4, width - len(label) - len(tail)), marks)
    return Content.styled(label, "bold") + bar + tail


def gpu_summary(report: GpuReport | None) -> str:
    """The title of a folded panel."""
    if report is None:
        return ""
    if not report.devices:
        return "none"
    if len(report.devices) <= _IN_SUMMARY:
        return " · ".join(map(_summary, report.devices))
    total, used = (
        sum(device.total_bytes or 0 for device in report.devices),
        sum(device.used_bytes or 0 for device in report.devices),
    )
    texts = [str(len(report.devices)), f"{gib(used)}/{gib(total)} GiB"]
    loads = [100 * device.utilization for device in report.devices if device.utilization is not None]
    texts += [f"{min(loads):.0f} to {max(loads):.0f} %"] if loads else []
    return " · ".join([*texts, *(_summary(device) for device in report.devices if device.problem)])


def _summary(device: GpuDevice) -> str:
    text = "problem" if device.problem else f"{memory_text(device)} {load_texts(device)[-1].strip()}"
    return f"{device.label}: {text}".rstrip()


class GpuBars(Widget):
    report: reactive[GpuReport | None] = reactive(None, repaint=False)
    is_stale: reactive[bool] = reactive(False, repaint=False)
    hint = ""
    """Says which key ends a process that may be ended."""

    def __init__(self) -> None:
        super().__init__()
        self._painted_lines: list[Content] = []

    def on_click(self, event: events.Click) -> None:
        """A click on a bar tells the owner of the memory."""
        match event.style.meta.get(SHARE):
            case (key, label) if self.report is not None:
                for device in self.report.devices:
                    if device.key == key:
                        self.notify(holder_text(device, label), markup=False)

    def _paint_changes(self) -> None:
        """Paint the lines that changed; lay out anew only where there are more or fewer."""
        width = self.size.width
        old, new = self._painted_lines, self._lines(width)
        if len(old) != len(new):
            self.refresh(layout=True)
        elif changes := [y for y, line in enumerate(new) if not line.is_same(old[y])]:
            self.refresh(*(Region(0, y, width, 1) for y in changes))

    watch_report = watch_is_stale = _paint_changes

    def _lines(self, width: int) -> list[Content]:
        return gpu_lines(self.report, width, is_stale=self.is_stale, hint=self.hint)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Lines at this width: the legend wraps."""
        del container, viewport
        return len(self._lines(width))

    def render(self) -> Content:
        self._painted_lines = self._lines(self.size.width)
        return Content("\n").join(self._painted_lines)


_AROUND = 4
"""Cells of frame and padding, left and right."""


class GpuPanel(VerticalScroll):
    """Scrolls where there are more devices than room."""

    BORDER_TITLE = "GPUs"

    def __init__(self, *, classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self._sampled: GpuReport | None = None
        self._age = ""
        self._bars = GpuBars()

    def compose(self) -> ComposeResult:
        yield self._bars

    def rows_needed(self, width: int) -> int:
        """Rows that show all lines, with the frame around them."""
        return self._bars.get_content_height(self.size, self.size, width - _AROUND) + 2

    def show(self, report: GpuReport, now: float, *, hint: str = "") -> None:
        """Take over a new reading; the time alone is no news. `hint`: as that of `GpuBars`."""
        bars = self._bars
        bars.hint = hint
        self._sampled = report
        report = without_times(report)
        if report != bars.report:
            bars.report = report
            self._update_title()
        self.update_age(now)

    def update_age(self, now: float) -> None:
        """Repaints only where the reading has become stale at `now`, or fresh again."""
        age_s = None if self._sampled is None else stale_age_s(self._sampled, now)
        self._bars.is_stale = age_s is not None
        age = "" if age_s is None else f"{duration(age_s)} old"
        if age != self._age:
            self._age = age
            self._update_title()

    def on_resize(self) -> None:
        """A folded panel says in its title what cannot be seen."""
        self._update_title()

    def _update_title(self) -> None:
        report = self._bars.report
        title = Content.styled("GPUs", "bold")
        if self._age:
            title += Content.styled(f" · ⚠ {self._age}", "$text-warning")
        if self.size.height == 0 and report is not None:
            title += Content.styled(f" · {gpu_summary(report)}", FAINT)
        self.border_title = title


def without_times(report: GpuReport) -> GpuReport:
    """Two reports that differ in nothing but their times become equal."""
    sources = tuple(source.replace(sampled_at=None) for source in report.sources)
    return report.replace(sampled_at=None, sources=sources)
