"""How long a plan will take, by how long its parts took before. Pure."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rltui.core.api import JournalEntry
from rltui.core.layout import Layout

NEWEST = 5
"""Starts and stops of a component that its median is taken from: older ones tell of other configs."""


@dataclass(frozen=True, slots=True)
class Times:
    """Medians for one component, in seconds; `None` where it was never timed."""

    start_s: float | None = None
    """From its process to ready, or to its end for a job that others wait for."""
    stop_s: float | None = None


def times_from(journal: Iterable[JournalEntry]) -> dict[str, Times]:
    """Medians per component, from the `took_s` of its newest `ready`, `exit` and `stopped` entries."""
    starts: dict[str, list[float]] = defaultdict(list)
    stops: dict[str, list[float]] = defaultdict(list)
    for entry in journal:
        took = entry.data.get("took_s")
        if entry.component is None or not isinstance(took, int | float):
            continue
        (stops if entry.data.get("stopped") else starts)[entry.component].append(float(took))
    return {
        name: Times(start_s=_median(starts[name]), stop_s=_median(stops[name])) for name in {*starts, *stops}
    }


def estimate(
    stop: Sequence[str], start: Sequence[str], layout: Layout, times: Mapping[str, Times]
) -> float | None:
    """Seconds from the first stop to the last component ready; `None` where one was never timed.

    Stops follow each other; starts run at once, each after what it waits for.
    """
    stop_times = [times.get(name, Times()).stop_s for name in stop]
    ready_at: dict[str, float] = {}
    for name in start:
        took = times.get(name, Times()).start_s
        if took is None:
            return None
        needed = [ready_at[other] for other in layout[name].after if other in ready_at]
        ready_at[name] = max(needed, default=0.0) + took
    known = [took for took in stop_times if took is not None]
    if len(known) < len(stop_times) or not (stop or start):
        return None
    return sum(known) + max(ready_at.values(), default=0.0)


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values[-NEWEST:]) if values else None
