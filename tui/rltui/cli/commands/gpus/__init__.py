"""`gpus`: the GPUs of this box and who holds their memory, once or again and again; no experiment needed."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Sequence
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, Any

from rltui.cli.arguments import interval, json_flag, watch
from rltui.cli.choosing import choose_named
from rltui.cli.colour import style_line
from rltui.cli.command import Arguments, argument, command
from rltui.cli.output import print_json
from rltui.cli.table import Row, room, table_lines, view_cells, view_shapes
from rltui.cli.terminal import InPlace, can_be_drawn_on, while_read
from rltui.core import hints
from rltui.errors import RltuiError, UsageError
from rltui.views.gpu import account as view

if TYPE_CHECKING:
    from rltui.core.gpu.report import GpuReport

_ANSWER_S = 20.0
"""Timeout of a supervisor, whose driver may be busy."""
_EARLY_S = 0.2
"""A report may come so much before its time: the supervisor's clock is not ours."""


@command(
    "gpus list",
    argument("run", "RUN", "add the budgets, peaks and other hosts of this run", nargs="?", completes="runs"),
    watch(interval),
    json_flag("one JSON document; with --watch, one per line"),
    examples=(
        "gpus",
        "gpus -w 2",
        "gpus --json",
    ),
)
def gpus(arguments: Arguments) -> int:
    with nullcontext() if arguments.watch is None else while_read():
        if arguments.json:
            _print_json(arguments)
        else:
            _print(arguments)
    return 0


def _print_json(arguments: Arguments) -> None:
    if arguments.run is not None:
        with closing(_documents_of(arguments.run, arguments.watch)) as documents:
            for document in documents:
                print_json(document)
        return
    from rltui.services.gpu.account import readings

    with closing(readings(arguments.watch)) as reports:
        for report in reports:
            print_json(report)


def _print(arguments: Arguments) -> None:
    from rltui.core.gpu.report import GpuReport  # msgspec takes 20 ms

    if arguments.run is None:
        from rltui.services.gpu.account import readings

        reports = readings(arguments.watch)
    else:
        reports = (GpuReport.from_plain(answer) for answer in _documents_of(arguments.run, arguments.watch))
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


def _documents_of(reference: str, interval_s: float | None) -> Generator[dict[str, Any], None, None]:
    """GPU reports of an experiment's supervisor: one, or every new one, `interval_s` apart at least.

    Raises:
        UsageError: if the experiment is unknown or does not run.
    """
    from rltui.client import launch

    record = choose_named(reference).record
    with launch.connected(record) as wire:
        if wire is None:
            raise UsageError(f"{record.name} is not running", hint=f"{hints.GPUS} shows the GPUs without it")
        if interval_s is None:
            yield wire.call("gpus", timeout_s=_ANSWER_S)
            return
        due = time.monotonic()
        for report in wire.events("gpus"):
            if time.monotonic() >= due:
                due = time.monotonic() + interval_s - _EARLY_S
                yield report
    raise RltuiError(
        f"the supervisor of {record.name} ended", hint=f"check `{hints.STATUS(name=record.name)}`"
    )


def _lines(report: GpuReport, interval_s: float | None = None) -> list[str]:
    """Lines of the report, under a title where it is repeated."""
    width, now = room(), time.time()
    head = [] if interval_s is None else [view.report_title(report, interval_s=interval_s, now=now)]
    return [*head, *report_lines(report, width=width, now=now)]


_INDENT = "    "


_HOLDERS = view.VIEW.named(("memory", "pid", "user", "owner", "command"))


def report_lines(report: GpuReport, *, width: int | None, now: float) -> list[str]:
    """Lines of the whole report, none wider than `width` where that is given. At least one line."""
    rows: list[Row] = [] if report.available else [f"no GPU figures: {report.reason}"]
    if report.available and report.reason:
        rows.append(style_line(f"⚠ {report.reason}"))
    for device in report.devices:
        rows.extend(_wrap(view.device_summary(device), width))
        rows.extend(style_line(f"{_INDENT}⚠ {warning}") for warning in view.device_warnings(device))
        rows.extend(f"{_INDENT}{view.budget_text(budget)}" for budget in device.budgets)
        rows.extend(f"{_INDENT}{view.reservation_text(claim)}" for claim in device.claims)
        rows.extend(view_cells(_HOLDERS, view.holders(device), now))
    rows.extend(style_line(view.verdict_text(verdict)) for verdict in report.verdicts)
    rows.extend(
        style_line(f"✗ {source.name}: {source.problem}") for source in report.sources if source.problem
    )
    if age := view.age_text(report, now):
        rows.append(style_line(age))
    return table_lines(view_shapes(_HOLDERS), rows, width=width, indent=_INDENT)


def _wrap(segments: Sequence[str], width: int | None) -> list[str]:
    """Joined by dots; broken between parts, further lines indented."""
    lines = [segments[0]]
    for segment in segments[1:]:
        if width is not None and len(lines[-1]) + len(segment) + 3 > width:
            lines.append(f"{_INDENT}{segment}")
        else:
            lines[-1] += f" · {segment}"
    return lines
