"""`ls`: the experiments that rltui knows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rltui.cli.arguments import JSON
from rltui.cli.colour import style_line
from rltui.cli.command import Arguments, command
from rltui.cli.output import print_json
from rltui.cli.status_text import document, rows_of
from rltui.cli.table import room, table_lines, view_cells, view_shapes
from rltui.core import hints
from rltui.services.runs.experiments import listed_experiments
from rltui.views.experiment import VIEW

_COLUMNS = VIEW.named(("name", "state", "step", "reward", "age", "framework", "output folder"))


@command(
    "ls",
    JSON,
)
def list_experiments(arguments: Arguments) -> int:
    """Every experiment that rltui knows, newest first; what is wrong with some stands below."""
    rows = rows_of(listed_experiments())
    if arguments.json:
        print_json([*map(document, rows)])
        return 0
    if not rows:
        print(f"no experiments yet; start one: {hints.UP}, or {hints.DEMO}")
        return 0
    print("\n".join(list_lines(rows, width=room())))
    for row in rows:
        if problem := row.get("problem"):
            print(style_line(f"⚠ {row['experiment']}: {problem['title']}"))
            if problem["hint"]:
                print(style_line(f"  → {problem['hint']}"))
    if (running_count := sum(row["state"] == "running" for row in rows)) > 1:
        print(f"{running_count} are running; end all of them: {hints.DOWN_ALL}")
    return 0


def list_lines(rows: Sequence[Mapping[str, Any]], *, width: int | None = None) -> list[str]:
    now = time.time()
    return table_lines(view_shapes(_COLUMNS), view_cells(_COLUMNS, rows, now), width=width)
