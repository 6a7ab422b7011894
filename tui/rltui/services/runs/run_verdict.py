"""The state of a run on this machine, by its components and its files."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from rltui.core.api import ComponentStatus, Down, FollowedLog
from rltui.core.run_state import Verdict, is_expected, run_state
from rltui.services.runs.experiment_files import ExperimentRecord
from rltui.services.runs.observed import holds_results, is_growing


def is_alive(
    record: ExperimentRecord, components: Sequence[ComponentStatus], logs: Iterable[FollowedLog]
) -> bool:
    """True if something of it lives, or will without a request; of an observed run: if its logs grow."""
    if not record.observed:
        return is_expected(components)
    return not holds_results(Path(record.run_dir)) and is_growing(logs, time.time())


def verdict(
    record: ExperimentRecord,
    components: Sequence[ComponentStatus],
    *,
    is_alive: bool,
    is_complete: bool,
    down: Down | None,
) -> Verdict:
    """The state by the run itself. `components`, `is_complete`, `down`: as in `run_state`."""
    return run_state(
        components,
        is_complete=is_complete or (record.observed and holds_results(Path(record.run_dir))),
        down=down,
        is_growing=is_alive if record.observed else None,
    )
