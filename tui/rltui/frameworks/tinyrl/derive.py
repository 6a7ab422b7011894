"""Figures that follow from a tinyrl config, with the arithmetic in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rltui.core.api import DerivedValue
from rltui.frameworks.base import ConfigFiles, figure
from rltui.frameworks.config_data import effective
from rltui.frameworks.rules import value_problems
from rltui.frameworks.tinyrl.knobs import KNOBS, defaults

Values = Mapping[str, Any]


def derive(files: ConfigFiles) -> tuple[DerivedValue, ...]:
    """What a step amounts to. Empty while a value has a wrong type or is out of bounds."""
    if any(True for _ in value_problems(KNOBS, files)):
        return ()
    values = effective(KNOBS, files, defaults(files))
    found: list[DerivedValue] = []
    if "rl" in files:
        by_tokens = values["orchestrator.token_batch_size"] is not None
        found.extend(_token_batch(values) if by_tokens else _rollout_batch(values))
        found.extend(_in_flight(values))
    if "sft" in files:
        found.append(_gradient_accumulation(values))
    return tuple(found)


def _rollout_batch(v: Values) -> Iterator[DerivedValue]:
    batch, group = v["orchestrator.batch_size"], v["orchestrator.rollouts_per_example"]
    seq_len, max_tokens = v["orchestrator.seq_len"], v["orchestrator.sampling.max_tokens"]
    prompts = batch // group if batch % group == 0 else None
    yield figure(
        "prompts per step", prompts, "prompts",
        f"{batch} rollouts / {group} per example = {batch / group:g} prompts per step",
    )  # fmt: skip
    yield figure(
        "tokens per step", batch * seq_len, "tokens",
        f"at most {batch} rollouts * {seq_len} tokens = {batch * seq_len} tokens per step",
    )  # fmt: skip
    if max_tokens is not None:
        yield figure(
            "sampled tokens per step", batch * max_tokens, "tokens",
            f"at most {batch} rollouts * {max_tokens} new tokens = {batch * max_tokens} sampled per step",
        )  # fmt: skip


def _token_batch(v: Values) -> Iterator[DerivedValue]:
    tokens, group = v["orchestrator.token_batch_size"], v["orchestrator.rollouts_per_example"]
    seq_len = v["orchestrator.seq_len"]
    least = -(-tokens // seq_len)
    yield figure(
        "prompts per step", None, "prompts",
        f"varies: whole groups of {group} rollouts until they hold {tokens} tokens",
    )  # fmt: skip
    yield figure("tokens per step", tokens, "tokens", f"about {tokens}, as token_batch_size says")
    yield figure(
        "rollouts per step", least, "rollouts",
        f"at least {tokens} tokens / {seq_len} per rollout = {least} rollouts per step",
    )  # fmt: skip


def _in_flight(v: Values) -> Iterator[DerivedValue]:
    inflight, group = v["orchestrator.max_inflight_rollouts"], v["orchestrator.rollouts_per_example"]
    if inflight is None:
        return
    factor, batch = v["orchestrator.oversampling_factor"], v["orchestrator.batch_size"]
    origin = (
        f"{batch} * {factor:g} = {inflight}" if factor is not None and batch is not None else f"{inflight}"
    )
    yield figure(
        "rollouts in flight", inflight, "rollouts",
        f"{origin} rollouts at once, {inflight // group} whole groups of {group}",
    )  # fmt: skip


def _gradient_accumulation(v: Values) -> DerivedValue:
    batch, micro = v["sft.data.batch_size"], v["sft.data.micro_batch_size"]
    return figure(
        "sft micro-batches per optimizer step",
        batch // micro if batch % micro == 0 else None,
        "micro-batches",
        f"{batch} examples / {micro} at once = {batch / micro:g} micro-batches before each optimizer step",
    )
