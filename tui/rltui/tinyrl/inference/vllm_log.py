"""Log lines in vLLM's shape (0.10 to 0.32), and its periodic line about throughput."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from rltui.tinyrl.inference.statistics import Statistics

STATS_INTERVAL_S = 10.0
"""vLLM's default, `VLLM_LOG_STATS_INTERVAL`."""


def log(message: str, source: str = "server.py:1") -> None:
    """One INFO line of the API server's."""
    sys.stdout.write(
        f"(APIServer pid={os.getpid()}) INFO {time.strftime('%m-%d %H:%M:%S')} [{source}] {message}\n"
    )
    sys.stdout.flush()


def stats_line(
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
            log(stats_line(statistics, rates[0], rates[1], device), "loggers.py:123")
        before, was_busy = now, is_busy
