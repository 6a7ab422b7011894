"""Environment variables that prime-rl's launchers give to the programs they start."""

from __future__ import annotations

import json
from collections.abc import Mapping

from rltui.frameworks.base import RunContext
from rltui.frameworks.prime_rl.gpu_split import GpuSplit

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
COLOURS = {"LOGURU_FORCE_COLORS": "1"}
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


def devices(component: str, split: GpuSplit) -> Mapping[str, str]:
    """The devices of a component that has some. Without a known GPU nothing is hidden from it."""
    named = {"inference": split.inference, "trainer": split.trainer}.get(component, ())
    return {VISIBLE_DEVICES: ",".join(named)} if named else {}


def wandb_program(program: str, config: str) -> Mapping[str, str]:
    """What W&B shows as the command of the run: the one that a person would have typed."""
    return {"WANDB_PROGRAM": f"uv run {program}", "WANDB_ARGS": json.dumps([program, "@", config])}


def shared_wandb(component: str, context: RunContext, *, id_name: str) -> Mapping[str, str]:
    """Orchestrator and trainer log to one W&B run. `id_name` is the variable that holds its id."""
    return {
        "WANDB_SHARED_MODE": "1",
        id_name: context.run_id or context.name,
        "WANDB_SHARED_LABEL": component,
    }
