"""How the second generation is run: by parts from configs that its launcher writes, or by the launcher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rltui.core.config_report import KnobValue
from rltui.core.gpu.engine import EngineMemory
from rltui.core.plan import RestartRule
from rltui.core.template import TemplateValue
from rltui.frameworks.base import ConfigFiles, PortKnob, RunContext, RunFiles, ServiceCall
from rltui.frameworks.config_data import value_at
from rltui.frameworks.prime_rl import environment as env
from rltui.frameworks.prime_rl import gpu_split, own_files, restart, shared_values, urls
from rltui.frameworks.prime_rl.config_values import count, data_of, is_table, numbers, optional_count, text
from rltui.frameworks.prime_rl.resume_call import resume_call
from rltui.frameworks.prime_rl.vllm_memory import engine

PORT = "inference.server.port"
BASE_URL = "orchestrator.client.base_url"
UTILIZATION = "inference.gpu_memory_utilization"
VLLM = (0, 16)
PARTS = ("inference", "orchestrator", "trainer")


def split_gpus(data: Mapping[str, Any], devices: Sequence[str]) -> gpu_split.GpuSplit:
    """By `[deployment]`; by number in files from before that."""
    inference, trainer = numbers(data, "inference_gpu_ids"), numbers(data, "trainer_gpu_ids")
    if inference is not None or trainer is not None:
        return gpu_split.by_number(devices, inference or (0,), trainer or (1,))
    return gpu_split.contiguous(
        devices, inference=count(data, "deployment.num_infer_gpus", 1), trainer=trainers(data)
    )


def trainers(data: Mapping[str, Any]) -> int:
    """Processes of the trainer: one for each of its devices."""
    named = numbers(data, "trainer_gpu_ids")
    return len(named) if named else max(1, count(data, "deployment.num_train_gpus", 1))


def template_values(files: ConfigFiles, context: RunContext) -> Mapping[str, TemplateValue]:
    """`config.<part>`, `config.launcher`, `run`, `gpus.<id>`, `gpu_count.trainer`, `port.inference` …"""
    data = data_of(files, "rl")
    split = split_gpus(data, context.devices)
    port = urls.port(context.overrides.get(PORT, value_at(data, PORT)))
    sft_gpus = max(1, count(data_of(files, "sft"), "deployment.num_gpus", 1))
    return {
        **shared_values.values(files, context, shared_values.merged_parts(data)),
        **shared_values.places(
            split,
            host=value_at(data, "inference.server.host"),
            port=port,
            engine_port=port,
            workers=trainers(data),
            memory=engine_memory(files),
        ),
        "gpus.launcher": ",".join(dict.fromkeys((*split.inference, *split.trainer))),
        "gpus.sft": ",".join(context.devices[:sft_gpus]),
    }


def ports(files: ConfigFiles) -> tuple[PortKnob, ...]:
    """The server's port, unless the config gives its address a second time."""
    data = data_of(files, "rl")
    if not is_table(data, "inference") or value_at(data, BASE_URL) is not None:
        return ()
    port = urls.port(value_at(data, PORT))
    return (PortKnob("inference", PORT, port, ("inference", "orchestrator"), by_option=False),)


def port_edits(context: RunContext) -> dict[str, KnobValue]:
    """The port that rltui chose, on both sides."""
    if (port := context.overrides.get(PORT)) is None:
        return {}
    return {PORT: port, BASE_URL: [f"http://localhost:{port}/v1"]}


def environment(component: str, files: ConfigFiles, context: RunContext) -> Mapping[str, str]:
    """As the launcher gives it to its children (`entrypoints/rl.py`, `rl_local`)."""
    data = data_of(files, "rl")
    values = dict(env.UNBUFFERED)
    if "rl" in files and component in PARTS:
        values |= env.devices(component, split_gpus(data, context.devices))
    if component not in ("orchestrator", "trainer"):
        return values
    values |= {**env.COLOURS, **env.wandb_program("rl", files["rl"].path)}
    if is_table(data, "wandb") and value_at(data, "wandb.shared") is not False:
        values |= env.shared_wandb(component, context, id_name="WANDB_SHARED_RUN_ID")
    if component == "trainer":
        values |= env.EXPANDABLE
    return values


def engine_memory(files: ConfigFiles) -> EngineMemory | None:
    """What vLLM takes, from `[inference]`; from March 2026 on, with its other arguments in `vllm_extra`."""
    data = data_of(files, "rl")
    if not is_table(data, "inference"):
        return None
    return engine(
        utilization=value_at(data, UTILIZATION),
        utilization_knob=UTILIZATION,
        model=text(data, "inference.model.name", "model.name"),
        dtype=text(data, "inference.model.dtype"),
        tensor_parallel=count(data, "inference.parallel.tp", 1),
        max_model_len=optional_count(data, "inference.model.max_model_len"),
        enforce_eager=value_at(data, "inference.model.enforce_eager") is True,
        max_num_seqs=optional_count(data, "inference.vllm_extra.max_num_seqs"),
        max_num_batched_tokens=optional_count(data, "inference.vllm_extra.max_num_batched_tokens"),
        kv_cache_dtype=text(data, "inference.vllm_extra.kv_cache_dtype"),
        version=VLLM,
    )


def output_dir(files: ConfigFiles) -> str | None:
    """The folder that the config names."""
    return next((path for file in files.values() if (path := text(file.data, "output_dir"))), None)


def run_files(files: ConfigFiles) -> RunFiles:
    """SFT has no orchestrator whose half a checkpoint would need."""
    return own_files.MERGED_SFT if "sft" in files else own_files.MERGED_RL


def restart_rules(files: ConfigFiles) -> Sequence[RestartRule]:
    """By the transport of the weights."""
    data = data_of(files, "rl")
    kind = text(data, "weight_broadcast.type", "trainer.weight_broadcast.type")
    return restart.rules(in_memory=kind == "nccl")


def fresh_rules(files: ConfigFiles) -> Sequence[RestartRule]:
    """The `/reload_weights` of the generation before is gone, and nothing took its place."""
    del files
    return restart.weights_stay(is_resent=False)


def service_calls(files: ConfigFiles, context: RunContext) -> tuple[ServiceCall, ...]:
    """An orchestrator that died while it updated weights has left the engine paused."""
    if "rl" not in files:
        return ()
    return (resume_call(template_values(files, context)),)
