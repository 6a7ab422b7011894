"""Metric concepts: the meaning of a metric, whatever a framework or an engine calls it. Pure.

A concept lists the names it has had; the first that a run has counts. They are those of prime-rl's metrics
file, of the log lines of all its generations (which are read under the file's names), of vLLM's endpoint, of
layouts with patterns of their own, and of rltui's own samples.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from rltui.core.metrics.series import OWN_SOURCE, SeriesKey

Better = Literal["higher", "lower", ""]
"""The good direction of a metric; empty: there is none."""


@dataclass(frozen=True, slots=True)
class MetricConcept:
    id: str
    title: str
    group: Literal["reward", "loss", "rollouts", "time", "inference", "memory"]
    names: tuple[str, ...]
    """Regular expressions for full names, the best first. A group in one names the subject of a series: an
    environment, a device.
    """
    unit: str = ""
    """Unit of the raw values; `frac` is a share from 0 to 1."""
    log: bool = False
    """Drawn on a logarithmic scale by default."""
    sources: tuple[str, ...] = ()
    """Sources in the order of preference, if several have it."""
    many: bool = False
    """A run has one per environment, engine or component, and all are meant."""
    least: int = 1
    """Fewer series than that are none of it."""
    curated: bool = True
    """Among the charts that are displayed by default."""
    better: Better = ""
    by_batch: bool = True
    """A value is that of one batch: over some steps counts its level (`core/metrics/levels.py`). Otherwise
    one value stands for itself: a setting, or a measurement on a fixed set.
    """


_AGENT = r"(?:[^/]+/)?"
_OF_STEP = rf"train/agg/effective/{_AGENT}"
_OF_ALL = rf"train/agg/all/{_AGENT}"
_OF_ENV = r"train/(?!agg/)([^/]+)/effective/(?:agent/|([^/]+)/)?"
_TRAINER = ("trainer", "sft", "orch")

CONCEPTS: tuple[MetricConcept, ...] = (
    MetricConcept("reward", "Reward", "reward", (r"train/agg/effective/reward/mean",
        rf"{_OF_STEP}reward/mean", r"train/agg/effective/.+/reward/mean", r"train/reward",
        r"reward/(?:all/)?mean", r"reward"),
        better="higher"),
    MetricConcept("reward_std", "Reward, std", "reward", (rf"{_OF_STEP}reward/std", r"train/reward_std",
        r"reward/(?:all/)?std", r"reward_std"), curated=False),
    MetricConcept("reward_low", "Reward, 10th percentile", "reward", (rf"{_OF_STEP}reward/p10",
        rf"{_OF_STEP}reward/min"), curated=False),
    MetricConcept("reward_high", "Reward, 90th percentile", "reward", (rf"{_OF_STEP}reward/p90",
        rf"{_OF_STEP}reward/max"), curated=False),
    MetricConcept("seat_reward", "Reward by agent", "reward", (r"train/agg/effective/([^/]+)/reward/mean",),
        many=True, least=2, better="higher"),
    MetricConcept("env_reward", "Reward by environment", "reward", (rf"{_OF_ENV}reward/mean",), many=True,
        better="higher"),
    MetricConcept("eval", "Evaluations", "reward", (rf"eval/([^/]+)/effective/{_AGENT}reward/mean",
        rf"eval/([^/]+)/effective/{_AGENT}avg@\d+", rf"eval/([^/]+)/all/{_AGENT}(?:reward/mean|avg@\d+)",
        r"eval/([^/]+)/(?:reward(?:/mean)?|avg@\d+)", r"val_reward(?:/.+)?"), many=True, better="higher",
        by_batch=False),
    MetricConcept("eval_cancelled", "Evaluations, cancelled", "rollouts",
        (r"eval/([^/]+)/all/cancelled/mean",), unit="frac", many=True, better="lower", by_batch=False),
    MetricConcept("loss", "Loss", "loss", (r"loss/mean", r"train/loss", r"loss"), sources=_TRAINER,
        better="lower"),
    MetricConcept("val_loss", "Validation loss", "loss", (r"val/loss",), sources=_TRAINER, better="lower",
        by_batch=False),
    MetricConcept("entropy", "Entropy", "loss", (r"entropy/all/mean", r"entropy/mean", r"train/entropy",
        r"entropy"), unit="nats", sources=_TRAINER),
    MetricConcept("kl", "KL to the sampler", "loss", (r"mismatch_kl/all/mean", r"mismatch_kl/mean",
        r"mismatch_kl", r"(?:train/)?kl(?:/mean)?"), log=True, sources=_TRAINER, better="lower"),
    MetricConcept("teacher_kl", "Log-ratio to the teacher (the KL with a minus)", "loss", (r"ref_kl/mean",),
        unit="nats", sources=_TRAINER, better="higher"),
    MetricConcept("nll", "Loss on given tokens", "loss", (r"nll/mean",), sources=_TRAINER, better="lower"),
    MetricConcept("importance_ratio", "Importance ratio", "loss", (r"importance_ratio/all/mean",
        r"importance_ratio/mean", r"importance_ratio"), sources=_TRAINER),
    MetricConcept("grad_norm", "Gradient norm", "loss", (r"optim/grad_norm", r"(?:train/)?grad_norm"),
        log=True, sources=_TRAINER),
    MetricConcept("lr", "Learning rate", "loss", (r"optim/lr", r"(?:train/)?(?:lr|learning_rate)"), log=True,
        sources=_TRAINER, by_batch=False),
    MetricConcept("truncation", "Truncated", "rollouts", (r"train/agg/effective/is_truncated/mean",
        rf"{_OF_STEP}is_truncated/mean",
        rf"{_OF_ALL}is_truncated/mean", r"(?:is_)?truncated(?:/.+)?"), unit="frac", better="lower"),
    MetricConcept("trainable", "Rollouts with a gradient", "rollouts",
        (r"train/agg/effective/is_trainable/mean", rf"{_OF_STEP}is_trainable/mean",
        rf"{_OF_ALL}is_trainable/mean"), unit="frac", better="higher"),
    MetricConcept("all_trainable", "Rollouts with a gradient, of all", "rollouts",
        (r"train/agg/all/is_trainable/mean", rf"{_OF_ALL}is_trainable/mean"), unit="frac", curated=False,
        better="higher"),
    MetricConcept("cancelled", "Rollouts that came back too old", "rollouts",
        (r"train/agg/all/cancelled/mean",), unit="frac", curated=False, better="lower"),
    MetricConcept("dropped", "Stale rollouts, number", "rollouts", (r"off_policy/dropped",), unit="rollouts",
        curated=False, better="lower"),
    MetricConcept("rollouts", "Rollouts of a step", "rollouts", (r"progress/rollouts",), unit="rollouts",
        curated=False),
    *(
        MetricConcept(f"discarded_{why}", f"Discarded: {why.replace('_', ' ')}", "rollouts",
            (rf"train/discarded/{why}",), unit="frac", curated=False, better="lower")
        for why in ("stale", "errored", "no_signal")
    ),
    MetricConcept("empty_batches", "Empty batches in a row", "rollouts", (r"train/empty_batches",),
        curated=False, better="lower"),
    MetricConcept("zero_signal", "Groups without signal", "rollouts", (rf"{_OF_ALL}solved_none",
        r"(?:batch/)?solve_none"), curated=False, better="lower"),
    MetricConcept("solved_all", "Fully solved groups", "rollouts", (rf"{_OF_ALL}solved_all",
        r"(?:batch/)?solve_all"), curated=False),
    MetricConcept("errors", "Rollouts with errors", "rollouts", (r"train/agg/all/(?:[^/]+/)?has_error/mean",
        r"error_rate(?:/.+)?"), unit="frac", curated=False, better="lower"),
    MetricConcept("seq_len", "Tokens per rollout", "rollouts", (rf"{_OF_STEP}num_total_tokens/mean",
        rf"{_OF_ALL}num_total_tokens/mean", r"seq_len(?:/.+)?"), unit="tokens"),
    MetricConcept("output_tokens", "Output tokens per rollout", "rollouts",
        (rf"{_OF_STEP}num_output_tokens/mean", rf"{_OF_ALL}num_output_tokens/mean"), unit="tokens",
        curated=False),
    MetricConcept("staleness", "Off-policy steps", "rollouts", (r"off_policy/mean", r"off_policy/max",
        r"(?:async_level|max_off_policy)(?:/.+)?"), unit="steps"),
    MetricConcept("policy_version", "Version of the weights that sample", "rollouts",
        (r"watcher/policy_version", r"policy/(?:applied|version)"), curated=False, by_batch=False),
    MetricConcept("step_time", "Step time", "time", (r"time/step", r"step_time"), unit="s", sources=_TRAINER,
        better="lower"),
    MetricConcept("orchestrator_time", "Orchestrator step time", "time", (r"time/step",), unit="s",
        sources=("orch", "orchestrator"), curated=False),
    MetricConcept("wait_for_batch", "Waiting for batch", "time", (r"time/wait_for_batch",), unit="s",
        better="lower"),
    MetricConcept("wait_for_policy", "Waiting for weights", "time", (r"time/wait_for_policy",),
        unit="s", better="lower"),
    MetricConcept("forward_backward", "Forward and backward", "time", (r"time/forward_backward",), unit="s",
        curated=False),
    MetricConcept("broadcast", "Weight broadcast", "time", (r"time/broadcast_weights",), unit="s",
        curated=False),
    MetricConcept("tokens_per_s", "Throughput", "time", (r"perf/throughput", r"throughput", r"tokens_per_s"),
        unit="tokens/s", sources=_TRAINER, better="higher"),
    MetricConcept("mfu", "Model FLOPs utilization", "time", (r"perf/mfu",), unit="%", sources=_TRAINER,
        curated=False, better="higher"),
    MetricConcept("kv_use", "KV cache in use", "inference", (r"vllm:kv_cache_usage_perc",
        r"vllm:gpu_cache_usage_perc", r"inference/agg/kv_cache_usage_perc/mean",
        r"inference/agg/kv_cache_usage_perc/max"), unit="frac"),
    MetricConcept("running", "Requests running", "inference", (r"vllm:num_requests_running",
        r"inference/agg/num_requests_running/mean"), unit="requests"),
    MetricConcept("waiting", "Requests waiting", "inference", (r"vllm:num_requests_waiting",
        r"inference/agg/num_requests_waiting/mean"), unit="requests"),
    MetricConcept("generation", "Generated tokens", "inference", (r"vllm:generation_tokens_total:rate",
        r"inference/agg/generation_tokens_total:rate/sum"), unit="tokens/s", better="higher"),
    MetricConcept("first_token", "Time to first token", "inference",
        (r"vllm:time_to_first_token_seconds:mean",), unit="s", curated=False, better="lower"),
    MetricConcept("preemptions", "Preemptions", "inference", (r"vllm:num_preemptions_total:rate",
        r"inference/agg/num_preemptions_total:rate/sum"), unit="1/s", curated=False, better="lower"),
    MetricConcept("cache_hits", "Prefix cache hits", "inference", (r"vllm:prefix_cache_hit_rate",
        r"inference/agg/prefix_cache_hit_rate/pooled"), unit="frac", curated=False, better="higher"),
    MetricConcept("gpu_memory", "GPU memory", "memory", (r"gpu_memory/(.+)",), unit="bytes",
        sources=(OWN_SOURCE,), many=True),
    MetricConcept("gpu_use", "GPU utilization", "memory", (r"gpu_use/(.+)",), unit="frac",
        sources=(OWN_SOURCE,), many=True),
    MetricConcept("peak_memory", "Trainer peak memory", "memory", (r"perf/peak_memory",), unit="GiB",
        sources=_TRAINER, curated=False),
    MetricConcept("restarts", "Starts", "memory", (r"starts/(.+)",), sources=(OWN_SOURCE,), many=True,
        curated=False),
)  # fmt: skip
"""All concepts, in the order of display within their group."""

_BY_ID = {concept.id: concept for concept in CONCEPTS}


def cancelled_evals(row: Mapping[str, Any]) -> dict[str, float]:
    """Environment → share of its episodes, of the evaluations of a row that a newer checkpoint cancelled."""
    (name,) = _BY_ID["eval_cancelled"].names
    return {
        match[1]: float(value)
        for key, value in row.items()
        if (match := _pattern(name).fullmatch(key)) and isinstance(value, float | int) and 0 < value <= 1
    }


def without_cancelled_evals(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row without the scores of evaluations that were cancelled, which are of the episodes that were
    finished first.
    """
    cancelled = tuple(f"eval/{env}/" for env in cancelled_evals(row))
    if not cancelled:
        return row
    return {
        name: value for name, value in row.items() if "/cancelled/" in name or not name.startswith(cancelled)
    }


def concept_of(id_: str) -> MetricConcept | None:
    return _BY_ID.get(id_)


@lru_cache(maxsize=256)
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(name)


def find(id_: str, keys: Iterable[SeriesKey]) -> SeriesKey | None:
    """The best series of `keys` for the concept `id_`; `None` if there is none."""
    matches = find_all(id_, keys)
    return matches[0] if matches else None


def find_all(id_: str, keys: Iterable[SeriesKey]) -> list[SeriesKey]:
    """All series with the best name that any of `keys` has for the concept `id_`, the best first.

    Raises:
        KeyError: there is no such concept.
    """
    concept = _BY_ID[id_]
    candidates = list(keys)
    for name in concept.names:
        pattern = _pattern(name)
        matches = [key for key in candidates if pattern.fullmatch(key.name)]
        if len(matches) >= concept.least:
            ranks = {source: rank for rank, source in enumerate(concept.sources)}
            return sorted(matches, key=lambda key: (ranks.get(key.source, len(ranks)), key.source, key.name))
    return []


def label_of(concept: MetricConcept, key: SeriesKey) -> str:
    """Subject of a series among several of a concept: an environment, an engine, a component."""
    for name in concept.names:
        if (match := _pattern(name).fullmatch(key.name)) and match.groups():
            return " · ".join(filter(None, match.groups())) or key.name
    return key.source or key.name


def env_of(name: str) -> str:
    """The environment whose reward that metric is; empty for any other metric."""
    match = _pattern(f"{_OF_ENV}reward/mean").fullmatch(name)
    return match[1] if match else ""
