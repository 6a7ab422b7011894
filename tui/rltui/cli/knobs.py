"""`knobs`: every value that can be edited."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence

from rltui.cli.edits import offline_editor
from rltui.cli.output import print_json
from rltui.client import launch, offline
from rltui.core.config_report import KnobInfo, KnobTable
from rltui.core.toml_values import format_value
from rltui.services.experiment_files import ExperimentRecord

_WIDEST_VALUE = 28


def show_knobs(arguments: argparse.Namespace) -> int:
    """Print knobs by file and table."""
    table = _filtered(read_table(launch.choose(arguments.name)), arguments.pattern, others=arguments.all)
    if arguments.json:
        print_json(table)
        return 0
    _print_rows((*table.knobs, *table.others), verbose=arguments.verbose)
    if not table.knobs and not table.others:
        print("no knob has all these words" if arguments.pattern else "no knobs", file=sys.stderr)
    for problem in table.problems:
        print(f"{problem.severity}: {problem.text}", file=sys.stderr)
    return 0


def read_table(record: ExperimentRecord) -> KnobTable:
    """The knobs, with what runs where something does."""
    wire = launch.connect(record)
    if wire is None:
        return offline_editor(record, offline.open_store(record)).knob_table({})
    with wire:
        return KnobTable.model_validate(wire.call("knobs"))


def _filtered(table: KnobTable, words: Sequence[str], *, others: bool) -> KnobTable:
    return table.model_copy(
        update={
            "knobs": tuple(row for row in table.knobs if _has(row, words)),
            "others": tuple(row for row in table.others if others and _has(row, words)),
        }
    )


def _has(row: KnobInfo, words: Sequence[str]) -> bool:
    text = f"{row.key} {row.help} {' '.join(row.readers)}".lower()
    return all(word.lower() in text for word in words)


def _print_rows(rows: Iterable[KnobInfo], *, verbose: bool) -> None:
    rows = sorted(rows, key=lambda row: (row.file, _table(row)))
    width = max((len(row.key) for row in rows), default=0)
    place: tuple[str, str] | None = None
    for row in rows:
        if place != (row.file, _table(row)):
            place = (row.file, _table(row))
            print(f"{os.path.relpath(row.file)}  [{place[1]}]" if place[1] else os.path.relpath(row.file))
        print(f"  {row.key:<{width}}  {_value(row):<{_WIDEST_VALUE}}  {_notes(row)}".rstrip())
        if verbose and row.help:
            print(f"  {'':<{width}}  {row.help}")


def _table(row: KnobInfo) -> str:
    return row.key.rpartition(".")[0]


def _value(row: KnobInfo) -> str:
    value = value_text(row.value)
    return f"{value_text(row.running)} → {value}" if row.changed else value


def value_text(value: object) -> str:
    """A value as TOML; `—` where there is none."""
    return "—" if value is None else format_value(value)


def _notes(row: KnobInfo) -> str:
    low, high = row.bounds
    bounds = f"{'' if low is None else f'{low:g}'} … {'' if high is None else f'{high:g}'}".strip()
    notes = (
        row.unit,
        "" if row.is_set else "default",
        f"default {value_text(row.default)}" if row.is_set and row.default is not None else "",
        bounds if (low, high) != (None, None) else "",
        "|".join(row.choices),
        " ".join(row.readers),
    )
    return " · ".join(note for note in notes if note)
