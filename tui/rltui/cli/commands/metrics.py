"""`metrics`: the curves of a run as a table, as CSV or JSON, or drawn between the lines of the terminal."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rltui.base.text import display_unit, duration, format_measured, format_number, join_words, steps_text
from rltui.base.times import Moment, Period
from rltui.cli.arguments import FIELDS, FULL, JSON, RUN, SINCE, UNTIL, limit_option, positive
from rltui.cli.choosing import Target, separate_words, show_runs
from rltui.cli.command import Arguments, argument, command, exclusive, flag
from rltui.cli.dashboard import DASHBOARD, show_place
from rltui.cli.output import json_bytes, print_csv, print_rows, room_bytes
from rltui.cli.table import TableColumn, print_table, room, table_lines, width_of
from rltui.client.series import current_series
from rltui.core import hints
from rltui.core.experiment.cursor import Cursor
from rltui.core.experiment.dashboard import DashboardPlace
from rltui.core.metrics.curve import curve_rows
from rltui.core.metrics.selection import MetricLine, full_name, requested_lines, rows_by_step
from rltui.core.metrics.series import NO_STEP, Rewind, Series, SeriesSource
from rltui.errors import RltuiError, UsageError
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.registry import name_if_needed
from rltui.services.metrics.store import SeriesReader

_VISIBLE_ROWS = 20
_TRIED_POINTS, _HEAD_BYTES = (1, 11), 1000
"""Numbers of points by which their size in JSON is estimated; room for what is before the series."""
_PLOT_ROWS = 8
_WIDEST_PLOT = 100
_LABEL_WIDTH = 9

_SUMMARY = (
    TableColumn("METRIC", least=14, cut="middle"),
    TableColumn("NEWEST", is_right=True),
    TableColumn("AT", is_right=True, goes=3),
    TableColumn("LOWEST", is_right=True, goes=2),
    TableColumn("HIGHEST", is_right=True, goes=1),
    TableColumn("POINTS", is_right=True, goes=4),
    TableColumn("SERIES", least=12, cut="start", goes=5),
)


@dataclass(frozen=True, slots=True)
class SeriesDocument:
    """Entry of `series` in `rltui metrics --json`. Its arrays are of one length, in the order of steps."""

    source: str
    """Source such as `trainer`, `orch`, `inference/1`, `rltui`; empty where it is unknown."""
    name: str
    label: str
    """A concept, and its qualifier where there are several."""
    unit: str
    """Unit such as `frac`, a share from 0 to 1; empty where it has none, or it is unknown."""
    steps: list[int | None]
    """Numbers of the framework; null in series by time."""
    times: list[float]
    """Times in seconds since the epoch."""
    values: list[float | str]
    """Numbers, `"NaN"`, `"Infinity"` or `"-Infinity"`."""
    abandoned: list[dict[str, Any]]
    """Branches that a resume left behind, with `steps`, `times` and `values`."""


@command(
    "metrics",
    RUN,
    argument(
        "metric",
        "METRIC",
        "reward, loss, entropy, kl, grad_norm, step_time, …; the program's own name; or a regular expression "
        "(default: the metrics with a chart)",
        nargs="*",
        completes="metrics",
    ),
    flag("--all", "all series"),
    SINCE,
    UNTIL,
    limit_option("only the newest points"),
    argument("--every", "NUMBER", "every NUMBERth point, and the newest", type=positive),
    DASHBOARD,
    exclusive(
        flag("--csv", "CSV, one row per step"),
        flag("--plot", "draw curves in the terminal"),
        argument("--svg", "FILE", "write a drawing, with events marked", completes="files"),
        JSON,
    ),
    FULL,
    FIELDS,
    examples=(
        "metrics demo",
        "metrics demo reward kl --csv",
        "metrics demo reward --plot",
    ),
)
def metrics(arguments: Arguments) -> int:
    separate_words(arguments, "metric")
    return show_runs(arguments, partial(_show, arguments))


def _show(arguments: Arguments, target: Target) -> int:
    record = target.record
    if arguments.dashboard:
        return show_place(arguments, record, DashboardPlace(tab="metrics"))
    reader = current_series(record)
    if not reader.keys():
        raise UsageError(
            f"no metrics of {record.name} yet",
            hint=f"looked in {record.run_dir}; the first step writes the first metrics",
        )
    name = name_if_needed(record.name)
    is_continued = isinstance(arguments.since, Cursor)
    source, since = (reader.after(arguments.since), None) if is_continued else (reader, arguments.since)
    lines = [*requested_lines(source, arguments.metric, name, all_series=arguments.all)]
    if is_continued:
        lines = [line for line in lines if line.current or line.abandoned]
    if since or arguments.until:
        lines = _within(lines, Period(since, arguments.until))
    if arguments.json:
        _print_json(record, reader, lines, arguments)
    elif arguments.csv:
        _print_csv(lines, arguments)
    elif arguments.plot:
        _print_plots(lines, arguments)
    elif arguments.svg is not None:
        _write_drawing(record, reader, lines, arguments)
    elif arguments.metric and (table := _table(lines, arguments)):
        print("\n".join(table))
    else:
        _print_summary(reader, lines, arguments, name)
    return 0


def _within(lines: list[MetricLine], period: Period) -> list[MetricLine]:
    """The lines without what is not in the period. Series by time are cut where those by steps are."""
    steps = next((line.current for line in lines if line.has_steps), Series())
    points = [at for at, step in zip(steps.times, steps.steps, strict=True) if period.holds(at, step)]
    by_time = Period(Moment(at=min(points)), Moment(at=max(points))) if points else period
    return [
        replace(line, current=line.current.within(period if line.has_steps else by_time)) for line in lines
    ]


# --- how --------------------------------------------------------------------------------------------------


def _indices(count: int, arguments: Arguments, most: int | None = None) -> range:
    """Indices of what is printed of so many points: the newest always is."""
    last = None if arguments.full else arguments.limit or most
    indices = _every(count, arguments)
    return indices if last is None else indices[max(0, len(indices) - last) :]


def _every(count: int, arguments: Arguments) -> range:
    """Indices of every so many of the points, the newest among them."""
    every = arguments.every or 1
    return range((count - 1) % every if count else 0, count, every)


def _print_json(
    record: ExperimentRecord, reader: SeriesReader, lines: Sequence[MetricLine], arguments: Arguments
) -> None:
    """Print the newest points of each series: so many as asked for, else as a short document has room for."""
    most = arguments.limit
    if most is None and not arguments.full:
        few, some = (
            json_bytes([_document(line, arguments, count) for line in lines]) for count in _TRIED_POINTS
        )
        point_bytes = (some - few) / (_TRIED_POINTS[1] - _TRIED_POINTS[0])
        most = max(1, int((room_bytes() - _HEAD_BYTES - few) / (point_bytes or 1)))
    documents = [_document(line, arguments, most) for line in lines]
    printed = sum(len(document.values) for document in documents)
    head = {
        "experiment": record.name,
        "cursor": str(reader.cursor),
        "rewinds": [Rewind._asdict(rewind) for rewind in reader.rewinds()],
    }
    left_out = {"points": sum(len(_every(len(line.current), arguments)) for line in lines) - printed}
    print_rows(arguments, "series", documents, head=head, is_limited=True, left_out=left_out)


def _document(line: MetricLine, arguments: Arguments, most: int | None = None) -> SeriesDocument:
    """`most`: number of points of a branch, the newest."""
    steps, times, values = _lists(line.current, _indices(len(line.current), arguments, most))
    branches = (_lists(branch, _indices(len(branch), arguments, most)) for branch in line.abandoned)
    return SeriesDocument(
        source=line.key.source,
        name=line.key.name,
        label=line.label,
        unit=line.unit,
        steps=steps,
        times=times,
        values=values,
        abandoned=[dict(zip(("steps", "times", "values"), branch, strict=True)) for branch in branches],
    )


def _lists(series: Series, indices: range) -> tuple[list[int | None], list[float], list[float | str]]:
    steps = [None if series.steps[index] == NO_STEP else series.steps[index] for index in indices]
    return (
        steps,
        [series.times[index] for index in indices],
        [_json_number(series.values[index]) for index in indices],
    )


def _json_number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _print_csv(lines: Sequence[MetricLine], arguments: Arguments) -> None:
    rows = rows_by_step(lines)
    printed_rows = (
        (
            None if step == NO_STEP else step,
            f"{time_s:.3f}",
            *(None if value is None else _json_number(value) for value in values),
        )
        for step, time_s, values in (rows[index] for index in _indices(len(rows), arguments))
    )
    print_csv(["step", "time", *(line.label for line in lines)], printed_rows)


def _table(lines: Sequence[MetricLine], arguments: Arguments) -> list[str]:
    """A row for each step; nothing where that is too wide for the terminal."""
    rows = rows_by_step(lines)
    indices = _indices(len(rows), arguments, _VISIBLE_ROWS)
    heads = [f"{line.label} {display_unit(line.unit)}".rstrip() for line in lines]
    cells = [["step", "time", *heads]]
    for index in indices:
        step, when, values = rows[index]
        numbers = (
            "" if value is None else format_number(value, line.unit)
            for value, line in zip(values, lines, strict=True)
        )
        cells.append(["" if step == NO_STEP else str(step), _clock(when), *numbers])
    text_lines = table_lines(
        [TableColumn(heading, is_right=True) for heading in cells[0]], cells[1:], width=None
    )
    width = room()
    if width is not None and max(map(width_of, text_lines)) > width:
        return []
    if len(indices) < len(rows) and arguments.limit is None and not arguments.every:
        text_lines.append(f"the newest {len(indices)} of {len(rows)}; --limit N, --every K, --csv, --plot")
    return text_lines


def _clock(time_s: float) -> str:
    return time.strftime("%m-%d %H:%M:%S", time.localtime(time_s))


def _print_summary(
    reader: SeriesSource, lines: Sequence[MetricLine], arguments: Arguments, name: str | None
) -> None:
    cells: list[Sequence[str]] = []
    now = time.time()
    for line in lines:
        finite = [value for value in line.current.values if math.isfinite(value)]
        values = line.current.values
        gaps = f", {len(values) - len(finite)} non-finite" if len(finite) < len(values) else ""
        newest = (
            f"step {line.current.steps[-1]}"
            if line.has_steps
            else f"{duration(max(0.0, now - line.current.times[-1]))} ago"
            if len(values)
            else ""
        )
        cells.append(
            (
                line.label,
                format_measured(values[-1], line.unit) if len(values) else "",
                newest,
                format_number(min(finite), line.unit) if finite else "",
                format_number(max(finite), line.unit) if finite else "",
                f"{len(values)}{gaps}",
                "" if line.label == full_name(line.key) else full_name(line.key),
            )
        )
    print_table(_SUMMARY, cells)
    unlisted_count = len(reader.keys()) - len(lines)
    if unlisted_count > 0 and not arguments.metric:
        list_all, plot = hints.METRICS_ALL(name=name), hints.METRICS_PLOT(name=name)
        print(f"\n{unlisted_count} more series: {list_all}; {plot} draws some")


def _print_plots(lines: Iterable[MetricLine], arguments: Arguments) -> None:
    braille = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "") == "utf8"
    width = min(_WIDEST_PLOT, shutil.get_terminal_size((80, 24)).columns) - _LABEL_WIDTH - 3
    for number, line in enumerate(lines):
        indices = _indices(len(line.current), arguments)
        if not indices:
            continue
        if number:
            print()
        print("\n".join(_plot(line, indices, max(10, width), braille=braille)))


def _write_drawing(
    record: ExperimentRecord, reader: SeriesSource, lines: Sequence[MetricLine], arguments: Arguments
) -> None:
    from rltui.core.metrics.annotations import annotations_of
    from rltui.services.experiment.journal import JournalFeed
    from rltui.ui.charts.catalog import Chart
    from rltui.ui.charts.export import svg
    from rltui.ui.charts.model import ChartModel, Run  # brings numpy
    from rltui.ui.charts.view import ChartView

    labels = tuple(line.label for line in lines) if len(lines) > 1 else ()
    units = {line.unit for line in lines}
    chart = Chart(
        id="lines",
        title=join_words([line.label for line in lines[:4]]),
        keys=tuple(line.key for line in lines),
        labels=labels,
        unit=units.pop() if len(units) == 1 else "",
        log=all(line.log for line in lines),
    )
    model = ChartModel([Run("", reader)])
    model.load([chart])
    model.annotations = annotations_of(JournalFeed(record.control.journal_file).read())
    view = ChartView(by_time=not any(line.has_steps for line in lines))
    full_span = model.full_span(view)
    if arguments.limit is not None and not view.by_time:
        view = ChartView(window=(max(full_span[0], full_span[1] - max(1, arguments.limit - 1)), full_span[1]))
    try:
        Path(arguments.svg).write_text(svg(model.frame(chart, view), record.name))
    except OSError as error:
        raise RltuiError(
            f"cannot write {arguments.svg}: {error.strerror}", hint="choose a folder that you can write to"
        ) from error
    print(f"written: {arguments.svg}", file=sys.stderr)


def _plot(line: MetricLine, indices: range, width: int, *, braille: bool) -> list[str]:
    """Title, the curve between its highest and lowest value, the ends of the other axis, notes."""
    series = line.current
    xs = [float(series.steps[index]) if line.has_steps else series.times[index] for index in indices]
    values = [series.values[index] for index in indices]
    finite = [value for value in values if math.isfinite(value)]
    title = f"{line.label} {display_unit(line.unit)}".rstrip()
    if not finite:
        return [f"{title}: {len(values)} points, all non-finite"]
    is_log = line.log and min(finite) > 0 and max(finite) > 10 * min(finite)
    ys = [math.log10(value) if is_log and value > 0 else value for value in values]
    low, high = min(finite), max(finite)
    edges = (math.log10(low), math.log10(high)) if is_log else (low, high)
    rows = curve_rows(
        xs, ys, width, _PLOT_ROWS, x_span=(xs[0], xs[-1]), y_span=edges, braille=braille
    )  # fmt: skip
    labels = [format_number(high, line.unit), *[""] * (_PLOT_ROWS - 2), format_number(low, line.unit)]
    bar = "│" if braille else "|"
    drawn = [f"{label:>{_LABEL_WIDTH}} {bar}{row}".rstrip() for label, row in zip(labels, rows, strict=True)]
    first, last = (f"step {index:.0f}" if line.has_steps else _clock(index) for index in (xs[0], xs[-1]))
    newest = f"newest {format_number(values[-1], line.unit)}"
    axis = f"{'':{_LABEL_WIDTH}}  {first}{last:>{max(1, width - len(first))}}"
    notes = [*(["logarithmic"] if is_log else []), *_notes(line, xs, values)]
    return [f"{title} · {newest}", *drawn, axis, *(f"{'':{_LABEL_WIDTH}}  {note}" for note in notes)]


def _notes(line: MetricLine, xs: Sequence[float], values: Sequence[float]) -> Iterator[str]:
    gaps = [x for x, value in zip(xs, values, strict=True) if not math.isfinite(value)]
    if gaps and line.has_steps:
        yield f"non-finite at step {steps_text([int(x) for x in gaps])}"
    elif gaps:
        yield f"non-finite {len(gaps)} times, last {_clock(gaps[-1])}"
    if line.abandoned:
        ends = [f"{branch.steps[0]} to {branch.steps[-1]}" for branch in line.abandoned]
        yield f"abandoned by a resume: steps {join_words(ends)}"
