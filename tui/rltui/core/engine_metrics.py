"""From what a vLLM server says of itself to the series of its engines: gauges, rates and means. Pure.

The names are vLLM's own, of all its versions (`facts/vllm.md`, Metrics); what is derived has a suffix:
`:rate` per second, `:mean` of what was finished in between.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

_GAUGES = (
    "num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "gpu_cache_usage_perc",
)  # fmt: skip
_MEANS_OF_ENGINES = frozenset({"kv_cache_usage_perc", "gpu_cache_usage_perc"})
"""Shares: of a whole server the mean; the others are sums."""
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
"""What is more, or no number at all, is no reading."""
PREFIX = "vllm:"

Reading = Mapping[str, Mapping[str, float]]
"""By engine, as it is labelled, the values by name without the prefix."""


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


class EngineMeter:
    """Readings of one server, made into a row for every `interval_s`."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._since: float | None = None
        """When the last row ended."""
        self._counted: Reading = {}
        self._gauges: dict[str, dict[str, list[float]]] = {}

    def add(self, exposition: bytes, at: float) -> dict[str, dict[str, float]]:
        """One answer of the server. Returns the rows that are due: values by full name, by source suffix
        (empty for the whole server, `/1` for an engine of several). Gauges are means since the last row.
        """
        reading = _parse(exposition)
        if not reading:
            return {}
        for engine, values in reading.items():
            for name in _GAUGES:
                if name in values:
                    self._gauges.setdefault(engine, {}).setdefault(name, []).append(values[name])
        if self._since is not None and 0 <= at - self._since < self._interval_s:
            return {}
        gauges = {
            engine: {name: sum(seen) / len(seen) for name, seen in named.items()}
            for engine, named in self._gauges.items()
        }
        elapsed_s = None if self._since is None else at - self._since
        differences = {
            engine: dict(_differences(values, self._counted.get(engine, {})))
            for engine, values in reading.items()
        }
        self._since, self._counted, self._gauges = at, reading, {}
        rows = {"": {**_all_gauges(gauges), **_derived(_sums(differences), elapsed_s)}}
        if len(reading) > 1:
            for engine in reading:
                own = {**gauges.get(engine, {}), **_derived(differences[engine], elapsed_s)}
                rows[f"/{engine}"] = own
        return {
            suffix: {f"{PREFIX}{name}": value for name, value in row.items()}
            for suffix, row in rows.items()
            if row
        }


def _differences(now: Mapping[str, float], before: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """What the counters grew by; none after the server began anew."""
    counters = [name for name in now if name not in _GAUGES and name in before]
    if all(now[name] >= before[name] for name in counters):
        yield from ((name, now[name] - before[name]) for name in counters)


def _sums(named: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    total: defaultdict[str, float] = defaultdict(float)
    for values in named.values():
        for name, value in values.items():
            total[name] += value
    return dict(total)


def _all_gauges(gauges: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    return {
        name: value / (len(gauges) if name in _MEANS_OF_ENGINES else 1)
        for name, value in _sums(gauges).items()
    }


def _derived(grown: Mapping[str, float], elapsed_s: float | None) -> dict[str, float]:
    """Rates, shares of hits, and means of what was finished meanwhile."""
    found = {}
    if elapsed_s is not None and elapsed_s > 0:
        found = {f"{name}:rate": grown[name] / elapsed_s for name in _RATES if name in grown}
    for name in _HIT_RATES:
        if queries := grown.get(f"{name}_queries_total"):
            found["prefix_cache_hit_rate"] = grown.get(f"{name}_hits_total", 0.0) / queries
    for name in _MEANS:
        if count := grown.get(f"{name}_count"):
            found[f"{name}:mean"] = grown.get(f"{name}_sum", math.nan) / count
    return found
