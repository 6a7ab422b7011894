"""Edits to advise after an out-of-memory error: knobs that the config has, and the measured sizes. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rltui.base.kinds import is_integer, is_number
from rltui.core.config.knobs import KnobValue
from rltui.core.config.report import KnobInfo
from rltui.core.gpu.budget import passing_utilization
from rltui.core.gpu.report import OutOfMemory

LeverRole = Literal["trainer", "sft", "inference"]

Move = Literal["halve", "turn_on", "fit_length", "lower_share", "raise_share"]
"""halve: a whole number. turn_on: a switch, or a number that is not set. fit_length: down to the length that
vLLM names as possible, else halve. lower_share, raise_share: `gpu_memory_utilization`."""


@dataclass(frozen=True, slots=True)
class Lever:
    """A change of a knob, for configs that have such a knob.

    Knobs are named by the end of their dotted path: `data.seq_len` is `sft.data.seq_len` as well.
    """

    roles: tuple[LeverRole, ...]
    move: Move
    knobs: tuple[str, ...]
    """Alternatives: the first one that the config has is changed."""
    reason: str
    kinds: frozenset[str]
    """`OutOfMemory.kind`s against which it helps."""
    on: int = 1
    """The value that `turn_on` gives to a whole number."""
    divides: str = ""
    """Name of a knob in the same table that must stay a multiple of it."""
    shared: tuple[str, ...] = ()
    """Full paths of knobs that set it if it is not set itself."""
    followers: tuple[str, ...] = ()
    """Knobs that must not become larger than it; they are lowered with it."""
    unless: tuple[str, ...] = ()
    """Switches that exclude the change if they are on."""


_ENGINE_KINDS = frozenset(
    {"start_check", "no_kv_cache", "kv_cache_small", "load", "warm_up", "graph_capture"}
)
"""Kinds that only an engine reports."""


def _role_of(failure: MemoryFailure) -> LeverRole | None:
    """The role of the component: by what it printed, else by its id; `None` if neither tells."""
    if failure.memory.kind in _ENGINE_KINDS:
        return "inference"
    name = failure.component.lower()
    if "sft" in name:
        return "sft"
    if "train" in name:
        is_sft = bool(failure.knobs) and all(knob.key.startswith("sft.") for knob in failure.knobs)
        return "sft" if is_sft else "trainer"
    return "inference" if any(name_part in name for name_part in failure.tables["inference"]) else None


def _find(
    failure: MemoryFailure, names: Iterable[str], *, role: LeverRole, readers: Iterable[str] = ()
) -> KnobInfo | None:
    """The knob of the first name that the config has, in no table of another role; one that is set goes
    first.

    `readers`: at least one of them must read it; empty: any reader.
    """
    reader_set = set(readers)
    foreign_tables = [names for other, names in failure.tables.items() if other != role]
    for name in names:
        fitting = [
            knob
            for knob in failure.knobs
            if _is_named(knob, name)
            and not any(set(knob.key.split(".")[:-1]) & names for names in foreign_tables)
            and (not reader_set or reader_set & set(knob.readers))
        ]
        if fitting:
            return max(fitting, key=lambda knob: knob.is_set)
    return None


def _is_named(knob: KnobInfo, name: str) -> bool:
    """The knob's dotted path is `name`, or ends with it."""
    return knob.key == name or knob.key.endswith(f".{name}")


def sibling_knob(knobs: Sequence[KnobInfo], knob: KnobInfo, name: str) -> KnobInfo | None:
    table, dot, _ = knob.key.rpartition(".")
    return next((other for other in knobs if other.key == f"{table}{dot}{name}"), None)


def _int_value(knob: KnobInfo | None) -> int | None:
    value = None if knob is None else knob.value
    return value if is_integer(value) else None


_DEFAULT_STEP = 0.05
"""Step of `gpu_memory_utilization` if no size tells the need (`facts/vllm.md`, Failures)."""
_LEAST_SHARE, _MOST_SHARE = 0.05, 0.95

Edits = dict[str, KnobValue]
"""Knob → new value."""


@dataclass(frozen=True, slots=True)
class MemoryFailure:
    memory: OutOfMemory
    knobs: Sequence[KnobInfo]
    component: str
    """The component that failed."""
    tables: Mapping[str, frozenset[str]] = field(kw_only=True)
    """Role → names of its tables in a config, or of its files if there are several."""
    shares_with: tuple[str, ...] = ()
    """Components that have a device in common with it."""
    safe_utilization: float | None = None
    """Largest `gpu_memory_utilization` with which engine and trainer both fit."""
    largest_passing: float | None = None
    """Largest one that passes vLLM's start check now."""
    peak_bytes: int | None = None
    """Most that the trainer on that device held in its last attempt."""


def _edits_of(lever: Lever, role: LeverRole, failure: MemoryFailure, readers: Sequence[str]) -> Edits:
    """The values to write; empty if the config has no such knob, or there is nothing to gain."""
    if any(_is_on(name, role, failure) for name in lever.unless):
        return {}
    if lever.followers or lever.shared:
        return _halved_together(lever, role, failure, readers)
    knob = _find(failure, lever.knobs, role=role, readers=readers)
    if knob is None:
        return {}
    value = _new_value(lever, knob, failure, is_own=failure.component in readers)
    return {} if value is None or value == knob.value else {knob.key: value}


def _new_value(lever: Lever, knob: KnobInfo, failure: MemoryFailure, *, is_own: bool) -> KnobValue:
    match lever.move:
        case "halve":
            return _halved(
                knob, _int_value(sibling_knob(failure.knobs, knob, lever.divides)) if lever.divides else None
            )
        case "turn_on":
            if knob.kind == "bool":
                return None if knob.value else True
            return lever.on if knob.kind == "int" and knob.value is None else None
        case "fit_length":
            return _fitting(knob, failure.memory.possible_model_len)
        case "lower_share":
            return _lower_share(knob, failure, is_own=is_own)
        case "raise_share":
            return _higher_share(knob, failure)


def _halved(knob: KnobInfo, multiple: int | None = None) -> int | None:
    """Half of it, down to the next divisor of `multiple`."""
    value = _int_value(knob)
    half = 0 if value is None else value // 2
    if multiple is not None and multiple > 0:
        half = next((divisor for divisor in range(half, 0, -1) if multiple % divisor == 0), 0)
    return half if half >= max(1, knob.bounds[0] or 1) else None


def _fitting(knob: KnobInfo, possible: int | None) -> int | None:
    if possible is None:
        return _halved(knob)
    value = _int_value(knob)
    is_valid = possible >= max(1, knob.bounds[0] or 1) and (value is None or possible < value)
    return possible if is_valid else None


def _halved_together(lever: Lever, role: LeverRole, failure: MemoryFailure, readers: Sequence[str]) -> Edits:
    """Halve the value that the component uses, and lower the ones that must not exceed it.

    A value is changed where it is written: prime-rl of summer 2026 refuses a shared key that differs from the
    one it stands for (`facts/prime-rl.md`, Sequence length).
    """
    own = _find(failure, lever.knobs, role=role, readers=readers)
    shared = next((knob for name in lever.shared for knob in failure.knobs if knob.key == name), None)
    followers = [knob for name in lever.followers for knob in failure.knobs if _is_named(knob, name)]
    primary = own or shared or next(iter(followers), None)
    half = None if primary is None else _halved(primary)
    if primary is None or half is None:
        return {}
    members = [knob for knob in (shared, own, *followers) if knob is not None]
    is_shared = shared is not None and shared.is_set
    is_written = any(knob.is_set for knob in members)
    if shared is not None and not is_written:
        return {shared.key: half}
    edits: Edits = {knob.key: half for knob in members if knob.is_set and (_int_value(knob) or 0) > half}
    for knob in members:
        follows = knob is shared or (is_shared and not knob.is_set)
        if not follows and (_int_value(knob) or 0) > half:
            edits[knob.key] = half
    return edits


def _lower_share(knob: KnobInfo, failure: MemoryFailure, *, is_own: bool) -> float | None:
    value = _share(knob)
    if value is None:
        return None
    memory = failure.memory
    candidates = [failure.safe_utilization, failure.largest_passing if is_own else None]
    if memory.kind == "start_check" and memory.free_bytes is not None and memory.total_bytes:
        candidates.append(passing_utilization(memory.free_bytes, memory.total_bytes))
    shares = [share for share in candidates if share is not None]
    if memory.kind == "start_check" and shares and min(shares) >= value:
        return None  # it was lowered since, or the memory is free now
    lower = [share for share in shares if share < value]
    target = _allowed(knob, min(lower) if lower else value - _lack(memory))
    return target if target is not None and target < value else None


def _higher_share(knob: KnobInfo, failure: MemoryFailure) -> float | None:
    """A larger share by what the KV cache lacks, within the start check and the trainer's need."""
    value = _share(knob)
    if value is None:
        return None
    memory, step = failure.memory, _DEFAULT_STEP
    if memory.needed_bytes is not None and memory.available_bytes is not None and memory.total_bytes:
        step = _rounded_up((memory.needed_bytes - memory.available_bytes) / memory.total_bytes)
    limits = (failure.safe_utilization, failure.largest_passing)
    target = _allowed(knob, min([value + step, *(limit for limit in limits if limit is not None)]))
    return target if target is not None and target > value else None


def _allowed(knob: KnobInfo, share: float) -> float | None:
    """The share in hundredths, capped to a sensible maximum; `None` if it would be next to nothing."""
    low, high = knob.bounds
    target = round(min(share, _MOST_SHARE, _MOST_SHARE if high is None else high), 2)
    return target if target >= max(_LEAST_SHARE, low or 0.0) else None


def _lack(memory: OutOfMemory) -> float:
    """The share of the device that was missing, at least the default step."""
    if memory.tried_bytes is None or memory.free_bytes is None or not memory.total_bytes:
        return _DEFAULT_STEP
    return max(_DEFAULT_STEP, _rounded_up((memory.tried_bytes - memory.free_bytes) / memory.total_bytes))


def _rounded_up(share: float) -> float:
    return (math.floor(share * 100) + 1) / 100


def _share(knob: KnobInfo) -> float | None:
    value = knob.value
    return float(value) if is_number(value) else None


def _is_on(name: str, role: LeverRole, failure: MemoryFailure) -> bool:
    knob = _find(failure, [name], role=role)
    return knob is not None and knob.value not in (None, False)


MOST_ADVISED = 4
_TRAINING: tuple[LeverRole, ...] = ("trainer", "sft")


@dataclass(frozen=True, slots=True)
class Advice:
    """Edits that are likely to help, each set on its own."""

    lever: Lever
    edits: Edits
    is_own: bool
    """The edited knobs are the failed component's; otherwise those of an engine beside it."""


def advise(failure: MemoryFailure, levers: Sequence[Lever]) -> tuple[Advice, ...]:
    """Choose the changes that are likely to help, most advisable first, at most `MOST_ADVISED`.

    A trainer beside an engine is first helped by a smaller share for that engine. `levers`: in order of
    advice.
    """
    advised: list[Advice] = []
    edited_keys: set[str] = set()
    for advice in _candidates(failure, levers):
        edits = advice.edits
        if edits and not edited_keys & edits.keys() and len(advised) < MOST_ADVISED:
            edited_keys |= edits.keys()
            advised.append(advice)
    return tuple(advised)


def _candidates(failure: MemoryFailure, levers: Sequence[Lever]) -> Iterator[Advice]:
    failed_role = _role_of(failure)
    if failed_role in _TRAINING and failure.shares_with:
        for lever in levers:
            if lever.move == "lower_share" and failure.memory.kind in lever.kinds:
                edits = _edits_of(lever, "inference", failure, failure.shares_with)
                yield Advice(lever, edits, is_own=False)
    for lever in levers:
        if failure.memory.kind in lever.kinds:
            for role in lever.roles:
                if failed_role in (None, role):
                    yield Advice(lever, _edits_of(lever, role, failure, (failure.component,)), is_own=True)
