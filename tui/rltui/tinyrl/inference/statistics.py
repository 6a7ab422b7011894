"""Counters of the server, with vLLM's metric names and log lines in vLLM's format (0.10 to 0.32).

Written by the engine thread, read by the HTTP thread: plain numbers, each assigned in one step.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter

_TTFT_BUCKETS_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""vLLM's own lower buckets for the time to first token."""


class Statistics:
    """Counts since start, and gauges of now."""

    def __init__(self, capacity_tokens: int) -> None:
        self.capacity_tokens = capacity_tokens
        self.running = 0
        self.waiting = 0
        self.used_tokens = 0
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.successes: Counter[str] = Counter({"stop": 0, "length": 0, "abort": 0})
        self.first_token_count = 0
        self.first_token_sum_s = 0.0
        self.first_token_buckets = [0] * len(_TTFT_BUCKETS_S)

    @property
    def cache_usage_frac(self) -> float:
        """Share of the cache in use, 0 to 1."""
        return self.used_tokens / self.capacity_tokens

    def prefilled(self, prompt_tokens: int, arrived_s: float) -> None:
        """A sequence that had waited since then has its first token."""
        self.prompt_tokens += prompt_tokens
        waited = time.monotonic() - arrived_s
        self.first_token_count += 1
        self.first_token_sum_s += waited
        for index, bound in enumerate(_TTFT_BUCKETS_S):
            self.first_token_buckets[index] += waited <= bound

    def generated(self, tokens: int) -> None:
        self.generation_tokens += tokens

    def finished(self, reason: str) -> None:
        self.successes[reason] += 1

    def exposition(self, model_name: str, gpu_memory_utilization: float) -> str:
        """The metrics as Prometheus text."""
        labels = f'engine="0",model_name="{model_name}"'
        lines: list[str] = []

        def family(name: str, kind: str, samples: list[tuple[str, str, float]]) -> None:
            lines.append(f"# TYPE {name} {kind}")
            lines.extend(f"{name}{suffix}{{{labels}{extra}}} {value}" for suffix, extra, value in samples)

        family("vllm:num_requests_running", "gauge", [("", "", float(self.running))])
        family("vllm:num_requests_waiting", "gauge", [("", "", float(self.waiting))])
        family("vllm:kv_cache_usage_perc", "gauge", [("", "", self.cache_usage_frac)])
        family("vllm:prompt_tokens_total", "counter", [("", "", float(self.prompt_tokens))])
        family("vllm:generation_tokens_total", "counter", [("", "", float(self.generation_tokens))])
        reasons = [("", f',finished_reason="{key}"', float(n)) for key, n in sorted(self.successes.items())]
        family("vllm:request_success_total", "counter", reasons)
        bounds, counts = (*_TTFT_BUCKETS_S, "+Inf"), (*self.first_token_buckets, self.first_token_count)
        buckets = [
            ("_bucket", f',le="{bound}"', float(count)) for bound, count in zip(bounds, counts, strict=True)
        ]
        sums = [("_sum", "", self.first_token_sum_s), ("_count", "", float(self.first_token_count))]
        family("vllm:time_to_first_token_seconds", "histogram", buckets + sums)
        config = f',gpu_memory_utilization="{gpu_memory_utilization}"'
        config += f',kv_cache_size_tokens="{self.capacity_tokens}"'
        family("vllm:cache_config_info", "gauge", [("", config, 1.0)])
        return "\n".join(lines) + "\n"


STATS_INTERVAL_S = 10.0
"""vLLM's default, `VLLM_LOG_STATS_INTERVAL`."""


def log(message: str, source: str = "server.py:1") -> None:
    """One INFO line of the API server's."""
    sys.stdout.write(
        f"(APIServer pid={os.getpid()}) INFO {time.strftime('%m-%d %H:%M:%S')} [{source}] {message}\n"
    )
    sys.stdout.flush()


def _stats_line(
    statistics: Statistics, prompt_tokens_per_s: float, generated_tokens_per_s: float, device: str
) -> str:
    """`device` is CPU or GPU."""
    return (
        f"Engine 000: Avg prompt throughput: {prompt_tokens_per_s:.1f} tokens/s, Avg generation throughput:"
        f" {generated_tokens_per_s:.1f} tokens/s, Running: {statistics.running} reqs, Waiting:"
        f" {statistics.waiting} reqs, {device} KV cache usage: {100 * statistics.cache_usage_frac:.1f}%,"
        " Prefix cache hit rate: 0.0%"
    )


async def report_forever(statistics: Statistics, device: str, interval_s: float = STATS_INTERVAL_S) -> None:
    """Log throughput while there is traffic, and once after it has ended, until cancelled."""
    before = (statistics.prompt_tokens, statistics.generation_tokens)
    was_busy = False
    while True:
        await asyncio.sleep(interval_s)
        now = (statistics.prompt_tokens, statistics.generation_tokens)
        is_busy = now != before
        if is_busy or was_busy:
            rates = [(new - old) / interval_s for new, old in zip(now, before, strict=True)]
            log(_stats_line(statistics, rates[0], rates[1], device), "loggers.py:123")
        before, was_busy = now, is_busy
