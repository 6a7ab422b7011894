"""`knobs`: what the config files say, beside what runs.

Imports little: what a supervisor says is printed as it comes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rltui.cli.choosing import choose_experiment
from rltui.cli.colour import paint, signed
from rltui.cli.table import Column, Row, print_table
from rltui.client import launch
from rltui.core.knobs import IN_TEXT, pattern, rank
from rltui.core.toml.values import format_value
from rltui.errors import UsageError
from rltui.services.runs.experiment_files import ExperimentRecord
from rltui.views.knob import range_text

KnobRow = dict[str, Any]
"""`KnobInfo`, as JSON has it."""
_COLUMNS = (
    Column("KEY", least=24, cut="start"),
    Column("VALUE", least=12),
    Column("UNIT", least=6, goes=4),
    Column("DEFAULT", least=8, goes=2),
    Column("ALLOWED", least=10, goes=3),
    Column("READ BY", least=10, goes=1),
)


def show_knobs(arguments: argparse.Namespace) -> int:
    files = [word for word in arguments.pattern if word.endswith(".toml") or "/" in word]
    words = [word for word in arguments.pattern if word not in files]
    table = _of_files(files, arguments) if files else read_table(choose_experiment(arguments.name))
    table["knobs"] = _found(table["knobs"], words)
    table["others"] = _found(table["others"], words) if arguments.all else []
    if arguments.json:
        print(json.dumps(table, ensure_ascii=False))
        return 0
    _print_rows((*table["knobs"], *table["others"]), words, verbose=arguments.verbose)
    if not table["knobs"] and not table["others"]:
        print("no knob has all these words" if words else "no knobs", file=sys.stderr)
    if table["problems"]:
        from rltui.core.config_report import Problem  # pydantic takes 60 ms

        for problem in map(Problem.model_validate, table["problems"]):
            print(signed(f"{problem.severity}: {problem.text}"), file=sys.stderr)
    return 0


def read_table(record: ExperimentRecord) -> dict[str, Any]:
    """The `KnobTable` as JSON has it, with what runs where something does."""
    wire = launch.connect(record)
    if wire is not None:
        with wire:
            return wire.call("knobs")
    from rltui.client.reader import ExperimentReader

    table = ExperimentReader(record).editor().knob_table({})
    return table.model_dump(mode="json")


def _of_files(names: Sequence[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """Of a config that need never have run: what its files say, and the defaults."""
    from rltui.cli.config import chosen_framework
    from rltui.client import checking
    from rltui.services.config.files import named

    if arguments.name is not None:
        raise UsageError("files and -n NAME are two things", hint="give one of them")
    files = named([Path(name) for name in names])
    framework = chosen_framework(files, arguments.layout, arguments.framework)
    return checking.knobs(files, arguments.layout, framework).model_dump(mode="json")


def _found(rows: Iterable[KnobRow], words: Sequence[str]) -> list[KnobRow]:
    """Those with all words, the likeliest first."""
    ranked = [(found, row) for row in rows if (found := _rank(row, words)) is not None]
    return [row for _, row in sorted(ranked, key=lambda pair: pair[0])]


def _rank(row: KnobRow, words: Sequence[str]) -> int | None:
    return rank(words, row["key"], row["help"], *row["readers"])


def _print_rows(rows: Sequence[KnobRow], words: Sequence[str], *, verbose: bool) -> None:
    """What only the meaning of a knob holds is shown with it, in [brackets]."""
    ranks = {row["key"]: _rank(row, words) or 0 for row in rows}
    rows = sorted(rows, key=lambda row: (ranks[row["key"]], row["file"], _table(row)))
    place: tuple[str, str] | None = None
    lines: list[Row] = []
    for row in rows:
        if place != (row["file"], _table(row)):
            place = (row["file"], _table(row))
            file = os.path.relpath(row["file"])
            lines.append(paint(f"{file}  [{place[1]}]" if place[1] else file, "key"))
        lines.append(_cells(row, verbose=verbose))
        if row["help"] and (verbose or ranks[row["key"]] >= IN_TEXT):
            meaning = pattern(words).sub(r"[\g<0>]", row["help"])
            lines.append(paint(f"      {meaning}", "faint"))
    print_table(_COLUMNS, lines, indent="  ")


def _table(row: KnobRow) -> str:
    return str(row["key"]).rpartition(".")[0]


def is_changed(row: KnobRow) -> bool:
    return bool(row["is_running"] and row["running"] != row["value"] and not row.get("overridden"))


def _cells(row: KnobRow, *, verbose: bool) -> tuple[str, ...]:
    """A row of `_COLUMNS`; of many choices the first few, unless `verbose`."""
    value = toml_text(row["value"])
    if is_changed(row):
        value = paint(f"{toml_text(row['running'])} → {value}", "busy")
    elif not row["is_set"]:
        value = paint("not set" if row["value"] is None else f"{value} (default)", "faint")
    if row.get("overridden"):
        value += f" (runs with {toml_text(row['running'])})"
    default = "" if row["default"] is None else toml_text(row["default"])
    choices = row["choices"] if verbose else row["choices"][:_MOST_CHOICES]
    others = len(row["choices"]) - len(choices)
    allowed = range_text(row["bounds"]) or "|".join([*choices, *([f"… {others} more: -v"] if others else [])])
    return row["key"], value, row["unit"], default, allowed, " ".join(row["readers"])


def toml_text(value: object) -> str:
    """A value as TOML; `—` where there is none."""
    return "—" if value is None else format_value(value)


_MOST_CHOICES = 3
"""Optimizers of transformers are 43."""
