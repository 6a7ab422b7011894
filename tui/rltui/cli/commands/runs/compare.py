"""`runs compare`: in which config keys runs differ, and what came of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rltui.base.shorten import rounded
from rltui.base.text import truncate
from rltui.cli.arguments import JSON
from rltui.cli.choosing import ready_index
from rltui.cli.command import Arguments, argument, choice, command, exclusive, flag, repeatable
from rltui.cli.output import print_csv, print_json, print_outcome
from rltui.cli.table import plain_lines, room, width_of
from rltui.core import hints
from rltui.core.config.data import short_names
from rltui.errors import UsageError
from rltui.services.runs.references import find_run

if TYPE_CHECKING:
    from rltui.core.runs.compare import Comparison
    from rltui.core.runs.scores import ScoreVerdict
    from rltui.views.comparison import ComparedRow

_WIDEST_CELL = 32
"""A longer value is cut in the table; --json, --csv and --md have it whole."""


@dataclass(frozen=True, slots=True)
class ComparedRunDocument:
    """Entry of `runs` in `rltui runs compare --json`."""

    id: str
    name: str
    folder: str
    state: str
    step: int | None
    max_steps: int | None
    seconds: float
    gpu_seconds: float
    config: dict[str, Any]
    """Dotted key → value: the keys in which the runs differ, or all with --all-keys; null where it has none.
    Secrets are masked."""
    metrics: dict[str, dict[str, Any]]
    """Id of a concept, or name of a series → `last`, `best`, `common` (its value at `common_step`), `level`
    and `common_level` (both over ten steps), `common_mean` (over the last quarter to `common_step`).
    """


@command(
    "runs compare",
    argument("run", "RUN", "two or more runs", nargs="+", completes="runs"),
    argument(
        "--with",
        "RUN",
        "judge these runs against those before it, over their seeds: better, worse, or chance",
        dest="others",
        nargs="+",
        default=[],
        completes="runs",
    ),
    choice("--on", ("eval", "reward"), "what --with compares (default: eval if all have one)", default=None),
    repeatable("--metric", "METRIC", "a metric, such as reward or loss; repeatable", completes="metrics"),
    flag("--all-keys", "include keys that are equal"),
    exclusive(
        flag("--csv", "CSV, all values in full"),
        flag("--md", "a Markdown table"),
        JSON,
    ),
    examples=(
        "runs compare demo low-lr",
        "runs compare demo low-lr --metric reward --md",
        "runs compare a-0 a-1 a-2 --with b-0 b-1 b-2 --json",
    ),
)
def compare(arguments: Arguments) -> int:
    from rltui.client.local_runs import LocalRuns
    from rltui.core.runs.verdict import verdict_of
    from rltui.views.comparison import compared_rows, markdown_table, remark_text

    index = ready_index()
    ids = list(dict.fromkeys(find_run(index, name).id for name in arguments.run))
    others = list(dict.fromkeys(find_run(index, name).id for name in arguments.others))
    if shared := [name for name in arguments.others if find_run(index, name).id in ids]:
        raise UsageError(f"{shared[0]} is on both sides of --with")
    if len(ids) + len(others) < 2:
        raise UsageError("compare needs two or more runs", hint=f"{hints.RUNS} lists them")
    if others and (arguments.csv or arguments.md or arguments.all_keys):
        raise UsageError("--with prints a verdict, no table")
    if arguments.on and not others:
        raise UsageError("--on needs --with")
    comparison = LocalRuns(index).compare([*ids, *others], arguments.metric)
    if others:
        return _print_verdict(verdict_of(comparison, len(ids), arguments.on), arguments)
    if arguments.json:
        print_json(_document(comparison, all_keys=arguments.all_keys))
    elif arguments.csv:
        _print_csv(comparison, all_keys=arguments.all_keys)
    elif arguments.md:
        print(markdown_table(comparison, all_keys=arguments.all_keys), end="")
    else:
        rows = compared_rows(comparison, all_keys=arguments.all_keys)
        print("\n".join(_table(rows, [run.name for run in comparison.runs], room() or sys.maxsize)))
        if not comparison.differing:
            print("no config key differs", file=sys.stderr)
        if remark := remark_text(comparison):
            print(remark, file=sys.stderr)
    return 0


def _print_verdict(verdict: ScoreVerdict, arguments: Arguments) -> int:
    """The verdict on the runs after --with, against those before."""
    from rltui.views.comparison import verdict_text

    print_outcome(rounded(verdict.to_plain()), f"{verdict_text(verdict)}\n", as_json=arguments.json)
    return 0


# --- for people -------------------------------------------------------------------------------------------


def _table(rows: Sequence[ComparedRow], names: Sequence[str], width: int) -> list[str]:
    """A column for each run where they fit; else a row for each, where that fits; else columns, some runs at
    a time.
    """
    upright = _upright(rows, names)
    if _width(upright) <= width:
        return upright
    short = short_names(tuple(row.label for row in rows if row.part == "config"))
    labels = [short.get(row.label, row.label) for row in rows]
    cells = [_cells(row) for row in rows]
    lines = [[name, *column] for name, *column in zip(names, *cells, strict=True)]
    across = plain_lines([["", *labels], *lines])
    if _width(across) <= width:
        return across
    return [*_in_parts(rows, names, width)]


def _width(lines: Sequence[str]) -> int:
    return max(map(width_of, lines), default=0)


def _upright(
    rows: Sequence[ComparedRow], names: Sequence[str], start: int = 0, end: int | None = None
) -> list[str]:
    """A row for each key and figure, an empty line between the parts."""
    table = [["", *names[start:end]]]
    table += [[row.label, *_cells(row)[start:end]] for row in rows]
    head, *lines = plain_lines(table)
    blocks = [head]
    for row_above, row, line in zip((None, *rows), rows, lines, strict=False):
        if row_above is not None and row_above.part != row.part:
            blocks.append("")
        blocks.append(line)
    return blocks


def _in_parts(rows: Sequence[ComparedRow], names: Sequence[str], width: int) -> Iterator[str]:
    start = 0
    while start < len(names):
        end = start + 1
        while end < len(names) and _width(_upright(rows, names, start, end + 1)) <= width:
            end += 1
        if start:
            yield ""
        yield from _upright(rows, names, start, end)
        start = end


def _cells(row: ComparedRow) -> list[str]:
    from rltui.views.comparison import BEST

    return [
        f"{truncate(cell, _WIDEST_CELL)}{BEST if index in row.best else ''}"
        for index, cell in enumerate(row.cells)
    ]


# --- for programs and reports -----------------------------------------------------------------------------


def _document(comparison: Comparison, *, all_keys: bool) -> dict[str, Any]:
    """`{"runs": [ComparedRunDocument], "metrics": [{"id", "unit", "better", "common_step"}], "evaluations":
    [{"env", "of": [{"id", "label", "mean", "stderr"}], "differences": [Difference.document]}], "remark"}`.
    """
    from rltui.views.comparison import remark_text

    keys = comparison.keys if all_keys else comparison.differing
    runs = [
        ComparedRunDocument(
            id=run.id,
            name=run.name,
            folder=run.folder,
            state=run.state,
            step=run.step,
            max_steps=run.max_steps,
            seconds=run.seconds,
            gpu_seconds=run.gpu_seconds,
            config={entry.key: entry.values[index] for entry in keys},
            metrics={entry.id: asdict(entry.summaries[index]) for entry in comparison.metrics},
        )
        for index, run in enumerate(comparison.runs)
    ]
    metrics = [
        {"id": entry.id, "unit": entry.unit, "better": entry.better, "common_step": entry.common_step}
        for entry in comparison.metrics
    ]
    evals = [
        {
            "env": entry.env,
            "of": [
                evaluation and evaluation.part("id", "label", "step", "num_examples", "mean", "stderr")
                for evaluation in entry.evaluations
            ],
            "differences": [gap and gap.document() for gap in entry.differences],
        }
        for entry in comparison.evaluations
    ]
    return {
        "runs": [asdict(run) for run in runs],
        "metrics": metrics,
        "evaluations": evals,
        "remark": remark_text(comparison),
    }


def _print_csv(comparison: Comparison, *, all_keys: bool) -> None:
    document = _document(comparison, all_keys=all_keys)
    fields = ("id", "name", "folder", "state", "step", "max_steps", "seconds", "gpu_seconds")
    keys = list(document["runs"][0]["config"])
    value_columns = [
        (entry.id, field) for entry in comparison.metrics for field in ("last", "best", "common")
    ]
    levels = [
        (entry.id, field, statistic)
        for entry in comparison.metrics
        for field in ("level", "common_level")
        for statistic in ("mean", "std")
    ]
    heading = [
        *fields,
        *keys,
        *(f"{id_}.{field}" for id_, field in value_columns),
        *(f"{id_}.{field}.{statistic}" for id_, field, statistic in levels),
    ]
    rows = []
    for run in document["runs"]:
        values = (run["config"][key] for key in keys)
        rows.append(
            [
                *(run[field] for field in fields),
                *(
                    json.dumps(value, default=str) if isinstance(value, list | dict) else value
                    for value in values
                ),
                *(run["metrics"][id_][field] for id_, field in value_columns),
                *((run["metrics"][id_][field] or {}).get(statistic) for id_, field, statistic in levels),
            ]
        )
    print_csv(heading, rows)
