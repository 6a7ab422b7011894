"""The headline figures of a run, kept up to date from its metrics."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rltui.core import metrics
from rltui.core.api import Concern, Progress
from rltui.core.metrics import MetricSeries, NonFinite, NonFiniteWatch
from rltui.frameworks.base import Framework
from rltui.services.metrics import RunMetrics


class ProgressTracker:
    """Reads new metric rows when asked to."""

    def __init__(
        self, metrics: RunMetrics, framework: Framework, components: Collection[str] | None = None
    ) -> None:
        """`components`: those of the layout; `None`: whoever the framework names."""
        self._framework = framework
        self._metrics = metrics
        self.series = self._new_series()
        self.max_steps: int | None = None
        self._owners = _row_owners(framework, components)
        self._rows = {component: (0, 0) for _, component in self._owners}
        self._rows_before: dict[str, int] = {}
        """Of each component, as its present attempt began."""
        self._non_finite = NonFiniteWatch(self._writer)
        for row in metrics.earlier():
            self.series.add(row)

    @property
    def progress(self) -> Progress:
        """The figures as of the last `poll`."""
        figures = self.series.progress(self.max_steps)
        loss = self._non_finite.now.get(self._framework.metrics.trainer_step)
        if loss is None:
            return figures
        lost = Concern(word=f"loss is {loss.value}", text=f"{loss}. {metrics.ADVICE}")
        return figures.model_copy(update={"concerns": (lost, *figures.concerns)})

    def began(self, component: str) -> None:
        """An attempt of it runs from now on: what earlier ones reported is none of its figures."""
        self._rows_before[component] = self._rows.get(component, (0, 0))[0]

    def poll(self) -> bool:
        """Take in what was appended. Returns whether anything was."""
        rows = self._metrics.read()
        if self._metrics.restarted:
            self.series = self._new_series()
            self._non_finite.now.clear()
        for row in rows:
            self.series.add(row)
            self._non_finite.add(row)
            self._count(row)
        return bool(rows) or self._metrics.restarted

    def rewind(self, step: int | None) -> None:
        """The run resumes behind `step`, or from the beginning."""
        self.series.rewind(step or 0)
        self._non_finite.now.clear()
        self._metrics.rewind()

    @property
    def non_finite_now(self) -> tuple[NonFinite, ...]:
        """The metrics whose newest value is NaN or infinite."""
        return tuple(self._non_finite.now.values())

    def take_non_finite(self) -> tuple[NonFinite, ...]:
        """The metrics that turned NaN or infinite since the last call, in the order they did."""
        return self._non_finite.take()

    def rows(self, component: str) -> tuple[int, int] | None:
        """How many metric rows of its own `component` has written so far, and the step of the newest.

        `None` where the framework does not say which rows are its own.
        """
        return self._rows.get(component)

    def facts(self, component: str) -> tuple[str, ...]:
        """Short texts for the component's title; none of an earlier attempt's figures."""
        if component in self._rows and self._rows_before.get(component) == self._rows[component][0]:
            return ()
        values = ((fact, self.series.newest(fact.metric)) for fact in self._framework.facts)
        return tuple(
            fact.template.format(value)
            for fact, value in values
            if fact.component == component and value is not None
        )

    def _new_series(self) -> MetricSeries:
        return MetricSeries(self._framework.metrics, self._framework.files.first_step)

    def _writer(self, row: Mapping[str, Any]) -> str | None:
        return next((component for metric, component in self._owners if metric in row), None)

    def _count(self, row: Mapping[str, Any]) -> None:
        step = row.get("step")
        for metric, component in self._owners:
            if metric in row and isinstance(step, int):
                self._rows[component] = (self._rows[component][0] + 1, step)


def _row_owners(framework: Framework, components: Collection[str] | None) -> tuple[tuple[str, str], ...]:
    """Metric and component, for the keys that name the writer of a row: the reward and the trainer's step.

    Other keys (`time/step`) are written by several components.
    """
    telling = (framework.metrics.reward, framework.metrics.trainer_step)
    return tuple(
        (fact.metric, fact.component)
        for fact in framework.facts
        if fact.metric in telling and (components is None or fact.component in components)
    )
