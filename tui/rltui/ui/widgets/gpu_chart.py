"""Memory of a device over time, stacked by owner, with the same glyphs as the bars."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from textual.content import Content
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from rltui.base.text import BLOCKS, duration, gib
from rltui.core.gpu.report import GpuDevice, GpuHistory
from rltui.ui.styles import FAINT
from rltui.ui.widgets.gpu_marks import UNREAD, CellMark, Marks, joined
from rltui.views.gpu.account import OTHERS

FINE_RANGE_S = 600.0
"""Default range, about the time that the supervisor keeps in full detail."""
_BUDGET_LINES = "▁┄▔"
"""A budget's line in the lower, middle or upper part of a cell."""
_BUDGET_STYLE = "bold $foreground"
_SOLID = "█"
_EMPTY = CellMark(" ", "")
_NEARLY = 0.1
"""Part of an eighth of a cell that is not drawn."""
_GOOD_PART = 0.25
"""The share of a cell from which on its owner colours it."""
_MIN_WIDTH = 24
_MIN_ROWS = 3
_AXIS_WIDTH = 6
_AXIS_ROWS = 1

Sizes = tuple[int, ...]
"""Bytes of every series of a history, at one time."""


def in_range(history: GpuHistory, range_s: float | None) -> GpuHistory:
    """The last `range_s` seconds of it; all where that is `None`."""
    if range_s is None or not history.times:
        return history
    start = bisect_left(history.times, history.times[-1] - range_s)
    series = tuple(item.replace(used_bytes=item.used_bytes[start:]) for item in history.series)
    return history.replace(times=history.times[start:], series=series)


def columns(history: GpuHistory, width: int) -> list[Sizes]:
    """Every column is a stretch of time and has its sample with the largest sum.

    A stretch without a sample has what the interval around it had. There must be one sample at least.
    """
    times, series = history.times, history.series
    first, span = times[0], times[-1] - times[0]
    result: list[Sizes] = []
    for column in range(width):
        low = min(bisect_left(times, first + span * column / width), len(times) - 1)
        high = bisect_right(times, first + span * (column + 1) / width) if column + 1 < width else len(times)
        peak = max(
            range(low, max(high, low + 1)), key=lambda index: sum(item.used_bytes[index] for item in series)
        )
        result.append(tuple(item.used_bytes[peak] for item in series))
    return result


def peak_text(history: GpuHistory) -> str:
    """The most that was held at once, with the time before the newest reading; empty without a reading."""
    if not history.times:
        return ""
    sums = [sum(sizes) for sizes in zip(*(item.used_bytes for item in history.series), strict=True)]
    peak = max(sums, default=0)
    age_s = history.times[-1] - history.times[len(sums) - 1 - sums[::-1].index(peak)] if sums else 0.0
    return f"peak {gib(peak)} GiB {f'{duration(age_s)} ago' if age_s >= 1 else 'now'}"


def _stack(sizes: Sizes, glyphs: Sequence[CellMark], total: int, height: int) -> list[CellMark]:
    """A column of cells, lowest first. A cell belongs to the uppermost who holds a good part of it, so that
    somebody small on top of an engine is seen. The highest is filled as far as it is held where the owner's
    mark is solid; of another mark, which a part of a cell would outshine, there are whole cells.
    """
    cell = total / height
    full_cells = min(sum(sizes), total) / cell
    cells: list[CellMark] = []
    for row in range(height):
        low, largest, owner = 0.0, 0.0, _EMPTY
        for size, mark in zip(sizes, glyphs, strict=True):
            share = min(low + size / cell, row + 1) - max(low, row)
            low += size / cell
            if share > min(largest, _GOOD_PART):
                largest, owner = share, mark
        level = math.ceil((full_cells - row) * len(BLOCKS) - _NEARLY)
        if level < len(BLOCKS) and owner is not _EMPTY:
            is_little = level < len(BLOCKS) / 2
            if owner.glyph == _SOLID or (is_little and row == 0):
                owner = CellMark(BLOCKS[level - 1], owner.style) if level > 0 else _EMPTY
            elif is_little:
                owner = _EMPTY
        cells.append(owner)
    return cells


def chart_lines(
    history: GpuHistory | None, device: GpuDevice, width: int, height: int, marks: Marks
) -> list[Content]:
    """`height` lines: sizes at the left, time below, budgets as lines across."""
    rows, cells = height - _AXIS_ROWS, width - _AXIS_WIDTH
    total = device.total_bytes or 0
    if history is None or not history.times or total <= 0:
        return [Content.styled("no history yet", FAINT)]
    if rows < _MIN_ROWS or width < _MIN_WIDTH:
        return [Content.styled("no room for a chart", FAINT)]
    budgets = {
        _budget_row(budget.budget_bytes, total, rows): budget.budget_bytes for budget in device.budgets
    }
    # What somebody without a budget holds is not painted over: on a small chart it has no other row.
    engines = [
        marks[device_budget.component] for device_budget in device.budgets if device_budget.component in marks
    ]
    under_budget = {_EMPTY, *engines, *(CellMark(level, mark.style) for mark in engines for level in BLOCKS)}
    # With a budget at the bottom, so that its line lies where they have to end; `others` on top.
    budgeted = {budget.component for budget in device.budgets}
    series = sorted(
        history.series, key=lambda item: (item.label not in budgeted, item.label == OTHERS, item.label)
    )
    history = history.replace(series=tuple(series))
    glyphs = [
        marks.get(item.label, UNREAD if item.label != OTHERS else marks[OTHERS]) for item in history.series
    ]
    stacks = [_stack(sizes, glyphs, total, rows) for sizes in columns(history, cells)]
    lines = []
    for row in reversed(range(rows)):
        is_budget = row in budgets
        size = budgets[row] if is_budget else {rows - 1: total, 0: 0}.get(row)
        label = f"{'' if size is None else gib(size) if size else '0'} ".rjust(_AXIS_WIDTH - 1)
        cells_in_row = [stack[row] for stack in stacks]
        if is_budget:
            mark = _budget_line(budgets[row], total, rows)
            cells_in_row = [mark if cell in under_budget else cell for cell in cells_in_row]
        line = joined(cells_in_row)
        lines.append(Content.assemble((label + ("┊" if is_budget else "│"), FAINT), line))
    return [*lines, _time_axis(history, cells)]


def _budget_row(size_bytes: int, total_bytes: int, rows: int) -> int:
    """The row, from 0 at the bottom, that a size lies in."""
    return max(0, min(rows - 1, int(size_bytes / total_bytes * rows)))


def _budget_line(size_bytes: int, total_bytes: int, rows: int) -> CellMark:
    """A line across the row of a budget, at its height."""
    part = size_bytes / total_bytes * rows - _budget_row(size_bytes, total_bytes, rows)
    index = max(0, min(len(_BUDGET_LINES) - 1, int(part * len(_BUDGET_LINES))))
    return CellMark(_BUDGET_LINES[index], _BUDGET_STYLE)


def _time_axis(history: GpuHistory, width: int) -> Content:
    span = history.times[-1] - history.times[0]
    start, middle, end = f"{duration(span)} ago", duration(span / 2), "now"
    padding = (width - len(middle)) // 2 - len(start)
    right = width - len(start) - padding - len(middle) - len(end)
    text = f"{start}{' ' * padding}{middle}{' ' * right}{end}" if padding > 0 and right > 0 else start
    return Content.styled(" " * _AXIS_WIDTH + text, FAINT)


class GpuChart(Widget):
    history: reactive[GpuHistory | None] = reactive(None)
    device: reactive[GpuDevice | None] = reactive(None, repaint=False)
    range_s: reactive[float | None] = reactive(FINE_RANGE_S)
    """The length of history in the chart; `None` for all."""

    def __init__(self) -> None:
        super().__init__()
        self._marks: Marks = {}
        self._painted_lines: list[Content] = []

    def show_device(self, device: GpuDevice | None, marks: Marks) -> None:
        """Sizes of the device count for the scale and the budgets only."""
        self._marks = marks
        self.device = device

    def watch_device(self, previous: GpuDevice | None, device: GpuDevice | None) -> None:
        """Another device, another scale, or another budget."""
        if previous is None or device is None or _scale(previous) != _scale(device):
            self.refresh()

    def render(self) -> Content:
        if self.device is None:
            return Content("")
        history = None if self.history is None else in_range(self.history, self.range_s)
        return Content("\n").join(
            chart_lines(history, self.device, self.size.width, self.size.height, self._marks)
        )

    def get_content_width(self, container: Size, viewport: Size) -> int:
        del viewport
        return container.width


def _scale(device: GpuDevice) -> tuple[object, ...]:
    return (device.key, device.total_bytes, device.budgets)
