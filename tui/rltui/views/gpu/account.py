"""GPUs: what is known of a device, who holds its memory, what will fit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rltui.base.text import count_text, duration, gib, join_words, short_command, truncate
from rltui.base.times import clock_text
from rltui.views.table import Cell, Column, View

if TYPE_CHECKING:
    from rltui.core.gpu.report import (
        GpuBudget,
        GpuDevice,
        GpuProcess,
        GpuReport,
        GpuReservation,
        GpuShare,
        MemoryVerdict,
    )

OTHERS = "others"
"""Name of all that a history does not tell apart."""
_MEMORY_NOTES = {
    "v2": "",
    "v1": " including driver reserve",
    "unified": " of memory shared with the CPU",
}
_BRIEF_MEMORY_NOTES = {"v2": "", "v1": "incl. reserved", "unified": "unified memory"}
_NOTICEABLE_S = 5.0
"""An age that is worth telling, where no interval was promised."""
_STALE_INTERVALS = 3
"""A reading that many intervals old is stale, as `GpuReport.interval_s` has it."""
_NAME_CELLS = 18
"""Width of another experiment's component; the narrowest panel has room for it."""
_MOST_PIDS = 3
_MAKER = re.compile(r"^(NVIDIA )?(GeForce |Tesla )?")
_SIZE = re.compile(r"[ -]\d+GB\b( HBM\w+)?")


# --- the reading ------------------------------------------------------------------------------------------


def report_title(report: GpuReport, *, interval_s: float, now: float) -> str:
    """Above a display that is repeated."""
    when = clock_text(now if report.sampled_at is None else report.sampled_at)
    driver = f" · driver {report.driver}" if report.driver else ""
    return f"{when}{driver} · every {interval_s:g} s"


def stale_age_s(report: GpuReport, now: float) -> float | None:
    """The age of a reading that is older than was promised; `None` too where nothing was promised."""
    if report.sampled_at is None or report.interval_s is None:
        return None
    age_s = now - report.sampled_at
    return age_s if age_s > _STALE_INTERVALS * report.interval_s else None


def age_text(report: GpuReport, now: float) -> str:
    """Empty where the figures are those of now."""
    if report.sampled_at is None:
        return ""
    age_s = now - report.sampled_at
    is_old = age_s > _NOTICEABLE_S if report.interval_s is None else stale_age_s(report, now) is not None
    return f"⚠ read {duration(age_s)} ago" if is_old else ""


def verdict_sign(verdict: str) -> Cell:
    """Signs of `MemoryVerdict.verdict`."""
    return {"fits": Cell("✓", "good"), "unknown": Cell("?", "faint")}.get(verdict, Cell("✗", "bad"))


def verdict_text(verdict: MemoryVerdict) -> str:
    return f"{verdict_sign(verdict.verdict).text} GPU {verdict.device}: {verdict.text}"


# --- a device ---------------------------------------------------------------------------------------------


def short_name(name: str) -> str:
    """Maker and size are cut off: `NVIDIA H100 80GB HBM3` becomes `H100`."""
    return _SIZE.sub("", _MAKER.sub("", name))


def free_bytes(device: GpuDevice) -> int | None:
    """The value that was read, or the rest of the total."""
    if device.free_bytes is None and device.total_bytes is not None and device.used_bytes is not None:
        return max(0, device.total_bytes - device.used_bytes - (device.reserved_bytes or 0))
    return device.free_bytes


def device_summary(device: GpuDevice) -> list[str]:
    """`GPU 0`, its name, `71.2 of 141 GiB used`, `69.8 free`, `97%`, `412 of 700 W`, `61 °C`."""
    label = f"{device.host}: GPU {device.label}" if device.host else f"GPU {device.label}"
    if device.problem:
        return [label, device.name or "unknown model", f"⚠ {device.problem}"]
    used_text, total = _known_gib(device.used_bytes), _known_gib(device.total_bytes)
    texts = [label, device.name, f"{used_text} of {total} GiB used{_MEMORY_NOTES[device.memory_kind]}"]
    texts.append(f"{_known_gib(device.free_bytes)} free")
    if device.utilization is not None:
        texts.append(f"{device.utilization:.0%}")
    texts.append(_power_text(device))
    if device.temperature_c is not None:
        texts.append(f"{device.temperature_c:.0f} °C")
    return [text for text in texts if text]


def device_details(device: GpuDevice) -> list[str]:
    """Short texts of facts besides memory and load."""
    texts = [device.name, memory_note(device)]
    if device.reserved_bytes:
        texts.append(f"reserved {gib(device.reserved_bytes)} GiB")
    if device.memory_utilization is not None:
        texts.append(f"memory busy {100 * device.memory_utilization:.0f} %")
    if power := _power_text(device):
        texts.append(f"power {power}")
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
    return [text for text in (*texts, device.uuid) if text]


def _power_text(device: GpuDevice) -> str:
    if device.power_w is None:
        return ""
    limit = "" if device.power_limit_w is None else f" of {device.power_limit_w:.0f}"
    return f"{device.power_w:.0f}{limit} W"


def memory_note(device: GpuDevice) -> str:
    """The meaning of its memory values, where it is unusual."""
    return _BRIEF_MEMORY_NOTES[device.memory_kind]


def memory_text(device: GpuDevice) -> str:
    if device.used_bytes is None or device.total_bytes is None:
        return "memory unknown"
    return f"{gib(device.used_bytes)}/{gib(device.total_bytes)} GiB"


def load_texts(device: GpuDevice) -> list[str]:
    """`97 %  412/700 W  61 °C`, then shorter and shorter."""
    util = "" if device.utilization is None else f"{100 * device.utilization:3.0f} %"
    power = "" if device.power_w is None else f"{device.power_w:.0f} W"
    limit = "" if device.power_limit_w is None else f"/{device.power_limit_w:.0f}"
    heat = "" if device.temperature_c is None else f"{device.temperature_c:.0f} °C"
    choices = [(util, power.replace(" W", f"{limit} W"), heat), (util, power, heat), (util, heat), (util,)]
    return ["  ".join(text for text in choice if text) for choice in choices]


def device_warnings(device: GpuDevice) -> list[str]:
    texts = [f"throttled: {join_words(device.throttle)}"] if device.throttle else []
    if device.ecc_errors:
        texts.append(f"{count_text(device.ecc_errors, 'uncorrected memory error')} (ECC)")
    return texts


def budget_text(budget: GpuBudget) -> str:
    size = gib(budget.budget_bytes)
    return f"budget of {budget.component}: {budget.utilization:g} × total = {size} GiB"


def reservation_text(reservation: GpuReservation) -> str:
    amount = f"{gib(reservation.left_bytes)} GiB more"
    size = amount if reservation.size_bytes else "an unknown amount of memory"
    return f"{_reserver(reservation)} is starting and will take {size}"


def starting_labels(reservations: Iterable[GpuReservation]) -> list[str]:
    """`+40.0 b/inference`: what each component will take besides what it holds, of all devices together."""
    sizes: dict[str, int] = {}
    for reservation in reservations:
        name = _reserver(reservation)
        sizes[name] = sizes.get(name, 0) + reservation.left_bytes
    return [f"+{gib(size) if size else '?'} {truncate(name, _NAME_CELLS)}" for name, size in sizes.items()]


def _reserver(reservation: GpuReservation) -> str:
    return "/".join(filter(None, (reservation.experiment, reservation.component)))


def _known_gib(size_bytes: int | None) -> str:
    return "?" if size_bytes is None else gib(size_bytes)


# --- who holds its memory -----------------------------------------------------------------------------------


def share_label(share: GpuShare) -> str:
    """The holder in a word or two: a component's id, a user, `leftover`."""
    match share.owner:
        case "component":
            return share.component or "component"
        case "orphan":
            return "leftover"
        case "experiment":
            return f"{share.experiment or 'experiment'}/{share.component or '?'}"
        case "mine":
            return "unknown"
        case "other":
            return share.user or OTHERS
        case "unknown":
            return "unknown owner"
        case "hidden":
            return "unattributed"


def shares_text(device: GpuDevice, shares: Sequence[GpuShare], label: str) -> str:
    """`trainer holds 9.8 of 141 GiB of GPU 0, peak 10.3: pid 4242`. `label`: that of all these shares."""
    used_bytes = sum(share.used_bytes for share in shares)
    estimated = "about " if any(share.estimated for share in shares) else ""
    total = f" of {gib(device.total_bytes)}" if device.total_bytes else ""
    peaks = [share.peak_bytes for share in shares if share.peak_bytes is not None]
    peak = f", peak {gib(max(peaks))}" if peaks else ""
    pids = sorted({pid for share in shares for pid in share.pids})
    more = ", …" if len(pids) > _MOST_PIDS else ""
    pid_text = f": pid {', '.join(map(str, pids[:_MOST_PIDS]))}{more}" if pids else ""
    return f"{label} holds {estimated}{gib(used_bytes)}{total} GiB of GPU {device.label}{peak}{pid_text}"


def gib_text(size: int, *, estimated: bool) -> str:
    """`58.0`, or `~58.0`."""
    return f"{'~' if estimated else ''}{gib(size)}"


def size_text(size: int | None, *, estimated: bool = False) -> str:
    """`58.0 GiB`, `~58.0 GiB`, or `size unknown`."""
    return "size unknown" if size is None else f"{gib_text(size, estimated=estimated)} GiB"


def can_be_freed(process: GpuProcess) -> bool:
    """It belongs to this user and to no living component."""
    return process.owner in ("orphan", "mine")


def freeable(report: GpuReport) -> list[tuple[GpuProcess, int | None]]:
    """Processes on this machine that a person may want to end, with what they hold on all its devices."""
    sizes: dict[int, tuple[GpuProcess, int | None]] = {}
    for device in report.devices:
        for process in device.processes:
            if device.host or not can_be_freed(process):
                continue
            before = sizes[process.pid][1] if process.pid in sizes else None
            size = process.used_bytes
            sizes[process.pid] = (process, before if size is None else size + (before or 0))
    return sorted(sizes.values(), key=lambda item: (item[0].owner != "orphan", -(item[1] or 0)))


def freeable_texts(process: GpuProcess, size: int | None) -> list[str]:
    """`leftover of inference attempt 1: pid 4711 python 58.0 GiB`, then shorter and shorter."""
    memory = size_text(size, estimated=process.estimated)
    pid = f"pid {process.pid}"
    name = f"{pid} {short_command(process.name or process.command, 24)}".rstrip()
    if process.owner == "mine":
        return [f"unknown {name} {memory}", f"unknown {pid} {memory}", f"{pid} {memory}"]
    attempt = "" if process.attempt is None else f" attempt {process.attempt}"
    component_text = f" of {process.component}{attempt}:" if process.component else ""
    return [
        f"leftover{component_text} {name} {memory}",
        f"leftover {name} {memory}",
        f"leftover {pid} {memory}",
        f"{pid} {memory}",
    ]


@dataclass(frozen=True, slots=True)
class Holder:
    """Memory of a device that a process holds, or a share of which no process is listed."""

    device: GpuDevice
    used_bytes: int | None
    is_estimated: bool
    process: GpuProcess | None = None
    share: GpuShare | None = None
    peak: str = ""
    """Most that its share has held: `, peak 10.3`, on the first row of the share."""

    @property
    def owner(self) -> GpuProcess | GpuShare | None:
        return self.process or self.share


def process_holders(device: GpuDevice) -> list[Holder]:
    """The processes that are listed, the largest first."""
    return [
        Holder(device, process.used_bytes, process.estimated, process)
        for process in _largest_first(device.processes)
    ]


def holders(device: GpuDevice) -> list[Holder]:
    """Processes by share, the largest first; then those that no share names."""
    if device.problem:
        return []
    by_pid = {process.pid: process for process in device.processes}
    rows: list[Holder] = []
    for share in device.shares:
        members = [by_pid.pop(pid) for pid in share.pids if pid in by_pid]
        rows.extend(_share_holders(device, share, _largest_first(members)))
    rows.extend(
        Holder(device, process.used_bytes, process.estimated, process)
        for process in _largest_first(by_pid.values())
    )
    return rows


def _share_holders(device: GpuDevice, share: GpuShare, members: Sequence[GpuProcess]) -> list[Holder]:
    """One process is its share: what that holds may be known where the process's own memory is not."""
    peak = "" if share.peak_bytes is None else f", peak {gib(share.peak_bytes)}"
    if len(members) < 2:
        process = members[0] if members else None
        return [Holder(device, share.used_bytes, share.estimated, process, share, peak)]
    together = peak and f"{peak} together"
    return [
        Holder(device, process.used_bytes, process.estimated, process, share, "" if number else together)
        for number, process in enumerate(members)
    ]


def _largest_first(processes: Iterable[GpuProcess]) -> list[GpuProcess]:
    return sorted(processes, key=lambda process: -(process.used_bytes or 0))


def _used_text(holder: Holder, _: float) -> str:
    size = holder.used_bytes
    return "?" if size is None else gib_text(size, estimated=holder.is_estimated)


def _owner_text(holder: Holder, _: float) -> str:
    """`inference attempt 2, peak 60.1`, `⚠ leftover of demo/trainer attempt 1`, `yours, unattributed`."""
    if (owner := holder.owner) is None:
        return ""
    owner_name = "/".join(name for name in (owner.experiment, owner.component) if name)
    attempt = None if holder.process is None else holder.process.attempt
    number = "" if attempt is None else f" attempt {attempt}"
    texts = {
        "component": f"{owner.component}{number}",
        "experiment": f"{owner_name}{number}",
        "orphan": f"⚠ leftover of {owner_name}{number}" if owner_name else "⚠ leftover",
        "mine": "yours, unattributed",
        "other": "another user's",
        "hidden": "driver or unlisted processes",
    }
    graphics = " (graphics)" if holder.process is not None and holder.process.kind == "G" else ""
    return f"{texts.get(owner.owner, 'unknown owner')}{graphics}{holder.peak}"


def _process_cell(holder: Holder, _: float) -> Cell:
    """`trainer attempt 2`, `⚠ leftover inference 1`, `⚠ unattributed, yours`."""
    process = holder.process
    if process is None:
        return Cell("")
    attempt = "" if process.attempt is None else f" {process.attempt}"
    component = process.component or ""
    texts = {
        "component": f"{component} attempt{attempt}" if attempt else component,
        "orphan": f"leftover {component}{attempt}",
        "experiment": f"{process.experiment or 'experiment'}/{process.component or '?'}",
        "mine": "unattributed, yours",
        "other": "another user's",
    }
    text = texts.get(process.owner, "unknown owner")
    return Cell(f"⚠ {text}", "busy") if can_be_freed(process) else Cell(text)


def _used_gib_text(holder: Holder, now: float) -> str:
    return _used_text(holder, now) + ("" if holder.used_bytes is None else " GiB")


def _part_text(holder: Holder, _: float) -> str:
    if holder.used_bytes is None or not holder.device.total_bytes:
        return ""
    return f"{100 * holder.used_bytes / holder.device.total_bytes:.0f} %"


def _pid_text(holder: Holder, _: float) -> str:
    return "" if holder.process is None else str(holder.process.pid)


VIEW: View[Holder] = View(
    key=lambda holder: _pid_text(holder, 0.0),
    columns=(
        Column("memory", _used_text, heading="gib", is_right=True, brief=_used_gib_text),
        Column("pid", _pid_text, is_right=True),
        Column(
            "user", lambda holder, _: "" if holder.owner is None else holder.owner.user or "", goes=2, least=6
        ),
        Column("owner", _owner_text, least=20, brief=_process_cell),
        Column("kind", lambda holder, _: "" if holder.process is None else holder.process.kind),
        Column("part", _part_text, heading="%", is_right=True),
        Column(
            "command",
            lambda holder, _: "" if holder.process is None else holder.process.command or holder.process.name,
            goes=1,
            least=12,
        ),
    ),
)
