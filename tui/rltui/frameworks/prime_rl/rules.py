"""Rules between keys of prime-rl's config files, once for all generations.

An error is refused by prime-rl's own models or its launcher in that generation, or cannot run. Names of
keys are those of concepts; a rule is left out by itself if a key is not in the schema in force.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from rltui.base.kinds import is_integer
from rltui.core.config import rules as make
from rltui.core.config.batch import BatchKnobs, batching, micro_batches, single_rollout_groups
from rltui.core.config.knobs import display
from rltui.core.config.report import ProblemSeverity
from rltui.core.config.rules import Rule, Values, bad_if, is_on, last, nearest_multiples, own
from rltui.core.config.schema import NONE
from rltui.frameworks.prime_rl.log_lines import TOKENS_PER_ROLLOUT
from rltui.frameworks.schemas import Names

PAIR = ("trainer", "orchestrator")
_OWN = ("custom", "auto")
"""Values of `impl` with which prime-rl's own code of a model may be used."""
KIND, TRAIN, _INFER = "deployment.type", "deployment.num_train_gpus", "deployment.num_infer_gpus"
BROADCAST = "weight_broadcast.type"
_IN_MEMORY = ("nccl", "nixl")
_MAPPED = "Jackmin108/"
"""Names of this owner stand for models that the orchestrator knows by another name."""
LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""The only ranks that vLLM accepts; prime-rl rounds up to them."""
_STACKED_TOKENS, _MOST_CHOICES = 256, 512


def rules(names: Names) -> tuple[Rule, ...]:
    """All rules. One is left out if a key that it looks at is not in the schema in force."""
    return (
        *_batch_rules(names),
        *_length_rules(names),
        *_agreement_rules(names),
        *_shared_rules(names),
        *_gpu_rules(names),
        *_weight_rules(names),
        *(rule for prefix in ("", "sft.") for rule in _inference_rules(prefix, names)),
        *(rule for prefix in ("trainer.", "sft.") for rule in _trainer_rules(prefix, names)),
        *_sft_rules(names),
    )


def batch_knobs(names: Names) -> BatchKnobs:
    return BatchKnobs(
        names("orchestrator.batch_size"), names.get("orchestrator.token_batch_size") or "",
        names("group_size"), "orchestrator.seq_len", inflight=names.get("max_inflight"),
        oversampling=names.get("orchestrator.oversampling_factor"), token_metric=TOKENS_PER_ROLLOUT,
    )  # fmt: skip


def advice(v: Values) -> Mapping[str, str]:
    """Id of a health rule → advice for this config."""
    evals = next((table for table in ("eval", "sft.eval") if f"{table}.cancel_on_new_checkpoint" in v), None)
    if evals is None:
        return {}
    return {"evals-cancelled": f"in this config: {evals}.interval, {evals}.cancel_on_new_checkpoint = false"}


def source_groups(v: Values, names: Names) -> dict[str, int]:
    """Name of the knob → group size of each training source; the common one if there is no source."""
    source_key = names("train_source")
    by_name = {
        name: v.get(name)
        for name in (f"{source_key}.{i}.group_size" for i in range(len(entries(v, source_key))))
    }
    sizes = {name: size for name, size in by_name.items() if isinstance(size, int)}
    return sizes or {names("group_size"): v[names("group_size")]}


def has_inference(v: Values) -> bool:
    return is_on(v.get("inference"))


def is_one_file(names: Names) -> bool:
    """The file's top level stands for its parts."""
    return names.has("max_steps")


def is_today(names: Names) -> bool:
    """True for releases from August 2026 on."""
    return names.has("run.name") or names.has("sft.run.name")


def strict(names: Names) -> ProblemSeverity:
    """Severity of a rule that only today's releases have, while a file may be for an earlier one of its
    generation too.
    """
    return "error" if is_today(names) else "warning"


def int_value(v: Values, name: str, otherwise: int = 0) -> int:
    value = v.get(name)
    return value if is_integer(value) else otherwise


def entries(v: Values, name: str) -> list[Mapping[str, Any]]:
    value = v.get(name)
    return [entry if isinstance(entry, Mapping) else {} for entry in value] if isinstance(value, list) else []


# Batches and lengths


def _batch_rules(names: Names) -> Iterator[Rule]:
    knobs = batch_knobs(names)
    group, bounds = (
        knobs.group_size,
        [f"orchestrator.concurrency.{key}_inflight" for key in ("initial", "max")],
    )
    if names.has("orchestrator.train.group_size"):
        yield _whole_groups(knobs.batch_size, names)
        yield from (_holds_largest(bound, names) for bound in bounds)
        yield from _sampling_rules("orchestrator.train.sampling")
    else:
        single_rollouts = (
            None if names.has(f"{names('train_source')}.0.group_size") else single_rollout_groups(group)
        )
        yield from (
            rule
            for rule in batching(knobs, also=("seq_len",))
            if (rule.key, rule.severity) != (group, "warning")
        )
        yield from (single_rollouts,) if single_rollouts is not None else ()
        yield from (make.holds(bound, group) for bound in bounds)
        most = "orchestrator.max_concurrent"
        yield (
            make.holds(most, group) if is_one_file(names) else make.at_least(most, group, severity="warning")
        )
    for table in ("orchestrator.concurrency", "sft.eval.concurrency"):
        yield from (
            make.at_least(f"{table}.max_inflight", f"{table}.{key}_inflight") for key in ("initial", "min")
        )


def _whole_groups(batch: str, names: Names) -> Rule:
    """Whole groups of every source, whose sizes may differ."""

    def fault(v: Values) -> str | None:
        groups = source_groups(v, names)
        violated = next(
            (name for name, size in groups.items() if v[batch] is not None and v[batch] % size), None
        )
        return violated and (
            f"{batch} ({v[batch]}) must be divisible by {violated} ({groups[violated]}): nearest valid "
            f"{last(batch)} is {nearest_multiples(v[batch], math.lcm(*groups.values()))}"
        )

    group = names("group_size")
    return Rule(
        batch, (batch, group), fault, instead={group: lambda v: make.nearest_divisors(v[batch], v[group])}
    )


def _holds_largest(bound: str, names: Names) -> Rule:
    def fault(v: Values) -> str | None:
        name, size = max(source_groups(v, names).items(), key=lambda item: item[1])
        if v[bound] is None or v[bound] >= size:
            return None
        return f"{bound} ({v[bound]}) must be at least {name} ({size}): nearest valid {last(bound)} is {size}"

    return Rule(bound, (bound, names("group_size")), fault)


def _sampling_rules(table: str) -> Iterator[Rule]:
    heat, top_p, top_k, extra = (f"{table}.{key}" for key in ("temperature", "top_p", "top_k", "extra_body"))
    yield bad_if(
        lambda v: v[heat] == 0 and ((v[top_p] or 1) < 1 or v[top_k] is not None), heat, (top_p, top_k),
        f"{heat} must be above 0 while {top_p} is below 1 or {top_k} is set, because sampled choices are"
        " replayed",
    )  # fmt: skip
    yield bad_if(lambda v: (v[top_k] or 0) > _MOST_CHOICES, top_k, (),
        lambda v: f"{top_k} ({v[top_k]}) must be at most {_MOST_CHOICES}")  # fmt: skip
    yield bad_if(lambda v: not {"top_p", "top_k"}.isdisjoint(v[extra] or {}), extra, (),
        f"{extra} cannot hold top_p and top_k: set {top_p} and {top_k}")  # fmt: skip


def _length_rules(names: Names) -> Iterator[Rule]:
    rollout, answer, context = "orchestrator.seq_len", names("max_completion_tokens"), names("max_model_len")
    also = ("seq_len",) if names.has("seq_len") else ()
    yield make.at_least("trainer.model.seq_len", rollout, also=also)
    here: ProblemSeverity = "warning" if is_today(names) else "hint"
    yield make.room_for_prompts(answer, rollout, also=also, severity=here)
    yield make.room_for_prompts(answer, context, severity="warning")
    yield make.when(make.at_least(context, rollout, also=also, severity="hint"), has_inference)


# What is said twice


def _agreement_rules(names: Names) -> Iterator[Rule]:
    """Rules between trainer, orchestrator and inference."""
    merged, wandb = is_one_file(names), "monitors.wandb" if names.has("trainer.monitors.wandb") else "wandb"
    trained, policy, server_model = "trainer.model.name", names("policy_model"), names("served_model")

    def agree(
        first: str, second: str, shared: str, condition: Callable[[Values], bool] = lambda _: True
    ) -> Rule:
        rule = make.same(first, second, shared=shared if merged else None)
        return make.when(rule, lambda v: own(v, shared) is None and condition(v))

    def both(key: str, table: str) -> Rule:
        first, second = (f"{role}.{key}" for role in PAIR)
        return agree(first, second, key, lambda v: all(_is_there(v, role, table) for role in PAIR))

    yield agree("trainer.max_steps", "orchestrator.max_steps", "max_steps")
    yield agree("trainer.max_async_level", "orchestrator.max_async_level", "max_async_level")
    yield agree(
        trained, policy, "model.name",
        lambda v: not str(v[trained]).startswith(_MAPPED) and not (merged and has_inference(v)),
    )  # fmt: skip
    yield agree(
        server_model,
        policy,
        "model.name",
        lambda v: not str(v[policy]).startswith(_MAPPED) and has_inference(v),
    )
    yield both("ckpt.interval", "ckpt")
    yield both("ckpt.resume_step", "ckpt")
    yield both(f"{wandb}.project", wandb)
    yield _half("ckpt", "or only one half of each checkpoint would be written")
    if merged:
        yield _half(wandb, "or only one half of the metrics would be sent", strict(names))
        yield make.same(*(f"{role}.rollout_transport.type" for role in PAIR), shared="rollout_transport.type")
    else:
        yield make.same("trainer.output_dir", "orchestrator.output_dir")
        yield make.same(f"inference.{BROADCAST}", f"orchestrator.{BROADCAST}")
    if not names.has("rollout_transport"):  # later, the launcher fills them
        yield agree(f"trainer.{BROADCAST}", f"orchestrator.{BROADCAST}", BROADCAST)
    url, elastic = names("base_url"), f"{names('client')}.elastic"
    yield make.when(
        make.same_port(url, "inference.server.port", severity="error" if merged else "warning"),
        lambda v: has_inference(v) and not is_on(v.get(elastic)),
    )


def _is_there(v: Values, role: str, table: str) -> bool:
    """Whether a role has a table, which a shared one may create."""
    raw = own(v, f"{role}.{table}")
    raw = own(v, table) if raw is None else raw
    return is_on(v.get(f"{role}.{table}")) if raw is None else raw not in (NONE, False)


def _half(table: str, reason: str, severity: ProblemSeverity = "error") -> Rule:
    def fault(v: Values) -> str | None:
        sorted_roles = sorted(PAIR, key=lambda role: not _is_there(v, role, table))
        if _is_there(v, sorted_roles[0], table) == _is_there(v, sorted_roles[1], table):
            return None
        one, other = (f"{role}.{table}" for role in sorted_roles)
        return f"[{one}] needs [{other}] too, {reason}: add [{other}], or remove [{one}]"

    return Rule(f"trainer.{table}", tuple(f"{role}.{table}" for role in PAIR), fault, severity)


def _shared_rules(names: Names) -> Iterator[Rule]:
    tables = [("rollout_transport", f"{role}.rollout_transport") for role in PAIR]
    goes_first = names.has("max_async_level")  # until May 2026; later both may be set only to the same value
    for shared, name in (*names.shared(), *tables):
        if shared == BROADCAST and names.has("rollout_transport"):
            yield _unread_table(name.rpartition(".")[0])
        elif shared != BROADCAST and not goes_first:
            yield _conflict(shared, name, strict(names))
        elif shared not in (BROADCAST, "seq_len", "ckpt.output_dir") and name != "inference.model.name":
            yield make.overruled(name, shared)


def _unread_table(table: str) -> Rule:
    return bad_if(lambda v: own(v, table) is not None, BROADCAST, (table,),
        lambda v: f"[{table}] is ignored: rl sets that table from [weight_broadcast] ({v[BROADCAST]})",
        "warning")  # fmt: skip


def _conflict(shared: str, name: str, severity: ProblemSeverity) -> Rule:
    """Compared as they are written: `2048` and `"2048"` differ."""

    def fault(v: Values) -> str | None:
        one, other = own(v, shared), own(v, name)
        if one is None or other is None or one == other:
            return None
        return (
            f"{shared} ({display(one)}) and {name} ({display(other)}) are both set, to different values: "
            f"remove one of them"
        )

    return Rule(name, (shared, name), fault, severity)


# GPUs, weights, inference


def gpus_of(v: Values, role: str) -> int:
    """Number of devices: of the list in early files, else the configured number, or one."""
    ids = v.get({"infer": "inference_gpu_ids", "train": "trainer_gpu_ids"}[role])
    return len(ids) if isinstance(ids, list) and ids else int_value(v, f"deployment.num_{role}_gpus", 1)


def _gpu_rules(names: Names) -> Iterator[Rule]:
    yield _fits_machine(TRAIN, "", (_INFER, "deployment.num_teacher_gpus"))
    yield _fits_machine(names("sft_gpus"), "sft.", (names("sft_infer_gpus"),))
    for prefix in ("", "sft."):
        yield _needs_slurm(f"{prefix}{KIND}", f"{prefix}slurm")
    trained = f"trainer.{BROADCAST}"
    yield bad_if(lambda v: own(v, trained) == "nccl" and gpus_of(v, "train") + gpus_of(v, "infer") < 2,
        TRAIN, (_INFER, "trainer.weight_broadcast"),
        lambda v: f"{trained} nccl needs at least 2 GPUs, and {TRAIN} ({v[TRAIN]}) + {_INFER} "
        f"({v[_INFER]}) is less: use filesystem")  # fmt: skip
    yield bad_if(
        lambda v: v[BROADCAST] == "nccl" and has_inference(v) and v[TRAIN] + v[_INFER] == 1,
        BROADCAST, (TRAIN, _INFER),
        f"{BROADCAST} nccl needs at least 2 GPUs, but there is 1: use filesystem", "warning",
    )  # fmt: skip


def _fits_machine(train: str, prefix: str, others: Collection[str]) -> Rule:
    """Trainer and inference fit on one machine; for SFT, inference counts if there are evals."""
    machine = f"{prefix}deployment.gpus_per_node"

    def fault(v: Values) -> str | None:
        counts = not prefix or (is_on(v.get("sft.eval")) and is_on(v.get("sft.inference")))
        gpus = {train: v[train], **{name: int_value(v, name) for name in others if counts and name in v}}
        total = sum(gpus.values())
        if total <= v[machine]:
            return None
        total_text = " + ".join(f"{name} ({number})" for name, number in gpus.items() if number)
        total_text += f" = {total}" if total > v[train] else ""
        return (
            f"{total_text} is more than {machine} ({v[machine]}): use {total - v[machine]} fewer, or"
            " raise the limit"
        )

    return Rule(train, (train, machine), fault)


def _needs_slurm(kind: str, slurm: str) -> Rule:
    return bad_if(lambda v: v[kind] == "multi_node" and not is_on(v.get(slurm)), kind, (slurm,),
        f"{kind} (multi_node) needs [slurm], which starts the processes of the other machines")  # fmt: skip


def _weight_rules(names: Names) -> Iterator[Rule]:
    lora, trained = names("lora"), f"trainer.{BROADCAST}"
    yield bad_if(lambda v: is_on(v.get(lora)) and v[BROADCAST] in _IN_MEMORY, BROADCAST, (lora,),
        lambda v: f"{BROADCAST} ({display(v[BROADCAST])}) cannot carry {lora}: use filesystem",
        strict(names))  # fmt: skip
    yield bad_if(
        lambda v: is_on(v.get(lora)) and own(v, trained) in _IN_MEMORY, lora, ("trainer.weight_broadcast",),
        lambda v: f"{trained} ({own(v, trained)}) cannot carry {lora}: remove the table",
    )  # fmt: skip
    yield from (
        _same_adapter(f"{names('policy_lora')}.{key}", f"{lora}.{key}", lora) for key in ("rank", "alpha")
    )
    for role in PAIR:
        yield _one_step_ahead(f"{role}.max_async_level", f"{role}.{BROADCAST}")
        if names.has("orchestrator.train.group_size"):
            yield _counted_by_rl(f"{role}.weight_broadcast.inference_world_size")


def _same_adapter(name: str, trained: str, lora: str) -> Rule:
    return bad_if(
        lambda v: is_on(v.get(lora)) and v[name] is not None and v[name] != v[trained], name, (trained, lora),
        lambda v: f"{name} ({display(v[name])}) must equal {trained} ({display(v[trained])}): remove {name}",
    )  # fmt: skip


def _one_step_ahead(level: str, kind: str) -> Rule:
    return bad_if(
        lambda v: v[kind] == "nccl" and v[level] != 1, level, (kind,),
        lambda v: f"{level} ({v[level]}) must be 1 while {kind} is nccl: use 1, or filesystem",
    )  # fmt: skip


def _counted_by_rl(name: str) -> Rule:
    return bad_if(
        lambda v: own(v, name) is not None, name, (),
        lambda v: f"{name} ({display(own(v, name))}) is ignored: rl counts inference's GPUs itself",
        "warning",
    )  # fmt: skip


def _inference_rules(prefix: str, names: Names) -> Iterator[Rule]:
    """`prefix`: empty or `sft.`."""
    base = f"{prefix}inference"
    gpus = names("sft_infer_gpus") if prefix else _INFER if names.has(_INFER) else "inference_gpu_ids"
    tensor, copies = f"{prefix}{names('tensor_parallel')}", f"{prefix}{names('data_parallel')}"
    offload, caching = f"{base}.kv_cache_offload", f"{prefix}{names('prefix_caching')}"
    rank = f"{prefix}{names('max_lora_rank')}"

    def count(v: Values) -> int:
        return int_value(v, gpus, 1) if prefix else gpus_of(v, "infer")

    yield make.in_share(f"{prefix}{names('gpu_memory_utilization')}", "vLLM")
    yield bad_if(lambda v: is_on(v.get(base)) and v[tensor] and count(v) % v[tensor], gpus, (tensor,),
        lambda v: f"{gpus} ({display(v[gpus])}) must be divisible by {tensor} ({v[tensor]}): nearest valid "
        f"num_infer_gpus is {nearest_multiples(count(v), v[tensor])}")  # fmt: skip
    yield bad_if(lambda v: is_on(v.get(base)) and own(v, copies) is not None and v[tensor]
        and count(v) % v[tensor] == 0 and v[copies] * v[tensor] != count(v), copies, (gpus, tensor),
        lambda v: (
            f"{copies} ({v[copies]}) is ignored: {gpus} ({display(v[gpus])}) / {tensor} ({v[tensor]})"
            f" = {count(v) // v[tensor]} copies fill the GPUs"
        ), "warning")  # fmt: skip
    yield bad_if(
        lambda v: (v[rank] or 0) > LORA_RANKS[-1], rank, (),
        lambda v: f"{rank} ({v[rank]}) is too large for vLLM: the largest allowed is {LORA_RANKS[-1]}",
    )  # fmt: skip
    yield bad_if(lambda v: is_on(v.get(offload)) and v[caching] is False, offload, (caching,),
        f"{offload} needs {caching}, which is false: remove one of them")  # fmt: skip


# Trainers


def _trainer_rules(prefix: str, names: Names) -> Iterator[Rule]:
    """Rules on model, optimizer and scheduler. `prefix`: `trainer.` or `sft.`."""
    model, kind = f"{prefix}model", f"{prefix}optim.type"
    impl, attn, cp, ep, ac = (f"{model}.{key}" for key in ("impl", "attn", "cp", "ep", "ac"))
    full, fsdp, optim = (
        f"{model}.{key}" for key in ("full_offload", "fsdp_cpu_offload", "optim_cpu_offload")
    )
    for other in (fsdp, full):
        yield _not_with_optimizer(other, optim, is_set=True, severity="error")
        yield _not_with_optimizer(other, optim, is_set=False, severity=strict(names))
    yield make.not_both(fsdp, full, reason="each moves the optimizer's state to the CPU")
    yield make.requires(full, kind, "adamw", "sign_sgd")
    yield bad_if(lambda v: v[kind] == "muon" and v[fsdp], kind, (fsdp,),
        f"{kind} (muon) does not work with {fsdp}: turn it off, or use adamw")  # fmt: skip
    flash = ("flash_attention_4", "fa4", *(("auto",) if names.has(full) else ()))
    yield bad_if(lambda v: v[impl] == "hf" and v[attn] in flash, attn, (impl,),
        lambda v: f"{attn} ({display(v[attn])}) needs {impl} to be custom or auto, not hf: set attn to "
        f"flash_attention_2 or flash_attention_3, or change impl")  # fmt: skip
    if names.has(optim):  # not yet in 2025
        yield bad_if(lambda v: int_value(v, cp) > 1 and v[attn] in ("eager", "sdpa"), cp, (attn,),
            lambda v: f"{cp} ({v[cp]}) needs flash attention: set {attn} to flash_attention_2")  # fmt: skip
        yield make.when(make.requires(ep, impl, *_OWN), lambda v: int_value(v, ep) > 1)
        selective = f"{ac}.mode"
        yield make.when(
            make.requires(ac, impl, *_OWN), lambda v: v[selective] == "selective", also=(selective,)
        )
    if names.has(full):
        yield make.requires(cp, impl, *_OWN)
        yield make.requires(f"{model}.quantization", impl, *_OWN)
        offloading = f"{ac}_offloading"
        yield bad_if(lambda v: is_on(v.get(offloading)) and not is_on(v.get(ac)), offloading, (ac,),
            f'{ac} = "None" has no effect while {offloading} is on (the default): activation checkpointing'
            ' stays on', "warning")  # fmt: skip
    remote = ("hf", "auto") if names.has(optim) else ("hf",)
    yield make.requires(f"{model}.trust_remote_code", impl, *remote)
    yield from _scheduler_rules(f"{prefix}scheduler", f"{prefix}max_steps", is_checked=names.has(full))


def _not_with_optimizer(other: str, optim: str, *, is_set: bool, severity: ProblemSeverity) -> Rule:
    """`is_set`: the file sets it; otherwise it is the default, which was not always so."""
    reason = "" if is_set else ", and the latter is on by default"
    return bad_if(
        lambda v: is_on(v.get(other)) and v[optim] and (own(v, optim) is not None) == is_set, other, (optim,),
        f"{other} and {optim} cannot be used together{reason}: set {optim} = false, or remove {other}",
        severity,
    )  # fmt: skip


def _scheduler_rules(table: str, steps: str, *, is_checked: bool) -> Iterator[Rule]:
    """`is_checked`: by prime-rl's own models, from August 2026 on; before, the rate just never gets there."""
    kind, warmup, decay = f"{table}.type", f"{table}.warmup_steps", f"{table}.decay_steps"
    if not is_checked:
        yield bad_if(
            lambda v: v[kind] != "constant" and v[warmup] >= (v[steps] or math.inf), warmup, (steps, kind),
            lambda v: (
                f"{warmup} ({v[warmup]}) is not below {steps} ({v[steps]}): the learning rate never"
                f" reaches its maximum; lower it to {max(0, v[steps] - 1)} or less"
            ), "warning",
        )  # fmt: skip
        return
    yield bad_if(lambda v: v[kind] == "linear" and v[warmup] == v[decay] == 0, kind, (warmup, decay),
        f"{kind} linear needs {warmup} or {decay} above 0: use constant instead")  # fmt: skip
    yield bad_if(
        lambda v: (v[kind] == "cosine" or (v[kind] == "linear" and v[decay] > 0)) and v[steps] is None,
        kind, (steps,), lambda v: f"{kind} {v[kind]} needs max_steps to know where the run ends",
    )  # fmt: skip
    yield bad_if(lambda v: v[kind] == "cosine" and v[warmup] >= (v[steps] or math.inf), warmup, (kind, steps),
        lambda v: f"{warmup} ({v[warmup]}) must be less than max_steps ({v[steps]})")  # fmt: skip
    yield bad_if(
        lambda v: v[kind] == "linear" and v[decay] > 0 and v[warmup] + v[decay] > (v[steps] or math.inf),
        warmup, (kind, decay, steps),
        lambda v: f"{warmup} ({v[warmup]}) + {decay} ({v[decay]}) = {v[warmup] + v[decay]} must be at most "
        f"max_steps ({v[steps]}): lower one of them by {v[warmup] + v[decay] - v[steps]}, or raise max_steps",
    )  # fmt: skip


def _sft_rules(names: Names) -> Iterator[Rule]:
    parallel, pack, is_of_2025 = "sft.model.cp", "sft.data.pack_function", not names.has("sft.deployment")
    yield from _row_rules("sft.data", is_of_2025=is_of_2025)
    yield from (
        make.when(rule, lambda v: is_on(v.get("sft.val.data")))
        for rule in _row_rules("sft.val.data", is_of_2025=is_of_2025)
    )
    with_cp = "stack" if is_of_2025 else "cat"
    yield bad_if(
        lambda v: v[parallel] > 1 and v[pack] != with_cp, pack, (parallel,),
        lambda v: f'{pack} ("{v[pack]}") must be "{with_cp}" while {parallel} ({v[parallel]}) is above 1',
    )  # fmt: skip
    yield make.divisible_by("sft.data.seq_len", _STACKED_TOKENS, where=(pack, "stack"))
    yield _gpu_rounds(names("sft_gpus"))
    server, evals, kind = "sft.inference", "sft.eval", "sft.weight_broadcast.type"
    url, again, lora = f"{evals}.client.base_url", f"{evals}.retrigger_on_resume", "sft.model.lora"

    def both(v: Values) -> bool:
        return is_on(v.get(server)) and is_on(v.get(evals))

    yield bad_if(lambda v: is_on(v.get(server)) and not is_on(v.get(evals)), server, (evals,),
        "[inference] is only for evals: add [eval] with a source, or remove [inference]")  # fmt: skip
    yield bad_if(lambda v: is_on(v.get(evals)) and not is_on(v.get(server)), evals, (server, url),
        lambda v: (
            f"[eval] without [inference]: sft starts no server, so a server must run at {url[4:]}"
            f" ({v[url]})"
        ), "hint")  # fmt: skip
    yield make.when(make.same(f"{server}.vllm.model", "sft.model.name"), both)
    yield make.when(make.same_port(url, f"{server}.server.port"), both)
    yield bad_if(lambda v: is_on(v.get(evals)) and v[kind] == "nixl", kind, (evals,),
        f"{kind} nixl does not support SFT: use nccl or filesystem")  # fmt: skip
    yield bad_if(
        lambda v: is_on(v.get(evals)) and v[kind] == "nccl" and is_on(v.get(lora)), kind, (evals, lora),
        f"{kind} nccl cannot carry {lora}: use filesystem",
    )  # fmt: skip
    yield bad_if(lambda v: is_on(v.get(evals)) and v[again] and v[kind] != "filesystem", again, (kind,),
        lambda v: f"{again} needs {kind} to be filesystem, not {v[kind]}")  # fmt: skip


def _row_rules(table: str, *, is_of_2025: bool) -> Iterator[Rule]:
    micro, cp = f"{table}.micro_batch_size", "sft.model.cp"
    yield micro_batches(f"{table}.batch_size", micro)
    for one, other in (("subsets", "splits"), ("probabilities", "subsets"), ("probabilities", "splits")):
        yield make.same_length(f"{table}.{one}", f"{table}.{other}", what="name one for each")
    if not is_of_2025:
        yield make.when(make.divisible(f"{table}.seq_len", cp), lambda v: v[cp] > 1)
        yield bad_if(lambda v: v[cp] > 1 and v[micro] != 1, micro, (cp,),
            lambda v: f"{micro} ({v[micro]}) must be 1 while {cp} ({v[cp]}) is above 1")  # fmt: skip


def _gpu_rounds(gpus: str) -> Rule:
    """Rows of a step fill whole rounds of all GPUs: not checked until training starts."""
    batch, micro = "sft.data.batch_size", "sft.data.micro_batch_size"

    def fault(v: Values) -> str | None:
        round_size, shared = (
            v[gpus] * v[micro],
            int_value(v, "sft.model.cp", 1) * int_value(v, "sft.model.tp", 1),
        )
        if not round_size or v[batch] % v[micro] or v[batch] * shared % round_size == 0:
            return None
        least = round_size // math.gcd(round_size, shared)
        return (
            f"{batch} ({v[batch]}) must be divisible by {least}, the rows that {gpus} ({v[gpus]}) process"
            " at once "
            f"with {micro} ({v[micro]}): nearest valid batch_size is {nearest_multiples(v[batch], least)}"
        )

    return Rule(batch, (batch, micro, gpus), fault)
