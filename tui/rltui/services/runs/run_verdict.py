"""The state of a run on this machine, by its components and its files."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from rltui.core.api import ComponentStatus, Down, FollowedLog
from rltui.core.layout import Layout
from rltui.core.run_state import Verdict, is_complete, is_expected, run_state
from rltui.frameworks.base import Framework
from rltui.services.runs.attempt_end import last_known
from rltui.services.runs.experiment_files import ExperimentRecord
from rltui.services.runs.intent import IntentFile
from rltui.services.runs.observed import holds_results, is_growing


class LastKnown(NamedTuple):
    """The state of a run as its files show it, without a supervisor."""

    components: tuple[ComponentStatus, ...]
    down: Down | None
    is_alive: bool
    verdict: Verdict


def read_last_known(
    record: ExperimentRecord,
    layout: Layout,
    framework: Framework,
    logs: Iterable[FollowedLog],
    *,
    step: int | None,
    max_steps: int | None,
) -> LastKnown:
    """Read the files of a run. `logs`: those of an observed run, which show whether it lives."""
    jobs = layout.run_jobs(framework.run_roles)
    components = tuple(
        last_known(record.control, spec, framework.failures, jobs) for spec in layout.automatic
    )
    down = IntentFile(record.control.intent_file).read().down
    alive = is_alive(record, components, logs)
    state = verdict(record, components, is_alive=alive, step=step, max_steps=max_steps, down=down)
    return LastKnown(components, down, alive, state)


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
    step: int | None,
    max_steps: int | None,
    down: Down | None,
) -> Verdict:
    """The state by the run itself. `components`, `down`: as in `run_state`."""
    is_over = is_complete(step, max_steps) or (record.observed and holds_results(Path(record.run_dir)))
    return run_state(
        components,
        is_complete=is_over,
        down=down,
        is_growing=is_alive if record.observed else None,
    )
