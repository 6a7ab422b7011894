"""Rules between keys of prime-rl's config files, once for all generations.

An error is what prime-rl's own models or its launcher refuse in that generation, or what cannot run. Names of
keys are those of concepts; a rule is left out by itself where a key is not in the schema in force.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import PurePath
from typing import Any

from rltui.core.config_report import Problem
from rltui.core.knobs import TomlValue, shown
from rltui.core.suggest import closest, did_you_mean
from rltui.core.toml_values import format_key
from rltui.frameworks import rule_makers as make
from rltui.frameworks.base import BatchKnobs, ConfigFiles
from rltui.frameworks.batch_rules import batching, lonely_rollouts, micro_batches
from rltui.frameworks.config_data import value_at
from rltui.frameworks.prime_rl.config_values import text
from rltui.frameworks.prime_rl.log_lines import TOKENS_PER_ROLLOUT
from rltui.frameworks.rule_makers import is_on, last, nearest_multiples, own
from rltui.frameworks.schemas import Names, Rule, Severity, Values

NONE = "None"
"""Text that stands for no value."""
_PARTS = ("trainer", "orchestrator")
_OWN = ("custom", "auto")
"""Values of `impl` with which prime-rl's own code of a model may be used."""
_KIND, _TRAIN, _INFER = "deployment.type", "deployment.num_train_gpus", "deployment.num_infer_gpus"
_BROADCAST = "weight_broadcast.type"
_IN_MEMORY = ("nccl", "nixl")
_MAPPED = "Jackmin108/"
"""Names of this owner stand for models that the orchestrator knows by another name."""
_GROUPED = ("grpo", "echo", "max_rl")
"""Algorithms that judge a rollout against the others of its group."""
_RESERVED = "agg"
_PROTECTED = frozenset(
    {
        "CUDA_VISIBLE_DEVICES", "PRL_RUN_ID", "PRL_RUN_NAME", "WANDB_RUN_ID", "WANDB_SHARED_MODE",
        "WANDB_SHARED_LABEL", "WANDB_SHARED_PRIMARY", "WANDB_SHARED_FINISHER",
    }
)  # fmt: skip
_STEP_FOLDER = re.compile(r"step_\d+")
_ROUTER_METRICS_ABOVE, _ENGINE_ABOVE, _READY_ABOVE = 21_000, 100, 1
"""Ports above that of the router, the router and the batches."""
_NCCL, _ENV_SERVERS = 29501, "orchestrator.env_server_base_port"
_LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""vLLM takes no others; prime-rl rounds up to them."""
_STACKED_TOKENS, _MOST_CHOICES = 256, 512
_DEFAULT_BATCH = 128
"""Rollouts, where the file says neither how many nor how many tokens."""
_WILD = 1e9
"""Factors from here on are nonsense."""


def rules(names: Names) -> tuple[Rule, ...]:
    """Those that people break. One is left out where a key that it looks at is not in the schema in force."""
    return (
        *_batch_rules(names),
        *_length_rules(names),
        *_agreement_rules(names),
        *_shared_rules(names),
        *_gpu_rules(names),
        *_weight_rules(names),
        *(rule for at in ("", "sft.") for rule in _inference_rules(at, names)),
        *(rule for at in ("trainer.", "sft.") for rule in _trainer_rules(at, names)),
        *_sft_rules(names),
    )


def batch_knobs(names: Names) -> BatchKnobs:
    """What decides how many rollouts make a batch."""
    return BatchKnobs(
        names("orchestrator.batch_size"), names.get("orchestrator.token_batch_size") or "",
        names("group_size"), "orchestrator.seq_len", inflight=names.get("max_inflight"),
        oversampling=names.get("orchestrator.oversampling_factor"), token_metric=TOKENS_PER_ROLLOUT,
    )  # fmt: skip


def source_groups(v: Values, names: Names) -> dict[str, int]:
    """Name of the knob → group size of each training source; the one for all where there is no source."""
    at = names("train_source")
    found = {name: v.get(name) for name in (f"{at}.{i}.group_size" for i in range(len(_entries(v, at))))}
    sizes = {name: size for name, size in found.items() if isinstance(size, int)}
    return sizes or {names("group_size"): v[names("group_size")]}


def has_inference(v: Values) -> bool:
    """The launcher starts a server."""
    return is_on(v.get("inference"))


def _is_one_file(names: Names) -> bool:
    """Its top stands for its parts."""
    return names.has("max_steps")


def _shared_goes_first(names: Names) -> bool:
    """Until May 2026; later both may be set only to the same value."""
    return names.has("max_async_level")


def _is_today(names: Names) -> bool:
    """From August 2026 on."""
    return names.has("run.name") or names.has("sft.run.name")


def _strict(names: Names) -> Severity:
    """Of what only today's releases refuse, while a file may be for an earlier one of its generation too."""
    return "error" if _is_today(names) else "warning"


def _if(
    condition: Callable[[Values], object],
    key: str,
    also: Collection[str],
    message: str | Callable[[Values], str],
    severity: Severity = "error",
) -> Rule:
    """A rule from a condition under which it does not hold, and what is said then."""

    def fault(v: Values) -> str | None:
        if not condition(v):
            return None
        return message if isinstance(message, str) else message(v)

    return Rule(key, (key, *also), fault, severity)


def _whole(v: Values, name: str, otherwise: int = 0) -> int:
    value = v.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def _entries(v: Values, name: str) -> list[Mapping[str, Any]]:
    value = v.get(name)
    return [each if isinstance(each, Mapping) else {} for each in value] if isinstance(value, list) else []


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
        lonely = None if names.has(f"{names('train_source')}.0.group_size") else lonely_rollouts(group)
        yield from (
            rule
            for rule in batching(knobs, also=("seq_len",))
            if (rule.key, rule.severity) != (group, "warning")
        )
        yield from (lonely,) if lonely is not None else ()
        yield from (make.holds(bound, group) for bound in bounds)
        most = "orchestrator.max_concurrent"
        yield (
            make.holds(most, group) if _is_one_file(names) else make.at_least(most, group, severity="warning")
        )
    for at in ("orchestrator.concurrency", "sft.eval.concurrency"):
        yield from (make.at_least(f"{at}.max_inflight", f"{at}.{key}_inflight") for key in ("initial", "min"))


def _whole_groups(batch: str, names: Names) -> Rule:
    """Of every source, whose group sizes may differ."""

    def fault(v: Values) -> str | None:
        groups = source_groups(v, names)
        wrong = next(
            (name for name, size in groups.items() if v[batch] is not None and v[batch] % size), None
        )
        return wrong and (
            f"{batch} ({v[batch]}) must be divisible by {wrong} ({groups[wrong]}): nearest valid "
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


def _sampling_rules(at: str) -> Iterator[Rule]:
    heat, top_p, top_k, extra = (f"{at}.{key}" for key in ("temperature", "top_p", "top_k", "extra_body"))
    yield _if(
        lambda v: v[heat] == 0 and ((v[top_p] or 1) < 1 or v[top_k] is not None), heat, (top_p, top_k),
        f"{heat} must be above 0 while {top_p} is below 1 or {top_k} is set: the choices are replayed",
    )  # fmt: skip
    yield _if(lambda v: (v[top_k] or 0) > _MOST_CHOICES, top_k, (),
        lambda v: f"{top_k} ({v[top_k]}) must be at most {_MOST_CHOICES}")  # fmt: skip
    yield _if(lambda v: not {"top_p", "top_k"}.isdisjoint(v[extra] or {}), extra, (),
        f"{extra} cannot hold top_p and top_k: set {top_p} and {top_k}")  # fmt: skip


def _length_rules(names: Names) -> Iterator[Rule]:
    rollout, answer, context = "orchestrator.seq_len", names("max_completion_tokens"), names("max_model_len")
    also = ("seq_len",) if names.has("seq_len") else ()
    yield make.at_least("trainer.model.seq_len", rollout, also=also)
    here: Severity = "warning" if _is_today(names) else "hint"
    yield make.room_for_prompts(answer, rollout, also=also, severity=here)
    yield make.room_for_prompts(answer, context, severity="warning")
    yield make.when(make.at_least(context, rollout, also=also, severity="hint"), has_inference)


# What is said twice


def _agreement_rules(names: Names) -> Iterator[Rule]:
    """Between trainer, orchestrator and inference."""
    merged, wandb = _is_one_file(names), "monitors.wandb" if names.has("trainer.monitors.wandb") else "wandb"
    trained, asked, served = "trainer.model.name", names("policy_model"), names("served_model")

    def agree(
        first: str, second: str, shared: str, condition: Callable[[Values], bool] = lambda _: True
    ) -> Rule:
        rule = make.same(first, second, shared=shared if merged else None)
        return make.when(rule, lambda v: own(v, shared) is None and condition(v))

    def both(key: str, table: str) -> Rule:
        first, second = (f"{part}.{key}" for part in _PARTS)
        return agree(first, second, key, lambda v: all(_is_there(v, part, table) for part in _PARTS))

    yield agree("trainer.max_steps", "orchestrator.max_steps", "max_steps")
    yield agree("trainer.max_async_level", "orchestrator.max_async_level", "max_async_level")
    yield agree(
        trained, asked, "model.name",
        lambda v: not str(v[trained]).startswith(_MAPPED) and not (merged and has_inference(v)),
    )  # fmt: skip
    yield agree(
        served, asked, "model.name", lambda v: not str(v[asked]).startswith(_MAPPED) and has_inference(v)
    )
    yield both("ckpt.interval", "ckpt")
    yield both("ckpt.resume_step", "ckpt")
    yield both(f"{wandb}.project", wandb)
    yield _half("ckpt", "or only one half of each checkpoint would be written")
    if merged:
        yield _half(wandb, "or only one half of the metrics would be sent", _strict(names))
        yield make.same(
            *(f"{part}.rollout_transport.type" for part in _PARTS), shared="rollout_transport.type"
        )
    else:
        yield make.same("trainer.output_dir", "orchestrator.output_dir")
        yield make.same(f"inference.{_BROADCAST}", f"orchestrator.{_BROADCAST}")
    if not names.has("rollout_transport"):  # later, the launcher fills them
        yield agree(f"trainer.{_BROADCAST}", f"orchestrator.{_BROADCAST}", _BROADCAST)
    url, elastic = names("base_url"), f"{names('client')}.elastic"
    yield make.when(
        make.same_port(url, "inference.server.port", severity="error" if merged else "warning"),
        lambda v: has_inference(v) and not is_on(v.get(elastic)),
    )
    if merged:
        yield _if(lambda v: not has_inference(v) and v[url] is not None, url, (),
            lambda v: "no [inference]: the rl launcher starts no server, so one must answer at "
            f"{url} ({v[url]})", "hint")  # fmt: skip


def _is_there(v: Values, part: str, table: str) -> bool:
    """A table of a part, which a shared one calls into being."""
    raw = own(v, f"{part}.{table}")
    raw = own(v, table) if raw is None else raw
    return is_on(v.get(f"{part}.{table}")) if raw is None else raw not in (NONE, False)


def _half(table: str, why: str, severity: Severity = "error") -> Rule:
    def fault(v: Values) -> str | None:
        there = sorted(_PARTS, key=lambda part: not _is_there(v, part, table))
        if _is_there(v, there[0], table) == _is_there(v, there[1], table):
            return None
        one, other = (f"{part}.{table}" for part in there)
        return f"[{one}] needs [{other}] too, {why}: add [{other}], or remove [{one}]"

    return Rule(f"trainer.{table}", tuple(f"{part}.{table}" for part in _PARTS), fault, severity)


def _shared_rules(names: Names) -> Iterator[Rule]:
    """Values that are set at the top, and for one program."""
    tables = [("rollout_transport", f"{part}.rollout_transport") for part in _PARTS]
    for shared, name in (*names.shared(), *tables):
        if shared == _BROADCAST and names.has("rollout_transport"):
            yield _unread_table(name.rpartition(".")[0])
        elif shared != _BROADCAST and not _shared_goes_first(names):
            yield _conflict(shared, name, _strict(names))
        elif shared not in (_BROADCAST, "seq_len", "ckpt.output_dir") and name != "inference.model.name":
            yield make.overruled(name, shared)


def _unread_table(table: str) -> Rule:
    return _if(lambda v: own(v, table) is not None, _BROADCAST, (table,),
        lambda v: f"[{table}] is not read: rl fills it from [weight_broadcast], here {v[_BROADCAST]}",
        "warning")  # fmt: skip


def _conflict(shared: str, name: str, severity: Severity) -> Rule:
    """Compared as they are written: `2048` and `"2048"` differ."""

    def fault(v: Values) -> str | None:
        one, other = own(v, shared), own(v, name)
        if one is None or other is None or one == other:
            return None
        return (
            f"{shared} ({shown(one)}) and {name} ({shown(other)}) are both set, to different values: "
            f"remove one of them"
        )

    return Rule(name, (shared, name), fault, severity)


# GPUs, weights, inference


def _gpus_of(v: Values, part: str) -> int:
    """Those with numbers, as early files have them, else as many as it says, or one."""
    ids = v.get({"infer": "inference_gpu_ids", "train": "trainer_gpu_ids"}[part])
    return len(ids) if isinstance(ids, list) and ids else _whole(v, f"deployment.num_{part}_gpus", 1)


def _gpu_rules(names: Names) -> Iterator[Rule]:
    yield _fits_machine(_TRAIN, "", (_INFER, "deployment.num_teacher_gpus"))
    yield _fits_machine(names("sft_gpus"), "sft.", (names("sft_infer_gpus"),))
    for at in ("", "sft."):
        yield _needs_slurm(f"{at}{_KIND}", f"{at}slurm")
    trained = f"trainer.{_BROADCAST}"
    yield _if(lambda v: own(v, trained) == "nccl" and _gpus_of(v, "train") + _gpus_of(v, "infer") < 2,
        _TRAIN, (_INFER, "trainer.weight_broadcast"),
        lambda v: f"{trained} nccl needs at least 2 GPUs, and {_TRAIN} ({v[_TRAIN]}) + {_INFER} "
        f"({v[_INFER]}) is less: use filesystem")  # fmt: skip
    yield _if(
        lambda v: v[_BROADCAST] == "nccl" and has_inference(v) and v[_TRAIN] + v[_INFER] == 1,
        _BROADCAST, (_TRAIN, _INFER),
        f"{_BROADCAST} nccl needs at least 2 GPUs, and there is 1: set it to filesystem", "warning",
    )  # fmt: skip


def _fits_machine(train: str, at: str, others: Collection[str]) -> Rule:
    """Trainer and inference within one; that of SFT counts where there are evals."""
    machine = f"{at}deployment.gpus_per_node"

    def fault(v: Values) -> str | None:
        counts = not at or (is_on(v.get("sft.eval")) and is_on(v.get("sft.inference")))
        gpus = {train: v[train], **{name: _whole(v, name) for name in others if counts and name in v}}
        total = sum(gpus.values())
        if total <= v[machine]:
            return None
        words = " + ".join(f"{name} ({number})" for name, number in gpus.items() if number)
        words += f" = {total}" if total > v[train] else ""
        return (
            f"{words} is more than {machine} ({v[machine]}): lower it by {total - v[machine]}, or raise that"
        )

    return Rule(train, (train, machine), fault)


def _needs_slurm(kind: str, slurm: str) -> Rule:
    return _if(lambda v: v[kind] == "multi_node" and not is_on(v.get(slurm)), kind, (slurm,),
        f"{kind} (multi_node) needs [slurm], which starts the processes of the other machines")  # fmt: skip


def _weight_rules(names: Names) -> Iterator[Rule]:
    """How weights get from the trainer to inference."""
    lora, trained = names("lora"), f"trainer.{_BROADCAST}"
    yield _if(lambda v: is_on(v.get(lora)) and v[_BROADCAST] in _IN_MEMORY, _BROADCAST, (lora,),
        lambda v: f"{_BROADCAST} ({shown(v[_BROADCAST])}) cannot carry {lora}: set it to filesystem",
        _strict(names))  # fmt: skip
    yield _if(
        lambda v: is_on(v.get(lora)) and own(v, trained) in _IN_MEMORY, lora, ("trainer.weight_broadcast",),
        lambda v: f"{trained} ({own(v, trained)}) cannot carry {lora}: remove the table",
    )  # fmt: skip
    yield from (
        _same_adapter(f"{names('policy_lora')}.{key}", f"{lora}.{key}", lora) for key in ("rank", "alpha")
    )
    for part in _PARTS:
        yield _one_step_ahead(f"{part}.max_async_level", f"{part}.{_BROADCAST}")
        if names.has("orchestrator.train.group_size"):
            yield _counted_by_rl(f"{part}.weight_broadcast.inference_world_size")


def _same_adapter(name: str, trained: str, lora: str) -> Rule:
    return _if(
        lambda v: is_on(v.get(lora)) and v[name] is not None and v[name] != v[trained], name, (trained, lora),
        lambda v: f"{name} ({shown(v[name])}) must be that of {trained} ({shown(v[trained])}): remove it",
    )  # fmt: skip


def _one_step_ahead(level: str, kind: str) -> Rule:
    return _if(
        lambda v: v[kind] == "nccl" and v[level] != 1, level, (kind,),
        lambda v: f"{level} ({v[level]}) must be 1 while {kind} is nccl: set it to 1, or use filesystem",
    )  # fmt: skip


def _counted_by_rl(name: str) -> Rule:
    return _if(
        lambda v: own(v, name) is not None, name, (),
        lambda v: f"{name} ({shown(own(v, name))}) is not read: rl counts inference's GPUs itself", "warning",
    )  # fmt: skip


def _inference_rules(at: str, names: Names) -> Iterator[Rule]:
    """`at`: nothing or `sft.`."""
    base = f"{at}inference"
    gpus = names("sft_infer_gpus") if at else _INFER if names.has(_INFER) else "inference_gpu_ids"
    tensor, copies = f"{at}{names('tensor_parallel')}", f"{at}{names('data_parallel')}"
    offload, caching = f"{base}.kv_cache_offload", f"{at}{names('prefix_caching')}"
    rank = f"{at}{names('max_lora_rank')}"

    def count(v: Values) -> int:
        return _whole(v, gpus, 1) if at else _gpus_of(v, "infer")

    yield make.in_share(f"{at}{names('gpu_memory_utilization')}", "vLLM")
    yield _if(lambda v: is_on(v.get(base)) and v[tensor] and count(v) % v[tensor], gpus, (tensor,),
        lambda v: f"{gpus} ({shown(v[gpus])}) must be divisible by {tensor} ({v[tensor]}): nearest valid "
        f"num_infer_gpus is {nearest_multiples(count(v), v[tensor])}")  # fmt: skip
    yield _if(lambda v: is_on(v.get(base)) and own(v, copies) is not None and v[tensor]
        and count(v) % v[tensor] == 0 and v[copies] * v[tensor] != count(v), copies, (gpus, tensor),
        lambda v: f"{copies} ({v[copies]}) is not read: {gpus} ({shown(v[gpus])}) / {tensor} ({v[tensor]}) = "
        f"{count(v) // v[tensor]} copies fill the GPUs", "warning")  # fmt: skip
    yield _if(
        lambda v: (v[rank] or 0) > _LORA_RANKS[-1], rank, (),
        lambda v: f"{rank} ({v[rank]}) is too large for vLLM: the largest allowed is {_LORA_RANKS[-1]}",
    )  # fmt: skip
    yield _if(lambda v: is_on(v.get(offload)) and v[caching] is False, offload, (caching,),
        f"{offload} needs {caching}, which is false: remove one of them")  # fmt: skip


# Trainers


def _trainer_rules(at: str, names: Names) -> Iterator[Rule]:
    """On model, optimizer and scheduler. `at`: `trainer.` or `sft.`."""
    model, kind = f"{at}model", f"{at}optim.type"
    impl, attn, cp, ep, ac = (f"{model}.{key}" for key in ("impl", "attn", "cp", "ep", "ac"))
    full, fsdp, optim = (
        f"{model}.{key}" for key in ("full_offload", "fsdp_cpu_offload", "optim_cpu_offload")
    )
    for other in (fsdp, full):
        yield _not_with_optimizer(other, optim, is_set=True, severity="error")
        yield _not_with_optimizer(other, optim, is_set=False, severity=_strict(names))
    yield make.not_both(fsdp, full, why="each moves the optimizer's state to the CPU")
    yield make.requires(full, kind, "adamw", "sign_sgd")
    yield _if(lambda v: v[kind] == "muon" and v[fsdp], kind, (fsdp,),
        f"{kind} (muon) does not work with {fsdp}: turn it off, or take adamw")  # fmt: skip
    flash = ("flash_attention_4", "fa4", *(("auto",) if names.has(full) else ()))
    yield _if(lambda v: v[impl] == "hf" and v[attn] in flash, attn, (impl,),
        lambda v: f"{attn} ({shown(v[attn])}) needs {impl} to be custom or auto, not hf: set attn to "
        f"flash_attention_2 or flash_attention_3, or change impl")  # fmt: skip
    if names.has(optim):  # not yet in 2025
        yield _if(lambda v: _whole(v, cp) > 1 and v[attn] in ("eager", "sdpa"), cp, (attn,),
            lambda v: f"{cp} ({v[cp]}) needs flash attention: set {attn} to flash_attention_2")  # fmt: skip
        yield make.when(make.requires(ep, impl, *_OWN), lambda v: _whole(v, ep) > 1)
        selective = f"{ac}.mode"
        yield make.when(
            make.requires(ac, impl, *_OWN), lambda v: v[selective] == "selective", also=(selective,)
        )
    if names.has(full):
        yield make.requires(cp, impl, *_OWN)
        yield make.requires(f"{model}.quantization", impl, *_OWN)
        offloading = f"{ac}_offloading"
        yield _if(lambda v: is_on(v.get(offloading)) and not is_on(v.get(ac)), offloading, (ac,),
            f'{ac} = "None" has no effect while {offloading} is on, which it is unless it is "None" too: '
            f"activation checkpointing stays on", "warning")  # fmt: skip
    remote = ("hf", "auto") if names.has(optim) else ("hf",)
    yield make.requires(f"{model}.trust_remote_code", impl, *remote)
    yield from _scheduler_rules(f"{at}scheduler", f"{at}max_steps", is_checked=names.has(full))


def _not_with_optimizer(other: str, optim: str, *, is_set: bool, severity: Severity) -> Rule:
    """`is_set`: the file says so; else it is the default, which was not always so."""
    reason = "" if is_set else ", and the latter is on unless it is set"
    return _if(
        lambda v: is_on(v.get(other)) and v[optim] and (own(v, optim) is not None) == is_set, other, (optim,),
        f"{other} and {optim} cannot be used together{reason}: set {optim} = false, or remove {other}",
        severity,
    )  # fmt: skip


def _scheduler_rules(at: str, steps: str, *, is_checked: bool) -> Iterator[Rule]:
    """`is_checked`: by prime-rl's own models, from August 2026 on; before, the rate just never gets there."""
    kind, warmup, decay = f"{at}.type", f"{at}.warmup_steps", f"{at}.decay_steps"
    if not is_checked:
        yield _if(
            lambda v: v[kind] != "constant" and v[warmup] >= (v[steps] or math.inf), warmup, (steps, kind),
            lambda v: f"{warmup} ({v[warmup]}) is not below {steps} ({v[steps]}): the learning rate never "
            f"reaches its full size; lower it to {max(0, v[steps] - 1)} or less", "warning",
        )  # fmt: skip
        return
    yield _if(lambda v: v[kind] == "linear" and v[warmup] == v[decay] == 0, kind, (warmup, decay),
        f"{kind} linear needs {warmup} or {decay} above 0: use constant instead")  # fmt: skip
    yield _if(
        lambda v: (v[kind] == "cosine" or (v[kind] == "linear" and v[decay] > 0)) and v[steps] is None,
        kind, (steps,), lambda v: f"{kind} {v[kind]} needs max_steps, to know where the run ends",
    )  # fmt: skip
    yield _if(lambda v: v[kind] == "cosine" and v[warmup] >= (v[steps] or math.inf), warmup, (kind, steps),
        lambda v: f"{warmup} ({v[warmup]}) must be less than max_steps ({v[steps]})")  # fmt: skip
    yield _if(
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
    yield _if(
        lambda v: v[parallel] > 1 and v[pack] != with_cp, pack, (parallel,),
        lambda v: f'{pack} ("{v[pack]}") must be "{with_cp}" while {parallel} ({v[parallel]}) is above 1',
    )  # fmt: skip
    yield make.divisible_by("sft.data.seq_len", _STACKED_TOKENS, where=(pack, "stack"))
    yield _gpu_rounds(names("sft_gpus"))
    server, evals, kind = "sft.inference", "sft.eval", "sft.weight_broadcast.type"
    url, again, lora = f"{evals}.client.base_url", f"{evals}.retrigger_on_resume", "sft.model.lora"

    def both(v: Values) -> bool:
        return is_on(v.get(server)) and is_on(v.get(evals))

    yield _if(lambda v: is_on(v.get(server)) and not is_on(v.get(evals)), server, (evals,),
        "[inference] is only for evals: add [eval] with a source, or remove [inference]")  # fmt: skip
    yield _if(lambda v: is_on(v.get(evals)) and not is_on(v.get(server)), evals, (server, url),
        lambda v: "[eval] without [inference]: sft starts no server, so one must answer at "
        f"{url[4:]} ({v[url]})", "hint")  # fmt: skip
    yield make.when(make.same(f"{server}.vllm.model", "sft.model.name"), both)
    yield make.when(make.same_port(url, f"{server}.server.port"), both)
    yield _if(lambda v: is_on(v.get(evals)) and v[kind] == "nixl", kind, (evals,),
        f"{kind} nixl is not for SFT: use nccl or filesystem")  # fmt: skip
    yield _if(lambda v: is_on(v.get(evals)) and v[kind] == "nccl" and is_on(v.get(lora)), kind, (evals, lora),
        f"{kind} nccl cannot carry {lora}: set it to filesystem")  # fmt: skip
    yield _if(lambda v: is_on(v.get(evals)) and v[again] and v[kind] != "filesystem", again, (kind,),
        lambda v: f"{again} needs {kind} to be filesystem, not {v[kind]}")  # fmt: skip


def _row_rules(at: str, *, is_of_2025: bool) -> Iterator[Rule]:
    micro, cp = f"{at}.micro_batch_size", "sft.model.cp"
    yield micro_batches(f"{at}.batch_size", micro)
    for one, other in (("subsets", "splits"), ("probabilities", "subsets"), ("probabilities", "splits")):
        yield make.same_length(f"{at}.{one}", f"{at}.{other}", what="name one for each")
    if not is_of_2025:
        yield make.when(make.divisible(f"{at}.seq_len", cp), lambda v: v[cp] > 1)
        yield _if(lambda v: v[cp] > 1 and v[micro] != 1, micro, (cp,),
            lambda v: f"{micro} ({v[micro]}) must be 1 while {cp} ({v[cp]}) is above 1")  # fmt: skip


def _gpu_rounds(gpus: str) -> Rule:
    """Rows of a step in whole rounds of what all GPUs compute at once: not checked until training starts."""
    batch, micro = "sft.data.batch_size", "sft.data.micro_batch_size"

    def fault(v: Values) -> str | None:
        once, shared = v[gpus] * v[micro], _whole(v, "sft.model.cp", 1) * _whole(v, "sft.model.tp", 1)
        if not once or v[batch] % v[micro] or v[batch] * shared % once == 0:
            return None
        least = once // math.gcd(once, shared)
        return (
            f"{batch} ({v[batch]}) must be divisible by {least}, what {gpus} ({v[gpus]}) compute at once "
            f"with {micro} ({v[micro]}): nearest valid batch_size is {nearest_multiples(v[batch], least)}"
        )

    return Rule(batch, (batch, micro, gpus), fault)


# Defaults that follow


def defaults(files: ConfigFiles, values: Values, names: Names) -> Mapping[str, TomlValue]:
    """Defaults that follow from other values, by name."""
    del files
    v = dict(values)
    found: dict[str, TomlValue] = {}

    def put(name: str, value: TomlValue) -> None:
        """What holds from then on, unless the file says otherwise."""
        if name in v:
            found[name] = value
            if own(v, name) is None:
                v[name] = value

    knobs = batch_knobs(names)
    by_tokens = bool(knobs.token_batch_size) and v.get(knobs.token_batch_size) is not None
    if knobs.token_batch_size and own(v, knobs.batch_size) is None:
        put(knobs.batch_size, None if by_tokens else _DEFAULT_BATCH)
    if knobs.inflight is not None and not by_tokens and isinstance(batch := v.get(knobs.batch_size), int):
        factor = v.get(knobs.oversampling or "")
        put(
            knobs.inflight,
            int(batch * factor) if isinstance(factor, int | float) and factor < _WILD else batch,
        )
    if _is_one_file(names):
        _put_deployment(v, names, put)
    for at in ("", "sft."):
        if is_on(v.get(f"{at}inference")):
            _put_inference(at, v, names, put)
    if is_on(v.get("sft.eval")):
        fast = is_on(v.get("sft.inference")) and not is_on(v.get("sft.model.lora"))
        put(f"sft.{_BROADCAST}", "nccl" if fast else "filesystem")
    for group in (names("train_source"), names("eval_source"), "sft.eval.source"):
        _put_sources(group, v, names, put)
    return found


Put = Callable[[str, TomlValue], None]


def _put_deployment(v: Values, names: Names, put: Put) -> None:
    """What the `rl` launcher works out."""
    ranks = _gpus_of(v, "train")
    together = max(1, _whole(v, "trainer.model.cp", 1)) * max(1, _whole(v, "trainer.model.tp", 1))
    if ranks > 1 and (_TRAIN in v or "trainer_gpu_ids" in v):
        put("orchestrator.num_train_workers", max(1, ranks // together))
    if _is_today(names):
        put("orchestrator.pad_to_multiple_of", max(1, _whole(v, "trainer.model.cp", 1)))
    lora = names("lora")
    adapted = is_on(v.get(lora))
    if names.has("rollout_transport"):
        if v.get(_BROADCAST) is None:
            put(_BROADCAST, "nccl" if has_inference(v) and not adapted else "filesystem")
        for part in (*_PARTS, "inference"):
            put(f"{part}.{_BROADCAST}", v.get(_BROADCAST))
        put("rollout_transport.type", v.get("trainer.rollout_transport.type"))
    put(names("served_template"), v.get("trainer.tokenizer.chat_template"))
    if adapted:
        rank = v.get(f"{lora}.rank")
        for key in ("rank", "alpha"):
            put(f"{names('policy_lora')}.{key}", v.get(f"{lora}.{key}"))
        if has_inference(v):
            put(names("enable_lora"), True)
            fitting = (each for each in _LORA_RANKS if isinstance(rank, int) and each >= rank)
            put(names("max_lora_rank"), next(fitting, rank))


def _put_inference(at: str, v: Values, names: Names, put: Put) -> None:
    copies, servers = f"{at}{names('data_parallel')}", f"{at}{names('api_servers')}"
    gpus = _whole(v, names("sft_infer_gpus"), 1) if at else _gpus_of(v, "infer")
    tensor = _whole(v, f"{at}{names('tensor_parallel')}", 1)
    if _is_one_file(names) or at:
        if gpus and tensor and gpus % tensor == 0:
            put(copies, gpus // tensor)
        put(servers, 1 if v.get(f"{at}{names('enable_lora')}") is True else max(1, gpus // max(1, tensor)))
    put(f"{at}inference.backend_port", _whole(v, f"{at}inference.server.port") + _ENGINE_ABOVE)


def _put_sources(at: str, v: Values, names: Names, put: Put) -> None:
    """A source takes what it does not say from its group, or the group size of all."""
    group = at.rpartition(".")[0]
    for index, entry in enumerate(_entries(v, at)):
        here = f"{at}.{index}."
        for name in [each for each in v if each.startswith(here)]:
            key = name.removeprefix(here)
            above = f"{group}.{key}"
            if key == "group_size" and above not in v:
                above = names("group_size")
            of_another = key.startswith("env") or (key.startswith("algo.") and "algo" in entry)
            if v.get(above) is not None and not isinstance(v[above], Mapping) and not of_another:
                put(name, v[above])


# Whole tables, sources, ports


def further(files: ConfigFiles, values: Values, names: Names) -> Iterator[Problem]:
    """What concerns whole tables, sources and ports."""
    for role, file in files.items():
        at = "sft." if role == "sft" else ""
        told: list[tuple[Severity, str, str]] = [
            *(("error", *each) for each in _environments(at, values)),
            *(("error", *each) for each in _resumes(at, values)),
            *_vllm(at, values),
        ]
        if role in ("rl", "sft"):
            told += _sources(at, values, names)
            told += _renderers(at, values, names)
        if role == "rl":
            told += _offline(values, names)
            told += _ports(values, names)
        for severity, key, message in told:
            yield Problem(severity=severity, key=key, message=f"{key} {message}", file=file.path)


Told = Iterator[tuple[Severity, str, str]]


def _environments(at: str, v: Values) -> Iterator[tuple[str, str]]:
    for key in (f"{at}env_vars", *(f"{at}{part}.env_vars" for part in (*_PARTS, "inference"))):
        table = v.get(key)
        for name, value in table.items() if isinstance(table, Mapping) else ():
            if name in _PROTECTED:
                yield f"{key}.{name}", "is set by the launcher, and cannot be set here"
            elif not isinstance(value, str):
                yield f"{key}.{name}", f"must be text, not {shown(value)}: put it in quotes"


def _resumes(at: str, v: Values) -> Iterator[tuple[str, str]]:
    for key in (f"{at}resume", "trainer.resume", "orchestrator.resume"):
        step, folder = v.get(f"{key}.step"), v.get(f"{key}.dir")
        if isinstance(folder, str):
            if step is not None:
                yield f"{key}.step", f"({step}) and {key}.dir are both set, but the folder's name is the step"
            if not _STEP_FOLDER.fullmatch(PurePath(folder).name):
                yield f"{key}.dir", f"({folder}) must be a checkpoint's folder, named step_<number>"
    if not at and v.get("resume") is None and v.get("trainer.resume") != v.get("orchestrator.resume"):
        yield "trainer.resume", "and orchestrator.resume must be the same: use one [resume] at the top"


def _offline(v: Values, names: Names) -> Told:
    wandb = names("wandb")
    key, shared = f"{wandb}.offline", v.get(f"{wandb}.shared")
    if v.get(key) is True and _is_today(names):
        yield "error", key, "cannot be true: all processes share one run on the server"
    elif v.get(key) is True and shared is True:
        yield "error", key, f"does not work with {wandb}.shared, which needs a connection: set one to false"


def _vllm(at: str, v: Values) -> Told:
    """Keys that look like a slip: vLLM would refuse them as it starts."""
    table = v.get(f"{at}inference.vllm")
    for key in table if isinstance(table, Mapping) else ():
        if key.replace("-", "_") not in _vllm_arguments():
            guess = closest(key, _vllm_arguments())
            meant = f"did you mean {guess}?" if guess else "no argument of that name is known here"
            name = f"{at}inference.vllm.{format_key((key,))}"
            stops = "goes to vLLM unchecked, which stops at once if it does not know it"
            yield "warning" if guess else "hint", name, f"{stops}: {meant}"


def _source_name(row: Mapping[str, Any]) -> str:
    """What prime-rl calls a source, empty where nothing in it tells."""
    if (name := text(row, "name")) is not None:
        return name
    if isinstance(taskset := value_at(row, "env.taskset"), str):
        return taskset
    ids = (text(row, key) for key in ("env.id", "env.taskset.id"))
    return "+".join(each for each in ids if each is not None)


def _sources(at: str, v: Values, names: Names) -> Told:
    """Environments, as they are called since August 2026, and the groups of those of training."""
    groups = ["sft.eval.source"] if at else [names("train_source"), names("eval_source")]
    for group in groups:
        table = group.rpartition(".")[0]
        entries = _entries(v, group)
        is_named = group.endswith(".source")
        if table.endswith("eval") and is_on(v.get(table)) and not entries:
            yield (
                _strict(names),
                table,
                f"needs a source: add [[{group.removeprefix(at)}]], or remove [{table}]",
            )
        called = Counter(map(_source_name, entries))
        shared_env = isinstance(v.get(f"{table}.env"), Mapping)
        for index, entry in enumerate(entries):
            here, name = f"{group}.{index}", _source_name(entry)
            if is_named and not shared_env and not _source_name({"env": entry.get("env")}):
                example = 'env.taskset.id = "reverse-text"'
                yield "error", f"{here}.env", f"must say which environment it is, such as {example}"
            elif is_named and name == _RESERVED:
                words = f'cannot be "{name}", which stands for all environments in the metrics'
                yield "error", f"{here}.name", words
            elif is_named and name and called[name] > 1:
                words = f'("{name}") is that of another source too: give each a name of its own'
                yield "error", f"{here}.name", words
            size, key = v.get(f"{here}.group_size"), f"{here}.group_size"
            if group == names("train_source") and isinstance(size, int):
                yield from _of_group(key, size, entry, v, names)


def _of_group(key: str, size: int, entry: Mapping[str, Any], v: Values, names: Names) -> Told:
    batch, algorithm = v.get("orchestrator.batch_size"), value_at(entry, "algo.type")
    algorithm = algorithm or v.get(f"{names('algo')}.type") or "grpo"
    if size == 1 and algorithm in _GROUPED:
        reason = f"alone in its group, a rollout has advantage 0 with {algorithm}; try 8 or 16"
        yield "warning", key, f"is 1: {reason}"
    if own(v, key) is not None and batch is not None and batch % size:
        words = f"({size}) does not divide orchestrator.batch_size ({batch}): the last group is cut"
        yield "warning", key, words


def _renderers(at: str, v: Values, names: Names) -> Told:
    """Warnings, since the package of renderers in use may know more models than are known here."""
    part = at or "orchestrator."
    key = f"{part}renderer.name"
    name = v.get(key)
    is_needed = not at or v.get("sft.data.type") != "fake" or is_on(v.get("sft.val"))
    if not isinstance(name, str) or not _is_today(names) or not is_needed:
        return
    model = v.get(f"{part}tokenizer.name") or v.get("sft.model.name" if at else "orchestrator.model.name")
    known = _known_renderers()
    if name == "auto" and model not in known["models"]:
        words = (
            f'is "auto", but {model} is not among the models that a renderer is known for: name one of '
            "the same family, such as qwen3" + ("" if at else ', or "default"')
        )
        yield "warning", key, words
    elif name == "default" and at:
        words = 'cannot be "default" for SFT, which must tell answers from the rest: name a typed one'
        yield "error", key, words
    elif name not in known["names"]:
        guess = did_you_mean(name, known["names"])
        yield "warning", key, f'("{name}") is not known here: {guess or "a newer one?"}'


def _ports(v: Values, names: Names) -> Told:
    """TCP ports that the programs listen on, and two that are the same."""
    used: dict[int, str] = {}
    for name, first, what in _listening(v, names) if v.get(_KIND) in (None, "single_node") else ():
        if first in used:
            yield (
                _strict(names),
                name,
                f"({what}) takes port {first}, as {used[first]} does: change one of them",
            )
        used.setdefault(first, f"{name} ({what})")


def _listening(v: Values, names: Names) -> Iterable[tuple[str, int, str]]:
    """Knob, port, what for."""
    server, weights, batches = "inference.server.port", "weight_broadcast.port", "rollout_transport.port"
    if has_inference(v):
        port = _whole(v, server)
        yield server, port, "requests"
        if is_on(v.get("inference.router")):
            yield server, port + _ROUTER_METRICS_ABOVE, "metrics of the router"
            yield "inference.backend_port", _whole(v, "inference.backend_port"), "engine"
        if _whole(v, names("data_parallel")) > 1:
            yield names("rpc_port"), _whole(v, names("rpc_port")), "engines"
    if v.get(_BROADCAST) == "nccl":
        yield weights, _whole(v, weights, _NCCL), "weights"
    if v.get("trainer.rollout_transport.type") == "zmq":
        port = _whole(v, batches, _whole(v, f"trainer.{batches}"))
        yield batches, port, "batches"
        yield batches, port + _READY_ABOVE, "trainer's ready message"
    servers, base = sum(len(_entries(v, names(f"{each}_source"))) for each in ("train", "eval")), _ENV_SERVERS
    if base in v:
        yield from ((base, _whole(v, base) + index, "environments") for index in range(servers))
    if is_on(v.get("trainer.metrics_server")):
        yield (
            "trainer.metrics_server.port",
            _whole(v, "trainer.metrics_server.port"),
            "metrics of the trainer",
        )


@cache
def _vllm_arguments() -> frozenset[str]:
    """Those that vLLM 0.32 and some earlier releases take."""
    return frozenset(_data("vllm_arguments.txt").split())


@cache
def _known_renderers() -> Mapping[str, frozenset[str]]:
    """`names` of renderers, and `models` for which one is known."""
    return {key: frozenset(words.split()) for key, words in tomllib.loads(_data("renderers.toml")).items()}


def _data(name: str) -> str:
    return (resources.files(__package__) / "data" / name).read_text(encoding="utf-8")
