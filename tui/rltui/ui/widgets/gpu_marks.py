"""Device memory is drawn with the same marks on every device. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from textual.content import Content
from textual.style import Style

from rltui.base.text import BLOCKS
from rltui.core.gpu.report import GpuDevice, GpuOwner, GpuReport, GpuShare, MemoryVerdict
from rltui.ui.paragraphs import first_that_fits, hanging
from rltui.ui.styles import FAINT, STYLES
from rltui.ui.text import clean_line
from rltui.views.gpu import account as views
from rltui.views.gpu.account import OTHERS, device_warnings, freeable, freeable_texts, verdict_sign


@dataclass(frozen=True, slots=True)
class CellMark:
    """The look of a cell in a bar or chart. The glyph alone tells owners apart, without colour."""

    glyph: str
    style: str


FREE = CellMark("░", "$border-blurred")
CLAIMED = CellMark("╌", "$text-warning")
"""Free memory that another experiment is about to take."""
BUDGET = CellMark("┊", "bold $foreground")
UNREAD = CellMark("·", FAINT)
"""Cells of a device whose memory cannot be read."""

_COMPONENTS = tuple(map(CellMark, "█▒▚▓▞", ("$primary", "$accent", "$success", "$secondary", "$warning")))
_OWNERS: dict[GpuOwner, CellMark] = {
    "orphan": CellMark("×", "bold $text-error"),
    "mine": CellMark("?", "bold $text-warning"),
    "experiment": CellMark("▥", "$foreground 80%"),
    "other": CellMark("▤", FAINT),
    "unknown": CellMark("▦", FAINT),
    "hidden": CellMark("▨", FAINT),
}
_MIN_HIDDEN = 0.01
"""Part of a device from which on memory that no share accounts for is drawn."""

Marks = dict[str, CellMark]
"""The keys are labels of `share_label`."""


def share_label(share: GpuShare) -> str:
    """The label is safe to be displayed."""
    return clean_line(views.share_label(share))


def shares_in_order(device: GpuDevice) -> list[GpuShare]:
    """Shares with a budget come first, so that its mark lies where they have to end.

    Used memory that no share accounts for comes last, as hidden.
    """
    budgeted = {budget.component for budget in device.budgets}
    shares = sorted(
        device.shares, key=lambda share: not (share.owner == "component" and share.component in budgeted)
    )
    rest = (device.used_bytes or 0) - sum(share.used_bytes for share in shares)
    if rest > _MIN_HIDDEN * (device.total_bytes or 0):
        shares.append(GpuShare(owner="hidden", used_bytes=rest))
    return shares


def owner_marks(report: GpuReport) -> Marks:
    """A mark for everybody in the report; components keep theirs as long as no other one comes or goes."""
    marks = {OTHERS: _OWNERS["other"]}
    components = {share_label(share) for share in _shares(report) if share.owner == "component"}
    components |= {clean_line(budget.component) for device in report.devices for budget in device.budgets}
    for position, name in enumerate(sorted(components)):
        marks[name] = _COMPONENTS[position % len(_COMPONENTS)]
    for share in _shares(report):
        marks.setdefault(share_label(share), _OWNERS.get(share.owner, UNREAD))
    return marks


def _shares(report: GpuReport) -> list[GpuShare]:
    return [share for device in report.devices for share in shares_in_order(device)]


def memory_bar(device: GpuDevice, width: int, marks: Marks) -> Content:
    """`width` cells for the whole memory: a stretch per share, one that others will take, free space, and the
    marks of budgets on top.

    Every share has a cell at least, as long as there are cells.
    """
    total = device.total_bytes or 0
    if total <= 0 or device.used_bytes is None:
        return Content.styled(UNREAD.glyph * width, UNREAD.style)
    cells: list[CellMark] = []
    used_bytes = 0
    shares = [share for share in shares_in_order(device) if share.used_bytes]
    ends: list[tuple[int, str]] = []
    for further, share in zip(reversed(range(len(shares))), shares, strict=True):
        used_bytes += share.used_bytes
        end = max(len(cells) + 1, min(width - further, round(used_bytes / total * width)))
        cells.extend([marks[share_label(share)]] * (min(width, end) - len(cells)))
        ends.append((len(cells), share_label(share)))
    claimed = round(device.claimed_bytes / total * width)
    cells.extend([CLAIMED] * min(width - len(cells), max(claimed, bool(device.claimed_bytes))))
    cells.extend([FREE] * (width - len(cells)))
    for budget in device.budgets:
        cells[mark_cell(budget.budget_bytes, total, width)] = BUDGET
    bar, start = joined(cells), 0
    for end, label in ends:
        bar, start = bar.stylize(Style.from_meta({SHARE: (device.key, label)}), start, end), end
    return bar


SHARE = "share"
"""A cell of a memory bar has its owner under this key: key of the device, label of the share."""


def holder_text(device: GpuDevice, label: str) -> str:
    shares = [share for share in device.shares if share_label(share) == label]
    return clean_line(views.shares_text(device, shares, label))


def mark_cell(size_bytes: int, total_bytes: int, cells: int) -> int:
    """The cell, from 0, in which a mark at `size_bytes` lies."""
    return max(0, min(cells - 1, round(size_bytes / total_bytes * cells)))


def joined(cells: list[CellMark]) -> Content:
    return Content.assemble(
        *(
            ("".join(cell.glyph for cell in run), style)
            for style, run in groupby(cells, lambda cell: cell.style)
        )
    )


def level_sparkline(percents: tuple[int, ...], width: int) -> str:
    """The newest `width` values as blocks, on a scale from 0 to 100."""
    newest = percents[-width:] if width > 0 else ()
    return "".join(BLOCKS[max(0, min(len(BLOCKS) - 1, value * len(BLOCKS) // 100))] for value in newest)


_MAX_FREEABLE = 3
"""Rows for processes that could be ended; the GPU screen lists all."""
_WARNING = "$text-warning"


def unread_lines(device: GpuDevice, width: int) -> list[Content]:
    """The reason why nothing is known of a device."""
    name = f"{device.label} {views.short_name(clean_line(device.name))}".rstrip()
    return hanging(f"⚠ {name}: {clean_line(device.problem or '')}", width, _WARNING)


def source_lines(report: GpuReport, width: int) -> list[Content]:
    """A row for each host that does not answer."""
    texts = [
        f"⚠ {clean_line(source.name)}: {clean_line(source.problem)}"
        for source in report.sources
        if source.problem
    ]
    return [line for text in texts for line in hanging(text, width, _WARNING)]


def warning_lines(devices: Sequence[GpuDevice], width: int, *, has_names: bool) -> list[Content]:
    """A row for each thing that is wrong; `has_names` says which devices it is about."""
    devices_by_text: dict[str, list[str]] = {}
    for device in devices:
        for text in map(clean_line, device_warnings(device)):
            devices_by_text.setdefault(text, []).append(device.label)
    lines = []
    for text, labels in devices_by_text.items():
        where = f"GPU {', '.join(labels)}: " if has_names else ""
        lines.extend(hanging(f"⚠ {where}{text}", width, _WARNING))
    return lines


def verdict_lines(verdicts: Sequence[MemoryVerdict], width: int) -> list[Content]:
    """Forecasts of a start of the engines; devices with the same forecast have one text.

    A text that does not name its device gets the names, where there are several.
    """
    devices: dict[tuple[str, str], list[MemoryVerdict]] = {}
    for verdict in verdicts:
        devices.setdefault((verdict.verdict, clean_line(verdict.text)), []).append(verdict)
    several = len({verdict.device for verdict in verdicts}) > 1
    lines = []
    for (kind, text), device_names in devices.items():
        sign, role, _ = verdict_sign(kind)
        where = ""
        if several and "GPU " not in text:
            where = f"GPU {', '.join(str(verdict.device) for verdict in device_names)}: "
        lines.extend(hanging(f"{sign} {where}{text}", width, STYLES[role] if role else ""))
    return lines


def freeable_lines(report: GpuReport, width: int, hint: str) -> list[Content]:
    """A row for each of the largest `freeable` processes; `hint` closes it: which key ends them."""
    freeable_memory = freeable(report)
    lines = []
    for process, size in freeable_memory[:_MAX_FREEABLE]:
        texts = [f"⚠ {clean_line(text)}{hint}" for text in freeable_texts(process, size)]
        lines.append(Content.styled(first_that_fits(texts, width), _WARNING))
    if len(freeable_memory) > _MAX_FREEABLE:
        texts = [
            f"⚠ and {len(freeable_memory) - _MAX_FREEABLE} more: 3 lists them",
            f"⚠ {len(freeable_memory) - _MAX_FREEABLE} more: 3",
        ]
        lines.append(Content.styled(first_that_fits(texts, width), _WARNING))
    return lines
