"""Reads the metrics endpoint of a vLLM server: its load, and the series of its engines (gauges, rates and
means). Pure.

The names are vLLM's own, of all its versions (`facts/vllm.md`, Metrics); derived ones have a suffix:
`:rate` per second, `:mean` of the requests finished since the last sample.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_GAUGES = (
    "num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "gpu_cache_usage_perc",
)  # fmt: skip
_MEANS_OF_ENGINES = frozenset({"kv_cache_usage_perc", "gpu_cache_usage_perc"})
"""Shares, whose value for a server is the mean over its engines; the others are sums."""
_RATES = ("generation_tokens_total", "prompt_tokens_total", "num_preemptions_total")
_HIT_RATES = ("prefix_cache", "gpu_prefix_cache")
_MEANS = (
    "time_to_first_token_seconds", "inter_token_latency_seconds", "time_per_output_token_seconds",
    "request_queue_time_seconds", "e2e_request_latency_seconds", "request_generation_tokens",
)  # fmt: skip
_NAMES = (
    *_GAUGES,
    *_RATES,
    *(f"{name}_{part}_total" for name in _HIT_RATES for part in ("queries", "hits")),
    *(f"{name}_{part}" for name in _MEANS for part in ("sum", "count")),
)
_SAMPLE = re.compile(
    rb"^vllm:(" + "|".join(_NAMES).encode() + rb")(?:\{(.*)\})?[ \t]+([^ \t\r\n]{1,40})", re.MULTILINE
)
_ENGINE = re.compile(rb'(?:^|,)\s*engine="(\w{1,16})"')
_MOST_ENGINES = 64
_LARGEST = 2.0**53
"""A larger value, or NaN, is discarded."""
PREFIX = "vllm:"

Reading = Mapping[str, Mapping[str, float]]
"""Label of an engine → values by name without the prefix."""


def _parse(exposition: bytes) -> dict[str, dict[str, float]]:
    readings: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for name, labels, text in _SAMPLE.findall(exposition):
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


def parse_activity(exposition: bytes) -> InferenceActivity | None:
    """The load of a server; `None` if its answer tells nothing of it."""
    engines = _parse(exposition).values()

    def values(*names: str) -> list[float]:
        by_name = ([engine[name] for engine in engines if name in engine] for name in names)
        return next(filter(None, by_name), [])

    running, waiting = values("num_requests_running"), values("num_requests_waiting")
    tokens, usage = values("generation_tokens_total"), values("kv_cache_usage_perc", "gpu_cache_usage_perc")
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

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._since: float | None = None
        """End of the last row."""
        self._last_counters: Reading = {}
        self._gauges: dict[str, dict[str, list[float]]] = {}

    def add(self, exposition: bytes, time: float) -> dict[str, dict[str, float]]:
        """Add one answer of the server and return the rows that are due.

        A row has values by full name; rows are keyed by source suffix (empty for the whole server, `/1` for
        an engine of several). Gauges are means since the last row.
        """
        reading = _parse(exposition)
        if not reading:
            return {}
        for engine, values in reading.items():
            for name in _GAUGES:
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
            engine: dict(_differences(values, self._last_counters.get(engine, {})))
            for engine, values in reading.items()
        }
        self._since, self._last_counters, self._gauges = time, reading, {}
        all_gauges = {
            name: value / (len(gauges) if name in _MEANS_OF_ENGINES else 1)
            for name, value in _sums(gauges).items()
        }
        rows = {"": {**all_gauges, **_derived(_sums(differences), elapsed_s)}}
        if len(reading) > 1:
            for engine in reading:
                own = {**gauges.get(engine, {}), **_derived(differences[engine], elapsed_s)}
                rows[f"/{engine}"] = own
        return {
            suffix: {f"{PREFIX}{name}": value for name, value in row.items()}
            for suffix, row in rows.items()
            if row
        }


def _differences(current: Mapping[str, float], previous: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Growth of the counters; empty after a restart of the server."""
    counters = [name for name in current if name not in _GAUGES and name in previous]
    if all(current[name] >= previous[name] for name in counters):
        yield from ((name, current[name] - previous[name]) for name in counters)


def _sums(values_by_engine: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    total: defaultdict[str, float] = defaultdict(float)
    for values in values_by_engine.values():
        for name, value in values.items():
            total[name] += value
    return dict(total)


def _derived(grown: Mapping[str, float], elapsed_s: float | None) -> dict[str, float]:
    """Rates, shares of hits, and means over the requests finished meanwhile."""
    derived = {}
    if elapsed_s is not None and elapsed_s > 0:
        derived = {f"{name}:rate": grown[name] / elapsed_s for name in _RATES if name in grown}
    for name in _HIT_RATES:
        if queries := grown.get(f"{name}_queries_total"):
            derived["prefix_cache_hit_rate"] = grown.get(f"{name}_hits_total", 0.0) / queries
    for name in _MEANS:
        if count := grown.get(f"{name}_count"):
            derived[f"{name}:mean"] = grown.get(f"{name}_sum", math.nan) / count
    return derived
