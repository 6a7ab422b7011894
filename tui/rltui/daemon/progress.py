"""The headline figures of a run, kept up to date from its metrics file."""

from __future__ import annotations

from rltui.core.api import Progress
from rltui.core.metrics import MetricSeries
from rltui.frameworks.base import Framework
from rltui.services.metrics_feed import MetricsFeed
from rltui.services.run_folder import RunFolder


class ProgressTracker:
    """Reads new metric rows when asked to."""

    def __init__(self, folder: RunFolder, framework: Framework) -> None:
        self._framework = framework
        self._feed = MetricsFeed(folder.metrics)
        self._series = MetricSeries(framework.metrics)
        self.max_steps: int | None = None

    @property
    def progress(self) -> Progress:
        """The figures as of the last `poll`."""
        return self._series.progress(self.max_steps)

    def poll(self) -> bool:
        """Take in what was appended. Returns whether anything was."""
        rows = list(self._feed.read())
        if self._feed.restarted:
            self._series = MetricSeries(self._framework.metrics)
        for row in rows:
            self._series.add(row)
        return bool(rows) or self._feed.restarted

    def rewind(self, step: int | None) -> None:
        """The run resumes behind `step`, or from the beginning."""
        self._series.rewind(step or 0)

    def facts(self, component: str) -> tuple[str, ...]:
        """Short texts for the component's title."""
        values = ((fact, self._series.newest(fact.metric)) for fact in self._framework.facts)
        return tuple(
            fact.template.format(value)
            for fact, value in values
            if fact.component == component and value is not None
        )
