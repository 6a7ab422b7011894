"""Metrics that are NaN or infinite, as their rows come, and alerts about them. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rltui.base.text import join_some
from rltui.core.experiment.api import Alert
from rltui.core.metrics.progress import numbers

_NAMED_METRICS = 3
"""Number of metrics named in one alert; a diverged run has dozens at once."""

ADVICE = "Further training is likely wasted: go back to an earlier checkpoint with a lower learning rate"


@dataclass(frozen=True, slots=True)
class NonFinite:
    key: str
    value: float
    step: int | None
    component: str | None
    """The component that wrote the row, if known."""

    def __str__(self) -> str:
        step = f" at step {self.step}" if self.step is not None else ""
        component = f" ({self.component})" if self.component else ""
        return f"{self.key} is {self.value}{step}{component}"


@dataclass(slots=True)
class NonFiniteWatch:
    writer: Callable[[Mapping[str, Any]], str | None]
    """Returns the component that wrote a row."""
    now: dict[str, NonFinite] = field(default_factory=dict)
    """The metrics whose newest value is not finite."""
    _unreported: list[NonFinite] = field(default_factory=list)

    def add(self, row: Mapping[str, Any]) -> None:
        for key, value in numbers(row).items():
            if math.isfinite(value):
                self.now.pop(key, None)
            elif key not in self.now:
                step = row.get("step")
                step_ = step if isinstance(step, int) else None
                self.now[key] = NonFinite(key, value, step_, self.writer(row))
                self._unreported.append(self.now[key])

    def take(self) -> tuple[NonFinite, ...]:
        """The metrics that became non-finite since the last `take`, oldest first, even if they are finite
        again.
        """
        reported, self._unreported = tuple(self._unreported), []
        return reported


def non_finite_alerts(values: Iterable[NonFinite]) -> tuple[Alert, ...]:
    """One alert per component that has such a metric."""
    by_component: dict[str | None, list[NonFinite]] = {}
    for item in values:
        by_component.setdefault(item.component, []).append(item)
    return tuple(_alert(component, items) for component, items in by_component.items())


def _alert(component: str | None, items: Sequence[NonFinite]) -> Alert:
    text = join_some([*map(str, items)], _NAMED_METRICS)
    title = "a metric is not finite" if len(items) == 1 else f"{len(items)} metrics are not finite"
    return Alert(kind="metric", severity="error", title=title, text=f"{text}. {ADVICE}", component=component)
