"""Values derived from prime-rl's config files, once for all generations."""

from __future__ import annotations

from collections.abc import Iterator

from rltui.core.batch import BatchKnobs, accumulation, batch_values, derived_value, packing_values, sft_tokens
from rltui.core.bottleneck import BottleneckKnobs
from rltui.core.config_report import DerivedValue
from rltui.core.gpu.training import Training
from rltui.core.rules import Values, is_on
from rltui.frameworks.prime_rl import rules
from rltui.frameworks.schemas import Names


def batch_knobs(names: Names) -> BatchKnobs | None:
    """Names of the knobs of a batch; `None` if the files have no rollouts."""
    knobs = rules.batch_knobs(names)
    needed = (knobs.batch_size, knobs.group_size, knobs.seq_len)
    return knobs if all(map(names.has, needed)) else None


def bottleneck_knobs(names: Names) -> BottleneckKnobs:
    """Names of the knobs that move a bottleneck, as far as this generation has them."""
    return BottleneckKnobs(
        in_flight=_first(names, "max_inflight", "orchestrator.concurrency.max_inflight"),
        kv_memory=names.get("gpu_memory_utilization"),
        sequences=names.get("inference.vllm.max_num_seqs"),
        lead=_first(
            names, "max_async_level", "orchestrator.max_async_level", "orchestrator.max_off_policy_steps"
        ),
    )


def _first(names: Names, *concepts: str) -> str | None:
    return next((name for concept in concepts if (name := names.get(concept))), None)


def derived(values: Values, names: Names) -> Iterator[DerivedValue]:
    """Derived values of a step, if all values are sound."""
    if (knobs := batch_knobs(names)) is not None:
        yield from _rollouts(values, knobs, names)
        yield from _episodes(values, "orchestrator.concurrency", "episodes in flight")
        yield from _gpus(values, names)
    if names.has("sft"):
        yield from _sft(values, names)
        if is_on(values.get("sft.eval")):
            yield from _episodes(values, "sft.eval.concurrency", "eval episodes in flight")


def _rollouts(v: Values, knobs: BatchKnobs, names: Names) -> Iterator[DerivedValue]:
    if v.get(knobs.batch_size) is None and not (knobs.token_batch_size and v.get(knobs.token_batch_size)):
        return
    groups = rules.source_groups(v, names)
    v = {**v, knobs.group_size: max(groups.values())}
    longest = names("max_completion_tokens")
    v.setdefault(longest, None)
    batch_derived = batch_values(v, knobs, max_tokens=longest)
    if len({*groups.values()}) > 1:
        batch_derived = (
            _prompts(v[knobs.batch_size], groups) if value_.name == _PROMPTS else value_
            for value_ in batch_derived
        )
    yield from batch_derived
    if not v[knobs.seq_len]:
        return
    by_trainer = "trainer.model.seq_len" in v and not names.has("orchestrator.concurrency")
    yield from packing_values(
        v, knobs, max_tokens=longest, row_tokens="trainer.model.seq_len" if by_trainer else knobs.seq_len,
        ranks=v.get("orchestrator.num_train_workers") or 1,
    )  # fmt: skip


_PROMPTS = "prompts per step"


def _prompts(batch: int | None, groups: dict[str, int]) -> DerivedValue:
    """Prompts of sources with groups of several sizes: chance decides how often each source is drawn from."""
    sizes = sorted({*groups.values()})
    size_text = f"{', '.join(map(str, sizes[:-1]))} or {sizes[-1]} per example (set by the source)"
    if batch is None:
        return derived_value(_PROMPTS, None, "prompts", f"varies: whole groups of {size_text}")
    low, high = -(-batch // sizes[-1]), batch // sizes[0]
    return derived_value(
        _PROMPTS, None, "prompts", f"{batch} rollouts / {size_text} = {low} to {high} prompts per step"
    )


def _episodes(v: Values, table: str, name: str) -> Iterator[DerivedValue]:
    """A number that adapts itself: the config only sets its start and bounds."""
    bounds = [f"{table}.{key}_inflight" for key in ("initial", "min", "max")]
    if not v.keys() >= {*bounds}:
        return
    first, low, high = (v[bound] for bound in bounds)
    if low == high:
        text = f"always {low}: min_inflight equals max_inflight"
        yield derived_value(name, low, "episodes", text)
        return
    start = (
        f"starts with {first}" if first is not None else "starts with as many as certainly fit the KV cache"
    )
    most = "no upper bound" if high is None else f"at most {high}"
    text = f"{start}, then adapts to the inference load: at least {low}, {most}"
    yield derived_value(name, first, "episodes", text)


def _gpus(v: Values, names: Names) -> Iterator[DerivedValue]:
    train, infer = v.get("deployment.num_train_gpus"), v.get("deployment.num_infer_gpus")
    if train is None or infer is None:  # of several machines, or of before `[deployment]`
        return
    infer = infer if rules.has_inference(v) else 0
    text = f"{infer} for inference (the first ones) + {train} for the trainer = {infer + train} GPUs"
    if infer > 1:
        copies, tensor = v.get(names("data_parallel")), v.get(names("tensor_parallel"))
        text += f"; {copies} copies of the model on {tensor} GPUs each"
    yield derived_value("GPUs", infer + train, "GPUs", text)


def _sft(v: Values, names: Names) -> Iterator[DerivedValue]:
    """Tokens and micro-batches of a step; the number of steps in an epoch depends on the dataset."""
    batch, micro, seq_len = (f"sft.data.{key}" for key in ("batch_size", "micro_batch_size", "seq_len"))
    if any(v.get(name) is None for name in (batch, micro, seq_len)):
        return
    yield sft_tokens(v, batch=batch, seq_len=seq_len)
    steps, name = v.get("sft.max_steps"), "sft micro-batches per optimizer step"
    if steps is not None:
        step_tokens = v[batch] * v[seq_len]
        text = f"{steps} steps * {step_tokens} tokens = {steps * step_tokens} tokens"
        yield derived_value("sft tokens of the run", steps * step_tokens, "tokens", text)
    gpus, together = v.get(names("sft_gpus")), (v.get("sft.model.cp") or 1) * (v.get("sft.model.tp") or 1)
    if gpus is None or gpus < together:
        yield accumulation(v, batch=batch, micro=micro, name=f"{name} on one GPU")
    else:
        yield accumulation(v, batch=batch, micro=micro, ranks=gpus // together, name=name)


_OFF_DEVICE = ("lora", "experimental.lora", "optim_cpu_offload", "fsdp_cpu_offload", "full_offload")
"""Keys of `[model]` that leave less on the device than full weights, gradients and moments."""


def training(v: Values, names: Names) -> Training | None:
    """Values that decide about the memory of `sft`; `None` without rows to train on."""
    batch, micro, seq_len = (
        v.get(f"sft.data.{key}") for key in ("batch_size", "micro_batch_size", "seq_len")
    )
    if not (batch and micro and seq_len):
        return None
    gpus, together = (
        v.get(names("sft_gpus")) or 1,
        (v.get("sft.model.cp") or 1) * (v.get("sft.model.tp") or 1),
    )
    return Training(
        "sft",
        v.get("sft.model.name"),
        micro,
        seq_len,
        batch // max(1, gpus // together),
        "data.micro_batch_size",
        "data.seq_len",
        processes=gpus,
        recomputes=is_on(v.get("sft.model.ac")),
        is_full=not any(is_on(v.get(f"sft.model.{key}")) for key in _OFF_DEVICE) and together == 1,
    )
