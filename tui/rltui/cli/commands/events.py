"""`events`: the journal of an experiment."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from rltui.cli.arguments import NAME, json_flag, positive
from rltui.cli.choosing import choose_experiment
from rltui.cli.colour import style, style_diff
from rltui.cli.command import Arguments, argument, command, flag, repeatable
from rltui.cli.output import print_json
from rltui.cli.table import Row, print_table, room, table_lines, view_shapes
from rltui.cli.terminal import while_read
from rltui.client import launch
from rltui.core.events import EventFilter, detail_lines, display_kind, entry_data
from rltui.core.text import unknown_name
from rltui.core.times import MOMENT_HINT, parse_moment
from rltui.errors import UsageError
from rltui.services.runs.experiment_files import ExperimentRecord
from rltui.services.runs.journal import read_entries
from rltui.views.event import KINDS, VIEW, Event
from rltui.views.table import Cell

_COLUMNS = VIEW.named(("when", "step", "kind", "what"))
_INDENT = " " * 8
"""Spaces before the lines below an entry."""
_WIDTHS = {"step": 6, "kind": -10}
"""Cells of columns, the same for every entry, since they come one by one; negative: aligned at the left."""


@command(
    "events",
    flag("-f --follow", "go on as it grows"),
    repeatable("--kind", "K,…", "only these: edit, crash, alert, note, …", completes="event_kinds"),
    repeatable("--component", "C,…", "only of these", completes="components"),
    argument("--since", "T", "only from then on: 2h or 1d12h ago, 14:30, 2026-11-22, '2026-11-22 14:30'"),
    argument("--limit", "N", "only the last N of them", type=positive),
    argument("--grep", "WORDS", "only with all these words", default=""),
    flag("--brief", "a line for each, without diffs"),
    NAME,
    json_flag("one JSON document; with -f, one per line"),
)
def events(arguments: Arguments) -> int:
    record = choose_experiment(arguments.name)
    journal = record.control.journal_file
    event_filter = _filter(arguments, record, journal)
    entries = deque(_matching(read_entries(journal), event_filter), arguments.limit)
    if not arguments.follow:
        if arguments.json:
            print_json([*entries])
        else:
            rows = (row for entry in entries for row in _rows(entry, is_brief=arguments.brief))
            print_table(view_shapes(_COLUMNS), rows)
        return 0
    width = room()
    shapes = [column._replace(heading="") for column in view_shapes(_COLUMNS)]
    with while_read():
        for entry in chain(entries, _matching(_new_entries(record), event_filter)):
            if arguments.json:
                print_json(entry)
            else:
                lines = table_lines(shapes, _rows(entry, is_brief=arguments.brief), width=width)
                print("\n".join(lines), flush=True)
    return 0


def _matching(entries: Iterable[dict[str, Any]], event_filter: EventFilter) -> Iterator[dict[str, Any]]:
    for entry in entries:
        text, data = entry["text"], entry_data(entry)
        if event_filter.admits(entry["at"], entry["kind"], entry.get("component"), text, data):
            yield {**entry, "kind": display_kind(entry["kind"], data)}


def _filter(arguments: Arguments, record: ExperimentRecord, journal: Path) -> EventFilter:
    kinds, components = _names(arguments.kind), _names(arguments.component)
    entries = list(read_entries(journal)) if kinds - set(KINDS) or components else []
    if strange := sorted(kinds - set(KINDS) - {entry["kind"] for entry in entries}):
        raise unknown_name("kind of event", strange[0], KINDS)
    if strange := sorted(components - {entry.get("component") for entry in entries}):
        from rltui.services import layout_files  # pydantic takes 60 ms

        components_of_layout = [spec.id for spec in layout_files.load_for(record).component]
        if strange := [name for name in strange if name not in components_of_layout]:
            raise unknown_name("component", strange[0], components_of_layout)
    since = 0.0 if arguments.since is None else _since(arguments.since)
    return EventFilter(kinds=kinds, components=components, since=since, words=arguments.grep)


def _since(text: str) -> float:
    moment_s = parse_moment(text, time.time())
    if moment_s is None:
        raise UsageError(f"--since {text!r} is no time", hint=MOMENT_HINT)
    return moment_s


def _names(lists: list[str]) -> frozenset[str]:
    return frozenset(name.strip() for text in lists for name in text.split(",") if name.strip())


def _new_entries(record: ExperimentRecord) -> Iterator[dict[str, Any]]:
    wire = launch.connect(record)
    if wire is None:
        raise UsageError(f"{record.name} does not run: there is nothing to follow")
    with wire:
        yield from wire.events("journal")


def _rows(entry: dict[str, Any], *, is_brief: bool) -> Iterator[Row]:
    """A row of `_COLUMNS`, and unless `is_brief` the lines below it. As wide as those of other entries."""
    data, text, step = entry_data(entry), entry["text"], entry.get("step")
    event = Event(entry["at"], entry["kind"], text, step if isinstance(step, int) else None, data=data)
    yield [_padded(column.name, column.cell(event, 0.0)) for column in _COLUMNS]
    for line in () if is_brief else style_diff(list(detail_lines(text, data))):
        yield f"{_INDENT}{line}"


def _padded(name: str, cell: Cell) -> str:
    width = _WIDTHS.get(name, 0)
    return style(f"{cell.text:>{width}}" if width > 0 else f"{cell.text:<{-width}}", cell.role)
