"""Reads the metrics endpoint of an inference server: its load, and the series of its engines (gauges, rates
and means). Pure.

The names are the server's own; derived ones have a suffix: `:rate` per second, `:mean` of the requests
finished since the last sample.
"""

from __future__ import annotations

import functools
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

_ENGINE = re.compile(rb'(?:^|,)\s*engine="(\w{1,16})"')
_MOST_ENGINES = 64
_LARGEST = 2.0**53
"""A larger value, or NaN, is discarded."""


class EngineMetrics(NamedTuple):
    """Names in the metrics of one kind of server, in all its versions, without the prefix that they share."""

    prefix: str
    running: str
    """Gauge: requests in the running batch."""
    waiting: str
    usage: tuple[str, ...]
    """Gauges, the newest name first: the share of the KV cache in use, whose value for a server is the mean
    over its engines; the other gauges are sums.
    """
    generated: str
    """Counter of tokens."""
    rates: tuple[str, ...]
    """Counters whose growth per second is told."""
    hit_rates: tuple[str, ...]
    """Beginnings of pairs of counters, `…_queries_total` and `…_hits_total`, whose share is told."""
    hit_rate: str
    """Name of that share."""
    means: tuple[str, ...]
    """Summaries, `…_sum` and `…_count`, whose mean is told."""

    @property
    def gauges(self) -> tuple[str, ...]:
        return (self.running, self.waiting, *self.usage)

    @property
    def names(self) -> tuple[str, ...]:
        return (
            *self.gauges,
            *self.rates,
            *(f"{name}_{part}_total" for name in self.hit_rates for part in ("queries", "hits")),
            *(f"{name}_{part}" for name in self.means for part in ("sum", "count")),
        )


@functools.cache
def _samples(metrics: EngineMetrics) -> re.Pattern[bytes]:
    pattern = rf"^{metrics.prefix}({'|'.join(metrics.names)})(?:\{{(.*)\}})?[ \t]+([^ \t\r\n]{{1,40}})"
    return re.compile(pattern.encode(), re.MULTILINE)


Reading = Mapping[str, Mapping[str, float]]
"""Label of an engine → values by name without the prefix."""


def _parse(exposition: bytes, metrics: EngineMetrics) -> dict[str, dict[str, float]]:
    readings: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for name, labels, text in _samples(metrics).findall(exposition):
        try:
            value = float(text)
        except ValueError:
            continue
        label = _ENGINE.search(labels)
        engine = label[1].decode() if label else "0"
        if abs(value) <= _LARGEST and (engine in readings or len(readings) < _MOST_ENGINES):
            readings[engine][name.decode()] += value
    return {engine: dict(values) for engine, values in readings.items()}


@dataclass(frozen=True, slots=True)
class InferenceActivity:
    """One sample, all engines of the server together."""

    running: int = 0
    """Requests in the running batch."""
    waiting: int = 0
    generated_tokens: int | None = None
    """Count since the server started; falls back to 0 with a new one."""
    kv_usage_frac: float | None = None
    """Share of the KV cache in use, 0 to 1, the mean of the engines."""

    @property
    def requests(self) -> int:
        """Unanswered requests: rollouts in flight."""
        return self.running + self.waiting

    @property
    def facts(self) -> tuple[str, ...]:
        """Short texts for the pane's title: `KV 41 %`, `128 run 12 wait`."""
        load = f"{self.running} run {self.waiting} wait"
        return (load,) if self.kv_usage_frac is None else (f"KV {self.kv_usage_frac * 100:.0f} %", load)


def parse_activity(exposition: bytes, metrics: EngineMetrics) -> InferenceActivity | None:
    """The load of a server with such metrics; `None` if its answer tells nothing of it."""
    engines = _parse(exposition, metrics).values()

    def values(*names: str) -> list[float]:
        by_name = ([engine[name] for engine in engines if name in engine] for name in names)
        return next(filter(None, by_name), [])

    running, waiting = values(metrics.running), values(metrics.waiting)
    tokens, usage = values(metrics.generated), values(*metrics.usage)
    if not (running or waiting or tokens or usage):
        return None
    return InferenceActivity(
        running=round(sum(running)),
        waiting=round(sum(waiting)),
        generated_tokens=round(sum(tokens)) if tokens else None,
        kv_usage_frac=sum(usage) / len(usage) if usage else None,
    )


class EngineMeter:
    """Turns samples of one server into a row for every `interval_s`."""

    def __init__(self, interval_s: float, metrics: EngineMetrics) -> None:
        self._interval_s = interval_s
        self._metrics = metrics
        self._since: float | None = None
        """End of the last row."""
        self._last_counters: Reading = {}
        self._gauges: dict[str, dict[str, list[float]]] = {}

    def add(self, exposition: bytes, time: float) -> dict[str, dict[str, float]]:
        """Add one answer of the server and return the rows that are due.

        A row has values by full name; rows are keyed by source suffix (empty for the whole server, `/1` for
        an engine of several). Gauges are means since the last row.
        """
        reading = _parse(exposition, self._metrics)
        if not reading:
            return {}
        for engine, values in reading.items():
            for name in self._metrics.gauges:
                if name in values:
                    self._gauges.setdefault(engine, {}).setdefault(name, []).append(values[name])
        if self._since is not None and 0 <= time - self._since < self._interval_s:
            return {}
        gauges = {
            engine: {name: sum(samples) / len(samples) for name, samples in gauges_of_engine.items()}
            for engine, gauges_of_engine in self._gauges.items()
        }
        elapsed_s = None if self._since is None else time - self._since
        differences = {
            engine: dict(self._differences(values, self._last_counters.get(engine, {})))
            for engine, values in reading.items()
        }
        self._since, self._last_counters, self._gauges = time, reading, {}
        all_gauges = {
            name: value / (len(gauges) if name in self._metrics.usage else 1)
            for name, value in _sums(gauges).items()
        }
        rows = {"": {**all_gauges, **self._derived(_sums(differences), elapsed_s)}}
        if len(reading) > 1:
            for engine in reading:
                own = {**gauges.get(engine, {}), **self._derived(differences[engine], elapsed_s)}
                rows[f"/{engine}"] = own
        return {
            suffix: {f"{self._metrics.prefix}{name}": value for name, value in row.items()}
            for suffix, row in rows.items()
            if row
        }

    def _differences(
        self, current: Mapping[str, float], previous: Mapping[str, float]
    ) -> Iterator[tuple[str, float]]:
        """Growth of the counters; empty after a restart of the server."""
        counters = [name for name in current if name not in self._metrics.gauges and name in previous]
        if all(current[name] >= previous[name] for name in counters):
            yield from ((name, current[name] - previous[name]) for name in counters)

    def _derived(self, grown: Mapping[str, float], elapsed_s: float | None) -> dict[str, float]:
        """Rates, shares of hits, and means over the requests finished meanwhile."""
        derived = {}
        if elapsed_s is not None and elapsed_s > 0:
            derived = {
                f"{name}:rate": grown[name] / elapsed_s for name in self._metrics.rates if name in grown
            }
        for name in self._metrics.hit_rates:
            if queries := grown.get(f"{name}_queries_total"):
                derived[self._metrics.hit_rate] = grown.get(f"{name}_hits_total", 0.0) / queries
        for name in self._metrics.means:
            if count := grown.get(f"{name}_count"):
                derived[f"{name}:mean"] = grown.get(f"{name}_sum", math.nan) / count
        return derived


def _sums(values_by_engine: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    total: defaultdict[str, float] = defaultdict(float)
    for values in values_by_engine.values():
        for name, value in values.items():
            total[name] += value
    return dict(total)
