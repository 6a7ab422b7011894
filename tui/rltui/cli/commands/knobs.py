"""`knobs`: what the config files say, beside what runs.

Imports little: what a supervisor says is printed as it comes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rltui.cli.arguments import FRAMEWORK, RUN, layout_option, listing
from rltui.cli.choosing import choose_framework, separate_words, show_runs
from rltui.cli.colour import style, style_line
from rltui.cli.command import Arguments, argument, command, flag
from rltui.cli.output import print_rows
from rltui.cli.table import Row, print_table, view_cells, view_shapes
from rltui.client import launch
from rltui.core.config.knobs import IN_TEXT, pattern, rank
from rltui.errors import UsageError
from rltui.services.experiment.files import ExperimentRecord
from rltui.views.knob import VIEW, KnobRow

_COLUMNS = ("key", "value", "unit", "default", "allowed", "read by")


@command(
    "knobs",
    RUN,
    argument(
        "pattern",
        "WORD",
        "only knobs with all these words; rl.toml: the knobs of a file",
        nargs="*",
        completes="knobs",
    ),
    layout_option("with files: layout name or file"),
    FRAMEWORK,
    flag("--all", "include keys of the files that are not knobs"),
    flag("-v --verbose", "also show descriptions"),
    *listing("only the first knobs"),
    examples=(
        "knobs demo",
        "knobs demo lr batch -v",
        "knobs rl.toml",
    ),
)
def show_knobs(arguments: Arguments) -> int:
    separate_words(arguments, "pattern")
    files = [term for term in arguments.pattern if term.endswith(".toml") or "/" in term]
    terms = [term for term in arguments.pattern if term not in files]
    if files:
        return _show_table(_of_files(files, arguments), terms, arguments)
    return show_runs(arguments, lambda target: _show_table(read_table(target.record), terms, arguments))


def _show_table(table: dict[str, Any], terms: Sequence[str], arguments: Arguments) -> int:
    table["knobs"] = _matching(table["knobs"], terms)
    table["others"] = _matching(table["others"], terms) if arguments.all else []
    if arguments.json:
        knobs, others = table.pop("knobs"), table.pop("others")
        print_rows(arguments, "knobs", knobs, head=table, more={"others": others})
        return 0
    _print_rows((*table["knobs"], *table["others"]), terms, verbose=arguments.verbose)
    if not table["knobs"] and not table["others"]:
        print("no knob has all these words" if terms else "no knobs", file=sys.stderr)
    if table["problems"]:
        from rltui.core.config.report import Problem  # msgspec takes 20 ms

        for problem in map(Problem.from_plain, table["problems"]):
            print(style_line(f"{problem.severity}: {problem.text}"), file=sys.stderr)
    return 0


def read_table(record: ExperimentRecord) -> dict[str, Any]:
    """The `KnobTable` as JSON has it, with what runs where something does."""
    with launch.connected(record) as wire:
        if wire is not None:
            return wire.call("knobs")
    from rltui.client.reader import ExperimentReader

    table = ExperimentReader(record).document_to_edit().knob_table({})
    return table.to_plain()


def _of_files(names: Sequence[str], arguments: Arguments) -> dict[str, Any]:
    """Knobs of a config that need never have run: what its files say, and the defaults."""
    from rltui.client import checking
    from rltui.services.config.files import named

    if arguments.run is not None:
        raise UsageError("RUN and files cannot be combined", hint="leave one of them out")
    files = named([Path(name) for name in names])
    framework = choose_framework(files, arguments.layout, arguments.framework)
    return checking.knobs(files, arguments.layout, framework).to_plain()


def _matching(rows: Iterable[KnobRow], terms: Sequence[str]) -> list[KnobRow]:
    """Rows with all words, the likeliest first."""
    ranked_rows = [(position, row) for row in rows if (position := _rank(row, terms)) is not None]
    return [row for _, row in sorted(ranked_rows, key=lambda pair: pair[0])]


def _rank(row: KnobRow, terms: Sequence[str]) -> int | None:
    return rank(terms, row["key"], row["help"], *row["readers"])


def _print_rows(rows: Sequence[KnobRow], terms: Sequence[str], *, verbose: bool) -> None:
    """Print the rows; a meaning is shown where only it holds a word, which stands in [brackets]."""
    ranks = {row["key"]: _rank(row, terms) or 0 for row in rows}
    rows = sorted(rows, key=lambda row: (ranks[row["key"]], row["file"], _table(row)))
    heading: tuple[str, str] | None = None
    lines: list[Row] = []
    columns = VIEW.named(_COLUMNS, is_brief=not verbose)
    for row in rows:
        if heading != (row["file"], _table(row)):
            heading = (row["file"], _table(row))
            file = os.path.relpath(row["file"])
            lines.append(style(f"{file}  [{heading[1]}]" if heading[1] else file, "key"))
        lines += view_cells(columns, [row], 0.0)
        if row["help"] and (verbose or ranks[row["key"]] >= IN_TEXT):
            help_text = pattern(terms).sub(r"[\g<0>]", row["help"])
            lines.append(style(f"      {help_text}", "faint"))
    print_table(view_shapes(columns), lines, indent="  ")


def _table(row: KnobRow) -> str:
    return str(row["key"]).rpartition(".")[0]
