"""Rules and derived values of the number of rollouts in a batch, and conversion between the ways of counting
it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rltui.base.kinds import is_integer, is_number
from rltui.core.config.report import BatchUnit, Conversion, DerivedValue, KnobInfo
from rltui.core.config.rules import Rule, Values, bad_if, divisible, last, number, when

_MOST_DECIMALS = 6
"""Most decimals of an oversampling factor; rounded further, it would not give the same number in flight."""


@dataclass(frozen=True, slots=True)
class BatchKnobs:
    """Names of the knobs that decide how many rollouts make a batch, for the token-batch converter."""

    batch_size: str
    token_batch_size: str
    """Empty if a batch is always a number of rollouts."""
    group_size: str
    seq_len: str
    inflight: str | None = None
    """Required together with `token_batch_size`; `None` if the framework chooses the number by itself."""
    oversampling: str | None = None
    """In flight = batch_size * this; only allowed together with `batch_size`."""
    token_metric: str = ""
    """Metric whose value per step is the mean number of tokens of an accepted rollout."""


def in_rollouts(
    tokens: int, inflight: int | None, *, group: int, mean_tokens: float
) -> tuple[int, int | None, float | None]:
    """A batch of so many tokens in whole groups of rollouts, nearest and at least one.

    The number in flight stays: as a number, or as a factor of the size if one gives it; neither is returned
    if it equals the size.
    """
    size = group * max(1, round(tokens / mean_tokens / group))
    if inflight is None or inflight == size:
        return size, None, None
    factor = oversampling(size, inflight)
    return size, inflight if factor is None else None, factor


def oversampling(size: int, inflight: int) -> float | None:
    """The factor with the fewest decimals for which `int(size * factor)` is `inflight`; `None` if it would
    be below 1.
    """
    if inflight < size:
        return None
    for decimals in range(_MOST_DECIMALS + 1):
        unit: int = 10**decimals
        factor = -(-inflight * unit // size) / unit
        if int(size * factor) == inflight:
            return factor
    return None


def batching(names: BatchKnobs, *, also: Collection[str] = ()) -> tuple[Rule, ...]:
    """All rules between batch size, token batch size, group, rollouts in flight and oversampling.

    Rules on the number in flight are left out if the framework chooses it by itself. `also`: knobs that
    others follow, such as a shared `seq_len`; while they are faulty, so are those.
    """
    batch, tokens, group = names.batch_size, names.token_batch_size, names.group_size
    if not tokens:
        return divisible(batch, group), single_rollout_groups(group)
    whole_groups = when(divisible(batch, group), lambda v: v[tokens] is None, also=(tokens,))
    rules = [_exactly_one(batch, tokens), whole_groups]
    if names.oversampling is not None:
        rules.append(_factor_needs_batch(names, names.oversampling))
    if names.inflight is not None:
        rules += _inflight_rules(names, names.inflight, also)
    return (*rules, single_rollout_groups(group))


def _exactly_one(batch: str, tokens: str) -> Rule:
    """A batch is a number of rollouts or a number of tokens, not both."""
    return bad_if(
        lambda v: v[batch] is not None and v[tokens] is not None, tokens, (batch,),
        lambda v: f"set exactly one of {batch} ({v[batch]}) or {tokens} ({v[tokens]}): remove one of them",
    )  # fmt: skip


def single_rollout_groups(group: str) -> Rule:
    """A group of one has nothing to compare with."""
    return bad_if(
        lambda v: v[group] == 1, group, (),
        f"{group} is 1: a rollout alone in its group has advantage 0, so nothing is learned; try 8 or 16",
        "warning",
    )  # fmt: skip


_DEFAULT_BATCH = 128
"""Rollouts of a step if no knob sets them; as many are in flight then."""


def _factor_needs_batch(names: BatchKnobs, factor: str) -> Rule:
    batch, tokens = names.batch_size, names.token_batch_size
    remedy = f" and set {names.inflight}" if names.inflight else ""
    return bad_if(
        lambda v: v[tokens] is not None and v[factor] is not None, factor, (tokens,),
        lambda v: f"{factor} ({number(v[factor])}) applies to {batch}, but {tokens} "
        f"({v[tokens]}) is set instead: remove {factor}{remedy}",
    )  # fmt: skip


def _inflight_rules(names: BatchKnobs, inflight: str, also: Collection[str]) -> Iterator[Rule]:
    batch, tokens, factor = names.batch_size, names.token_batch_size, names.oversampling
    group, seq_len = names.group_size, names.seq_len
    both = (batch, tokens, *([factor] if factor else []))

    def example(v: Values) -> int:
        least: int = max(v[batch] or _DEFAULT_BATCH, v[group], _rounded_up(v[tokens], v[seq_len]))
        return _rounded_up(least, v[group]) * int(v[group])

    yield bad_if(
        lambda v: v[tokens] is not None and v[inflight] is None, tokens, (inflight, group, seq_len, *also),
        lambda v: f"{inflight} is required with {tokens} ({v[tokens]}): at least {group} ({v[group]}), "
        f"for example {example(v)}",
    )  # fmt: skip
    yield bad_if(
        lambda v: v[inflight] is not None and v[inflight] < v[group]
        and not (v[tokens] is None and v[batch] % v[group]),  # told already, and it may follow from the batch
        inflight, (*both, group),
        lambda v: f"{inflight} ({v[inflight]}) must be at least {group} ({v[group]}): "
        f"nearest valid {last(inflight)} is {v[group]}",
    )  # fmt: skip
    yield bad_if(
        lambda v: v[batch] is not None and v[inflight] is not None and v[inflight] < v[batch], inflight, both,
        lambda v: f"{inflight} ({v[inflight]}) is less than {batch} ({v[batch]}): "
        f"each step needs several rounds of generation", "warning",
    )  # fmt: skip
    if factor is not None:
        yield bad_if(
            lambda v: v[tokens] is None and v[factor] is not None
            and v[inflight] != int(v[batch] * v[factor]), inflight, both,
            lambda v: f"{inflight} ({v[inflight]}) conflicts with {factor} ({number(v[factor])}) * {batch} "
            f"({v[batch]}): remove one of them, or set {last(inflight)} to {int(v[batch] * v[factor])}",
        )  # fmt: skip


def micro_batches(batch: str, micro: str) -> Rule:
    """The examples of a step fill whole rounds of examples that are computed at once."""
    rule = divisible(batch, micro)

    def fault(v: Values) -> str | None:
        if v[batch] >= v[micro]:
            return rule.fault(v)
        return (
            f"{batch} ({v[batch]}) must be at least {micro} ({v[micro]}): lower {last(micro)} to {v[batch]}"
        )

    return replace(rule, fault=fault)


def batch_values(v: Values, names: BatchKnobs, *, max_tokens: str) -> Iterator[DerivedValue]:
    """Prompts, tokens and rollouts of a step, and the number of rollouts in flight.

    `v`: every knob's effective value, all of the right type and within bounds. `max_tokens`: name of the knob
    that bounds a completion.
    """
    by_tokens = _tokens(v, names) is not None
    yield from _token_batch(v, names) if by_tokens else _rollout_batch(v, names, max_tokens)
    yield from _in_flight(v, names)


def packing_values(
    v: Values, names: BatchKnobs, *, max_tokens: str, row_tokens: str, ranks: int
) -> Iterator[DerivedValue]:
    """Packing of rollouts into the trainer's micro-batches: the worst case, and the best one known.

    `row_tokens`: name of the knob for the tokens of a micro-batch. `ranks`: data-parallel ranks of the
    trainer, which share the micro-batches of a step.
    """
    row, longest = v[row_tokens], v[names.seq_len]
    fit = max(1, row // longest)
    short = v[max_tokens] if v[max_tokens] and v[max_tokens] < longest else None
    more = max(1, row // short) if short is not None else fit
    best = f"; {more} of {short} new tokens, not counting prompts" if more > fit else ""
    yield derived_value(
        "rollouts per micro-batch", fit, "rollouts",
        f"{row} tokens / {longest} of the longest rollout = {fit}{best}",
    )  # fmt: skip
    tokens, shared = _tokens(v, names), f" on each of {ranks} ranks" if ranks > 1 else ""
    if tokens is not None:
        micro_batch_count = _rounded_up(tokens, row * ranks)
        text = f"about {tokens} tokens / {row} = {micro_batch_count} packed micro-batches{shared}"
    else:
        batch = v[names.batch_size]
        micro_batch_count, least = _rounded_up(batch, fit * ranks), _rounded_up(batch, more * ranks)
        text = f"at most {batch} rollouts / {fit} = {micro_batch_count} packed micro-batches{shared}"
        text += f", at least {least}" if least < micro_batch_count else ""
    yield derived_value("micro-batches per optimizer step", micro_batch_count, "micro-batches", text)


def accumulation(v: Values, *, batch: str, micro: str, ranks: int = 1, name: str) -> DerivedValue:
    """Micro-batches before each optimizer step. `ranks`: each takes other examples."""
    size, once = v[batch], v[micro] * ranks
    per_round = f"({v[micro]} at once * {ranks} ranks)" if ranks > 1 else f"{v[micro]} at once"
    return derived_value(
        name, size // once if size % once == 0 else None, "micro-batches",
        f"{size} examples / {per_round} = {size / once:g} micro-batches before each optimizer step",
    )  # fmt: skip


def sft_tokens(v: Values, *, batch: str, seq_len: str) -> DerivedValue:
    """Tokens of an SFT step, whose rows are filled up with further examples."""
    rows, length = v[batch], v[seq_len]
    return derived_value(
        "sft tokens per step", rows * length, "tokens",
        f"{rows} packed rows * {length} tokens = {rows * length} tokens per step",
    )  # fmt: skip


def _tokens(v: Values, names: BatchKnobs) -> int | None:
    return v[names.token_batch_size] if names.token_batch_size else None


def _rounded_up(value: int, divisor: int) -> int:
    return -(-value // divisor)


def _rollout_batch(v: Values, names: BatchKnobs, max_tokens: str) -> Iterator[DerivedValue]:
    batch, group, seq_len = v[names.batch_size], v[names.group_size], v[names.seq_len]
    yield derived_value(
        "prompts per step", batch // group if batch % group == 0 else None, "prompts",
        f"{batch} rollouts / {group} per example = {batch / group:g} prompts per step",
    )  # fmt: skip
    yield _upper_bound("tokens per step", batch, seq_len, "tokens", "tokens per step")
    if v[max_tokens] is not None:
        yield _upper_bound("sampled tokens per step", batch, v[max_tokens], "new tokens", "sampled per step")


def _upper_bound(name: str, rollouts: int, tokens: int, what: str, outcome: str) -> DerivedValue:
    total = rollouts * tokens
    text = f"at most {rollouts} rollouts * {tokens} {what} = {total} {outcome}"
    return derived_value(name, total, "tokens", text)


def _token_batch(v: Values, names: BatchKnobs) -> Iterator[DerivedValue]:
    tokens, group, seq_len = v[names.token_batch_size], v[names.group_size], v[names.seq_len]
    least = _rounded_up(tokens, seq_len)
    yield derived_value(
        "prompts per step", None, "prompts",
        f"varies: whole groups of {group} rollouts until the batch has {tokens} tokens",
    )  # fmt: skip
    yield derived_value(
        "tokens per step", tokens, "tokens",
        f"about {tokens} ({last(names.token_batch_size)})",
    )  # fmt: skip
    yield derived_value(
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
    yield derived_value(
        "rollouts in flight", inflight, "rollouts",
        f"{origin} rollouts at once, {inflight // group} whole groups of {group}",
    )  # fmt: skip


_Edits = dict[str, int | float | None]
"""Knob → new value, `None` to remove the key."""


def other_way(names: BatchKnobs | None, rows: Mapping[str, KnobInfo]) -> BatchUnit | None:
    """The way of counting the batch that is not in use; `None` if the framework, or this config, has only
    one.
    """
    if names is None or names.token_batch_size not in rows:
        return None
    return "tokens" if rows[names.token_batch_size].value is None else "rollouts"


def convert(
    names: BatchKnobs, rows: Mapping[str, KnobInfo], *, mean_tokens: float, measured: str | None = None
) -> Conversion:
    """The other way of counting, if a rollout has `mean_tokens`. `rows`: the knob table by name.

    Raises:
        ValueError: if `mean_tokens` is not above 0, or a knob of the batch has a wrong value, or none.
    """
    if not 0 < mean_tokens < math.inf:
        raise ValueError(f"tokens per rollout must be a number above 0, not {mean_tokens:g}")
    way = _in_tokens if other_way(names, rows) == "tokens" else _in_rollouts
    to: BatchUnit = "tokens" if way is _in_tokens else "rollouts"
    values, lines = way(names, rows, mean_tokens)
    edits = {
        name: value
        for name, value in values.items()
        if value != (rows[name].value if rows[name].is_set else None)
    }
    return Conversion(to=to, edits=edits, mean_tokens=mean_tokens, measured=measured, arithmetic=tuple(lines))


def _in_tokens(names: BatchKnobs, rows: Mapping[str, KnobInfo], mean: float) -> tuple[_Edits, list[str]]:
    """The number in flight stays, but is at least a group."""
    size, group = _positive_int(rows[names.batch_size]), _positive_int(rows[names.group_size])
    fixed, factor = _optional(names.inflight, rows), _factor(names.oversampling, rows)
    tokens = max(1, round(size * mean))
    edits: _Edits = {names.batch_size: None, names.token_batch_size: tokens}
    lines = [f"{size} rollouts * {_number(mean)} tokens per rollout = {tokens} tokens per step"]
    if names.inflight is None:
        return edits, lines
    old_count = int(size * (factor or 1.0)) if fixed is None else fixed
    at_once = edits[names.inflight] = max(old_count, group)
    if at_once != old_count:
        lines.append(f"{at_once} rollouts in flight: at least a group of {group} (was {old_count})")
    elif factor is not None:
        lines.append(f"{size} rollouts * {factor:g} oversampling = {at_once} rollouts in flight")
    else:
        lines.append(f"{at_once} rollouts in flight, as before")
    if names.oversampling is not None:
        edits[names.oversampling] = None
    return edits, lines


def _in_rollouts(names: BatchKnobs, rows: Mapping[str, KnobInfo], mean: float) -> tuple[_Edits, list[str]]:
    tokens, old_inflight = _positive_int(rows[names.token_batch_size]), _optional(names.inflight, rows)
    group = _positive_int(rows[names.group_size])
    size, inflight, factor = in_rollouts(tokens, old_inflight, group=group, mean_tokens=mean)
    edits: _Edits = {names.token_batch_size: None, names.batch_size: size}
    groups = f"{size} in {size // group} whole groups of {group}"
    lines = [f"{tokens} tokens / {_number(mean)} per rollout = {_number(tokens / mean)} rollouts: {groups}"]
    if names.inflight is None:
        return edits, lines
    if names.oversampling is None and factor is not None:
        inflight, factor = old_inflight, None
    edits[names.inflight] = inflight
    if names.oversampling is not None:
        edits[names.oversampling] = factor
    at_once = size if old_inflight is None else old_inflight
    how = ", as before" if factor is None else f" / {size} = {factor:g} oversampling"
    return edits, [*lines, f"{at_once} rollouts in flight{how}"]


def _positive_int(row: KnobInfo) -> int:
    if not is_integer(row.value) or row.value < 1:
        raise ValueError(f"{row.key} must be a whole number ≥ 1, not {row.value!r}")
    return row.value


def _optional(name: str | None, rows: Mapping[str, KnobInfo]) -> int | None:
    """Only a value that a person set: a default follows the batch."""
    if name is None or not rows[name].is_set:
        return None
    return _positive_int(rows[name])


def _factor(name: str | None, rows: Mapping[str, KnobInfo]) -> float | None:
    value = rows[name].value if name is not None else None
    if value is None:
        return None
    if not is_number(value) or not 1 <= value < math.inf:
        raise ValueError(f"{name} must be a number ≥ 1, not {value!r}")
    return float(value)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def derived_value(name: str, value: float | str | None, unit: str, text: str) -> DerivedValue:
    """A derived value; `text` is the arithmetic in words."""
    return DerivedValue(name=name, value=value, unit=unit, text=text)
