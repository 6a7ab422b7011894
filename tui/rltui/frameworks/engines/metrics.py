"""Names at the `/metrics` of an inference server: those of vLLM, 0.10 to 0.32 (`facts/vllm.md`, Metrics). The
embedded engine has the same.
"""

from __future__ import annotations

from rltui.core.engine_metrics import EngineMetrics

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
