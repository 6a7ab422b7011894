"""A device's memory as a bar, and its recent use as a sparkline. Pure functions."""

from __future__ import annotations

from itertools import groupby

from textual.content import Content

from rltui.core.gpu.report import GpuDevice
from rltui.ui.widgets.gpu_marks import BUDGET, FREE, UNREAD, Mark, Marks, share_label, shares_in_order

LEVELS = "▁▂▃▄▅▆▇█"


def memory_bar(device: GpuDevice, width: int, marks: Marks) -> Content:
    """`width` cells for the whole memory: a stretch per share, free space, and the budgets' marks on top.

    Every share has a cell at least, as long as there are cells.
    """
    total = device.total_bytes or 0
    if total <= 0 or device.used_bytes is None:
        return Content.styled(UNREAD.glyph * width, UNREAD.style)
    cells: list[Mark] = []
    held = 0
    shares = [share for share in shares_in_order(device) if share.used_bytes]
    for further, share in zip(reversed(range(len(shares))), shares, strict=True):
        held += share.used_bytes
        end = max(len(cells) + 1, min(width - further, round(held / total * width)))
        cells.extend([marks[share_label(share)]] * (min(width, end) - len(cells)))
    cells.extend([FREE] * (width - len(cells)))
    for budget in device.budgets:
        cells[mark_cell(budget.budget_bytes, total, width)] = BUDGET
    return joined(cells)


def mark_cell(size_bytes: int, total_bytes: int, cells: int) -> int:
    """The cell, from 0, in which a mark at `size_bytes` lies."""
    return max(0, min(cells - 1, round(size_bytes / total_bytes * cells)))


def joined(cells: list[Mark]) -> Content:
    """A line of cells."""
    return Content.assemble(
        *(
            ("".join(cell.glyph for cell in run), style)
            for style, run in groupby(cells, lambda cell: cell.style)
        )
    )


def level_sparkline(percents: tuple[int, ...], width: int) -> str:
    """The newest `width` values as blocks, on a scale from 0 to 100."""
    shown = percents[-width:] if width > 0 else ()
    return "".join(LEVELS[max(0, min(len(LEVELS) - 1, value * len(LEVELS) // 100))] for value in shown)
