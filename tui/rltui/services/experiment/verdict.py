"""The state and the status of a run on this machine, by its components and its files."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from rltui.core.experiment.api import ComponentStatus, Down, FollowedLog, Link, Orphan, Progress, Status
from rltui.core.experiment.layout import Layout
from rltui.core.runs.state import Verdict, is_complete, is_expected, run_state
from rltui.frameworks.base import Framework
from rltui.services.experiment.attempt_end import last_known
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.intent import IntentFile
from rltui.services.runs.observed import holds_results, is_growing, title_of
from rltui.services.runs.queue_states import beside_queue


class LastKnown(NamedTuple):
    """The state of a run as its files show it, without a supervisor."""

    components: tuple[ComponentStatus, ...]
    down: Down | None
    is_alive: bool


def read_last_known(
    record: ExperimentRecord,
    layout: Layout,
    framework: Framework,
    logs: Iterable[FollowedLog],
) -> LastKnown:
    """Read the files of a run. `logs`: those of an observed run, which show whether it lives."""
    jobs = layout.run_jobs(framework.run_roles)
    components = tuple(
        last_known(record.control, spec, framework.failures, jobs) for spec in layout.automatic
    )
    down = IntentFile(record.control.intent_file).read().down
    return LastKnown(components, down, is_alive(record, components, logs))


def status_of(
    record: ExperimentRecord,
    layout: Layout,
    framework: Framework,
    *,
    components: tuple[ComponentStatus, ...],
    is_alive: bool,
    down: Down | None,
    progress: Progress,
    logs: tuple[FollowedLog, ...],
    orphans: tuple[Orphan, ...],
    links: tuple[Link, ...],
) -> Status:
    """The status, without what only a supervisor knows, or the queue."""
    step, max_steps = progress.step, progress.max_steps
    state, reason = verdict(record, components, is_alive=is_alive, step=step, max_steps=max_steps, down=down)
    return Status(
        experiment=record.name,
        state=state,
        reason=reason,
        alive=is_alive,
        framework=framework.id,
        output_dir=record.output_dir,
        run_dir=record.run_dir,
        observed=record.observed,
        step=step,
        max_steps=max_steps,
        reward=progress.reward,
        components=components,
        title=title_of(record, layout, framework),
        config_files=record.config_files,
        workspace=record.workspace,
        progress=progress,
        logs=logs,
        orphans=orphans,
        links=links,
        down=down,
    )


def with_queue(record: ExperimentRecord, status: Status) -> Status:
    """The status of a run of which nothing lives, with what the queue says of it."""
    if status.alive:
        return status
    state, reason = beside_queue(record, Verdict(status.state, status.reason))
    return status.replace(state=state, reason=reason)


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
