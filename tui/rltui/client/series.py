"""The metrics of an experiment, up to now."""

from __future__ import annotations

import sys

from rltui.services.experiment.files import ExperimentRecord
from rltui.services.metrics.store import SeriesReader, lock_of
from rltui.services.own_files import FileLock


def current_series(record: ExperimentRecord) -> SeriesReader:
    """The series of a run; where nobody records them, they are read from its files first."""
    control = record.control
    lock = FileLock(lock_of(control.series))
    if lock.acquire():
        lock.release()
        from rltui.services.metrics.sources import update_series_store  # knows the frameworks

        if problem := update_series_store(record):
            print(f"cannot store the newest metrics, so they are not shown: {problem}", file=sys.stderr)
    return SeriesReader(control.series)
