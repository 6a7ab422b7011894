"""vLLM, 0.10 to 0.32 (`facts/vllm.md`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from rltui.base.text import GIB
from rltui.core.gpu.budget import EngineMeasurements, EngineRules, MemoryRule
from rltui.core.metrics.engine import EngineMetrics
from rltui.frameworks.engines.base import Engine

_METRICS = EngineMetrics(
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
_MEMORY = EngineRules(
    "vLLM",
    (
        MemoryRule((0, 21), graphs_in_budget=True, start_refusal=_REFUSAL_NOW),
        MemoryRule((0, 14), graphs_in_budget=False, start_refusal=_REFUSAL_NOW),
        MemoryRule((0, 0), graphs_in_budget=False, start_refusal=_REFUSAL_EARLIER),
    ),
)
"""The last one also stands for versions before 0.10."""

_START_PHASES = (
    (r"non-default args: \{", "reading arguments"),
    (r"Resolved architecture: ", "reading the model's config"),
    (r"Initializing a V1 LLM engine \(v", "starting the engine"),
    (r"Time spent downloading weights for ", "weights downloaded"),
    (r"Starting to load model ", "loading the model"),
    (
        r"Loading (?:safetensors|pt) checkpoint shards: +(?P<percent>\d{1,3})% Completed",
        "loading weights",
    ),
    (r"Loading weights took [\d.]+ seconds", "weights loaded"),
    (r"Model loading took -?[\d.]+ GiB", "model loaded"),
    (r"Warming up model for the compilation", "warming up"),  # CPU builds, eager ones too
    (r"Warming up done\.", "warmed up"),
    (r"Dynamo bytecode transform time: ", "compiling"),
    (r"torch\.compile (?:takes|took) [\d.]+ s in total", "compiled"),
    (r"Available KV cache memory: |Profiling CUDA graph memory: ", "measuring memory"),
    (r"[A-Z]{3} KV cache size: [\d,]+ tokens", "KV cache ready"),
    (
        r"Capturing CUDA graphs?(?: shapes)?(?: \([^)]{0,60}\))?: +(?P<percent>\d{1,3})%",
        "capturing CUDA graphs",
    ),
    (r"Graph capturing finished in ", "CUDA graphs captured"),
    (r"init engine \(profile, create kv cache, warmup model\) took ", "engine ready"),
    (r"Starting vLLM (?:API )?server(?: \d+)? on ", "opening the port"),
)

_N = r"\d{1,15}(?:\.\d{1,15})?"
_VERSION = re.compile(
    r"(?:Initializing a V1 LLM engine \(v|vLLM API server version |vLLM server version )"
    r"(\d{1,9})\.(\d{1,9})(?!\d|\.dev)"
)
"""Does not match a build from a source tree without tags, 0.1.dev…, which is no version."""
_UTILIZATION = re.compile(rf"non-default args: \{{.*?'gpu_memory_utilization': ({_N})")
_UTILIZATION_NOW = re.compile(rf"The current --gpu-memory-utilization=({_N}) is equivalent to")
_LOADED = re.compile(rf"Model loading took (-?{_N}) GiB(?: memory)? and [\d.]+ seconds")
_KV_MEMORY = re.compile(rf"Available KV cache memory: (-?{_N}) GiB")
_KV_SIZE = re.compile(r"GPU KV cache size: (\d[\d,]{0,20}) tokens")
_GRAPHS = re.compile(rf"Graph capturing finished in \d+ secs, took (-?{_N}) GiB")
_SUMMARY = re.compile(
    r"Free memory on device \([\d.]+/[\d.]+ GiB\) on startup\. Desired GPU memory utilization is "
    rf"\(({_N}), ({_N}) GiB\)"
)


def _read_measurements(text: str) -> EngineMeasurements | None:
    """Memory sizes in the output of a start; `None` if there are none.

    Of several ranks the largest use counts, and the smallest size of a KV cache, since vLLM makes all caches
    that small.
    """
    summary = _SUMMARY.findall(text)
    utilizations = [float(share) for share, _ in summary]
    utilizations += [
        float(share) for pattern in (_UTILIZATION_NOW, _UTILIZATION) for share in pattern.findall(text)
    ]
    version = _VERSION.search(text)
    measurements = EngineMeasurements(
        budget_bytes=_bytes(min, (size for _, size in summary)),
        utilization=utilizations[0] if utilizations else None,
        weights_bytes=_bytes(max, _LOADED.findall(text)),
        kv_cache_bytes=_bytes(min, _KV_MEMORY.findall(text)),
        kv_cache_tokens=min(
            (int(tokens.replace(",", "")) for tokens in _KV_SIZE.findall(text)), default=None
        ),
        graphs_bytes=_bytes(max, _GRAPHS.findall(text)),
        version=(int(version[1]), int(version[2])) if version else None,
    )
    return None if measurements == EngineMeasurements() else measurements


def _bytes(choose: Callable[[list[float]], float], gibs: Iterable[str]) -> int | None:
    sizes = [float(size) for size in gibs]
    return max(0, round(choose(sizes) * GIB)) if sizes else None


VLLM = Engine(_METRICS, _MEMORY, _START_PHASES, _read_measurements)
"""The embedded engine answers, claims memory and logs as it does."""
