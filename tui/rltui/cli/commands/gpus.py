"""`gpus`: the GPUs of this box and who holds their memory, once or again and again; no experiment needed."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from rltui.cli.choosing import choose_experiment
from rltui.cli.colour import signed
from rltui.cli.table import Column, Row, room, table_lines
from rltui.cli.terminal import InPlace, can_be_drawn_on, while_read
from rltui.core import hints
from rltui.core.text import duration, gib
from rltui.errors import RltuiError, UsageError

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

_ANSWER_S = 20.0
"""For a supervisor, whose driver may be busy."""
_EARLY_S = 0.2
"""A report may come so much before its time: the supervisor's clock is not ours."""


def gpus(arguments: argparse.Namespace) -> int:
    with nullcontext() if arguments.watch is None else while_read():
        if arguments.json:
            _print_json(arguments)
        else:
            _print(arguments)
    return 0


def _print_json(arguments: argparse.Namespace) -> None:
    """What a supervisor says, as it comes."""
    if arguments.name is not None:
        with closing(_of(arguments.name, arguments.watch)) as documents:
            for document in documents:
                print(json.dumps(document, ensure_ascii=False), flush=True)
        return
    with closing(_readings(arguments.watch)) as reports:
        for report in reports:
            print(report.model_dump_json(), flush=True)


def _print(arguments: argparse.Namespace) -> None:
    from rltui.core.gpu.report import GpuReport  # pydantic takes 60 ms

    if arguments.name is None:
        reports = _readings(arguments.watch)
    else:
        reports = (GpuReport.model_validate(each) for each in _of(arguments.name, arguments.watch))
    with closing(reports):
        if arguments.watch is None:
            for report in reports:
                print("\n".join(_lines(report)))
        elif can_be_drawn_on(sys.stdout):
            area = InPlace(sys.stdout)
            for report in reports:
                area.draw(_lines(report, arguments.watch))
        else:
            for report in reports:
                print("\n".join([*_lines(report, arguments.watch), ""]), flush=True)


def _readings(interval_s: float | None) -> Generator[GpuReport, None, None]:
    from rltui.core.gpu.reservations import with_reservations
    from rltui.services.gpu.reservations import other_reservations
    from rltui.services.gpu.sampling import readings

    with closing(readings(interval_s)) as reports:
        for report in reports:
            yield with_reservations(report, other_reservations())


def _of(name: str, interval_s: float | None) -> Generator[dict[str, Any], None, None]:
    """What the supervisor of an experiment knows: once, or whenever it is new, `interval_s` apart at least.

    Raises:
        UsageError: if the experiment is unknown or does not run.
    """
    from rltui.client import launch

    record = choose_experiment(name)
    wire = launch.connect(record)
    if wire is None:
        raise UsageError(f"{name} does not run", hint=f"without -n, `{hints.GPUS}` reads the GPUs itself")
    with wire:
        if interval_s is None:
            yield wire.call("gpus", timeout_s=_ANSWER_S)
            return
        due = time.monotonic()
        for kind, data in wire.events():
            if kind == "gpus" and time.monotonic() >= due:
                due = time.monotonic() + interval_s - _EARLY_S
                yield data
    raise RltuiError(f"the supervisor of {name} ended", hint=f"look with `{hints.STATUS(name=name)}`")


def _lines(report: GpuReport, interval_s: float | None = None) -> list[str]:
    """Under a title where it is repeated."""
    width, now = room(), time.time()
    head = [] if interval_s is None else [title(report, interval_s=interval_s, now=now)]
    return [*head, *report_lines(report, width=width, now=now)]


_INDENT = "    "
_MEMORY_NOTES = {
    "v2": "",
    "v1": " incl. what the driver reserves",
    "unified": " of the memory shared with the CPU",
}
_NOTICEABLE_S = 5.0
"""An age that is worth telling, where no interval was promised."""


_HOLDERS = (
    Column("GIB", is_right=True),
    Column("PID", is_right=True),
    Column("USER", goes=2, least=6),
    Column("OWNER", least=20),
    Column("COMMAND", goes=1, least=12),
)


class _HolderRow(NamedTuple):
    memory: str
    pid: str
    user: str
    owner: str
    command: str


def report_lines(report: GpuReport, *, width: int | None, now: float) -> list[str]:
    """All that is known, none wider than `width` where that is given. At least one line."""
    rows: list[Row] = [] if report.available else [f"no GPU figures: {report.reason}"]
    if report.available and report.reason:
        rows.append(signed(f"⚠ {report.reason}"))
    for device in report.devices:
        rows.extend(_wrapped(_header(device), width))
        rows.extend(signed(f"{_INDENT}{warning}") for warning in _warnings(device))
        rows.extend(f"{_INDENT}{_budget_text(budget)}" for budget in device.budgets)
        rows.extend(f"{_INDENT}{_claim_text(claim)}" for claim in device.claims)
        rows.extend(_rows(device))
    rows.extend(signed(_verdict_text(verdict)) for verdict in report.verdicts)
    rows.extend(signed(f"✗ {source.name}: {source.problem}") for source in report.sources if source.problem)
    if age := _age_text(report, now):
        rows.append(signed(age))
    return table_lines(_HOLDERS, rows, width=width, indent=_INDENT)


def title(report: GpuReport, *, interval_s: float, now: float) -> str:
    """Above a display that is repeated."""
    when = time.strftime("%H:%M:%S", time.localtime(now if report.sampled_at is None else report.sampled_at))
    driver = f" · driver {report.driver}" if report.driver else ""
    return f"{when}{driver} · every {interval_s:g} s"


def _header(device: GpuDevice) -> list[str]:
    label = f"{device.host}: GPU {device.label}" if device.host else f"GPU {device.label}"
    if device.problem:
        return [label, device.name or "unknown model", f"⚠ {device.problem}"]
    used, total = _gib(device.used_bytes), _gib(device.total_bytes)
    parts = [label, device.name, f"{used} of {total} GiB used{_MEMORY_NOTES[device.memory_kind]}"]
    parts.append(f"{_gib(device.free_bytes)} free")
    if device.utilization is not None:
        parts.append(f"{device.utilization:.0%}")
    if device.power_w is not None:
        limit = "" if device.power_limit_w is None else f" of {device.power_limit_w:.0f}"
        parts.append(f"{device.power_w:.0f}{limit} W")
    if device.temperature_c is not None:
        parts.append(f"{device.temperature_c:.0f} °C")
    return [part for part in parts if part]


def _warnings(device: GpuDevice) -> Iterator[str]:
    if device.throttle:
        yield f"⚠ slowed down: {', '.join(device.throttle)}"
    if device.ecc_errors:
        plural = "" if device.ecc_errors == 1 else "s"
        yield f"⚠ {device.ecc_errors} uncorrected memory error{plural} (ECC)"


def _budget_text(budget: GpuBudget) -> str:
    return f"budget of {budget.component}: {budget.utilization:g} × total = {_gib(budget.budget_bytes)} GiB"


def _claim_text(claim: GpuReservation) -> str:
    whose = "/".join(filter(None, (claim.experiment, claim.component)))
    size = f"{gib(claim.left_bytes)} GiB more" if claim.size_bytes else "memory, nobody knows how much,"
    return f"{whose} is starting and will take {size}"


def _rows(device: GpuDevice) -> Iterator[_HolderRow]:
    """By share, largest process first; then what no share names."""
    if device.problem:
        return
    left = {process.pid: process for process in device.processes}
    for share in device.shares:
        members = [left.pop(pid) for pid in share.pids if pid in left]
        yield from _share_rows(share, members)
    yield from (_process_row(process) for process in _largest_first(left.values()))


def _share_rows(share: GpuShare, members: Sequence[GpuProcess]) -> Iterator[_HolderRow]:
    """One process is its share: what that holds may be known where the process's own memory is not."""
    peak = "" if share.peak_bytes is None else f", peak {gib(share.peak_bytes)}"
    if not members:
        name = _owner_text(share.owner, share.experiment, share.component, None)
        yield _HolderRow(
            _memory_text(share.used_bytes, share.estimated), "", share.user or "", f"{name}{peak}", ""
        )
        return
    if len(members) == 1:
        row = _process_row(members[0])
        yield row._replace(memory=_memory_text(share.used_bytes, share.estimated), owner=f"{row.owner}{peak}")
        return
    for number, process in enumerate(_largest_first(members)):
        row = _process_row(process)
        yield row if number else row._replace(owner=f"{row.owner}{peak and f'{peak} together'}")


def _largest_first(processes: Iterable[GpuProcess]) -> list[GpuProcess]:
    return sorted(processes, key=lambda process: -(process.used_bytes or 0))


def _process_row(process: GpuProcess) -> _HolderRow:
    graphics = " (graphics)" if process.kind == "G" else ""
    return _HolderRow(
        _memory_text(process.used_bytes, process.estimated),
        str(process.pid),
        process.user or "",
        _owner_text(process.owner, process.experiment, process.component, process.attempt) + graphics,
        process.command or process.name,
    )


def _owner_text(owner: str, experiment: str | None, component: str | None, attempt: int | None) -> str:
    whose = "/".join(part for part in (experiment, component) if part)
    number = "" if attempt is None else f" attempt {attempt}"
    match owner:
        case "component":
            return f"{component}{number}"
        case "experiment":
            return f"{whose}{number}"
        case "orphan":
            return f"⚠ leftover of {whose}{number}" if whose else "⚠ leftover"
        case "mine":
            return "yours, not rltui's"
        case "other":
            return "another user's"
        case "hidden":
            return "driver, or processes that are not listed"
    return "not known whose"


def _memory_text(size_bytes: int | None, estimated: bool) -> str:
    return "?" if size_bytes is None else f"{'~' if estimated else ''}{gib(size_bytes)}"


def _verdict_text(verdict: MemoryVerdict) -> str:
    symbol = "✗" if verdict.is_bad else "?" if verdict.verdict == "unknown" else "✓"
    return f"{symbol} GPU {verdict.device}: {verdict.text}"


def _age_text(report: GpuReport, now: float) -> str:
    """Empty where the figures are those of now."""
    if report.sampled_at is None:
        return ""
    age_s = now - report.sampled_at
    expected_s = _NOTICEABLE_S if report.interval_s is None else 3 * report.interval_s
    return f"⚠ read {duration(age_s)} ago" if age_s > expected_s else ""


def _gib(size_bytes: int | None) -> str:
    return "?" if size_bytes is None else gib(size_bytes)


def _wrapped(parts: Sequence[str], width: int | None) -> list[str]:
    """Joined by dots; broken between parts, further lines indented."""
    lines = [parts[0]]
    for part in parts[1:]:
        if width is not None and len(lines[-1]) + len(part) + 3 > width:
            lines.append(f"{_INDENT}{part}")
        else:
            lines[-1] += f" · {part}"
    return lines
