"""`knobs`, `diff`: what the config files say, beside what runs.

Imports little: what a supervisor says is printed as it comes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltui.cli.choosing import choose_experiment
from rltui.cli.colour import diff as paint_diff
from rltui.cli.colour import paint, signed
from rltui.cli.status_text import read_status
from rltui.cli.table import Column, Row, print_table
from rltui.client import launch
from rltui.core import hints
from rltui.core.knobs import IN_TEXT, pattern, rank
from rltui.core.states import ALIVE_STATES
from rltui.core.toml.values import format_value
from rltui.errors import UsageError
from rltui.services.config.origins import origin
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.wording import range_text

if TYPE_CHECKING:
    from rltui.core.config_report import ConfigDiff


_Row = dict[str, Any]
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
    table = _of_files(files, arguments) if files else _read_table(choose_experiment(arguments.name))
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


def _read_table(record: ExperimentRecord) -> dict[str, Any]:
    """The `KnobTable` as JSON has it, with what runs where something does."""
    wire = launch.connect(record)
    if wire is not None:
        with wire:
            return wire.call("knobs")
    from rltui.client import offline

    table = offline.offline_editor(record, offline.open_store(record)).knob_table({})
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


def _found(rows: Iterable[_Row], words: Sequence[str]) -> list[_Row]:
    """Those with all words, the likeliest first."""
    ranked = [(found, row) for row in rows if (found := _rank(row, words)) is not None]
    return [row for _, row in sorted(ranked, key=lambda pair: pair[0])]


def _rank(row: _Row, words: Sequence[str]) -> int | None:
    return rank(words, row["key"], row["help"], *row["readers"])


def _print_rows(rows: Sequence[_Row], words: Sequence[str], *, verbose: bool) -> None:
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


def _table(row: _Row) -> str:
    return str(row["key"]).rpartition(".")[0]


def _changed(row: _Row) -> bool:
    return bool(row["is_running"] and row["running"] != row["value"] and not row.get("overridden"))


def _cells(row: _Row, *, verbose: bool) -> tuple[str, ...]:
    """A row of `_COLUMNS`; of many choices the first few, unless `verbose`."""
    value = _toml_text(row["value"])
    if _changed(row):
        value = paint(f"{_toml_text(row['running'])} → {value}", "busy")
    elif not row["is_set"]:
        value = paint("not set" if row["value"] is None else f"{value} (default)", "faint")
    if row.get("overridden"):
        value += f" (runs with {_toml_text(row['running'])})"
    default = "" if row["default"] is None else _toml_text(row["default"])
    choices = row["choices"] if verbose else row["choices"][:_MOST_CHOICES]
    others = len(row["choices"]) - len(choices)
    allowed = range_text(row["bounds"]) or "|".join([*choices, *([f"… {others} more: -v"] if others else [])])
    return row["key"], value, row["unit"], default, allowed, " ".join(row["readers"])


def _toml_text(value: object) -> str:
    """A value as TOML; `—` where there is none."""
    return "—" if value is None else format_value(value)


_MOST_CHOICES = 3
"""Optimizers of transformers are 43."""
_ORIGINAL = "original"
"""In place of an attempt: what the experiment's own copy of the config was made from."""


def diff(arguments: argparse.Namespace) -> int:
    words = arguments.attempt
    if (
        len(words) == 2
        and arguments.name is None
        and not any("#" in word or word == _ORIGINAL for word in words)
    ):
        from rltui.cli.commands.compare import diff_of_runs  # knows all runs

        if (runs := diff_of_runs(words)) is not None:
            _print_found(runs, arguments)
            return 0
    record = choose_experiment(arguments.name)
    if not words and not arguments.json and not arguments.text:
        rows = _rows(record)
        if not any(row["is_running"] for row in rows):
            _alive(record)
        changes = [(row, row["running"], row["value"]) for row in rows if _is_told(row)]
        _print_keys("running", "files", changes)
        if any(origin(Path(name)) is not None for name in record.config_files):
            _print_diff(_of_attempts(record, [_ORIGINAL]))
        return 0
    _print_found(_of_attempts(record, words) if words else _of_what_runs(record), arguments)
    return 0


def _print_found(found: ConfigDiff, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print(found.model_dump_json())
    elif arguments.text:
        print("\n".join(paint_diff(found.text.splitlines())), end="\n" if found.text else "")
    else:
        _print_diff(found)


def _print_diff(found: ConfigDiff) -> None:
    keys = [(each.model_dump(), each.before, each.after) for each in found.keys]
    _print_keys(found.before, found.after, keys)


def _alive(record: ExperimentRecord) -> list[str]:
    """Components that run; says so where there are none."""
    alive = [each["id"] for each in read_status(record)["components"] if each["state"] in ALIVE_STATES]
    if not alive:
        print(f"nothing runs; beside what was started last: {hints.DIFF}", file=sys.stderr)
    return alive


def _rows(record: ExperimentRecord) -> list[_Row]:
    table = _read_table(record)
    return [*table["knobs"], *table["others"]]


def _is_told(row: _Row) -> bool:
    """Keys as their readers see them: one that a living component does not read is not told."""
    return _changed(row) or bool(row.get("overridden"))


def _of_attempts(record: ExperimentRecord, names: list[str]) -> ConfigDiff:
    if len(names) > 2:
        raise UsageError("diff compares two attempts", hint=str(hints.DIFF_TWO))
    from rltui.client import offline
    from rltui.services.config.diff import config_diff, of_attempt, of_origin
    from rltui.services.runs.observed import framework_of

    control, framework = ControlFolder(Path(record.output_dir)), framework_of(record)
    files = offline.open_store(record).load_sources()
    sides = [
        of_origin(files) if name == _ORIGINAL else of_attempt(name, control, framework) for name in names
    ]
    after, name = (sides[1], names[1]) if len(names) == 2 else (files, "files")
    return config_diff(sides[0], after, (names[0], name))


def _of_what_runs(record: ExperimentRecord) -> ConfigDiff:
    from rltui.client import offline
    from rltui.core.config_report import ConfigDiff, KeyDifference
    from rltui.services.config.diff import config_diff, of_attempt
    from rltui.services.runs.observed import framework_of

    keys = tuple(
        KeyDifference(
            key=row["key"],
            file=row["file"],
            before=row["running"],
            after=row["value"],
            readers=tuple(row["readers"]),
            overridden=bool(row.get("overridden")),
        )
        for row in _rows(record)
        if _is_told(row)
    )
    control, framework = ControlFolder(Path(record.output_dir)), framework_of(record)
    files = offline.open_store(record).load_sources()
    texts = {
        config_diff(of_attempt(name, control, framework), files, ("running", "files")).text
        for name in _alive(record)
    }
    return ConfigDiff(before="running", after="files", keys=keys, text="".join(sorted(texts)))


def _print_keys(before: str, after: str, found: Sequence[tuple[dict[str, Any], object, object]]) -> None:
    """`found`: key and readers, the value before and after."""
    if not found:
        print(f"no key differs between {before} and {after}")
        return
    print(f"{before} → {after}")
    rows = []
    for each, old, new in found:
        readers = f"({' '.join(each['readers'])})" if each["readers"] else ""
        note = "passed by rltui in place of the file's" if each.get("overridden") else ""
        change = f"{paint(_toml_text(old), 'removed')} → {paint(_toml_text(new), 'added')}"
        rows.append((each["key"], change, f"{readers}  {note}".strip()))
    columns = (Column(least=24, cut="start"), Column(least=20), Column(least=10, goes=1))
    print_table(columns, rows, indent="  ")
