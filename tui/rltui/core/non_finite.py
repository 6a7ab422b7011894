"""Metrics that are no numbers any more: each is told once, until it is finite again. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rltui.core.api import Alert
from rltui.core.metrics import numbers

MOST_NAMED = 3
"""Metrics named in one alert; a diverged run has dozens at once."""

ADVICE = "What is trained from now on is likely lost: restart from a checkpoint, with a lower learning rate"


@dataclass(frozen=True, slots=True)
class NonFinite:
    """A metric that became NaN or infinite."""

    key: str
    value: float
    step: int | None
    component: str | None
    """Who wrote the row, where that is known."""

    def __str__(self) -> str:
        step = f" at step {self.step}" if self.step is not None else ""
        component = f" ({self.component})" if self.component else ""
        return f"{self.key} is {self.value}{step}{component}"


@dataclass(slots=True)
class NonFiniteWatch:
    """Looks through rows for metrics that turn NaN or infinite."""

    writer: Callable[[Mapping[str, Any]], str | None]
    """Tells the component that wrote a row."""
    now: dict[str, NonFinite] = field(default_factory=dict)
    """Those whose newest value is not finite."""
    _untold: list[NonFinite] = field(default_factory=list)

    def add(self, row: Mapping[str, Any]) -> None:
        """Take in one row."""
        for key, value in numbers(row).items():
            if math.isfinite(value):
                self.now.pop(key, None)
            elif key not in self.now:
                step = row.get("step")
                known = step if isinstance(step, int) else None
                self.now[key] = NonFinite(key, value, known, self.writer(row))
                self._untold.append(self.now[key])

    def take(self) -> tuple[NonFinite, ...]:
        """Those that turned since the last `take`, in the order they did, also if they are well again."""
        taken, self._untold = tuple(self._untold), []
        return taken


def alerts(found: Iterable[NonFinite]) -> tuple[Alert, ...]:
    """One alert per component."""
    by_component: dict[str | None, list[NonFinite]] = {}
    for item in found:
        by_component.setdefault(item.component, []).append(item)
    return tuple(_alert(component, items) for component, items in by_component.items())


def _alert(component: str | None, items: Sequence[NonFinite]) -> Alert:
    text = ", ".join(map(str, items[:MOST_NAMED]))
    if len(items) > MOST_NAMED:
        text += f" and {len(items) - MOST_NAMED} more"
    title = "a metric is not finite" if len(items) == 1 else f"{len(items)} metrics are not finite"
    return Alert(kind="metric", severity="error", title=title, text=f"{text}. {ADVICE}", component=component)
