"""How the second generation is run: by parts from configs that its launcher writes, or by the launcher."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rltui.core.config_report import KnobValue
from rltui.core.gpu.engine import EngineMemory
from rltui.core.plan import RestartRule
from rltui.core.template import TemplateValue
from rltui.frameworks.base import ConfigFiles, PortKnob, RunContext, RunFiles, ServiceCall
from rltui.frameworks.config_data import value_at
from rltui.frameworks.prime_rl import environment as env
from rltui.frameworks.prime_rl import gpu_split, own_files, restart, shared_values, urls
from rltui.frameworks.prime_rl.config_values import (
    count,
    data_of,
    is_table,
    numbers,
    optional_count,
    rows,
    text,
)
from rltui.frameworks.prime_rl.current.env_servers import sources
from rltui.frameworks.prime_rl.detection import is_of_summer
from rltui.frameworks.prime_rl.ports import fixed_ports, fixed_values
from rltui.frameworks.prime_rl.ports import port_edits as fixed_port_edits
from rltui.frameworks.prime_rl.resume_call import resume_call
from rltui.frameworks.prime_rl.vllm_memory import engine

PORT = "inference.server.port"
_BASE_URLS = (
    "orchestrator.client.base_url",
    "orchestrator.student.client.base_url",
    "orchestrator.model.client.base_url",
)
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
        **shared_values.values(files, context, shared_values.merged_parts(files, data)),
        **shared_values.places(
            split,
            host=value_at(data, "inference.server.host"),
            port=port,
            engine_port=port,
            workers=trainers(data),
            memory=engine_memory(files),
        ),
        **fixed_values(_fixed_ports(files), sources(files), context),
        **({"port.weights": ""} if split.is_shared else {}),
        "gpus.launcher": ",".join(dict.fromkeys((*split.inference, *split.trainer))),
        "gpus.sft": ",".join(context.devices[:sft_gpus]),
    }


def broadcast(data: Mapping[str, Any]) -> str:
    """How weights go to the server. Since July 2026 the launcher chooses NCCL where nothing forbids it."""
    named = text(data, "weight_broadcast.type", "trainer.weight_broadcast.type")
    if named is not None:
        return named
    may = is_of_summer(data) and is_table(data, "inference") and not is_table(data, "trainer.model.lora")
    return "nccl" if may else "filesystem"


def ports(files: ConfigFiles) -> tuple[PortKnob, ...]:
    """Of everything that listens; the server's not where the orchestrator is sent elsewhere."""
    data = data_of(files, "rl")
    fixed = tuple(_fixed_ports(files))
    port = urls.port(value_at(data, PORT))
    addresses = (value_at(data, key) for key in _BASE_URLS)
    if not is_table(data, "inference") or not all(urls.is_here(each, port) for each in addresses):
        return fixed
    return (PortKnob("inference", PORT, port, ("inference", "orchestrator"), by_option=False), *fixed)


def _fixed_ports(files: ConfigFiles) -> Iterator[PortKnob]:
    data = data_of(files, "rl")
    if "rl" in files:
        batches = "zmq" if rows(data, "orchestrator.train.source") else "filesystem"
        yield from fixed_ports(data, sources(files), weights=broadcast(data), batches=batches)


def port_edits(data: Mapping[str, Any], context: RunContext) -> dict[str, KnobValue]:
    """The ports that rltui chose, on both sides."""
    edits = fixed_port_edits(context)
    if (port := context.overrides.get(PORT)) is not None:
        edits |= {PORT: port, _base_url(data): [f"http://localhost:{port}/v1"]}
    return edits


def _base_url(data: Mapping[str, Any]) -> str:
    """Where the orchestrator's half of the server's address stands: it moved in June and July 2026."""
    early, june, july = _BASE_URLS
    if not is_of_summer(data):
        return early
    return june if is_table(data, "orchestrator.student") else july


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
    return restart.rules(in_memory=broadcast(data_of(files, "rl")) == "nccl")


def fresh_rules(files: ConfigFiles) -> Sequence[RestartRule]:
    """The `/reload_weights` of the generation before is gone, and nothing took its place."""
    del files
    return restart.weights_stay(is_resent=False)


def service_calls(files: ConfigFiles, context: RunContext) -> tuple[ServiceCall, ...]:
    """An orchestrator that died while it updated weights has left the engine paused."""
    if "rl" not in files:
        return ()
    return (resume_call(template_values(files, context)),)
