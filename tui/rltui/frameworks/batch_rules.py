"""Rules on how many rollouts make a batch, in the words of prime-rl's validators plus a way out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from rltui.frameworks.base import BatchKnobs
from rltui.frameworks.rule_makers import Values, divisible, last, number
from rltui.frameworks.schemas import Rule


def batching(names: BatchKnobs, *, also: Collection[str] = ()) -> tuple[Rule, ...]:
    """Everything between batch size, token batch size, group, rollouts in flight and oversampling.

    Rules on what is in flight are left out where the framework finds that out by itself. `also`: knobs that
    others follow, such as a shared `seq_len`; while they are faulty, so are those.
    """
    if not names.token_batch_size:
        return divisible(names.batch_size, names.group_size), lonely_rollouts(names.group_size)
    rules = [exactly_one(names), _whole_groups(names)]
    if names.oversampling is not None:
        rules.append(_factor_needs_batch(names, names.oversampling))
    if names.inflight is not None:
        rules += [_tokens_need_inflight(names, names.inflight, also), _holds_a_group(names, names.inflight)]
        rules.append(inflight_fills_batch(names, names.inflight))
        if names.oversampling is not None:
            rules.append(_as_factor_says(names, names.inflight, names.oversampling))
    return (*rules, lonely_rollouts(names.group_size))


def exactly_one(names: BatchKnobs) -> Rule:
    """A batch is a number of rollouts or a number of tokens, not both."""
    batch, tokens = names.batch_size, names.token_batch_size

    def fault(v: Values) -> str | None:
        if v[batch] is None or v[tokens] is None:
            return None
        return f"set exactly one of {batch} ({v[batch]}) or {tokens} ({v[tokens]}): remove one of them"

    return Rule(tokens, (batch, tokens), fault)


def lonely_rollouts(group: str) -> Rule:
    """A group of one has nothing to compare with."""

    def fault(v: Values) -> str | None:
        if v[group] != 1:
            return None
        return (
            f"{group} is 1: alone in its group, a rollout has advantage 0 and nothing is learnt; try 8 or 16"
        )

    return Rule(group, (group,), fault, "warning")


def inflight_fills_batch(names: BatchKnobs, inflight: str) -> Rule:
    """Allowed, but slow."""
    batch = names.batch_size

    def fault(v: Values) -> str | None:
        if v[batch] is None or v[inflight] is None or v[inflight] >= v[batch]:
            return None
        return (
            f"{inflight} ({v[inflight]}) is less than {batch} ({v[batch]}): "
            f"each step needs several rounds of generation"
        )

    return Rule(inflight, _all(names), fault, "warning")


def _whole_groups(names: BatchKnobs) -> Rule:
    rule = divisible(names.batch_size, names.group_size)

    def fault(v: Values) -> str | None:
        return rule.fault(v) if v[names.token_batch_size] is None else None

    return replace(rule, needs=(*rule.needs, names.token_batch_size), fault=fault)


def _factor_needs_batch(names: BatchKnobs, factor: str) -> Rule:
    batch, tokens = names.batch_size, names.token_batch_size

    def fault(v: Values) -> str | None:
        if v[tokens] is None or v[factor] is None:
            return None
        then = f" and set {names.inflight}" if names.inflight else ""
        return (
            f"{factor} ({number(v[factor])}) can only be set when {batch} is set, "
            f"but {tokens} ({v[tokens]}) is: remove it{then}"
        )

    return Rule(factor, (tokens, factor), fault)


def _tokens_need_inflight(names: BatchKnobs, inflight: str, also: Collection[str]) -> Rule:
    tokens, group, seq_len = names.token_batch_size, names.group_size, names.seq_len

    def fault(v: Values) -> str | None:
        if v[tokens] is None or v[inflight] is not None:
            return None
        wanted = max(v[group], -(-v[tokens] // v[seq_len]))
        return (
            f"{inflight} must be set when {tokens} ({v[tokens]}) is: at least {group} ({v[group]}), "
            f"for example {-(-wanted // v[group]) * v[group]}"
        )

    return Rule(tokens, (tokens, inflight, group, seq_len, *also), fault)


def _as_factor_says(names: BatchKnobs, inflight: str, factor: str) -> Rule:
    batch, tokens = names.batch_size, names.token_batch_size

    def fault(v: Values) -> str | None:
        if v[tokens] is not None or v[factor] is None:
            return None
        wanted = int(v[batch] * v[factor])
        if v[inflight] == wanted:
            return None
        return (
            f"{inflight} ({v[inflight]}) conflicts with {factor} ({number(v[factor])}) * {batch} "
            f"({v[batch]}): remove one of them, or set {last(inflight)} to {wanted}"
        )

    return Rule(inflight, _all(names), fault)


def _holds_a_group(names: BatchKnobs, inflight: str) -> Rule:
    batch, tokens, group = names.batch_size, names.token_batch_size, names.group_size

    def fault(v: Values) -> str | None:
        if v[inflight] is None or v[inflight] >= v[group]:
            return None
        if v[tokens] is None and v[batch] % v[group]:
            return None  # told already, and what is in flight may follow from the batch
        return (
            f"{inflight} ({v[inflight]}) must be at least {group} ({v[group]}): "
            f"nearest valid {last(inflight)} is {v[group]}"
        )

    return Rule(inflight, (*_all(names), group), fault)


def _all(names: BatchKnobs) -> tuple[str, ...]:
    known = (names.batch_size, names.token_batch_size, names.inflight, names.oversampling)
    return tuple(name for name in known if name is not None)


def micro_batches(batch: str, micro: str) -> Rule:
    """Examples of a step in whole rounds of examples that are computed at once."""
    rule = divisible(batch, micro)

    def fault(v: Values) -> str | None:
        if v[batch] >= v[micro]:
            return rule.fault(v)
        return (
            f"{batch} ({v[batch]}) must be at least {micro} ({v[micro]}): lower {last(micro)} to {v[batch]}"
        )

    return replace(rule, fault=fault)
