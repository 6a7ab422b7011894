"""Values that follow from prime-rl's config files, of all generations: defaults, and figures of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rltui.base.toml.values import TomlValue
from rltui.core.config.batch import (
    BatchKnobs,
    accumulation,
    batch_values,
    derived_value,
    packing_values,
    sft_tokens,
)
from rltui.core.config.report import DerivedValue
from rltui.core.config.rules import Values, is_on, own
from rltui.core.metrics.bottleneck import BottleneckKnobs
from rltui.frameworks.prime_rl import rules
from rltui.frameworks.prime_rl.values import ENGINE_ABOVE
from rltui.frameworks.schemas import Names

# --- defaults ---

_DEFAULT_BATCH = 128
"""Rollouts, if the file sets neither their number nor a number of tokens."""
_WILD = 1e9
"""Factors from here on are nonsense."""


def defaults(values: Values, names: Names) -> Mapping[str, TomlValue]:
    v = dict(values)
    result: dict[str, TomlValue] = {}

    def set_default(name: str, value: TomlValue) -> None:
        """Set a default, unless the file sets the value."""
        if name in v:
            result[name] = value
            if own(v, name) is None:
                v[name] = value

    knobs = rules.batch_knobs(names)
    by_tokens = bool(knobs.token_batch_size) and v.get(knobs.token_batch_size) is not None
    if knobs.token_batch_size and own(v, knobs.batch_size) is None:
        set_default(knobs.batch_size, None if by_tokens else _DEFAULT_BATCH)
    if knobs.inflight is not None and not by_tokens and isinstance(batch := v.get(knobs.batch_size), int):
        factor = v.get(knobs.oversampling or "")
        set_default(
            knobs.inflight,
            int(batch * factor) if isinstance(factor, int | float) and factor < _WILD else batch,
        )
    if rules.is_one_file(names):
        _set_deployment(v, names, set_default)
    for at in ("", "sft."):
        if is_on(v.get(f"{at}inference")):
            _set_inference(at, v, names, set_default)
    if is_on(v.get("sft.eval")):
        fast = is_on(v.get("sft.inference")) and not is_on(v.get("sft.model.lora"))
        set_default(f"sft.{rules.BROADCAST}", "nccl" if fast else "filesystem")
        if is_on(v.get("sft.inference")):
            host = v.get("sft.inference.server.host") or "localhost"
            port = rules.int_value(v, "sft.inference.server.port")
            set_default("sft.eval.client.base_url", f"http://{host}:{port}/v1")
    for group in (names("train_source"), names("eval_source"), "sft.eval.source"):
        _set_sources(group, v, names, set_default)
    return result


SetDefault = Callable[[str, TomlValue], None]


def _set_deployment(v: Values, names: Names, set_default: SetDefault) -> None:
    """Defaults that the `rl` launcher computes."""
    ranks = rules.gpus_of(v, "train")
    together = max(1, rules.int_value(v, "trainer.model.cp", 1)) * max(
        1, rules.int_value(v, "trainer.model.tp", 1)
    )
    if ranks > 1 and (rules.TRAIN in v or "trainer_gpu_ids" in v):
        set_default("orchestrator.num_train_workers", max(1, ranks // together))
    if rules.is_today(names):
        set_default("orchestrator.pad_to_multiple_of", max(1, rules.int_value(v, "trainer.model.cp", 1)))
    lora = names("lora")
    adapted = is_on(v.get(lora))
    if names.has("rollout_transport"):
        if v.get(rules.BROADCAST) is None:
            set_default(rules.BROADCAST, "nccl" if rules.has_inference(v) and not adapted else "filesystem")
        for role in (*rules.PAIR, "inference"):
            set_default(f"{role}.{rules.BROADCAST}", v.get(rules.BROADCAST))
        set_default("rollout_transport.type", v.get("trainer.rollout_transport.type"))
    set_default(names("served_template"), v.get("trainer.tokenizer.chat_template"))
    if adapted:
        rank = v.get(f"{lora}.rank")
        for key in ("rank", "alpha"):
            set_default(f"{names('policy_lora')}.{key}", v.get(f"{lora}.{key}"))
        if rules.has_inference(v):
            set_default(names("enable_lora"), True)
            fitting = (rank_ for rank_ in rules.LORA_RANKS if isinstance(rank, int) and rank_ >= rank)
            set_default(names("max_lora_rank"), next(fitting, rank))


def _set_inference(at: str, v: Values, names: Names, set_default: SetDefault) -> None:
    copies, servers = f"{at}{names('data_parallel')}", f"{at}{names('api_servers')}"
    gpus = rules.int_value(v, names("sft_infer_gpus"), 1) if at else rules.gpus_of(v, "infer")
    tensor = rules.int_value(v, f"{at}{names('tensor_parallel')}", 1)
    if rules.is_one_file(names) or at:
        if gpus and tensor and gpus % tensor == 0:
            set_default(copies, gpus // tensor)
        set_default(
            servers, 1 if v.get(f"{at}{names('enable_lora')}") is True else max(1, gpus // max(1, tensor))
        )
    set_default(
        f"{at}inference.backend_port", rules.int_value(v, f"{at}inference.server.port") + ENGINE_ABOVE
    )


def _set_sources(group_key: str, v: Values, names: Names, set_default: SetDefault) -> None:
    """Keys that a source lacks come from its group, or the group size of all."""
    group = group_key.rpartition(".")[0]
    for index, entry in enumerate(rules.entries(v, group_key)):
        prefix = f"{group_key}.{index}."
        for name in [name_ for name_ in v if name_.startswith(prefix)]:
            key = name.removeprefix(prefix)
            group_name = f"{group}.{key}"
            if key == "group_size" and group_name not in v:
                group_name = names("group_size")
            of_another = key.startswith("env") or (key.startswith("algo.") and "algo" in entry)
            if v.get(group_name) is not None and not isinstance(v[group_name], Mapping) and not of_another:
                set_default(name, v[group_name])


# --- figures ---


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
            _prompts(v[knobs.batch_size], groups) if value.name == _PROMPTS else value
            for value in batch_derived
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
