"""Rules between the knobs of `rl.toml` and of `sft.toml` in this generation."""

from __future__ import annotations

from dataclasses import replace

from rltui.frameworks.base import BatchKnobs
from rltui.frameworks.batch_rules import batching
from rltui.frameworks.prime_rl.log_lines import TOKENS_PER_ROLLOUT
from rltui.frameworks.prime_rl.merged.gpu_rules import RL_GPU_RULES, SFT_GPU_RULES
from rltui.frameworks.prime_rl.merged.shared_rules import SHARED_RULES
from rltui.frameworks.prime_rl.sft_rules import DATA_RULES, gpu_rounds, packing_rules, shared_row_rules
from rltui.frameworks.prime_rl.trainer_rules import (
    adapter_rules,
    fused_head,
    model_rules,
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
    below,
    complete,
    holds,
    in_share,
    is_on,
    not_both,
    own,
    room_for_prompts,
    same_port,
    when,
)
from rltui.frameworks.schemas import Rule

BATCH = BatchKnobs(
    batch_size="orchestrator.batch_size",
    token_batch_size="orchestrator.token_batch_size",  # noqa: S106
    group_size="orchestrator.rollouts_per_example",
    seq_len="orchestrator.seq_len",
    inflight="orchestrator.max_inflight_rollouts",
    oversampling="orchestrator.oversampling_factor",
    token_metric=TOKENS_PER_ROLLOUT,
)
COMPLETION = ("orchestrator.sampling.max_tokens", "orchestrator.train.sampling.max_completion_tokens")
"""Names of the bound on a completion, which changed in April 2026."""

_KIND = "trainer.weight_broadcast.type"
_SCHEDULE = "orchestrator.sampling.temp_scheduler"
_BUFFER = "orchestrator.buffer"


_TRAINER_TAKES_ROLLOUTS = at_least("trainer.model.seq_len", BATCH.seq_len, also=("seq_len",))


def _is_early(v: Values) -> bool:
    """Whether the file may be from before 2025-12-15, when the trainer had no length of its own."""
    signs = ("inference_gpu_ids", "trainer_gpu_ids", "clean")
    unset = own(v, "trainer.model.seq_len") is None and own(v, "seq_len") is None
    return unset and any(own(v, name) is not None for name in signs)


def _of_trainer(prefix: str, ckpt: str, *, may_be_number: bool) -> tuple[Rule, ...]:
    model = f"{prefix}.model"
    return (
        *model_rules(model),
        *offload_rules(model, f"{prefix}.optim"),
        fused_head(model, may_be_number=may_be_number),
        when(
            adapter_rules(ckpt, f"{model}.lora")[0],
            lambda v: not is_on(v.get(f"{model}.experimental.lora")),
        ),
        tracing(f"{prefix}.trace_path", f"{prefix}.max_steps"),
        *schedule_rules(f"{prefix}.scheduler"),
        *optimizer_rules(f"{prefix}.optim"),
        warmup_fits(f"{prefix}.scheduler", f"{prefix}.max_steps"),
        complete(f"{prefix}.heartbeat", "url"),
    )


def _nccl_is_one_step_ahead(name: str) -> Rule:
    def fault(v: Values) -> str | None:
        level = v[name] if v["max_async_level"] is None else v["max_async_level"]
        if v[_KIND] != "nccl" or level == 1:
            return None
        return f"{name} ({level}) must be 1 while {_KIND} is nccl: set it to 1, or the type to filesystem"

    return Rule(name, (name, "max_async_level", _KIND, "weight_broadcast.type"), fault)


def _nccl_without_lora(v: Values) -> str | None:
    if v[_KIND] != "nccl" or not is_on(v.get("trainer.model.lora")):
        return None
    return f"[trainer.model.lora] does not work while {_KIND} is nccl: set the type to filesystem"


def _one_run(v: Values) -> str | None:
    runs = v["trainer.max_concurrent_runs"]
    if not v["trainer.model.optim_cpu_offload"] or runs == 1:
        return None
    return (
        f"trainer.model.optim_cpu_offload does not work while trainer.max_concurrent_runs ({runs}) is above 1"
    )


def _schedule_has_an_end(v: Values) -> str | None:
    if not is_on(v.get(_SCHEDULE)) or v[f"{_SCHEDULE}.total_steps"] is not None:
        return None
    if own(v, "orchestrator.max_steps") is not None:
        return None
    return (
        f"{_SCHEDULE}.total_steps must be set while orchestrator.max_steps is not: "
        f"the shared max_steps comes too late for it"
    )


def _teacher_for_tau(v: Values) -> str | None:
    tau = v["trainer.loss.teacher_tau"]
    tables = ("teacher_model", "teacher", "teacher_rollout_model")
    has_teacher = v["deployment.num_teacher_gpus"] or any(f"orchestrator.{name}" in v for name in tables)
    if v["trainer.loss.type"] != "default" or not tau or has_teacher:
        return None
    return (
        f"trainer.loss.teacher_tau ({tau:g}) needs a teacher: set deployment.num_teacher_gpus or "
        f"[orchestrator.teacher_model], or set teacher_tau to 0"
    )


def _own_loss(v: Values) -> str | None:
    if v["trainer.loss.type"] != "custom" or own(v, "trainer.loss.import_path") is not None:
        return None
    return "trainer.loss.type (custom) needs trainer.loss.import_path, where your loss is"


def _metrics_port(v: Values) -> str | None:
    table, port = v.get("trainer.metrics_server"), v["inference.server.port"]
    used = own(v, "trainer.metrics_server.port") or 8000
    if table is None or "inference" not in v or used != port:
        return None
    return (
        f"trainer.metrics_server.port ({used}) is that of inference.server.port ({port}): "
        f"set it to another one, such as {port + 1}"
    )


def _short_context(v: Values) -> str | None:
    limit, wanted = v["inference.model.max_model_len"], v["orchestrator.seq_len"]
    if limit is None or limit >= wanted:
        return None
    return (
        f"inference.model.max_model_len ({limit}) is less than orchestrator.seq_len ({wanted}): "
        f"no rollout gets longer than {limit} tokens"
    )


_RL = (
    *batching(BATCH, also=("seq_len",)),
    holds("orchestrator.max_concurrent", BATCH.group_size),
    when(_TRAINER_TAKES_ROLLOUTS, lambda v: not _is_early(v)),
    when(replace(_TRAINER_TAKES_ROLLOUTS, severity="warning"), _is_early),
    when(
        same_port("orchestrator.client.base_url", "inference.server.port"),
        lambda v: "inference" in v and not is_on(v.get("orchestrator.client.elastic")),
    ),
    not_both("orchestrator.sampling.temperature", _SCHEDULE),
    Rule(_SCHEDULE, (_SCHEDULE, f"{_SCHEDULE}.total_steps", "orchestrator.max_steps"), _schedule_has_an_end),
    *ordered_thresholds(_BUFFER),
    *(
        not_both(f"{_BUFFER}.skip_verification", f"{_BUFFER}.{key}", why="without it there are no rewards")
        for key in ("online_difficulty_filtering", "easy_threshold", "hard_threshold")
    ),
    *(room_for_prompts(name, BATCH.seq_len, also=("seq_len",), severity="hint") for name in COMPLETION),
    *(room_for_prompts(name, "inference.model.max_model_len", severity="warning") for name in COMPLETION),
    *(below(f"trainer.loss.{name}_mask_low", f"trainer.loss.{name}_mask_high") for name in ("token", "geo")),
    below("trainer.loss.sequence_mask_low", "trainer.loss.sequence_mask_high"),
    _nccl_is_one_step_ahead("trainer.max_async_level"),
    _nccl_is_one_step_ahead("orchestrator.max_async_level"),
    Rule("trainer.model.lora", ("trainer.model.lora", _KIND, "weight_broadcast.type"), _nccl_without_lora),
    Rule(
        "trainer.model.optim_cpu_offload",
        ("trainer.model.optim_cpu_offload", "trainer.max_concurrent_runs"),
        _one_run,
    ),
    Rule(
        "trainer.loss.teacher_tau",
        ("trainer.loss.teacher_tau", "trainer.loss.type", "deployment.num_teacher_gpus"),
        _teacher_for_tau,
    ),
    Rule(
        "trainer.metrics_server.port",
        ("trainer.metrics_server.port", "inference.server.port"),
        _metrics_port,
        "warning",
    ),
    Rule(
        "inference.model.max_model_len",
        ("inference.model.max_model_len", BATCH.seq_len, "seq_len"),
        _short_context,
        "hint",
    ),
    not_both("orchestrator.train.sampling.max_tokens", COMPLETION[1], why="they are one and the same"),
    Rule("trainer.loss.type", ("trainer.loss.type",), _own_loss),
    complete("orchestrator.heartbeat", "url"),
    complete("orchestrator.client.elastic", "hostname"),
    in_share("inference.gpu_memory_utilization", "vLLM"),
)
RULES = (
    *SHARED_RULES,
    *_RL,
    *RL_GPU_RULES,
    *_of_trainer("trainer", "trainer.ckpt", may_be_number=True),
    *_of_trainer("sft", "sft.ckpt", may_be_number=False),
    *SFT_GPU_RULES,
    *DATA_RULES,
    *packing_rules("cat"),
    *shared_row_rules(),
    complete("sft.val", "data"),
    gpu_rounds("sft.deployment.num_gpus", "sft.deployment.type"),
)
