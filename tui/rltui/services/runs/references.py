"""How people refer to a run: by name, a prefix of the name, id, folder, `-1` (the newest), or `@best`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from rltui.base.text import closest, join_first, join_words
from rltui.core import hints
from rltui.core.runs.row import BEST, RunRow
from rltui.core.runs.state import FOLDER_GONE
from rltui.errors import RltuiError, UsageError
from rltui.services.experiment.files import NAME_PATTERN
from rltui.services.experiment.registry import find_experiment
from rltui.services.runs import catalog
from rltui.services.runs.index import RunIndex

_RANK = re.compile(r"-([1-9]\d{0,5})")
_MOST_NAMED = 8


def rank_of(reference: str) -> int | None:
    """1 for `-1`, the newest run, 2 for the one before; `None` for any other reference."""
    match = _RANK.fullmatch(reference)
    return int(match[1]) if match is not None else None


def find_run(index: RunIndex, reference: str) -> RunRow:
    """The run that `reference` means, by an index that is up to date.

    Of several runs with one name, it is the experiment that has the name now. The beginning of a name goes
    before that of an id, which nobody chose.

    Raises:
        UsageError: if there is none, with the nearest name, or several.
    """
    if (row := find_exactly(index, reference)) is not None:
        return row
    if matches := index.starting_with(reference):
        named = [row for row in matches if row.name.startswith(reference)]
        return _only(reference, _present(named or matches))
    names = list(dict.fromkeys(row.name for row in _newest_first(_present(index.rows()))))
    if not names:
        raise UsageError(f"run not found: {reference}", hint="no runs yet")
    if guess := closest(reference, names):
        raise UsageError(f"run not found: {reference}", hint=f"did you mean {guess}?")
    hint = f"available: {join_words(names)}" if len(names) <= _MOST_NAMED else f"list them: {hints.RUNS}"
    raise UsageError(f"run not found: {reference}", hint=hint)


def find_exactly(index: RunIndex, reference: str) -> RunRow | None:
    """As `find_run`, without prefixes; `None` if there is none.

    Raises:
        UsageError: if several runs have that name, or there are fewer runs than `-3` wants.
    """
    rows = index.named(reference)
    if not rows and NAME_PATTERN.fullmatch(reference) and find_experiment(reference) is not None:
        catalog.catch_up(index)
        rows = index.named(reference)
    if rows:
        return next((row for row in rows if row.id == reference), None) or _only(reference, _present(rows))
    rank = rank_of(reference)
    if rank is not None or reference == BEST:
        return _ranked(index.rows(), rank)
    return _in_folder(index, reference) if "/" in reference or reference in (".", "..") else None


def _in_folder(index: RunIndex, reference: str) -> RunRow | None:
    """The run whose folder holds the path; `None` if there is no such path, or no run."""
    path = Path(reference).expanduser()
    if not path.exists():
        return None
    for folder in dict.fromkeys((path.absolute(), path.resolve())):
        for parent in (folder, *folder.parents):
            if (row := index.in_folder(str(parent))) is not None:
                return row
    return None


def _ranked(rows: Iterable[RunRow], rank: int | None) -> RunRow:
    """The run of that rank by age, or the best one, among those that `rltui runs` lists."""
    listed = _newest_first(row for row in rows if _is_present(row) and row.archived_at is None)
    runs = [row for row in listed if row.kind == "run"]
    if rank is None:
        runs = sorted(
            (row for row in runs if row.reward is not None), key=lambda row: row.reward or 0.0, reverse=True
        )
    if len(runs) < (rank or 1):
        title = "no run has a reward yet" if rank is None else f"run not found: -{rank}"
        raise UsageError(title, hint=f"list the {len(listed)} runs: {hints.RUNS}" if listed else "")
    return runs[(rank or 1) - 1]


def _newest_first(rows: Iterable[RunRow]) -> list[RunRow]:
    return sorted(rows, key=lambda row: row.started_at or row.created_at, reverse=True)


def _is_present(row: RunRow) -> bool:
    return row.trashed_at is None and row.reason.code != FOLDER_GONE


def _present(rows: Sequence[RunRow]) -> list[RunRow]:
    """Runs whose folder is in its place; if there are none, all of them."""
    return [row for row in rows if _is_present(row)] or [*rows]


def _only(reference: str, rows: list[RunRow]) -> RunRow:
    """The only run of these; of several with one name, the experiment that has it now.

    Raises:
        UsageError: if there are several.
    """
    names = list(dict.fromkeys(row.name for row in _newest_first(rows)))
    if len(names) > 1:
        candidates = join_first(names, _MOST_NAMED, "or")
        raise UsageError(f"{reference} is ambiguous: {candidates}", hint="type more of the name")
    if len(rows) > 1:
        with suppress(RltuiError):  # a damaged one: it cannot tell
            if NAME_PATTERN.fullmatch(names[0]) and (record := find_experiment(names[0])) is not None:
                control = str(record.control.path)
                rows = [row for row in rows if row.control == control] or rows
    if len(rows) > 1:
        descriptions = [f"{row.id}  {row.state}  {row.folder}" for row in rows[:_MOST_NAMED]]
        raise UsageError(f"{len(rows)} runs are named {names[0]}", details=descriptions, hint="use an id")
    return rows[0]
