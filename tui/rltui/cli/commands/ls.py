"""`ls`: the experiments that rltui knows."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any

from rltui.cli.arguments import JSON
from rltui.cli.colour import signed
from rltui.cli.command import command
from rltui.cli.status_text import document, rows_of, run_state, state_text, step_text
from rltui.cli.table import Column, Row, room, table_lines
from rltui.core import hints
from rltui.core.text import duration
from rltui.services.runs.experiments import listed_experiments

_LIST = (
    Column("NAME", least=12, cut="middle"),
    Column("STATE", least=9),
    Column("STEP", is_right=True, goes=1),
    Column("REWARD", is_right=True),
    Column("AGE", is_right=True),
    Column("FRAMEWORK", goes=3),
    Column("OUTPUT FOLDER", least=14, cut="start", goes=2),
)


@command(
    "ls",
    JSON,
)
def list_experiments(arguments: argparse.Namespace) -> int:
    """Every experiment that rltui knows, newest first; what is wrong with some stands below."""
    rows = rows_of(listed_experiments())
    if arguments.json:
        print(json.dumps([*map(document, rows)], ensure_ascii=False))
        return 0
    if not rows:
        print(f"no experiments yet; start one: {hints.UP}, or {hints.DEMO}")
        return 0
    print("\n".join(list_lines(rows, width=room())))
    for row in rows:
        if problem := row.get("problem"):
            print(signed(f"⚠ {row['experiment']}: {problem['title']}"))
            if problem["hint"]:
                print(signed(f"  → {problem['hint']}"))
    if (running := sum(row["state"] == "running" for row in rows)) > 1:
        print(f"{running} are running; end all of them: {hints.DOWN_ALL}")
    return 0


def list_lines(rows: Sequence[dict[str, Any]], *, width: int | None = None) -> list[str]:
    """A head, and a line per experiment."""
    now = time.time()
    return table_lines(_LIST, [_list_row(row, now) for row in rows], width=width)


def _list_row(row: dict[str, Any], now: float) -> Row:
    """One experiment in the columns of `_LIST`. Its age: since its newest attempt, or since it was made."""
    times = [row["created_at"], *(each["started_at"] for each in row["components"])]
    started = max((time_ for time_ in times if time_ is not None), default=None)
    folder = row.get("run_dir") if row.get("observed") else row["output_dir"]
    return (
        row["experiment"],
        run_state(state_text(row), row["state"]),
        step_text(row) if row["step"] else "",
        "" if row["reward"] is None else f"{row['reward']:.3f}",
        "" if started is None else duration(now - started),
        row["framework"] or "",
        folder or "",
    )
