"""How each owner of device memory is drawn and called, the same on every device. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from rltui.core.gpu.report import GpuDevice, GpuOwner, GpuReport, GpuShare
from rltui.ui.text import clean_line


@dataclass(frozen=True, slots=True)
class Mark:
    """What a cell of a bar or chart looks like. The glyph alone tells owners apart, without colour."""

    glyph: str
    style: str


FAINT = "$foreground 60%"
FREE = Mark("░", "$foreground 30%")
BUDGET = Mark("┊", "bold $foreground")
UNREAD = Mark("·", FAINT)
"""Cells of a device whose memory cannot be read."""

_COMPONENTS = tuple(map(Mark, "█▒▚▓▞", ("$primary", "$accent", "$success", "$secondary", "$warning")))
_OWNERS: dict[GpuOwner, Mark] = {
    "orphan": Mark("×", "bold $text-error"),
    "mine": Mark("?", "bold $text-warning"),
    "experiment": Mark("▥", "$foreground 80%"),
    "other": Mark("▤", FAINT),
    "unknown": Mark("▦", FAINT),
    "hidden": Mark("▨", FAINT),
}
OTHERS = "others"
"""Name of all that a history does not tell apart."""
_MIN_HIDDEN = 0.01
"""Part of a device from which on memory that no share accounts for is drawn."""

Marks = dict[str, Mark]
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
