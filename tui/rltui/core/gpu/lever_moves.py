"""The new values that a lever gives its knobs. Nothing is given where the knob is there already."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rltui.core.config_report import KnobInfo
from rltui.core.gpu.budget import passing_utilization
from rltui.core.gpu.knob_search import beside, find, is_named, whole
from rltui.core.gpu.lever import Lever, Role
from rltui.core.gpu.report import OutOfMemory
from rltui.core.knobs import KnobValue

USUAL_STEP = 0.05
"""Of `gpu_memory_utilization`, where no figure says how much it takes (`reference/vllm.md`, section 6)."""
LEAST_SHARE, MOST_SHARE = 0.05, 0.95

Edits = dict[str, KnobValue]
"""Knob → new value."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is known of a failure when its remedies are sought."""

    memory: OutOfMemory
    knobs: Sequence[KnobInfo]
    component: str
    shares_with: tuple[str, ...] = ()
    """Components with which it shares devices."""
    safe_utilization: float | None = None
    """With which engine and trainer both fit."""
    largest_passing: float | None = None
    """With which the start check passes now."""


def edits_of(lever: Lever, role: Role, case: Case, readers: Sequence[str]) -> Edits:
    """What to write; empty where the config has no such knob, or there is nothing to gain."""
    if any(_is_on(name, role, case) for name in lever.unless):
        return {}
    if lever.followers or lever.shared:
        return _halved_together(lever, role, case, readers)
    knob = find(case.knobs, lever.knobs, role=role, readers=readers)
    if knob is None:
        return {}
    value = _new_value(lever, knob, case, is_own=case.component in readers)
    return {} if value is None or value == knob.value else {knob.key: value}


def _new_value(lever: Lever, knob: KnobInfo, case: Case, *, is_own: bool) -> KnobValue:
    match lever.move:
        case "halve":
            return _halved(knob, whole(beside(case.knobs, knob, lever.divides)) if lever.divides else None)
        case "turn_on":
            return _turned_on(knob, lever.on)
        case "fit_length":
            return _fitting(knob, case.memory.possible_model_len)
        case "lower_share":
            return _lower_share(knob, case, is_own=is_own)
        case "raise_share":
            return _higher_share(knob, case)


def _halved(knob: KnobInfo, multiple: int | None = None) -> int | None:
    """Half of it, down to the next divisor of `multiple`."""
    value = whole(knob)
    half = 0 if value is None else value // 2
    if multiple is not None and multiple > 0:
        half = next((part for part in range(half, 0, -1) if multiple % part == 0), 0)
    return half if half >= max(1, knob.bounds[0] or 1) else None


def _turned_on(knob: KnobInfo, number: int) -> KnobValue:
    if knob.kind == "bool":
        return None if knob.value else True
    return number if knob.kind == "int" and knob.value is None else None


def _fitting(knob: KnobInfo, possible: int | None) -> int | None:
    if possible is None:
        return _halved(knob)
    value = whole(knob)
    is_valid = possible >= max(1, knob.bounds[0] or 1) and (value is None or possible < value)
    return possible if is_valid else None


def _halved_together(lever: Lever, role: Role, case: Case, readers: Sequence[str]) -> Edits:
    """Half of what the component uses, where the files say it, and no more for those that must not exceed it.

    A value is changed where it is written: prime-rl of summer 2026 refuses a shared key that differs from the
    one it stands for (`reference/prime-rl.md`, section 4.3).
    """
    own = find(case.knobs, lever.knobs, role=role, readers=readers)
    shared = next((knob for name in lever.shared for knob in case.knobs if knob.key == name), None)
    followers = [knob for name in lever.followers for knob in case.knobs if is_named(knob, name)]
    primary = own or shared or next(iter(followers), None)
    half = None if primary is None else _halved(primary)
    if primary is None or half is None:
        return {}
    members = [knob for knob in (shared, own, *followers) if knob is not None]
    is_shared = shared is not None and shared.is_set
    is_written = any(knob.is_set for knob in members)
    if shared is not None and not is_written:
        return {shared.key: half}
    edits: Edits = {knob.key: half for knob in members if knob.is_set and (whole(knob) or 0) > half}
    for knob in members:
        follows = knob is shared or (is_shared and not knob.is_set)
        if not follows and (whole(knob) or 0) > half:
            edits[knob.key] = half
    return edits


def _lower_share(knob: KnobInfo, case: Case, *, is_own: bool) -> float | None:
    value = _share(knob)
    if value is None:
        return None
    memory = case.memory
    known = [case.safe_utilization, case.largest_passing if is_own else None]
    if memory.kind == "start_check" and memory.free_bytes is not None and memory.total_bytes:
        known.append(passing_utilization(memory.free_bytes, memory.total_bytes))
    measured = [share for share in known if share is not None]
    if memory.kind == "start_check" and measured and min(measured) >= value:
        return None  # it was lowered since, or the memory is free now
    lower = [share for share in measured if share < value]
    target = _allowed(knob, min(lower) if lower else value - _lack(memory))
    return target if target is not None and target < value else None


def _higher_share(knob: KnobInfo, case: Case) -> float | None:
    """As much as the KV cache lacks, but no more than passes the start check or leaves to the trainer."""
    value = _share(knob)
    if value is None:
        return None
    memory, step = case.memory, USUAL_STEP
    if memory.needed_bytes is not None and memory.available_bytes is not None and memory.total_bytes:
        step = _rounded_up((memory.needed_bytes - memory.available_bytes) / memory.total_bytes)
    limits = (case.safe_utilization, case.largest_passing)
    target = _allowed(knob, min([value + step, *(limit for limit in limits if limit is not None)]))
    return target if target is not None and target > value else None


def _allowed(knob: KnobInfo, share: float) -> float | None:
    """Such a share in hundredths, no more than makes sense; `None` where it would be next to nothing."""
    low, high = knob.bounds
    target = round(min(share, MOST_SHARE, MOST_SHARE if high is None else high), 2)
    return target if target >= max(LEAST_SHARE, low or 0.0) else None


def _lack(memory: OutOfMemory) -> float:
    """The share of the device that was missing, at least the usual step."""
    if memory.tried_bytes is None or memory.free_bytes is None or not memory.total_bytes:
        return USUAL_STEP
    return max(USUAL_STEP, _rounded_up((memory.tried_bytes - memory.free_bytes) / memory.total_bytes))


def _rounded_up(share: float) -> float:
    return (math.floor(share * 100) + 1) / 100


def _share(knob: KnobInfo) -> float | None:
    value = knob.value
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _is_on(name: str, role: Role, case: Case) -> bool:
    knob = find(case.knobs, [name], role=role)
    return knob is not None and knob.value not in (None, False)
