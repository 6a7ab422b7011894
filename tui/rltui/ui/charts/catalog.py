"""The charts for the series of a run: the curated ones by concept, any other by its name."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rltui.core.metrics.names import CONCEPTS, MetricConcept, find_all, label_of
from rltui.core.metrics.series import SeriesKey

_MAX_LINES = 24
"""In one chart: more cannot be told apart."""


@dataclass(frozen=True, slots=True)
class Chart:
    id: str
    """The concept's, or `source:name` of a single series; stable, since pins name it."""
    title: str
    keys: tuple[SeriesKey, ...]
    labels: tuple[str, ...]
    """A name for each series; empty where there is one."""
    unit: str = ""
    log: bool = False
    """The scale is logarithmic unless a person switches it."""


def _of_concept(concept: MetricConcept, keys: Collection[SeriesKey]) -> Chart | None:
    series = find_all(concept.id, keys)
    if not series:
        return None
    has_many = concept.many or concept.group == "inference"  # each engine says its own
    series = series[: _MAX_LINES if has_many else 1]
    labels = tuple(label_of(concept, key) for key in series) if len(series) > 1 else ()
    return Chart(concept.id, concept.title, tuple(series), labels, concept.unit, concept.log)


def _of_series(key: SeriesKey) -> Chart:
    title = f"{key.name} · {key.source}" if key.source else key.name
    return Chart(f"{key.source}:{key.name}", title, (key,), ())


def charts(keys: Sequence[SeriesKey], *, pins: Sequence[str] = (), pattern: str = "") -> tuple[Chart, ...]:
    """The charts to show, in order: what is pinned, then the curated ones, of which there are series.

    `pattern`, a regular expression that ignores case, selects among all instead, by title and name.

    Raises:
        re.error: `pattern` is no regular expression.
    """
    concepts = {
        concept.id: chart for concept in CONCEPTS if (chart := _of_concept(concept, keys)) is not None
    }
    if pattern:
        expression = re.compile(pattern, re.IGNORECASE)
        matching = [
            chart
            for chart in concepts.values()
            if any(map(expression.search, (chart.id, chart.title, *(key.name for key in chart.keys))))
        ]
        charted = {key for chart in matching for key in chart.keys}
        others = [_of_series(key) for key in keys if key not in charted]
        matching += [chart for chart in others if expression.search(chart.title)]
        return tuple(matching)
    single = {f"{key.source}:{key.name}": key for key in keys}
    pinned = [concepts.get(pin) or (_of_series(single[pin]) if pin in single else None) for pin in pins]
    curated = [
        concepts[concept.id]
        for concept in CONCEPTS
        if concept.curated and concept.id in concepts and concept.id not in pins
    ]
    return (*(chart for chart in pinned if chart is not None), *curated)
