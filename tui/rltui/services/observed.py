"""Runs that somebody else started: what is known of their framework without a config."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from rltui.core.api import FollowedLog
from rltui.core.growth import QUIET_S
from rltui.core.layout import Layout
from rltui.errors import UsageError
from rltui.frameworks import registry
from rltui.frameworks.base import Framework
from rltui.frameworks.generic import GENERIC, fitted
from rltui.services import layout_files
from rltui.services.experiment_files import ExperimentRecord
from rltui.services.written_steps import written_max_steps


def framework_of(record: ExperimentRecord) -> Framework:
    """The framework of an experiment. Of an observed one, only what its files mean: it has no config here."""
    framework = registry.get(record.framework)
    if not record.observed:
        return framework if framework.id != GENERIC.id else fitted(framework, layout_files.load_for(record))
    return replace(
        GENERIC,
        id=framework.id,
        title=framework.title,
        max_steps=lambda _: written_max_steps(Path(record.run_dir)),
        log_row=framework.log_row,
        log_mark=framework.log_mark,
        files=framework.files,
        metrics=framework.metrics,
        facts=framework.facts,
        failures=framework.failures,
    )


def title_of(record: ExperimentRecord, layout: Layout, framework: Framework) -> str:
    """What the experiment is called for people: an observed run as its framework, whatever the layout."""
    return framework.title if record.observed else layout.title or framework.title


def refuse_observed(record: ExperimentRecord) -> None:
    """For everything that would change something.

    Raises:
        UsageError: if somebody else runs the experiment.
    """
    if record.observed:
        raise UsageError(
            f"{record.name} is observed: rltui did not start it, so there is nothing to start, stop or edit",
            hint=f"`rltui down {record.name}` ends the observation; the run in {record.run_dir} goes on",
        )


def is_growing(logs: Iterable[FollowedLog], now: float) -> bool:
    """Somebody still writes to one of them."""
    return any(log.changed_at is not None and now - log.changed_at < QUIET_S for log in logs)
