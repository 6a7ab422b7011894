"""The devices of the GPU screen: a line each, and of the selected one all there is to say. Pure functions."""

from __future__ import annotations

from textual.content import Content

from rltui.core.gpu.report import GpuDevice, GpuReport
from rltui.core.text import gib
from rltui.ui.text import clean_line, shortened
from rltui.ui.widgets.gpu_bar import level_sparkline
from rltui.ui.widgets.gpu_legend import device_legend
from rltui.ui.widgets.gpu_lines import brief_line, dimmed
from rltui.ui.widgets.gpu_marks import FAINT, Marks, owner_marks
from rltui.ui.widgets.gpu_words import flow, hanging, memory_note, short_name, warning_lines
from rltui.ui.widgets.row_list import Row

_CURSOR = "▸ "
_WIDE = 100
"""From here on a device's line has its name and recent use too."""
_NAME_WIDTH = 18
_SPARKLINE_WIDTH = 24


def device_rows(
    report: GpuReport | None, width: int, selected: str | None, *, is_stale: bool
) -> tuple[Row, ...]:
    """A row per device, keyed by `GpuDevice.key`, under a heading where it is another host's."""
    if report is None:
        return (Row(None, (Content.styled("reading…", FAINT),)),)
    rows: list[Row] = []
    if not report.available or not report.devices:
        reason = clean_line(report.reason or "no device found")
        rows.append(Row(None, tuple(hanging(f"No GPU to show: {reason}", width, FAINT))))
    marks = owner_marks(report)
    label_width = max((len(device.label) for device in report.devices), default=0)
    silent = {source.name for source in report.sources if source.problem}
    host = ""
    for device in report.devices:
        if device.host != host:
            host = device.host
            rows.append(Row(None, (Content.styled(f"{clean_line(host)}:", FAINT),)))
        lines = _lines(device, width, marks, label_width, is_selected=device.key == selected)
        if is_stale or host in silent:
            lines = [dimmed(line) for line in lines]
        rows.append(Row(device.key, tuple(lines)))
    for source in report.sources:
        if source.problem:
            text = f"⚠ {clean_line(source.name)}: {clean_line(source.problem)}"
            rows.append(Row(None, tuple(hanging(text, width, "$text-warning"))))
    return tuple(rows)


def _lines(
    device: GpuDevice, width: int, marks: Marks, label_width: int, *, is_selected: bool
) -> list[Content]:
    cursor = Content(_CURSOR if is_selected else "  ")
    width -= len(_CURSOR)
    if device.problem:
        text = f"⚠ {device.label} {short_name(device.name)}: {clean_line(device.problem)}"
        first, *more = hanging(text, width, "$text-warning")
        return [cursor + first, *(Content("  ") + line for line in more)]
    first = cursor + _overview(device, width, marks, label_width)
    if not is_selected:
        return [first]
    below = [
        *device_legend(device, width - 2, marks),
        *flow([Content.styled(text, FAINT) for text in device_figures(device)], width - 2, gap=" · "),
        *warning_lines([device], width - 2, named=False),
    ]
    return [first, *(Content("    ") + line for line in below)]


def _overview(device: GpuDevice, width: int, marks: Marks, label_width: int) -> Content:
    if width < _WIDE:
        return brief_line(device, width, marks, label_width)
    name = f" {shortened(short_name(device.name), _NAME_WIDTH):<{_NAME_WIDTH}}"
    graph = level_sparkline(device.recent, _SPARKLINE_WIDTH).rjust(_SPARKLINE_WIDTH)
    room = width - len(name) - _SPARKLINE_WIDTH - 1
    line = brief_line(device, room, marks, label_width)
    return Content.assemble(line, " ", (graph, "$text-success"), (name, FAINT))


def device_figures(device: GpuDevice) -> list[str]:
    """All that is known besides the bar, as short texts."""
    texts = [clean_line(device.name), memory_note(device)]
    if device.reserved_bytes:
        texts.append(f"reserved {gib(device.reserved_bytes)} GiB")
    if device.memory_utilization is not None:
        texts.append(f"memory busy {100 * device.memory_utilization:.0f} %")
    if device.power_w is not None:
        limit = "" if device.power_limit_w is None else f" of {device.power_limit_w:.0f}"
        texts.append(f"power {device.power_w:.0f}{limit} W")
    if device.sm_clock_mhz is not None:
        limit = "" if device.max_sm_clock_mhz is None else f" of {device.max_sm_clock_mhz}"
        texts.append(f"SM {device.sm_clock_mhz}{limit} MHz")
    if device.memory_clock_mhz is not None:
        texts.append(f"memory {device.memory_clock_mhz} MHz")
    if device.pcie_generation is not None and device.pcie_width is not None:
        texts.append(f"PCIe {device.pcie_generation} ×{device.pcie_width}")
    if device.nvlinks is not None:
        texts.append(f"{device.nvlinks} NVLinks")
    if device.ecc_errors is not None:
        texts.append(f"ECC errors {device.ecc_errors}")
    texts.append(clean_line(device.uuid))
    return [text for text in texts if text]
