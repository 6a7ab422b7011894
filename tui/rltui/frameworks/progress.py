"""How a run shows its progress: the names of its metrics, and lines of its output that are rows of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rltui.core.experiment.stalls import StartPhases
from rltui.core.metrics.progress import MetricNames

LogRow = Callable[[str, str], Mapping[str, Any] | None]
"""Takes a component and one line of its output without colours, and returns a row as in a metrics file;
`None` for other lines.
"""


@dataclass(frozen=True, slots=True)
class TitleFact:
    """A number for a pane's title, from the metrics."""

    component: str
    metric: str
    template: str
    """Filled with the value: `{:.1f} s/step`."""


def _no_row(component: str, line: str) -> None:
    """Parse nothing."""
    del component, line


@dataclass(frozen=True, slots=True)
class ProgressSide:
    """The default: a metrics file alone shows it."""

    names: MetricNames = MetricNames()
    facts: tuple[TitleFact, ...] = ()
    log_row: LogRow = _no_row
    log_marks: tuple[str, ...] = ()
    """Texts one of which is in every line that `log_row` parses: other lines are not even decoded. Empty if
    it parses none.
    """
    phases: Mapping[str, StartPhases] = field(default_factory=dict)
    """Component → what its newest lines show of its present work once it is ready; empty: nothing. `waiting
    for …` also excuses its silence.
    """
    log_redraws: bool = False
    """`log_row` gets all states of a line that was redrawn, one after the other, instead of the last
    alone.
    """
