"""A GPU report as lines of text, for a given width. Pure functions."""

from __future__ import annotations

from itertools import groupby

from textual.content import Content

from rltui.core.gpu.report import GpuDevice, GpuReport
from rltui.core.text import gib
from rltui.ui.text import clean_line, shortened
from rltui.ui.widgets.gpu_bar import level_sparkline, memory_bar
from rltui.ui.widgets.gpu_legend import device_legend, shared_legend
from rltui.ui.widgets.gpu_marks import FAINT, Marks, owner_marks
from rltui.ui.widgets.gpu_words import (
    claim_lines,
    first_that_fits,
    hanging,
    load_texts,
    memory_note,
    memory_text,
    short_name,
    verdict_lines,
    warning_lines,
)

FEW_DEVICES = 2
"""Up to so many have a legend of their own."""
MANY_DEVICES = 4
"""From more than these on, each has one line."""
_MIN_BAR = 8
_MIN_SPARKLINE = 10
_IN_SUMMARY = 3
_STALE = "$foreground 45%"


def gpu_lines(
    report: GpuReport | None, width: int, *, is_stale: bool = False, hint: str = ""
) -> list[Content]:
    """The whole panel. `hint` says which key ends a process that may be ended."""
    if report is None:
        return [Content.styled("reading…", FAINT)]
    width = max(1, width)
    lines = [] if report.available and report.devices else _reason_lines(report, width)
    if report.devices:
        lines.extend(_device_lines(report, width, is_stale=is_stale))
        lines.extend(claim_lines(report, width, hint))
        lines.extend(warning_lines(report.devices, width, named=len(report.devices) > 1))
    lines.extend(
        line
        for source in report.sources
        if source.problem
        for line in hanging(
            f"⚠ {clean_line(source.name)}: {clean_line(source.problem)}", width, "$text-warning"
        )
    )
    return [*lines, *verdict_lines(report.verdicts, width)]


def _reason_lines(report: GpuReport, width: int) -> list[Content]:
    reason = clean_line(report.reason or "no device found")
    return Content.styled(f"No GPU to show: {reason}", FAINT).wrap(width)


def _device_lines(report: GpuReport, width: int, *, is_stale: bool) -> list[Content]:
    marks = owner_marks(report)
    silent = {source.name for source in report.sources if source.problem}
    lines: list[Content] = []
    for host, found in groupby(report.devices, key=lambda device: device.host):
        devices = list(found)
        if host:
            name = shortened(clean_line(host), width)
            lines.append(Content.styled(f"{name} {'─' * (width - len(name) - 1)}".strip(), FAINT))
        host_lines = _host_lines(devices, width, marks, len(report.devices))
        old = is_stale or host in silent
        lines.extend(dimmed(line) for line in host_lines) if old else lines.extend(host_lines)
    if len(report.devices) > FEW_DEVICES:
        legend = shared_legend([device for device in report.devices if not device.problem], width, marks)
        lines.extend(dimmed(line) if is_stale else line for line in legend)
    return lines


def dimmed(line: Content) -> Content:
    """Without its colours: what it says may not be true any more."""
    return Content.styled(line.plain, _STALE)


def _host_lines(devices: list[GpuDevice], width: int, marks: Marks, count: int) -> list[Content]:
    lines: list[Content] = []
    label_width = max(len(device.label) for device in devices)
    for device in devices:
        if device.problem:
            lines.extend(problem_lines(device, width))
        elif count > MANY_DEVICES:
            lines.append(brief_line(device, width, marks, label_width))
        else:
            lines.extend(full_lines(device, width, marks))
            if count <= FEW_DEVICES:
                lines.extend(device_legend(device, width, marks))
    return lines


def problem_lines(device: GpuDevice, width: int) -> list[Content]:
    """Why a device cannot be read."""
    name = f" {short_name(device.name)}" if device.name else ""
    return hanging(f"⚠ {device.label}{name}: {clean_line(device.problem or '')}", width, "$text-warning")


def full_lines(device: GpuDevice, width: int, marks: Marks) -> list[Content]:
    """Two lines: name, recent use and load; bar and memory."""
    note = memory_note(device)
    name = f"{device.label} {shortened(short_name(device.name), 20)}".rstrip()
    name = shortened(name, max(len(device.label), width - 8))
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
    """For the title of a folded panel."""
    if report is None:
        return ""
    if not report.devices:
        return "none"
    more = " …" if len(report.devices) > _IN_SUMMARY else ""
    return " · ".join(map(_summary, report.devices[:_IN_SUMMARY])) + more


def _summary(device: GpuDevice) -> str:
    text = "problem" if device.problem else f"{memory_text(device)} {load_texts(device)[-1].strip()}"
    return f"{device.label}: {text}".rstrip()
