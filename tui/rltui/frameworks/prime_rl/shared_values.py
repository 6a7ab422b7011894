"""Values for a layout's placeholders that mean the same in every generation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltui.core.config_report import KnobValue
from rltui.core.gpu.engine import EngineMemory
from rltui.core.knobs import TomlValue
from rltui.core.template import Missing, TemplateValue
from rltui.frameworks import generic
from rltui.frameworks.base import ConfigFiles, RunContext
from rltui.frameworks.prime_rl import urls
from rltui.frameworks.prime_rl.config_values import is_table
from rltui.frameworks.prime_rl.current.env_servers import sources
from rltui.frameworks.prime_rl.gpu_split import GpuSplit

MADE_AT_START = Missing("it is made as the component starts")
NO_INFERENCE = Missing(
    "the config has no [inference] table, so there is no server to start",
    hint="add [inference], or use --layout prime-rl-single beside a server of your own",
)
_FILE_BROADCAST: Mapping[str, KnobValue] = {
    "weight_broadcast": None,
    "trainer.weight_broadcast": None,
    "orchestrator.weight_broadcast": None,
    "inference.weight_broadcast": None,
    "weight_broadcast.type": "filesystem",
}
BROADCAST_NOTE = "one GPU for inference and trainer: weights go through files, since NCCL needs two GPUs"
SINGLE = "--layout prime-rl-single runs it with prime-rl's own launcher"


def through_files(edits: Mapping[str, KnobValue]) -> dict[str, KnobValue]:
    """The edits for one shared GPU: NCCL would need a device for each side."""
    kept = {key: value for key, value in edits.items() if "weight_broadcast." not in key}
    return {**kept, **_FILE_BROADCAST}


def values(
    files: ConfigFiles, context: RunContext, made: Mapping[str, Missing | None]
) -> dict[str, TemplateValue]:
    """Folders, the way to prime-rl's programs, and the configs.

    `made`: name of each file that resolutions make → why it cannot be made, if that is so.
    """
    return {
        **generic.template_values(files, context),
        "run": context.run,
        **{f"config.{name}": fault or MADE_AT_START for name, fault in made.items()},
        **{f"config.{name}": path for name, path in context.resolved.items()},
    }


def places(
    split: GpuSplit,
    *,
    host: TomlValue,
    port: int,
    engine_port: int,
    workers: int,
    memory: EngineMemory | None,
) -> dict[str, TemplateValue]:
    """Which devices and ports the parts get, and the share of memory that inference takes where it has a GPU.

    `host`: as the config has it. `workers`: of a trainer for which there is no device.
    """
    return {
        "host.inference": urls.host(host),
        "port.inference": str(port),
        "port.engine": str(engine_port),
        "gpus.inference": split.value("inference"),
        "gpus.trainer": split.value("trainer"),
        "gpu_count.trainer": str(len(split.trainer) or workers),
        "gpu_memory.inference": str(memory.utilization) if memory is not None and split.inference else "",
    }


def merged_parts(files: ConfigFiles, data: Mapping[str, Any]) -> Mapping[str, Missing | None]:
    """`made` of `values`, for a merged config."""
    fault = not_by_parts(data)
    no_inference = None if is_table(data, "inference") else NO_INFERENCE
    return {
        "launcher": None,
        "inference": fault or no_inference,
        **dict.fromkeys(("orchestrator", "trainer"), fault),
        **{f"env.{source.split}.{source.name}": fault for source in sources(files)},
    }


def not_by_parts(data: Mapping[str, Any]) -> Missing | None:
    """Why rltui cannot start the processes of a merged config itself, or should not."""
    deployment = data.get("deployment")
    if is_table(data, "slurm"):
        return Missing(
            "the config asks for a cluster with [slurm], and its parts would run on this machine",
            hint=f"{SINGLE}, which submits it; to run it here, remove [slurm]",
        )
    if isinstance(deployment, Mapping) and deployment.get("type", "single_node") != "single_node":
        return Missing("the config is for several nodes, whose processes SLURM starts", hint=SINGLE)
    if is_table(data, "teacher_inference") or (
        isinstance(deployment, Mapping) and deployment.get("num_teacher_gpus")
    ):
        return Missing(
            "the config asks for a teacher's server, which this layout does not start", hint=SINGLE
        )
    return None
