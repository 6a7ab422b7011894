"""A GPU report as lines of text, for a given width. Pure functions."""

from __future__ import annotations

from collections import defaultdict

from textual.content import Content

from rltui.core.gpu.report import GpuDevice, GpuReport
from rltui.core.units import gib
from rltui.ui.text import clean_line, shortened

_GLYPHS = "█▓▒▚▞"
_STYLES = ("$primary", "$accent", "$success", "$secondary", "$warning")
_OTHERS = "others"
_FREE = "░"
_MANY_DEVICES = 4
"""From more devices than this on, each has one line, and the legend is shared."""

Marks = dict[str, tuple[str, str]]
"""Component to glyph and style, the same on every device."""


def holders(device: GpuDevice) -> dict[str, int]:
    """Bytes per component, and what others hold, largest part of the device's used memory first."""
    sizes: dict[str, int] = defaultdict(int)
    for process in device.processes:
        sizes[process.component or _OTHERS] += process.used_bytes or 0
    hidden = (device.used_bytes or 0) - sum(sizes.values())
    if hidden > (device.total_bytes or 0) // 100:
        sizes[_OTHERS] += hidden
    return dict(sorted(sizes.items(), key=lambda item: (item[0] == _OTHERS, -item[1])))


def component_marks(report: GpuReport) -> Marks:
    """How each component is drawn: glyphs differ, not just colours."""
    names = sorted({p.component for device in report.devices for p in device.processes if p.component})
    marks = {
        name: (_GLYPHS[position % len(_GLYPHS)], _STYLES[position % len(_STYLES)])
        for position, name in enumerate(names)
    }
    return {**marks, _OTHERS: ("▤", "$foreground 60%")}


def memory_bar(device: GpuDevice, width: int, marks: Marks) -> Content:
    """`width` cells, a stretch for each holder; every holder gets a cell at least."""
    total = device.total_bytes or 0
    if total <= 0 or device.used_bytes is None:
        return Content.styled("?" * width, "$foreground 60%")
    spans: list[tuple[str, str]] = []
    used_cells = 0
    for name, size in holders(device).items():
        cells = min(max(1, round(size / total * width)), width - used_cells)
        glyph, style = marks[name]
        spans.append((glyph * cells, style))
        used_cells += cells
    spans.append((_FREE * (width - used_cells), "$foreground 25%"))
    return Content.assemble(*spans)


def _memory_text(device: GpuDevice) -> str:
    if device.used_bytes is None or device.total_bytes is None:
        return "memory unknown"
    return f"{gib(device.used_bytes)}/{gib(device.total_bytes)} GiB"


def _load_text(device: GpuDevice) -> str:
    parts = []
    if device.utilization is not None:
        parts.append(f"{device.utilization:4.0%}".replace("%", " %"))
    if device.power_w is not None:
        parts.append(f"{device.power_w:.0f} W")
    if device.temperature_c is not None:
        parts.append(f"{device.temperature_c:.0f} °C")
    return "  ".join(parts)


def short_name(name: str) -> str:
    """`NVIDIA H200 NVL` becomes `H200 NVL`."""
    return clean_line(name).removeprefix("NVIDIA ").removeprefix("Tesla ")


def _legend(sizes: dict[str, int], marks: Marks, free_bytes: int | None, width: int) -> list[Content]:
    """An entry per holder, broken into lines between entries."""
    entries = [
        Content.assemble((f"{marks[name][0]} ", marks[name][1]), f"{clean_line(name)} {gib(size)}")
        for name, size in sizes.items()
    ]
    if free_bytes is not None:
        entries.append(Content.styled(f"{_FREE} free {gib(free_bytes)}", "$foreground 60%"))
    lines: list[Content] = []
    for entry in entries:
        if lines and lines[-1].cell_length + 2 + entry.cell_length <= width:
            lines[-1] += Content("  ") + entry
        else:
            lines.append(entry)
    return lines


def _detailed(device: GpuDevice, width: int, marks: Marks) -> list[Content]:
    head = f"{device.index} {shortened(short_name(device.name), 20)}"
    figures = _load_text(device)
    gap = " " * max(2, width - len(head) - len(figures))
    memory = f" {_memory_text(device)}"
    lines = [
        Content.assemble((head, "bold"), gap, (figures, "")),
        memory_bar(device, max(4, width - len(memory)), marks) + memory,
    ]
    free = device.free_bytes
    if free is None and device.total_bytes is not None and device.used_bytes is not None:
        free = device.total_bytes - device.used_bytes
    return [*lines, *_legend(holders(device), marks, free, width)]


def _brief(device: GpuDevice, width: int, marks: Marks) -> Content:
    memory = (
        "" if device.used_bytes is None else f" {gib(device.used_bytes):>5}/{gib(device.total_bytes or 0)}"
    )
    load = "" if device.utilization is None else f"{device.utilization:5.0%}"
    heat = "" if device.temperature_c is None else f" {device.temperature_c:3.0f}°"
    tail = memory + load + heat
    return (
        Content.styled(f"{device.index} ", "bold")
        + memory_bar(device, max(4, width - 2 - len(tail)), marks)
        + tail
    )


def _problem(device: GpuDevice, width: int) -> list[Content]:
    text = f"⚠ {device.index} {short_name(device.name)}: {clean_line(device.problem or '')}"
    return Content.styled(text, "$text-warning").wrap(width)


def gpu_lines(report: GpuReport | None, width: int) -> list[Content]:
    """The whole panel."""
    if report is None:
        return [Content.styled("reading…", "$foreground 60%")]
    if not report.available or not report.devices:
        reason = clean_line(report.reason or "no device found")
        return Content.styled(f"No GPU to show: {reason}", "$foreground 60%").wrap(max(1, width))
    marks = component_marks(report)
    lines: list[Content] = []
    many = len(report.devices) > _MANY_DEVICES
    for device in report.devices:
        if device.problem:
            lines.extend(_problem(device, width))
        elif many:
            lines.append(_brief(device, width, marks))
        else:
            lines.extend(_detailed(device, width, marks))
    if many:
        total: dict[str, int] = defaultdict(int)
        for device in report.devices:
            for name, size in holders(device).items():
                total[name] += size
        lines.extend(_legend(dict(total), marks, None, width))
    return lines


def gpu_summary(report: GpuReport | None) -> str:
    """For the title of a folded panel."""
    if report is None:
        return ""
    if not report.available or not report.devices:
        return "none"
    return " · ".join(
        f"{device.index}: {_memory_text(device)} {_load_text(device).split('  ')[0].strip()}".rstrip()
        for device in report.devices[:3]
    ) + (" …" if len(report.devices) > 3 else "")
