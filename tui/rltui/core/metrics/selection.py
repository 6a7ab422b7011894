"""The series of a run that a person means by a concept, a name or a pattern. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rltui.base.text import did_you_mean
from rltui.core import hints
from rltui.core.metrics.names import CONCEPTS, MetricConcept, find_all, label_of
from rltui.core.metrics.series import NO_STEP, Series, SeriesKey, SeriesSource
from rltui.errors import UsageError


@dataclass(frozen=True, slots=True)
class MetricLine:
    key: SeriesKey
    label: str
    """Short, and unlike those of the others that are printed with it."""
    unit: str
    log: bool
    current: Series
    abandoned: tuple[Series, ...]

    @property
    def has_steps(self) -> bool:
        return bool(len(self.current)) and self.current.steps[-1] != NO_STEP


def requested_lines(
    reader: SeriesSource, terms: Sequence[str], name: str | None, *, all_series: bool
) -> Iterator[MetricLine]:
    """The lines that `terms` mean. `name`: of the run, where a command has to name it."""
    keys = reader.keys()
    rewinds = reader.rewinds()
    requested_series: dict[SeriesKey, tuple[str, MetricConcept | None]] = {}
    if all_series:
        requested_series = {key: (full_name(key), None) for key in keys}
    elif terms:
        for term in terms:
            matches = dict(_matching(term, keys, name))
            if not matches:
                raise _unknown(term, keys, name)
            requested_series |= {key: match for key, match in matches.items() if key not in requested_series}
    else:
        for candidate in CONCEPTS:
            if candidate.curated:
                requested_series |= dict(_of_concept(candidate, keys))
    labels = [label for label, _ in requested_series.values()]
    for key, (label, concept) in requested_series.items():
        current, abandoned_lines = reader.read(key).lines(rewinds)
        yield MetricLine(
            key=key,
            label=label if labels.count(label) == 1 else full_name(key),
            unit=concept.unit if concept is not None else "",
            log=concept is not None and concept.log,
            current=current,
            abandoned=abandoned_lines,
        )


def _of_concept(
    concept: MetricConcept, keys: Iterable[SeriesKey]
) -> Iterator[tuple[SeriesKey, tuple[str, MetricConcept]]]:
    matches = find_all(concept.id, keys)
    for key in matches if concept.many else matches[:1]:
        yield key, (f"{concept.id} {label_of(concept, key)}" if concept.many else concept.id, concept)


def _matching(
    term: str, keys: Sequence[SeriesKey], name: str | None
) -> Iterator[tuple[SeriesKey, tuple[str, MetricConcept | None]]]:
    """A concept, a whole name with or without its source, else a regular expression."""
    concepts = [concept for concept in CONCEPTS if concept.id == term]
    if concepts and (matches := [*_of_concept(concepts[0], keys)]):
        yield from matches
        return
    exact = [key for key in keys if term in (key.name, full_name(key))]
    if not exact:
        try:
            pattern = re.compile(term)
        except re.error as error:
            raise UsageError(
                f"not a metric or a regular expression: {term} ({error})",
                hint=f"`{hints.METRICS_ALL(name=name)}` lists the metrics",
            ) from None
        exact = [key for key in keys if pattern.search(key.name)]
    yield from ((key, (key.name, None)) for key in exact)


def rows_by_step(lines: Sequence[MetricLine]) -> list[tuple[int, float, list[float | None]]]:
    """Step, time and a value of each line: a row for each step, and for each point that has none."""
    rows: dict[tuple[int, float], tuple[int, float, list[float | None]]] = {}
    for column, line in enumerate(lines):
        points = zip(line.current.steps, line.current.times, line.current.values, strict=True)
        for step, time_s, value in points:
            key = (step, time_s if step == NO_STEP else 0.0)
            rows.setdefault(key, (step, time_s, [None] * len(lines)))[2][column] = value
    with_steps = sorted((row for row in rows.values() if row[0] != NO_STEP), key=lambda row: row[0])
    rows_by_time = [row for row in rows.values() if row[0] == NO_STEP]
    return sorted([*with_steps, *rows_by_time], key=lambda row: row[1]) if rows_by_time else with_steps


def full_name(key: SeriesKey) -> str:
    return f"{key.source}:{key.name}" if key.source else key.name


def _unknown(term: str, keys: Sequence[SeriesKey], name: str | None) -> UsageError:
    ids = [concept.id for concept in CONCEPTS]
    ids_of_run = [id_ for id_ in ids if find_all(id_, keys)]
    if term in ids:
        return UsageError(f"this run has no {term}", hint=f"it has: {', '.join(ids_of_run)}")
    guess = did_you_mean(term, [*ids_of_run, *(key.name for key in keys)])
    return UsageError(
        f"no metric of this run matches {term}",
        hint=f"{guess} `{hints.METRICS_ALL(name=name)}` lists all {len(keys)}".strip(),
    )
