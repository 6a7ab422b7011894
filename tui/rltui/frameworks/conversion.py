"""Edits that make the same batch counted the other way, with the arithmetic in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from rltui.core.config_report import Conversion, KnobInfo
from rltui.core.token_batch import RolloutBatch, TokenBatch, in_rollouts, in_tokens
from rltui.frameworks.base import BatchKnobs

Way = Literal["tokens", "rollouts"]
Edits = dict[str, int | float | None]
"""Knob → new value, `None` where it goes."""


def other_way(names: BatchKnobs | None, rows: Mapping[str, KnobInfo]) -> Way | None:
    """How the batch is not counted now; `None` where the framework, or this config, has one way only."""
    if names is None or names.token_batch_size not in rows:
        return None
    return "tokens" if rows[names.token_batch_size].value is None else "rollouts"


def convert(
    names: BatchKnobs, rows: Mapping[str, KnobInfo], *, mean_tokens: float, measured: str | None = None
) -> Conversion:
    """The other way of counting, if a rollout has `mean_tokens`. `rows`: the knob table by name.

    Raises:
        ValueError: if that is no number above 0, or a knob of the batch has a wrong value, or none.
    """
    if not 0 < mean_tokens < math.inf:
        raise ValueError(f"a rollout cannot have {mean_tokens:g} tokens; it must be a number above 0")
    way = _in_tokens if other_way(names, rows) == "tokens" else _in_rollouts
    to: Way = "tokens" if way is _in_tokens else "rollouts"
    values, lines = way(names, rows, mean_tokens)
    edits = {name: value for name, value in values.items() if value != _held(rows[name])}
    return Conversion(to=to, edits=edits, mean_tokens=mean_tokens, measured=measured, arithmetic=tuple(lines))


def _in_tokens(names: BatchKnobs, rows: Mapping[str, KnobInfo], mean: float) -> tuple[Edits, list[str]]:
    batch = RolloutBatch(
        size=_whole(rows[names.batch_size]),
        inflight=_optional(names.inflight, rows),
        factor=_factor(names.oversampling, rows),
    )
    group = _whole(rows[names.group_size])
    made = in_tokens(batch, group=group, mean_tokens=mean)
    edits: Edits = {names.batch_size: None, names.token_batch_size: made.tokens}
    lines = [f"{batch.size} rollouts * {_number(mean)} tokens per rollout = {made.tokens} tokens per step"]
    if names.inflight is None:
        return edits, lines
    edits[names.inflight] = made.inflight
    lines.append(_inflight_in_words(batch, made, group))
    if names.oversampling is not None:
        edits[names.oversampling] = None
    return edits, lines


def _inflight_in_words(batch: RolloutBatch, made: TokenBatch, group: int) -> str:
    if made.inflight != batch.at_once:
        return f"{made.inflight} rollouts in flight: at least a group of {group} (before: {batch.at_once})"
    if batch.factor is not None:
        return f"{batch.size} rollouts * {batch.factor:g} oversampling = {made.inflight} rollouts in flight"
    return f"{made.inflight} rollouts in flight, as before"


def _in_rollouts(names: BatchKnobs, rows: Mapping[str, KnobInfo], mean: float) -> tuple[Edits, list[str]]:
    batch = TokenBatch(_whole(rows[names.token_batch_size]), _optional(names.inflight, rows))
    group = _whole(rows[names.group_size])
    made = in_rollouts(batch, group=group, mean_tokens=mean)
    edits: Edits = {names.token_batch_size: None, names.batch_size: made.size}
    exact = _number(batch.tokens / mean)
    groups = f"{made.size} in {made.size // group} whole groups of {group}"
    lines = [f"{batch.tokens} tokens / {_number(mean)} per rollout = {exact} rollouts: {groups}"]
    if names.inflight is None:
        return edits, lines
    if names.oversampling is None and made.factor is not None:
        made = RolloutBatch(made.size, inflight=batch.inflight)
    edits[names.inflight] = made.inflight
    if names.oversampling is not None:
        edits[names.oversampling] = made.factor
    if made.factor is not None:
        lines.append(f"{made.at_once} rollouts in flight / {made.size} = {made.factor:g} oversampling")
    else:
        lines.append(f"{made.at_once} rollouts in flight, as before")
    return edits, lines


def _whole(row: KnobInfo) -> int:
    if not isinstance(row.value, int) or isinstance(row.value, bool) or row.value < 1:
        raise ValueError(f"{row.key} is {row.value!r}; it must be a whole number ≥ 1")
    return row.value


def _optional(name: str | None, rows: Mapping[str, KnobInfo]) -> int | None:
    """Only what a person set: a default follows the batch."""
    if name is None or not rows[name].is_set:
        return None
    return _whole(rows[name])


def _factor(name: str | None, rows: Mapping[str, KnobInfo]) -> float | None:
    held = rows[name].value if name is not None else None
    if held is None:
        return None
    if not isinstance(held, int | float) or isinstance(held, bool) or not 1 <= held < math.inf:
        raise ValueError(f"{name} is {held!r}; it must be a number ≥ 1")
    return float(held)


def _held(row: KnobInfo) -> object:
    """What the file itself says."""
    return row.value if row.is_set else None


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
