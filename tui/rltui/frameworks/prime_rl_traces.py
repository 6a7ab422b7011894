"""Signs of prime-rl generations that are not supported yet. Goes when their modules come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltui.frameworks.config_data import value_at

_LATE = (
    "orchestrator.group_size",
    "orchestrator.concurrency",
    "orchestrator.renderer",
    "orchestrator.train",
    "inference.vllm",
    "inference.router",
    "inference.backend_port",
    "monitors",
    "run",
    "resume",
    "rollout_transport",
    "deployment.num_train_gpus",
    "eval.source",
)
_EARLY_MERGED = ("inference_gpu_ids", "trainer_gpu_ids", "teacher_gpu_ids", "trainer.model.experimental")
_MERGED = ("orchestrator", "trainer")
_SPLIT_ORCHESTRATOR = ("rollouts_per_example", "env", "environment", "sampling")


def traces(data: Mapping[str, Any]) -> str | None:
    """Which generation's file it is and what gives it away; `None` where nothing does."""
    merged = any(key in data for key in _MERGED)
    if found := _first(data, _LATE):
        return f"a prime-rl config of summer 2026 or later ({found}), which is not supported yet"
    if merged and (found := _first(data, _EARLY_MERGED)):
        return f"a prime-rl config from before March 2026 ({found}), which is not supported yet"
    if not merged and (found := _first(data, _SPLIT_ORCHESTRATOR)):
        return f"the orchestrator's part of a split prime-rl config ({found}), which is not supported yet"
    return None


def _first(data: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((key for key in keys if value_at(data, key) is not None), None)
