"""Environment variables of today's generation, as its launcher sets them (`utils/process.py`, `rl_local`)."""

from __future__ import annotations

from collections.abc import Mapping

from rltui.frameworks.base import ConfigFiles, RunContext
from rltui.frameworks.config_data import value_at
from rltui.frameworks.prime_rl import environment as env
from rltui.frameworks.prime_rl.config_values import data_of, text, texts
from rltui.frameworks.prime_rl.current.run import split_gpus

COMMON = {
    **env.UNBUFFERED,
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "OMP_NUM_THREADS": "1",
    "GIT_LFS_SKIP_SMUDGE": "1",
}
INFERENCE = {
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False",
    "VLLM_ENGINE_READY_TIMEOUT_S": "4200",
    "UCX_TLS": "all",
}
_LOGS_TO_WANDB = ("orchestrator", "trainer")
_ENV_SERVERS = "env-"
"""How the ids of env servers begin."""


def environment(component: str, files: ConfigFiles, context: RunContext) -> Mapping[str, str]:
    """Defaults, then `[env_vars]` of the config, then what cannot be chosen; nothing for the launcher."""
    if "rl" not in files or not (component in ("inference", *_LOGS_TO_WANDB) or _is_env_server(component)):
        return env.UNBUFFERED
    data = data_of(files, "rl")
    part = "orchestrator" if _is_env_server(component) else component
    values = {**COMMON, **_defaults(component, files)}
    values |= texts(value_at(data, "env_vars")) | texts(value_at(data, f"{part}.env_vars"))
    values |= {"PRL_RUN_ID": context.run_id or context.name, "PRL_RUN_NAME": run_name(files, context)}
    if component in _LOGS_TO_WANDB:
        values |= env.shared_wandb(component, context, id_name="WANDB_RUN_ID")
    return {**values, **env.devices(component, split_gpus(data, context.devices))}


def run_name(files: ConfigFiles, context: RunContext) -> str:
    """What the config calls the run, else the name of the experiment."""
    named = (text(file.data, "run.name") for file in files.values())
    return next((name for name in named if name is not None), context.name)


def _is_env_server(component: str) -> bool:
    return component.startswith(_ENV_SERVERS)


def _defaults(component: str, files: ConfigFiles) -> Mapping[str, str]:
    if component == "inference":
        return INFERENCE
    if component not in _LOGS_TO_WANDB:
        return {}
    memory = env.EXPANDABLE if component == "trainer" else {}
    return {**env.COLOURS, **env.wandb_program("rl", files["rl"].path), **memory}
