"""How today's generation is run: by parts from the configs that its launcher writes, or by the launcher."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from rltui.core.gpu.engine import EngineMemory
from rltui.core.plan import RestartRule
from rltui.core.template import TemplateValue
from rltui.frameworks.base import ConfigFiles, PortKnob, RunContext, RunFiles, ServiceCall
from rltui.frameworks.config_data import value_at
from rltui.frameworks.prime_rl import gpu_split, own_files, restart, shared_values, urls
from rltui.frameworks.prime_rl.config_values import count, data_of, is_table, numbers, optional_count, text
from rltui.frameworks.prime_rl.current.env_servers import sources
from rltui.frameworks.prime_rl.ports import fixed_ports, fixed_values
from rltui.frameworks.prime_rl.resume_call import resume_call
from rltui.frameworks.prime_rl.vllm_memory import engine

PORT = "inference.server.port"
ENGINE_PORT = "inference.backend_port"
ROUTER_METRICS_ABOVE = 21_000
"""The router's own metrics are so far above the port of the router."""
ENGINE_ABOVE = 100
"""The engine behind the router listens so far above the router, unless the config says where."""
BASE_URL = "orchestrator.model.client.base_url"
UTILIZATION = "inference.vllm.gpu_memory_utilization"
VLLM = (0, 26)


def split_gpus(data: Mapping[str, Any], devices: Sequence[str]) -> gpu_split.GpuSplit:
    """By `[deployment]`; no device for a server where the config has none."""
    inference = count(data, "deployment.num_infer_gpus", 1) if has_inference(data) else 0
    trainer = max(1, count(data, "deployment.num_train_gpus", 1))
    return gpu_split.contiguous(devices, inference=inference, trainer=trainer)


def has_inference(data: Mapping[str, Any]) -> bool:
    """The config asks for a server, if only with an empty table."""
    return is_table(data, "inference")


def has_router(data: Mapping[str, Any]) -> bool:
    """A router stands before the engine, unless it is switched off."""
    return bool(value_at(data, "inference.router") != "None")


def broadcast(data: Mapping[str, Any]) -> str:
    """How weights go to the server: what the config says, else as the launcher chooses."""
    named = text(data, "weight_broadcast.type", "trainer.weight_broadcast.type")
    if named is not None:
        return named
    return "filesystem" if is_table(data, "trainer.model.lora") or not has_inference(data) else "nccl"


def effective_ports(data: Mapping[str, Any], overrides: Mapping[str, int | str]) -> tuple[int, int]:
    """Where clients and where the engine are spoken to: one and the same without a router."""
    router = urls.port(overrides.get(PORT, value_at(data, PORT)))
    if not has_router(data):
        return router, router
    above = urls.port(value_at(data, PORT)) + ENGINE_ABOVE
    return router, urls.port(overrides.get(ENGINE_PORT, value_at(data, ENGINE_PORT)), above)


def template_values(files: ConfigFiles, context: RunContext) -> Mapping[str, TemplateValue]:
    """`config.<part>`, `config.launcher`, `run`, `gpus.<id>`, `port.inference`, `port.engine` …"""
    role = "rl" if "rl" in files else "sft"
    data = data_of(files, role)
    split = split_gpus(data, context.devices)
    port, engine_port = effective_ports(data, context.overrides)
    all_gpus = ",".join(dict.fromkeys((*split.inference, *split.trainer)))
    return {
        **shared_values.values(files, context, shared_values.merged_parts(files, data)),
        **shared_values.places(
            split,
            host=value_at(data, "inference.server.host"),
            port=port,
            engine_port=engine_port,
            workers=max(1, count(data, "deployment.num_train_gpus", 1)),
            memory=engine_memory(files),
        ),
        **fixed_values(_fixed_ports(files), sources(files), context),
        **({"port.weights": ""} if split.is_shared else {}),
        "gpus.launcher": all_gpus,
        "gpus.sft": all_gpus,
        "ranks.trainer": ",".join(map(str, numbers(data, "trainer.log.ranks_filter") or (0,))),
    }


def ports(files: ConfigFiles) -> tuple[PortKnob, ...]:
    """Of everything that listens; router and engine not where the orchestrator is sent elsewhere."""
    data = data_of(files, "rl")
    return (*_server_ports(data), *_fixed_ports(files))


def _server_ports(data: Mapping[str, Any]) -> Iterator[PortKnob]:
    port, engine_port = effective_ports(data, {})
    if not has_inference(data) or not urls.is_here(value_at(data, BASE_URL), port):
        return
    readers = ("inference", "orchestrator")
    router = (ROUTER_METRICS_ABOVE,) if has_router(data) and port + ROUTER_METRICS_ABOVE < 65536 else ()
    yield PortKnob("inference", PORT, port, readers, by_option=False, more=router)
    if engine_port != port and value_at(data, "orchestrator.model.client.admin_base_url") is None:
        yield PortKnob("inference", ENGINE_PORT, engine_port, readers, by_option=False)


def _fixed_ports(files: ConfigFiles) -> Iterator[PortKnob]:
    data = data_of(files, "rl")
    if "rl" in files:
        yield from fixed_ports(data, sources(files), weights=broadcast(data), batches="zmq")


def engine_memory(files: ConfigFiles) -> EngineMemory | None:
    """What vLLM takes, from `[inference.vllm]`, which has vLLM's own names."""
    data = data_of(files, "rl")
    if not has_inference(data):
        return None
    table = "inference.vllm"
    return engine(
        utilization=value_at(data, UTILIZATION),
        utilization_knob=UTILIZATION,
        model=text(data, f"{table}.model", "model.name"),
        dtype=text(data, f"{table}.dtype"),
        tensor_parallel=count(data, f"{table}.tensor_parallel_size", 1),
        max_model_len=optional_count(data, f"{table}.max_model_len"),
        enforce_eager=value_at(data, f"{table}.enforce_eager") is True,
        max_num_seqs=optional_count(data, f"{table}.max_num_seqs"),
        max_num_batched_tokens=optional_count(data, f"{table}.max_num_batched_tokens"),
        kv_cache_dtype=text(data, f"{table}.kv_cache_dtype"),
        kv_cache_memory_bytes=optional_count(data, f"{table}.kv_cache_memory_bytes"),
        version=VLLM,
    )


def output_dir(files: ConfigFiles) -> str | None:
    """The run's own folder below `output_dir`, as far as the config names them."""
    for file in files.values():
        group, run = text(file.data, "output_dir"), text(file.data, "run.dir", "run.name")
        if group is not None or run is not None:
            return str(PurePath(group or "outputs") / (run or ""))
    return None


def run_files(files: ConfigFiles) -> RunFiles:
    """SFT has no orchestrator whose half a checkpoint would need."""
    return own_files.CURRENT_SFT if "sft" in files else own_files.CURRENT_RL


def restart_rules(files: ConfigFiles) -> Sequence[RestartRule]:
    """By the transports. A pair stays a pair even where both go through files: their counters are two.

    A run that begins anew needs no further rule: the trainer broadcasts its first weights before the first
    step, and the orchestrator waits for them.
    """
    data = data_of(files, "rl")
    rollouts = text(data, "rollout_transport.type", "trainer.rollout_transport.type") or "zmq"
    in_memory = broadcast(data) != "filesystem"
    through_files = rollouts == "filesystem" and not in_memory
    return restart.rules(in_memory=in_memory, pair=restart.STEPS if through_files else restart.HANDSHAKE)


def service_calls(files: ConfigFiles, context: RunContext) -> tuple[ServiceCall, ...]:
    """An orchestrator that died while it updated weights has left the engine paused."""
    if "rl" not in files:
        return ()
    return (resume_call(template_values(files, context)),)
