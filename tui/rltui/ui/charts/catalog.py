"""Which charts there are for the series of a run: the curated ones by concept, any other by its name."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rltui.core.metric_names import CONCEPTS, MetricConcept, find_all, label_of
from rltui.core.series import SeriesKey

_MOST_LINES = 24
"""Of one chart: more cannot be told apart."""


@dataclass(frozen=True, slots=True)
class Chart:
    id: str
    """Of the concept, or `source:name` of a single series; stable, since pins name it."""
    title: str
    keys: tuple[SeriesKey, ...]
    labels: tuple[str, ...]
    """What each series is of; empty where there is one."""
    unit: str = ""
    log: bool = False
    """Usually looked at on a logarithmic scale."""


def _of_concept(concept: MetricConcept, keys: Collection[SeriesKey]) -> Chart | None:
    found = find_all(concept.id, keys)
    if not found:
        return None
    if not concept.many and concept.group != "inference":  # of an engine each says its own
        found = found[:1]
    found = found[:_MOST_LINES]
    labels = tuple(label_of(concept, key) for key in found) if len(found) > 1 else ()
    return Chart(concept.id, concept.title, tuple(found), labels, concept.unit, concept.log)


def _of_series(key: SeriesKey) -> Chart:
    title = f"{key.name} · {key.source}" if key.source else key.name
    return Chart(f"{key.source}:{key.name}", title, (key,), ())


def charts(keys: Sequence[SeriesKey], *, pins: Sequence[str] = (), words: str = "") -> tuple[Chart, ...]:
    """Those to show, in order: what is pinned, then the curated ones. Only what there is a series of.

    `words`, a regular expression that ignores case, chooses among all instead, by title and name.

    Raises:
        re.error: `words` is none.
    """
    concepts = {
        concept.id: chart for concept in CONCEPTS if (chart := _of_concept(concept, keys)) is not None
    }
    if words:
        pattern = re.compile(words, re.IGNORECASE)
        chosen = [
            chart
            for chart in concepts.values()
            if any(map(pattern.search, (chart.id, chart.title, *(key.name for key in chart.keys))))
        ]
        shown = {key for chart in chosen for key in chart.keys}
        others = [_of_series(key) for key in keys if key not in shown]
        chosen += [chart for chart in others if pattern.search(chart.title)]
        return tuple(chosen)
    single = {f"{key.source}:{key.name}": key for key in keys}
    pinned = [concepts.get(pin) or (_of_series(single[pin]) if pin in single else None) for pin in pins]
    curated = [
        concepts[concept.id]
        for concept in CONCEPTS
        if concept.curated and concept.id in concepts and concept.id not in pins
    ]
    return (*(chart for chart in pinned if chart is not None), *curated)
