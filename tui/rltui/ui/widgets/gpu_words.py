"""How device memory is drawn and called, the same on every device. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from textual.content import Content
from textual.style import Style

from rltui.core.gpu.report import (
    GpuDevice,
    GpuOwner,
    GpuProcess,
    GpuReport,
    GpuReservation,
    GpuShare,
    MemoryVerdict,
)
from rltui.core.text import gib, listed, short_command, shortened
from rltui.ui.paragraphs import first_that_fits, hanging
from rltui.ui.styles import FAINT
from rltui.ui.text import clean_line


@dataclass(frozen=True, slots=True)
class CellMark:
    """What a cell of a bar or chart looks like. The glyph alone tells owners apart, without colour."""

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
OTHERS = "others"
"""Name of all that a history does not tell apart."""
_MIN_HIDDEN = 0.01
"""Part of a device from which on memory that no share accounts for is drawn."""

Marks = dict[str, CellMark]
"""By `share_label`."""


def share_label(share: GpuShare) -> str:
    """Who holds it, in a word or two: a component's id, a user, `leftover`."""
    match share.owner:
        case "component":
            return clean_line(share.component or "component")
        case "orphan":
            return "leftover"
        case "experiment":
            return clean_line(f"{share.experiment or 'experiment'}/{share.component or '?'}")
        case "mine":
            return "unknown"
        case "other":
            return clean_line(share.user or OTHERS)
        case "unknown":
            return "not told"
        case "hidden":
            return "hidden"


def shares_in_order(device: GpuDevice) -> list[GpuShare]:
    """As they are drawn: those with a budget first, so that its mark lies where their part has to end.

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


_NAME_CELLS = 18
"""Of a component of another experiment; the narrowest panel has room for that."""


def starting_labels(claims: Iterable[GpuReservation]) -> list[str]:
    """`+40.0 b/inference`: what each component will take besides what it holds, of all devices together."""
    left: dict[str, int] = {}
    for claim in claims:
        name = clean_line("/".join(filter(None, (claim.experiment, claim.component))))
        left[name] = left.get(name, 0) + claim.left_bytes
    return [f"+{gib(size) if size else '?'} {shortened(name, _NAME_CELLS)}" for name, size in left.items()]


LEVELS = "▁▂▃▄▅▆▇█"


def memory_bar(device: GpuDevice, width: int, marks: Marks) -> Content:
    """`width` cells for the whole memory: a stretch per share, one that others will take, free space, and the
    marks of budgets on top.

    Every share has a cell at least, as long as there are cells.
    """
    total = device.total_bytes or 0
    if total <= 0 or device.used_bytes is None:
        return Content.styled(UNREAD.glyph * width, UNREAD.style)
    cells: list[CellMark] = []
    held = 0
    shares = [share for share in shares_in_order(device) if share.used_bytes]
    ends: list[tuple[int, str]] = []
    for further, share in zip(reversed(range(len(shares))), shares, strict=True):
        held += share.used_bytes
        end = max(len(cells) + 1, min(width - further, round(held / total * width)))
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
"""Under which a cell of a memory bar tells whose it is: key of the device, label of the share."""


def holder_text(device: GpuDevice, label: str) -> str:
    """`trainer holds 9.8 of 141 GiB of GPU 0, peak 10.3: pid 4242`."""
    shares = [share for share in device.shares if share_label(share) == label]
    used = sum(share.used_bytes for share in shares)
    estimated = "about " if any(share.estimated for share in shares) else ""
    total = f" of {gib(device.total_bytes)}" if device.total_bytes else ""
    peaks = [share.peak_bytes for share in shares if share.peak_bytes is not None]
    peak = f", peak {gib(max(peaks))}" if peaks else ""
    pids = sorted({pid for share in shares for pid in share.pids})
    more = ", …" if len(pids) > _MAX_CLAIMS else ""
    more = ", …" if len(pids) > _MAX_CLAIMS else ""
    named = f": pid {', '.join(map(str, pids[:_MAX_CLAIMS]))}{more}" if pids else ""
    return f"{label} holds {estimated}{gib(used)}{total} GiB of GPU {device.label}{peak}{named}"


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
    shown = percents[-width:] if width > 0 else ()
    return "".join(LEVELS[max(0, min(len(LEVELS) - 1, value * len(LEVELS) // 100))] for value in shown)


_STALE_INTERVALS = 3
"""A reading that many intervals old is stale, as `GpuReport.interval_s` has it."""
_MAX_CLAIMS = 3
"""Rows for processes that could be ended; the GPU screen lists all."""
_MEMORY_NOTES = {"v2": "", "v1": "incl. reserved", "unified": "unified memory"}
_VERDICTS = {"fits": ("✓", "$text-success"), "unknown": ("?", "$foreground 60%")}
_BAD_VERDICT = ("✗", "$text-error")
_WARNING = "$text-warning"
_MAKER = re.compile(r"^(NVIDIA )?(GeForce |Tesla )?")
_SIZE = re.compile(r"[ -]\d+GB\b( HBM\w+)?")


def stale_age_s(report: GpuReport, now: float) -> float | None:
    """How old the reading is, if it is older than it should be."""
    if report.sampled_at is None or report.interval_s is None:
        return None
    age_s = now - report.sampled_at
    return age_s if age_s > _STALE_INTERVALS * report.interval_s else None


def short_name(name: str) -> str:
    """Without maker and size: `NVIDIA H100 80GB HBM3` becomes `H100`."""
    return _SIZE.sub("", _MAKER.sub("", clean_line(name)))


def memory_note(device: GpuDevice) -> str:
    """What the figures mean, where it is not the usual."""
    return _MEMORY_NOTES[device.memory_kind]


def memory_text(device: GpuDevice) -> str:
    """`71.2/141 GiB`."""
    if device.used_bytes is None or device.total_bytes is None:
        return "memory unknown"
    return f"{gib(device.used_bytes)}/{gib(device.total_bytes)} GiB"


def free_bytes(device: GpuDevice) -> int | None:
    """As read, or what the other figures leave."""
    if device.free_bytes is None and device.total_bytes is not None and device.used_bytes is not None:
        return max(0, device.total_bytes - device.used_bytes - (device.reserved_bytes or 0))
    return device.free_bytes


def load_texts(device: GpuDevice) -> list[str]:
    """`97 %  412/700 W  61 °C`, then shorter and shorter."""
    util = "" if device.utilization is None else f"{100 * device.utilization:3.0f} %"
    power = "" if device.power_w is None else f"{device.power_w:.0f} W"
    limit = "" if device.power_limit_w is None else f"/{device.power_limit_w:.0f}"
    heat = "" if device.temperature_c is None else f"{device.temperature_c:.0f} °C"
    choices = [(util, power.replace(" W", f"{limit} W"), heat), (util, power, heat), (util, heat), (util,)]
    return ["  ".join(part for part in choice if part) for choice in choices]


def _warnings(device: GpuDevice) -> list[str]:
    texts = []
    if device.throttle:
        texts.append(f"slowed: {listed([clean_line(reason) for reason in device.throttle])}")
    if device.ecc_errors:
        texts.append(
            f"{device.ecc_errors} uncorrected memory error{'s' if device.ecc_errors > 1 else ''} (ECC)"
        )
    return texts


def warning_lines(devices: Sequence[GpuDevice], width: int, *, named: bool) -> list[Content]:
    """A row for each thing that is wrong; `named` says which devices it is about."""
    devices_by_text: dict[str, list[str]] = {}
    for device in devices:
        for text in _warnings(device):
            devices_by_text.setdefault(text, []).append(device.label)
    lines = []
    for text, labels in devices_by_text.items():
        where = f"GPU {', '.join(labels)}: " if named else ""
        lines.extend(hanging(f"⚠ {where}{text}", width, _WARNING))
    return lines


def verdict_lines(verdicts: Sequence[MemoryVerdict], width: int) -> list[Content]:
    """What will happen if the engines start, one text for all devices for which it is the same.

    A text that does not name its device is told with it, where there are several.
    """
    devices: dict[tuple[str, str], list[MemoryVerdict]] = {}
    for verdict in verdicts:
        devices.setdefault((verdict.verdict, clean_line(verdict.text)), []).append(verdict)
    several = len({verdict.device for verdict in verdicts}) > 1
    lines = []
    for (kind, text), found in devices.items():
        symbol, style = _VERDICTS.get(kind, _BAD_VERDICT)
        where = ""
        if several and "GPU " not in text:
            where = f"GPU {', '.join(str(verdict.device) for verdict in found)}: "
        lines.extend(hanging(f"{symbol} {where}{text}", width, style))
    return lines


def can_be_freed(process: GpuProcess) -> bool:
    """It belongs to this user and to no living component."""
    return process.owner in ("orphan", "mine")


def claims(report: GpuReport) -> list[tuple[GpuProcess, int | None]]:
    """Processes on this machine that a person may want to end, with what they hold on all its devices."""
    found: dict[int, tuple[GpuProcess, int | None]] = {}
    for device in report.devices:
        for process in device.processes:
            if device.host or not can_be_freed(process):
                continue
            before = found[process.pid][1] if process.pid in found else None
            size = process.used_bytes
            found[process.pid] = (process, before if size is None else size + (before or 0))
    return sorted(found.values(), key=lambda item: (item[0].owner != "orphan", -(item[1] or 0)))


def size_text(size: int | None, *, estimated: bool = False) -> str:
    """`58.0 GiB`, `~58.0 GiB`, or `size unknown`."""
    return "size unknown" if size is None else f"{'~' if estimated else ''}{gib(size)} GiB"


def claim_lines(report: GpuReport, width: int, hint: str) -> list[Content]:
    """A row for each of the largest `claims`; `hint` closes it: which key ends them."""
    found = claims(report)
    lines = []
    for process, size in found[:_MAX_CLAIMS]:
        texts = [f"⚠ {text}{hint}" for text in _claim_texts(process, size)]
        lines.append(Content.styled(first_that_fits(texts, width), _WARNING))
    if len(found) > _MAX_CLAIMS:
        texts = [
            f"⚠ and {len(found) - _MAX_CLAIMS} more: 3 lists them",
            f"⚠ {len(found) - _MAX_CLAIMS} more: 3",
        ]
        lines.append(Content.styled(first_that_fits(texts, width), _WARNING))
    return lines


def _claim_texts(process: GpuProcess, size: int | None) -> list[str]:
    memory = size_text(size, estimated=process.estimated)
    pid = f"pid {process.pid}"
    name = f"{pid} {short_command(clean_line(process.name or process.command), 24)}".rstrip()
    if process.owner == "mine":
        return [f"unknown {name} {memory}", f"unknown {pid} {memory}", f"{pid} {memory}"]
    attempt = "" if process.attempt is None else f" attempt {process.attempt}"
    whose = f" of {clean_line(process.component)}{attempt}:" if process.component else ""
    return [
        f"leftover{whose} {name} {memory}",
        f"leftover {name} {memory}",
        f"leftover {pid} {memory}",
        f"{pid} {memory}",
    ]
