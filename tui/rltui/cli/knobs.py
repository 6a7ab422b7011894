"""`knobs`: every value that can be edited. Imports little: what a supervisor says is printed as it comes."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rltui.client import launch
from rltui.core.knobs import IN_TEXT, pattern, rank
from rltui.core.toml.values import format_value
from rltui.errors import UsageError
from rltui.services.runs.experiment_files import ExperimentRecord

Row = dict[str, Any]
"""`KnobInfo`, as JSON has it."""
_WIDEST_VALUE = 28


def show_knobs(arguments: argparse.Namespace) -> int:
    """Print knobs by file and table."""
    files = [word for word in arguments.pattern if word.endswith(".toml") or "/" in word]
    words = [word for word in arguments.pattern if word not in files]
    table = _of_files(files, arguments) if files else read_table(launch.choose(arguments.name))
    table["knobs"] = _found(table["knobs"], words)
    table["others"] = _found(table["others"], words) if arguments.all else []
    if arguments.json:
        print(json.dumps(table, ensure_ascii=False))
        return 0
    _print_rows((*table["knobs"], *table["others"]), words, verbose=arguments.verbose)
    if not table["knobs"] and not table["others"]:
        print("no knob has all these words" if words else "no knobs", file=sys.stderr)
    if table["problems"]:
        _print_problems(table["problems"])
    return 0


def _print_problems(problems: Iterable[dict[str, Any]]) -> None:
    from rltui.core.config_report import Problem  # pydantic takes 60 ms

    for problem in map(Problem.model_validate, problems):
        print(f"{problem.severity}: {problem.text}", file=sys.stderr)


def read_table(record: ExperimentRecord) -> dict[str, Any]:
    """The `KnobTable` as JSON has it, with what runs where something does."""
    wire = launch.connect(record)
    if wire is not None:
        with wire:
            return wire.call("knobs")
    from rltui.cli.edits import offline_editor  # knows the frameworks
    from rltui.client import offline

    table = offline_editor(record, offline.open_store(record)).knob_table({})
    return table.model_dump(mode="json")


def _of_files(names: Sequence[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """Of a config that need never have run: what its files say, and the defaults."""
    from rltui.cli.choosing import chosen_framework
    from rltui.client import creation
    from rltui.services.config_files import named

    if arguments.name is not None:
        raise UsageError("files and -n NAME are two things", hint="give one of them")
    files = named([Path(name) for name in names])
    framework = chosen_framework(files, arguments.layout, arguments.framework)
    return creation.knobs(files, arguments.layout, framework).model_dump(mode="json")


def _found(rows: Iterable[Row], words: Sequence[str]) -> list[Row]:
    """Those with all words, the likeliest first."""
    ranked = [(found, row) for row in rows if (found := _rank(row, words)) is not None]
    return [row for _, row in sorted(ranked, key=lambda pair: pair[0])]


def _rank(row: Row, words: Sequence[str]) -> int | None:
    return rank(words, row["key"], row["help"], *row["readers"])


def _print_rows(rows: Sequence[Row], words: Sequence[str], *, verbose: bool) -> None:
    """What only the meaning of a knob holds is shown with it, in [brackets]."""
    ranks = {row["key"]: _rank(row, words) or 0 for row in rows}
    rows = sorted(rows, key=lambda row: (ranks[row["key"]], row["file"], _table(row)))
    width = max((len(row["key"]) for row in rows), default=0)
    place: tuple[str, str] | None = None
    for row in rows:
        if place != (row["file"], _table(row)):
            place = (row["file"], _table(row))
            print(
                f"{os.path.relpath(row['file'])}  [{place[1]}]" if place[1] else os.path.relpath(row["file"])
            )
        print(f"  {row['key']:<{width}}  {_value(row):<{_WIDEST_VALUE}}  {_notes(row)}".rstrip())
        if row["help"] and (verbose or ranks[row["key"]] >= IN_TEXT):
            meaning = pattern(words).sub(r"[\g<0>]", row["help"])
            print(f"  {'':<{width}}  {meaning}")


def _table(row: Row) -> str:
    return str(row["key"]).rpartition(".")[0]


def changed(row: Row) -> bool:
    """The file differs from what runs, and a restart would change that."""
    return bool(row["is_running"] and row["running"] != row["value"] and not row.get("overridden"))


def _value(row: Row) -> str:
    value = value_text(row["value"])
    return f"{value_text(row['running'])} → {value}" if changed(row) else value


def value_text(value: object) -> str:
    """A value as TOML; `—` where there is none."""
    return "—" if value is None else format_value(value)


def _notes(row: Row) -> str:
    low, high = row["bounds"]
    bounds = f"{'' if low is None else f'{low:g}'} … {'' if high is None else f'{high:g}'}".strip()
    notes = (
        row["unit"],
        "" if row["is_set"] else "default",
        f"default {value_text(row['default'])}" if row["is_set"] and row["default"] is not None else "",
        bounds if (low, high) != (None, None) else "",
        "|".join(row["choices"]),
        f"runs with {value_text(row['running'])}" if row.get("overridden") else "",
        " ".join(row["readers"]),
    )
    return " · ".join(note for note in notes if note)
