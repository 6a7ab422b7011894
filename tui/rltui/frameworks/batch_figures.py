"""What a step amounts to, with the arithmetic in words: for any framework that samples groups of rollouts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rltui.core.config_report import DerivedValue
from rltui.frameworks.base import BatchKnobs, figure
from rltui.frameworks.rule_makers import Values, last, number


def batch_figures(v: Values, names: BatchKnobs, *, max_tokens: str) -> Iterator[DerivedValue]:
    """Prompts, tokens and rollouts of a step, and how many rollouts are in flight.

    `v`: every knob's effective value, all of the right type and within bounds. `max_tokens`: name of the knob
    that bounds a completion.
    """
    by_tokens = _tokens(v, names) is not None
    yield from _token_batch(v, names) if by_tokens else _rollout_batch(v, names, max_tokens)
    yield from _in_flight(v, names)


def packing_figures(
    v: Values, names: BatchKnobs, *, max_tokens: str, row_tokens: str, ranks: int
) -> Iterator[DerivedValue]:
    """How rollouts are packed into the trainer's micro-batches: the worst case, and the best one known.

    `row_tokens`: name of the knob that says how many tokens a micro-batch holds. `ranks`: data-parallel ranks
    of the trainer, which share the micro-batches of a step.
    """
    row, longest = v[row_tokens], v[names.seq_len]
    fit = max(1, row // longest)
    short = v[max_tokens] if v[max_tokens] and v[max_tokens] < longest else None
    more = max(1, row // short) if short is not None else fit
    best = f"; {more} of {short} new tokens, prompts not counted" if more > fit else ""
    yield figure(
        "rollouts per micro-batch", fit, "rollouts",
        f"{row} tokens / {longest} of the longest rollout = {fit}{best}",
    )  # fmt: skip
    tokens, shared = _tokens(v, names), f" on each of {ranks} ranks" if ranks > 1 else ""
    if tokens is not None:
        each = _rounded_up(tokens, row * ranks)
        text = f"about {tokens} tokens / {row} = {each} packed micro-batches{shared}"
    else:
        batch = v[names.batch_size]
        each, least = _rounded_up(batch, fit * ranks), _rounded_up(batch, more * ranks)
        text = f"at most {batch} rollouts / {fit} = {each} packed micro-batches{shared}"
        text += f", at least {least}" if least < each else ""
    yield figure("micro-batches per optimizer step", each, "micro-batches", text)


def accumulation(v: Values, *, batch: str, micro: str, parts: int = 1, name: str) -> DerivedValue:
    """Micro-batches before each optimizer step. `parts`: ranks that each take other examples."""
    size, once = v[batch], v[micro] * parts
    each = f"({v[micro]} at once * {parts} ranks)" if parts > 1 else f"{v[micro]} at once"
    return figure(
        name, size // once if size % once == 0 else None, "micro-batches",
        f"{size} examples / {each} = {size / once:g} micro-batches before each optimizer step",
    )  # fmt: skip


def sft_tokens(v: Values, *, batch: str, seq_len: str, packed: bool) -> DerivedValue:
    """Tokens of an SFT step. `packed`: rows are filled up with further examples."""
    rows, length = v[batch], v[seq_len]
    limit, what = ("", "packed rows") if packed else ("at most ", "examples")
    return figure(
        "sft tokens per step", rows * length, "tokens",
        f"{limit}{rows} {what} * {length} tokens = {rows * length} tokens per step",
    )  # fmt: skip


def _tokens(v: Values, names: BatchKnobs) -> int | None:
    return v[names.token_batch_size] if names.token_batch_size else None


def _rounded_up(value: int, divisor: int) -> int:
    return -(-value // divisor)


def _rollout_batch(v: Values, names: BatchKnobs, max_tokens: str) -> Iterator[DerivedValue]:
    batch, group, seq_len = v[names.batch_size], v[names.group_size], v[names.seq_len]
    yield figure(
        "prompts per step", batch // group if batch % group == 0 else None, "prompts",
        f"{batch} rollouts / {group} per example = {batch / group:g} prompts per step",
    )  # fmt: skip
    yield _most("tokens per step", batch, seq_len, "tokens", "tokens per step")
    if v[max_tokens] is not None:
        yield _most("sampled tokens per step", batch, v[max_tokens], "new tokens", "sampled per step")


def _most(name: str, rollouts: int, tokens: int, what: str, outcome: str) -> DerivedValue:
    total = rollouts * tokens
    text = f"at most {rollouts} rollouts * {tokens} {what} = {total} {outcome}"
    return figure(name, total, "tokens", text)


def _token_batch(v: Values, names: BatchKnobs) -> Iterator[DerivedValue]:
    tokens, group, seq_len = v[names.token_batch_size], v[names.group_size], v[names.seq_len]
    least = _rounded_up(tokens, seq_len)
    yield figure(
        "prompts per step", None, "prompts",
        f"varies: whole groups of {group} rollouts until they hold {tokens} tokens",
    )  # fmt: skip
    yield figure(
        "tokens per step", tokens, "tokens",
        f"about {tokens}, as {last(names.token_batch_size)} says",
    )  # fmt: skip
    yield figure(
        "rollouts per step", least, "rollouts",
        f"at least {tokens} tokens / {seq_len} per rollout = {least} rollouts per step",
    )  # fmt: skip


def _in_flight(v: Values, names: BatchKnobs) -> Iterator[DerivedValue]:
    factor: Any = v[names.oversampling] if names.oversampling else None
    batch, group = v[names.batch_size], v[names.group_size]
    inflight = v[names.inflight] if names.inflight else None
    by_factor = factor is not None and batch is not None
    if inflight is None and by_factor:
        inflight = int(batch * factor)
    if inflight is None:
        return
    origin = f"{batch} * {number(factor)} = {inflight}" if by_factor else f"{inflight}"
    yield figure(
        "rollouts in flight", inflight, "rollouts",
        f"{origin} rollouts at once, {inflight // group} whole groups of {group}",
    )  # fmt: skip
