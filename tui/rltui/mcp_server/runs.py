"""Runs as the arguments of tools name them."""

from __future__ import annotations

from rltui.base.text import join_words
from rltui.client import launch
from rltui.client.local_runs import LocalRuns
from rltui.core.runs.row import RunRow
from rltui.errors import UsageError
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.registry import known_experiments
from rltui.services.runs import catalog
from rltui.services.runs.index import RunIndex
from rltui.services.runs.references import find_run


def _index() -> RunIndex:
    """The index, up to date. Each call has its own: calls come from several threads at once."""
    index = RunIndex()
    catalog.catch_up(index)
    return index


def all_runs() -> LocalRuns:
    return LocalRuns(_index())


def row_of(reference: str) -> RunRow:
    """The run that is named, or the only one that is alive.

    Raises:
        UsageError: if there is none, or the choice is not clear.
    """
    if not reference:
        living = launch.running_experiments(known_experiments())
        if len(living) != 1:
            names = join_words([record.name for record in living])
            raise UsageError(
                "several runs are alive" if living else "no run is alive", hint=f"name one: {names}"
            )
        reference = living[0].output_dir
    return find_run(_index(), reference)


def record_of(reference: str) -> ExperimentRecord:
    return catalog.record_of(row_of(reference))
