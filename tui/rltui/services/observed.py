"""Runs that somebody else started: what is known of their framework without a config."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rltui.core.api import FollowedLog
from rltui.core.growth import QUIET_S
from rltui.core.layout import Layout
from rltui.errors import UsageError
from rltui.frameworks import registry
from rltui.frameworks.base import ConfigFiles, Framework
from rltui.frameworks.generic import GENERIC, Generic
from rltui.services import layout_files
from rltui.services.experiment_files import ExperimentRecord
from rltui.services.written_steps import written_max_steps


def framework_of(record: ExperimentRecord) -> Framework:
    """The framework of an experiment. Of an observed one, only what its files mean: it has no config here."""
    framework = registry.get(record.framework)
    if not record.observed:
        return framework if framework.id != GENERIC.id else framework.fitted(layout_files.load_for(record))
    return _Observed(framework, Path(record.run_dir))


class _Observed(Generic):
    """What the files of a run mean that has no config here."""

    def __init__(self, framework: Framework, run_dir: Path) -> None:
        super().__init__()
        self._framework, self._run_dir = framework, run_dir
        self.id, self.title = framework.id, framework.title
        self.log_mark, self.metrics, self.facts = framework.log_mark, framework.metrics, framework.facts
        self.files, self.failures = framework.files, framework.failures

    def max_steps(self, files: ConfigFiles) -> int | None:
        """As the framework wrote it down."""
        del files
        return written_max_steps(self._run_dir)

    def log_row(self, component: str, line: str) -> Mapping[str, Any] | None:
        """As the framework reads it."""
        return self._framework.log_row(component, line)


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
