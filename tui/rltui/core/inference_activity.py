"""What an inference server is busy with, from its Prometheus text under vLLM's names.

Names by version: `kv_cache_usage_perc` since vLLM 0.10, `gpu_cache_usage_perc` up to 0.10.2; some have both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SAMPLE = re.compile(
    rb"^vllm:(num_requests_running|num_requests_waiting|generation_tokens_total"
    rb"|kv_cache_usage_perc|gpu_cache_usage_perc)(?:\{.*\})?[ \t]+([^ \t\r\n]+)",
    re.MULTILINE,
)
"""Whole names only: `_created` series and `num_requests_waiting_by_reason` do not match."""
_LARGEST = 2.0**53
"""What is more, or no number at all, is no reading."""


@dataclass(frozen=True, slots=True)
class InferenceActivity:
    """One reading, all engines of the server together."""

    running: int = 0
    """Requests in the running batch."""
    waiting: int = 0
    """Requests queued."""
    generated_tokens: int | None = None
    """Since the server started; falls back to 0 with a new one."""
    kv_usage_frac: float | None = None
    """Share of the KV cache in use, 0 to 1, the mean of the engines."""

    @property
    def requests(self) -> int:
        """Requests it has not answered yet: rollouts in flight."""
        return self.running + self.waiting


def parse_activity(exposition: bytes) -> InferenceActivity | None:
    """Pick the few lines that matter out of a Prometheus text; `None` where it has none of them."""
    values: dict[bytes, list[float]] = {}
    for name, text in _SAMPLE.findall(exposition):
        try:
            value = float(text)
        except ValueError:
            continue
        if abs(value) <= _LARGEST:
            values.setdefault(name, []).append(value)
    if not values:
        return None
    tokens = values.get(b"generation_tokens_total")
    usage = values.get(b"kv_cache_usage_perc") or values.get(b"gpu_cache_usage_perc")
    return InferenceActivity(
        running=round(sum(values.get(b"num_requests_running", ()))),
        waiting=round(sum(values.get(b"num_requests_waiting", ()))),
        generated_tokens=round(sum(tokens)) if tokens else None,
        kv_usage_frac=sum(usage) / len(usage) if usage else None,
    )


def facts_of(activity: InferenceActivity) -> tuple[str, ...]:
    """Short texts for the pane's title: `KV 41 %`, `128 run 12 wait`."""
    load = f"{activity.running} run {activity.waiting} wait"
    if activity.kv_usage_frac is None:
        return (load,)
    return (f"KV {activity.kv_usage_frac * 100:.0f} %", load)
