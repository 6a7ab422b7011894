"""Rules between knobs of the three files, and of `sft.toml`, in this generation.

Those between two files are checked by `rl`, not by the programs when they are started one by one; but those
then wait for each other forever.
"""

from __future__ import annotations

from dataclasses import replace

from rltui.frameworks.batch_rules import lonely_rollouts
from rltui.frameworks.prime_rl.sft_rules import DATA_RULES, packing_rules
from rltui.frameworks.prime_rl.trainer_rules import (
    adapter_rules,
    offload_rules,
    optimizer_rules,
    ordered_thresholds,
    schedule_rules,
    tracing,
    warmup_fits,
)
from rltui.frameworks.rule_makers import (
    Values,
    at_least,
    complete,
    divisible,
    in_share,
    needs,
    requires,
    room_for_prompts,
    same,
    same_port,
    together,
    when,
)
from rltui.frameworks.schemas import Rule

_T, _O, _I = "trainer", "orchestrator", "inference"
_MAPPED = "Jackmin108/"
"""Names of this owner stand for models that the orchestrator knows by another name."""


def _of_trainer(role: str) -> tuple[Rule, ...]:
    model, lora = f"{role}.model", f"{role}.model.experimental.lora"
    return (
        requires(f"{model}.trust_remote_code", f"{model}.impl", "hf"),
        needs(f"{model}.debug.random_init", f"{model}.load_using_meta", why="which leaves out the weights"),
        *offload_rules(model, f"{role}.optim"),
        *adapter_rules(f"{role}.ckpt", lora),
        tracing(f"{role}.trace_path", f"{role}.max_steps"),
        *schedule_rules(f"{role}.scheduler"),
        *optimizer_rules(f"{role}.optim"),
        warmup_fits(f"{role}.scheduler", f"{role}.max_steps"),
        complete(f"{role}.heartbeat", "url"),
    )


def _needs_one_step(role: str) -> Rule:
    level, kind = f"{role}.max_async_level", f"{role}.weight_broadcast.type"

    def fault(v: Values) -> str | None:
        if v[kind] != "nccl" or v[level] == 1:
            return None
        return f"{level} ({v[level]}) must be 1 while {kind} is nccl: set it to 1, or {kind} to filesystem"

    return Rule(level, (level, kind), fault)


def _nccl_has_one_copy(v: Values) -> str | None:
    copies, kind = v["inference.parallel.dp"], v["inference.weight_broadcast.type"]
    if kind != "nccl" or copies == 1:
        return None
    return (
        f"inference.parallel.dp ({copies}) must be 1 while inference.weight_broadcast.type is nccl: "
        f"take inference.parallel.tp for more GPUs, or filesystem"
    )


def _nccl_sends_all(v: Values) -> str | None:
    if v["trainer.weight_broadcast.type"] != "nccl" or not v["trainer.weight_broadcast.adapter_only"]:
        return None
    return "trainer.weight_broadcast.adapter_only does not work with nccl: set its type to filesystem"


def _between(first: str, second: str, *keys: str) -> tuple[Rule, ...]:
    return tuple(same(f"{first}.{key}", f"{second}.{key}") for key in keys)


_TRAINER = (
    *_of_trainer(_T),
    _needs_one_step(_T),
    needs(
        "trainer.weight_broadcast.adapter_only",
        "trainer.model.experimental.lora",
        why="since there are no LoRA weights without it",
    ),
    Rule(
        "trainer.weight_broadcast.adapter_only",
        ("trainer.weight_broadcast.type", "trainer.weight_broadcast.adapter_only"),
        _nccl_sends_all,
    ),
)
_ORCHESTRATOR = (
    divisible("orchestrator.batch_size", "orchestrator.rollouts_per_example"),
    lonely_rollouts("orchestrator.rollouts_per_example"),
    at_least("orchestrator.max_concurrent", "orchestrator.rollouts_per_example", severity="warning"),
    room_for_prompts("orchestrator.sampling.max_tokens", "orchestrator.seq_len", severity="hint"),
    _needs_one_step(_O),
    *(replace(rule, severity="warning") for rule in ordered_thresholds("orchestrator.buffer")),
)
_INFERENCE = (
    in_share("inference.gpu_memory_utilization", "vLLM"),
    Rule(
        "inference.parallel.dp",
        ("inference.parallel.dp", "inference.weight_broadcast.type"),
        _nccl_has_one_copy,
    ),
)
_BETWEEN = (
    *_between(_T, _O, "max_steps", "max_async_level", "output_dir", "weight_broadcast.type"),
    when(
        same("trainer.model.name", "orchestrator.model.name"),
        lambda v: not v["trainer.model.name"].startswith(_MAPPED),
    ),
    when(
        same("inference.model.name", "orchestrator.model.name"),
        lambda v: not v["orchestrator.model.name"].startswith(_MAPPED),
    ),
    together("trainer.ckpt", "orchestrator.ckpt", why="since both write their half"),
    *_between(_T, _O, "ckpt.interval", "ckpt.resume_step"),
    when(
        same("trainer.wandb.project", "orchestrator.wandb.project"),
        lambda v: "trainer.wandb" in v and "orchestrator.wandb" in v,
    ),
    same("inference.weight_broadcast.type", "orchestrator.weight_broadcast.type"),
    same_port("orchestrator.client.base_url", "inference.server.port", severity="warning"),
    room_for_prompts("orchestrator.sampling.max_tokens", "inference.model.max_model_len", severity="warning"),
)
RULES = (
    *_TRAINER,
    *_ORCHESTRATOR,
    *_INFERENCE,
    *_BETWEEN,
    *_of_trainer("sft"),
    *DATA_RULES,
    *packing_rules("stack"),
)
