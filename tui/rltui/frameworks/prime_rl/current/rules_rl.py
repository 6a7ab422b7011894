"""Rules of an RL file: batching, lengths, GPUs, how weights and rollouts travel, what must be the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rltui.core.knobs import shown
from rltui.frameworks.batch_rules import batching
from rltui.frameworks.prime_rl.current.knobs_orchestrator import BATCH
from rltui.frameworks.prime_rl.current.rules_inference import inference_rules
from rltui.frameworks.prime_rl.current.rules_model import OWN, fault_if, model_rules
from rltui.frameworks.rule_makers import (
    Values,
    at_least,
    holds,
    is_on,
    requires,
    room_for_prompts,
    same,
    same_port,
    when,
)
from rltui.frameworks.schemas import Rule

_CONCURRENCY = "orchestrator.concurrency"
_TRAIN, _INFER = "deployment.num_train_gpus", "deployment.num_infer_gpus"
_PER_NODE, _KIND = "deployment.gpus_per_node", "deployment.type"
_BROADCAST = "weight_broadcast.type"
_QUANTIZED = "weight_broadcast.quantize_in_weight_transfer"
_LORA = "trainer.model.lora"
_IN_MEMORY = ("nccl", "nixl")


def is_single(v: Values) -> bool:
    """One machine."""
    return bool(v[_KIND] == "single_node")


def has_inference(v: Values) -> bool:
    """The launcher starts a server."""
    return is_on(v.get("inference"))


def concurrency_rules(at: str) -> tuple[Rule, ...]:
    """Bounds in order."""
    return (
        at_least(f"{at}.max_inflight", f"{at}.initial_inflight"),
        at_least(f"{at}.max_inflight", f"{at}.min_inflight"),
    )


def gpu_rule(at: str, *, counted: Callable[[Values], bool]) -> Rule:
    """Trainer and inference within one machine. `counted`: whether inference needs any."""
    train, infer = f"{at}deployment.num_train_gpus", f"{at}deployment.num_infer_gpus"
    machine, kind = f"{at}deployment.gpus_per_node", f"{at}deployment.type"

    def total(v: Values) -> int:
        return int(v[train] + (v[infer] if counted(v) else 0))

    return fault_if(
        train, (infer, machine, kind),
        lambda v: v[kind] == "single_node" and total(v) > v[machine],
        lambda v: f"{train} ({v[train]})"
        + (f" + {infer} ({v[infer]}) = {total(v)}" if counted(v) else "")
        + f" is more than {machine} ({v[machine]}): lower it by {total(v) - v[machine]}, or raise the latter",
    )  # fmt: skip


def _gpus(v: Values) -> int:
    return int(v[_TRAIN] + (v[_INFER] if has_inference(v) else 0))


def _sub_broadcast(v: Values) -> str | None:
    table = v.get("trainer.weight_broadcast")
    return table.get("type") if isinstance(table, Mapping) else None


def _inherited(key: str) -> Rule:
    own, trained = f"orchestrator.model.lora.{key}", f"{_LORA}.{key}"
    return fault_if(
        own, (trained,),
        lambda v: is_on(v.get(_LORA)) and v[own] is not None and v[own] != v[trained],
        lambda v: f"{own} ({v[own]:g}) must be that of {trained} ({v[trained]:g}): remove it",
    )  # fmt: skip


def _overwritten(table: str) -> Rule:
    return fault_if(
        _BROADCAST, (), lambda v: is_on(v.get(table)),
        lambda v: f"[{table}] is not read: rl fills it from [weight_broadcast], here {v[_BROADCAST]}",
        "warning",
    )  # fmt: skip


RL_RULES: tuple[Rule, ...] = (
    *(rule for rule in batching(BATCH) if rule.severity == "error"),
    *concurrency_rules(_CONCURRENCY),
    holds(f"{_CONCURRENCY}.initial_inflight", BATCH.group_size),
    holds(f"{_CONCURRENCY}.max_inflight", BATCH.group_size),
    at_least("trainer.model.seq_len", BATCH.seq_len, also=("seq_len",)),
    room_for_prompts(
        "orchestrator.train.sampling.max_completion_tokens", BATCH.seq_len, "inference.vllm.max_model_len",
        also=("seq_len",), severity="warning",
    ),
    when(
        at_least("inference.vllm.max_model_len", BATCH.seq_len, also=("seq_len",), severity="hint"),
        has_inference,
    ),
    same("trainer.max_steps", "orchestrator.max_steps", shared="max_steps"),
    same(
        "trainer.rollout_transport.type", "orchestrator.rollout_transport.type",
        shared="rollout_transport.type",
    ),
    when(same("inference.vllm.model", "orchestrator.model.name", shared="model.name"), has_inference),
    when(
        same("trainer.model.name", "orchestrator.model.name", shared="model.name"),
        lambda v: not has_inference(v) and not v["trainer.model.name"].startswith("Jackmin108/"),
    ),
    when(
        same_port("orchestrator.model.client.base_url", "inference.server.port"), has_inference,
    ),
    gpu_rule("", counted=lambda _: True),
    fault_if(
        _TRAIN, (_INFER, _KIND, _BROADCAST),
        lambda v: is_single(v) and _sub_broadcast(v) == "nccl" and v[_TRAIN] + v[_INFER] < 2,
        lambda v: "trainer.weight_broadcast.type nccl needs at least 2 GPUs, and "
        f"{_TRAIN} ({v[_TRAIN]}) + {_INFER} ({v[_INFER]}) is less: use filesystem",
    ),
    fault_if(
        _BROADCAST, (_TRAIN, _INFER, _KIND),
        lambda v: is_single(v) and v[_BROADCAST] == "nccl" and _gpus(v) < 2,
        lambda v: f"{_BROADCAST} nccl needs at least 2 GPUs, and trainer and inference have {_gpus(v)}: "
        f"set it to filesystem",
        "warning",
    ),
    fault_if(
        _BROADCAST, (_LORA,), lambda v: is_on(v.get(_LORA)) and v[_BROADCAST] in _IN_MEMORY,
        lambda v: f"{_BROADCAST} ({shown(v[_BROADCAST])}) cannot carry {_LORA}: set it to filesystem",
    ),
    fault_if(
        _LORA, (), lambda v: is_on(v.get(_LORA)) and _sub_broadcast(v) in _IN_MEMORY,
        lambda v: f"trainer.weight_broadcast.type ({_sub_broadcast(v)}) cannot carry {_LORA}: "
        "remove the table",
    ),
    *(_inherited(key) for key in ("rank", "alpha")),
    fault_if(
        _QUANTIZED, (_BROADCAST, "trainer.model.impl"),
        lambda v: v[_QUANTIZED] and v[_BROADCAST] == "nccl" and not has_inference(v),
        f"{_QUANTIZED} needs [inference], whose kernels take the weights: remove it",
    ),
    when(requires(_QUANTIZED, "trainer.model.impl", "custom"), lambda v: v[_BROADCAST] == "nccl",
         also=(_BROADCAST,)),
    fault_if(
        "inference.vllm.enable_eplb", (_BROADCAST, _QUANTIZED),
        lambda v: has_inference(v) and v["inference.vllm.enable_eplb"]
        and not (v[_BROADCAST] == "nccl" and v[_QUANTIZED]),
        f"inference.vllm.enable_eplb needs {_BROADCAST} to be nccl and {_QUANTIZED} = true",
    ),
    requires("trainer.enable_router_replay", "trainer.model.impl", *OWN),
    fault_if(
        "trainer.enable_router_replay", ("inference.kv_cache_offload",),
        lambda v: v["trainer.enable_router_replay"] and is_on(v.get("inference.kv_cache_offload")),
        "trainer.enable_router_replay cannot be used with inference.kv_cache_offload, whose hits "
        "do not say which experts were chosen: remove one of them",
    ),
    fault_if(
        _KIND, (), lambda v: not is_single(v) and not is_on(v.get("slurm")),
        f"{_KIND} multi_node needs [slurm], which starts the processes of the other machines",
    ),
    fault_if(
        "orchestrator.model.client.base_url", (), lambda v: not has_inference(v),
        lambda v: "no [inference]: the rl launcher starts no server, so one must answer at "
        f"orchestrator.model.client.base_url ({v['orchestrator.model.client.base_url']})",
        "hint",
    ),
    *(_overwritten(f"{part}.weight_broadcast") for part in ("trainer", "orchestrator", "inference")),
    *inference_rules("", also_slurm=True),
    *model_rules("trainer."),
)  # fmt: skip
