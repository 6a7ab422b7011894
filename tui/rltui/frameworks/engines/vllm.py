"""vLLM, 0.10 to 0.32 (`facts/vllm.md`)."""

from __future__ import annotations

from rltui.core.engine_metrics import EngineMetrics
from rltui.core.gpu.budget import EngineRules, MemoryRule

METRICS = EngineMetrics(
    prefix="vllm:",
    running="num_requests_running",
    waiting="num_requests_waiting",
    usage=("kv_cache_usage_perc", "gpu_cache_usage_perc"),
    generated="generation_tokens_total",
    rates=("generation_tokens_total", "prompt_tokens_total", "num_preemptions_total"),
    hit_rates=("prefix_cache", "gpu_prefix_cache"),
    hit_rate="prefix_cache_hit_rate",
    means=(
        "time_to_first_token_seconds", "inter_token_latency_seconds", "time_per_output_token_seconds",
        "request_queue_time_seconds", "e2e_request_latency_seconds", "request_generation_tokens",
    ),
)  # fmt: skip

_REFUSAL = (
    "Free memory on {where} ({{free:.2f}}/{{total:.2f}} GiB) on startup is less than desired GPU memory"
    " utilization ({{utilization}}, {{budget:.2f}} GiB)"
)
_REFUSAL_NOW, _REFUSAL_EARLIER = (
    _REFUSAL.format(where=where) for where in ("device cuda:{device}", "device")
)
RULES = EngineRules(
    "vLLM",
    (
        MemoryRule((0, 21), graphs_in_budget=True, start_refusal=_REFUSAL_NOW),
        MemoryRule((0, 14), graphs_in_budget=False, start_refusal=_REFUSAL_NOW),
        MemoryRule((0, 0), graphs_in_budget=False, start_refusal=_REFUSAL_EARLIER),
    ),
)
"""The last one also stands for versions before 0.10."""
