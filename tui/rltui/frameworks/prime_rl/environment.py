"""Environment variables that prime-rl's launchers give to the programs they start (`rl_local`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rltui.core.config_data import value_at
from rltui.frameworks.base import ConfigFiles, RunContext
from rltui.frameworks.prime_rl.config_values import is_table, text, texts
from rltui.frameworks.prime_rl.generation import Generation
from rltui.frameworks.prime_rl.gpu_split import GpuSplit

_LOGGING = ("orchestrator", "trainer")
"""Both log to W&B."""
_ENV_SERVERS = "env-"
"""How the ids of env servers begin."""


def attempt_configs(context: RunContext) -> str:
    """Folder in which the programs of a run look for one another's files; it outlives their restarts."""
    return f"{context.own_folder}/resolved/newest"


def attempt_logs(context: RunContext) -> str:
    """Folder for logs that programs write besides what they print."""
    return f"{context.run_folder}/logs/rltui"


def environment(
    g: Generation, component: str, files: ConfigFiles, context: RunContext, *, split: GpuSplit
) -> Mapping[str, str]:
    """The generation's own, then what the config says, then what cannot be chosen; little for a launcher."""
    part = "env" if component.startswith(_ENV_SERVERS) else component
    parts = ("env", "inference", *_LOGGING) if g.has_launchers else ("inference", *_LOGGING, "sft")
    if part not in parts or (g.has_launchers and "rl" not in files):
        return {"PYTHONUNBUFFERED": "1"}
    data = files["rl"].data if "rl" in files else {}
    found = {**g.environment[""], **g.environment.get(part, {})}
    if part in (*_LOGGING, "sft"):
        found |= {"LOGURU_FORCE_COLORS": "1", **_typed(part, files)}
    if g.run_folders:
        of_part = f"{'orchestrator' if part == 'env' else part}.env_vars"
        found |= texts(value_at(data, "env_vars")) | texts(value_at(data, of_part))
        found |= {"PRL_RUN_ID": context.run_id or context.name, "PRL_RUN_NAME": run_name(files, context)}
        found["PRL_ATTEMPT_CONFIG_DIR"] = attempt_configs(context)
        found["PRL_ATTEMPT_LOG_DIR"] = attempt_logs(context)
    if part in _LOGGING and g.shared_wandb and _shares(g, data):
        found |= {"WANDB_SHARED_MODE": "1", "WANDB_SHARED_LABEL": part}
        found[g.shared_wandb] = context.run_id or context.name
    devices = {"inference": split.inference, "trainer": split.trainer}.get(part)
    return {**found, "CUDA_VISIBLE_DEVICES": ",".join(devices)} if devices else found


def run_name(files: ConfigFiles, context: RunContext) -> str:
    """What the config calls the run, else the name of the experiment."""
    named = (text(file.data, "run.name") for file in files.values())
    return next((name for name in named if name is not None), context.name)


def _typed(part: str, files: ConfigFiles) -> Mapping[str, str]:
    """What W&B shows as the command of the run: the one that a person would have typed."""
    role = next((role for role in (part, "rl", "orchestrator") if role in files), None)
    program = "sft" if part == "sft" else "rl"
    words = [program, "@", files[role].path if role is not None else ""]
    return {"WANDB_PROGRAM": f"uv run {program}", "WANDB_ARGS": json.dumps(words)}


def _shares(g: Generation, data: Mapping[str, Any]) -> bool:
    """Orchestrator and trainer log to one W&B run."""
    if not g.wandb_table:
        return True
    return is_table(data, g.wandb_table) and value_at(data, f"{g.wandb_table}.shared") is not False
