"""Who holds how much: the lines below the bars. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from rltui.core.gpu.report import GpuBudget, GpuDevice, GpuShare
from rltui.core.text import gib
from rltui.ui.text import clean_line
from rltui.ui.widgets.gpu_marks import BUDGET, FAINT, FREE, Mark, Marks, share_label, shares_in_order
from rltui.ui.widgets.gpu_words import flow, free_bytes

SHARED_LEGEND_LINES = 4
"""More than these, and the legend of many devices leaves out peaks and sizes of budgets."""


def _entry(mark: Mark, text: str, style: str = "") -> Content:
    return Content.assemble((f"{mark.glyph} ", mark.style), (text, style))


def _size(size_bytes: int, *, estimated: bool) -> str:
    return f"{'~' if estimated else ''}{gib(size_bytes)}"


def budget_text(budget: GpuBudget) -> str:
    """`budget 0.5 ┊ 70.5`."""
    return f"budget {budget.utilization:g} {BUDGET.glyph} {gib(budget.budget_bytes)}"


def device_legend(device: GpuDevice, width: int, marks: Marks) -> list[Content]:
    """Each component with peak and budget on a line if it fits; the others and free space share one."""
    budgets = {budget.component: budget for budget in device.budgets}
    lines: list[Content] = []
    small: list[Content] = []
    for share in shares_in_order(device):
        label = share_label(share)
        first = _entry(marks[label], f"{label} {_size(share.used_bytes, estimated=share.estimated)}")
        if share.owner != "component":
            small.append(first)
            continue
        texts = [] if share.peak_bytes is None else [f"peak {gib(share.peak_bytes)}"]
        if (budget := budgets.pop(share.component or "", None)) is not None:
            texts.append(budget_text(budget))
        lines.extend(flow([first, *map(Content, texts)], width, gap=" · ", indent=2))
    for budget in budgets.values():
        name = clean_line(budget.component)
        entry = _entry(marks[name], name, FAINT)
        lines.extend(flow([entry, Content.styled(budget_text(budget), FAINT)], width, gap=" · ", indent=2))
    if (free := free_bytes(device)) is not None:
        small.append(_entry(FREE, f"free {gib(free)}", FAINT))
    return [*lines, *flow(small, width)]


def shared_legend(devices: Sequence[GpuDevice], width: int, marks: Marks) -> list[Content]:
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
        texts = [f"on {len(shares)} GPU{'s' if len(shares) > 1 else ''}"]
        texts += [f"peak {gib(max(peaks))}{' each' if len(shares) > 1 else ''}"] if peaks else []
        texts += [budget_text(budgets[label])] if label in budgets else []
        rich.extend(flow([first, *map(Content, texts)], width, gap=" · ", indent=2))
    rich.extend(flow([*small, free_entry], width))
    if len(rich) <= SHARED_LEGEND_LINES:
        return rich
    marks_of_budgets = [_entry(BUDGET, f"{utilization:g}") for utilization in _utilizations(budgets)]
    entries = [_entry(marks[label], f"{label} {_sum_text(shares)}") for label, shares in groups.items()]
    return flow([*entries, free_entry, *marks_of_budgets], width)


def _sum_text(shares: Sequence[GpuShare]) -> str:
    estimated = any(share.estimated for share in shares)
    return _size(sum(share.used_bytes for share in shares), estimated=estimated)


def _utilizations(budgets: dict[str, GpuBudget]) -> list[float]:
    return sorted({budget.utilization for budget in budgets.values()})
