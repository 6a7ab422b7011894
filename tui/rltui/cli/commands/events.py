"""`events`: the journal of a run, and `events add`, a sentence for it."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

from rltui.base.shorten import without_empty
from rltui.base.text import unknown_name, untrusted_text
from rltui.base.times import Period
from rltui.cli.arguments import COMPONENT, FOLLOW, JSON, RUN, SINCE, UNTIL, listing
from rltui.cli.choosing import Target, choose, separate_words, show_runs
from rltui.cli.colour import style, style_diff
from rltui.cli.command import Arguments, argument, command, flag, repeatable
from rltui.cli.output import print_json, print_outcome, print_rows
from rltui.cli.table import Row, print_table, room, table_lines, view_shapes
from rltui.cli.terminal import while_read
from rltui.client import launch
from rltui.core import hints
from rltui.core.experiment.cursor import Cursor, cursor_of, index_since
from rltui.core.experiment.events import (
    EventFilter,
    author_name,
    author_words,
    detail_lines,
    display_kind,
    entry_data,
    first_line,
)
from rltui.errors import UsageError
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.journal import journal_of, read_entries
from rltui.views.event import KINDS, VIEW, Event
from rltui.views.table import Cell

_COLUMNS = VIEW.named(("when", "step", "kind", "who", "what"))
_INDENT = " " * 8
"""Spaces before the lines below an entry."""
_WIDTHS = {"step": 6, "kind": -10, "who": -6}
"""Cells of columns, the same for every entry, since they come one by one; negative: aligned at the left."""


@command(
    "events list",
    RUN,
    COMPONENT,
    repeatable(
        "--kind",
        "KIND,…",
        "only events of this kind: edit, crash, alert, note, …; repeatable",
        completes="event_kinds",
    ),
    argument(
        "--by",
        "WHO",
        "only what WHO did: agent, tui, cli, host, a name or an account",
        default="",
        completes="authors",
    ),
    SINCE,
    UNTIL,
    argument("--grep", "WORDS", "only events with all these words", default=""),
    flag("--brief", "one line per event, without diffs"),
    FOLLOW,
    *listing("only the newest events", "one JSON document; with -f, one event per line"),
    examples=(
        "events demo --kind crash,alert --since 2h",
        "events demo --by agent --since 8h",
        "events demo --json --fields at,kind,text --limit 5",
    ),
)
def events(arguments: Arguments) -> int:
    return show_runs(arguments, partial(_list, arguments))


@command(
    "events add",
    RUN,
    argument("text", "TEXT", "text of the note; - reads it from stdin", nargs="*"),
    JSON,
    examples=('events add demo "learning rate halved from here on"',),
)
def add_event(arguments: Arguments) -> int:
    separate_words(arguments, "text")
    text = sys.stdin.read() if arguments.text == ["-"] else " ".join(arguments.text)
    if not text.strip():
        raise UsageError("nothing to add", hint=str(hints.EVENTS_ADD(name=arguments.run)))
    record = choose(arguments, acts=True).record
    with launch.connected(record) as wire:
        if wire is None:
            entry = journal_of(record).note(text).to_plain()
        else:
            entry = wire.call("note", {"text": text})
    at_step = "" if entry["step"] is None else f" at step {entry['step']}"
    print_outcome(entry, f"noted{at_step}: {first_line(entry['text'])}\n", as_json=arguments.json)
    return 0


def _list(arguments: Arguments, target: Target) -> int:
    record, components = target
    journal = record.control.journal_file
    event_filter = _filter(arguments, record, components)
    period, first = Period(None, arguments.until), 0
    entries = [*read_entries(journal)]
    cursor = cursor_of(entries[-1]) if entries else Cursor("events")
    if isinstance(arguments.since, Cursor):
        first = index_since(entries, arguments.since)
    else:
        period = Period(arguments.since, arguments.until)
    shown = [*_matching(entries, event_filter, period, first)]
    if not arguments.follow:
        if arguments.json:
            documents, head = [*map(_as_json, shown)], {"cursor": str(cursor)}
            print_rows(arguments, "events", documents, head=head, keeps_last=True, is_sparse=True)
        else:
            newest = deque(shown, arguments.limit)
            rows = (row for entry in newest for row in _rows(entry, is_brief=arguments.brief))
            print_table(view_shapes(_COLUMNS), rows)
        return 0
    width = room()
    shapes = [column._replace(heading="") for column in view_shapes(_COLUMNS)]
    with while_read():
        for entry in chain(
            deque(shown, arguments.limit), _matching(_new_entries(record), event_filter, period)
        ):
            if arguments.json:
                print_json(without_empty(_as_json(entry)))
            else:
                lines = table_lines(shapes, _rows(entry, is_brief=arguments.brief), width=width)
                print("\n".join(lines), flush=True)
    return 0


def _as_json(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry; of a note, whose text anybody may have written, that lies below `untrusted`."""
    if isinstance(by := entry.get("by"), dict):
        entry = {**entry, "by": without_empty(by)}
    if entry["kind"] != "note":
        return entry
    others = {key: value for key, value in entry.items() if key != "text"}
    return {**others, "untrusted": untrusted_text(entry["text"])}


def _matching(
    entries: Iterable[dict[str, Any]], event_filter: EventFilter, period: Period, first: int = 0
) -> Iterator[dict[str, Any]]:
    """Entries from the index `first` on that pass the filter. Those that know no step happened at the newest
    one before them.
    """
    step: int | None = None
    for index, entry in enumerate(entries):
        text, data = entry["text"], entry_data(entry)
        step = step if entry.get("step") is None else entry["step"]
        if index < first or not period.holds(entry["at"], step):
            continue
        if event_filter.admits(entry["kind"], entry.get("component"), text, data, author_words(entry)):
            yield {**entry, "kind": display_kind(entry["kind"], data)}


def _filter(arguments: Arguments, record: ExperimentRecord, names: Sequence[str]) -> EventFilter:
    kinds = frozenset(name.strip() for text in arguments.kind for name in text.split(",") if name.strip())
    components = frozenset(names)
    is_known = not (kinds - set(KINDS) or components)
    entries = [] if is_known else list(read_entries(record.control.journal_file))
    if strange := sorted(kinds - set(KINDS) - {entry["kind"] for entry in entries}):
        raise unknown_name("kind of event", strange[0], KINDS)
    if strange := sorted(components - {entry.get("component") for entry in entries}):
        from rltui.services.experiment import layout_files  # pydantic takes 60 ms

        components_of_layout = [spec.id for spec in layout_files.load_for(record).component]
        if strange := [name for name in strange if name not in components_of_layout]:
            raise unknown_name("component", strange[0], components_of_layout)
    authors = frozenset(filter(None, [arguments.by.strip().removeprefix("agent ")]))
    return EventFilter(kinds=kinds, components=components, authors=authors, words=arguments.grep)


def _new_entries(record: ExperimentRecord) -> Iterator[dict[str, Any]]:
    with launch.connected(record) as wire:
        if wire is None:
            raise UsageError(f"{record.name} is not running: nothing to follow")
        yield from wire.events("journal")


def _rows(entry: dict[str, Any], *, is_brief: bool) -> Iterator[Row]:
    """A row of `_COLUMNS`, and unless `is_brief` the lines below it. As wide as those of other entries."""
    data, text, step = entry_data(entry), entry["text"], entry.get("step")
    step, who = step if isinstance(step, int) else None, author_name(entry)
    event = Event(entry["at"], entry["kind"], text, step, data=data, who=who)
    yield [_padded(column.name, column.cell(event, 0.0)) for column in _COLUMNS]
    for line in () if is_brief else style_diff(list(detail_lines(text, data))):
        yield f"{_INDENT}{line}"


def _padded(name: str, cell: Cell) -> str:
    width = _WIDTHS.get(name, 0)
    return style(f"{cell.text:>{width}}" if width > 0 else f"{cell.text:<{-width}}", cell.role)
