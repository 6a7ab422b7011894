"""How the first generation is run: each program has a file of its own, and reads an edited copy of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rltui.core.config_report import KnobValue
from rltui.core.gpu.engine import EngineMemory
from rltui.core.plan import RestartRule
from rltui.core.template import TemplateValue
from rltui.frameworks.base import ConfigFiles, PortKnob, Resolution, RunContext, RunFiles
from rltui.frameworks.config_data import value_at
from rltui.frameworks.prime_rl import environment as env
from rltui.frameworks.prime_rl import gpu_split, own_files, restart, shared_values, urls
from rltui.frameworks.prime_rl.config_values import count, data_of, optional_count, text
from rltui.frameworks.prime_rl.vllm_memory import engine

PORT = "inference.server.port"
UTILIZATION = "inference.gpu_memory_utilization"
VLLM = (0, 10)
PARTS = ("inference", "orchestrator", "trainer")
_RUN_PARTS = ("orchestrator", "trainer", "sft")
"""Roles whose programs write into the run's folder."""


def split_gpus(files: ConfigFiles, context: RunContext) -> gpu_split.GpuSplit:
    """One device for each rank of inference, then one for each worker that the orchestrator packs for."""
    inference = data_of(files, "inference")
    ranks = max(1, count(inference, "parallel.tp", 1)) * max(1, count(inference, "parallel.dp", 1))
    return gpu_split.contiguous(context.devices, inference=ranks, trainer=_workers(files))


def _workers(files: ConfigFiles) -> int:
    return max(1, count(data_of(files, "orchestrator"), "num_train_workers", 1))


def template_values(files: ConfigFiles, context: RunContext) -> Mapping[str, TemplateValue]:
    """`config.<role>`, `run`, `gpus.<id>`, `gpu_count.trainer`, `port.inference` … for the layouts."""
    split = split_gpus(files, context)
    inference = data_of(files, "inference")
    port = urls.port(context.overrides.get(PORT, value_at(inference, "server.port")))
    return {
        **shared_values.values(files, context, dict.fromkeys(map(_name, files))),
        **shared_values.places(
            split,
            host=value_at(inference, "server.host"),
            port=port,
            engine_port=port,
            workers=_workers(files),
            memory=engine_memory(files),
        ),
        "gpus.sft": ",".join(context.devices[:1]),
    }


def resolutions(files: ConfigFiles, context: RunContext) -> Sequence[Resolution]:
    """Copies with the run's folder, the checkpoint to continue from, and the port that was chosen."""
    return tuple(
        Resolution(edits={role: _edits(role, context)}, outputs={_name(role): f"{role}.toml"})
        for role in files
    )


def _name(role: str) -> str:
    """As layouts ask for it: `sft` is called like the launcher that it became later."""
    return "launcher" if role == "sft" else role


def _edits(role: str, context: RunContext) -> dict[str, KnobValue]:
    edits: dict[str, KnobValue] = {}
    if role in _RUN_PARTS:
        edits |= {"output_dir": context.run_folder, "ckpt.resume_step": context.resume_step}
    if (port := context.overrides.get(PORT)) is not None:
        if role == "inference":
            edits["server.port"] = port
        if role == "orchestrator":
            edits["client.base_url"] = [f"http://localhost:{port}/v1"]
    return edits


def ports(files: ConfigFiles) -> tuple[PortKnob, ...]:
    """The server's port, unless the orchestrator's file gives its address."""
    if "inference" not in files or value_at(data_of(files, "orchestrator"), "client.base_url") is not None:
        return ()
    port = urls.port(value_at(data_of(files, "inference"), "server.port"))
    return (PortKnob("inference", PORT, port, ("inference", "orchestrator"), by_option=False),)


def environment(component: str, files: ConfigFiles, context: RunContext) -> Mapping[str, str]:
    """As `rl` of that time gives it to its children (`rl.py`)."""
    values = {**env.UNBUFFERED, **env.devices(component, split_gpus(files, context))}
    if component in _RUN_PARTS:
        role = component if component in files else "orchestrator"
        path = files[role].path if role in files else ""
        values |= {**env.COLOURS, **env.wandb_program("sft" if component == "sft" else "rl", path)}
    return values


def engine_memory(files: ConfigFiles) -> EngineMemory | None:
    """What vLLM takes, from the file of the inference server."""
    data = data_of(files, "inference")
    if "inference" not in files:
        return None
    return engine(
        utilization=value_at(data, "gpu_memory_utilization"),
        utilization_knob=UTILIZATION,
        model=text(data, "model.name"),
        dtype=text(data, "model.dtype"),
        tensor_parallel=count(data, "parallel.tp", 1),
        max_model_len=optional_count(data, "model.max_model_len"),
        enforce_eager=value_at(data, "model.enforce_eager") is True,
        version=VLLM,
    )


def output_dir(files: ConfigFiles) -> str | None:
    """The folder that the orchestrator's, the trainer's or the SFT file names."""
    return next((path for role in _RUN_PARTS if (path := text(data_of(files, role), "output_dir"))), None)


def run_files(files: ConfigFiles) -> RunFiles:
    """SFT has no orchestrator whose half a checkpoint would need."""
    return own_files.SPLIT_SFT if "sft" in files else own_files.SPLIT_RL


def restart_rules(files: ConfigFiles) -> Sequence[RestartRule]:
    """Weights go through files unless the trainer's file says otherwise.

    A run that begins anew needs no further rule: the orchestrator of that time posts `/reload_weights` first.
    """
    kind = text(data_of(files, "trainer"), "weight_broadcast.type")
    return restart.rules(in_memory=kind == "nccl")
