"""`runs show`: all that the index knows of one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from operator import itemgetter
from typing import Any

from rltui.base.text import visible
from rltui.cli.arguments import JSON, RUN
from rltui.cli.choosing import choose_run, ready_index
from rltui.cli.colour import style
from rltui.cli.command import Arguments, command
from rltui.cli.output import print_json
from rltui.cli.table import room, wrap
from rltui.core.runs.row import RunRow
from rltui.services.runs.index import current_rows
from rltui.views.run import config_value_text, run_details, run_summary

_LABEL_WIDTH = 11


@command(
    "runs show",
    RUN,
    JSON,
    examples=("runs show demo",),
)
def show(arguments: Arguments) -> int:
    index = ready_index()
    (row,) = current_rows([choose_run(index, arguments)])
    config = index.config(row.id) or {}
    if arguments.json:
        print_json(asdict(row) | {"config": config}, is_compact=True)
        return 0
    print("\n".join(_lines(row, config, index.names())))
    return 0


def _lines(row: RunRow, config: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[str]:
    star = "★ " if row.is_best else ""
    yield f"{style(f'{star}{row.name}', 'head')} · {run_summary(row)}"
    width = room()
    details = [(label, " · ".join(filter(None, texts))) for label, texts in run_details(row, names)]
    files = [("files", file.path) for file in row.configs]
    values = [("config", f"{key}={config_value_text(key, value)}") for key, value in sorted(config.items())]
    label_above = ""
    for label, text in filter(itemgetter(1), [*details, *files, *values]):
        lead = style(f"{'' if label == label_above else label:<{_LABEL_WIDTH}}", "faint")
        for piece in wrap(visible(text), None if width is None else width - _LABEL_WIDTH):
            yield f"{lead}{piece}"
            lead = " " * _LABEL_WIDTH
        label_above = label
