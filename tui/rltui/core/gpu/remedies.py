"""What to edit after an out-of-memory error: knobs that the config has, and the measured figures. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rltui.core.config_report import KnobInfo
from rltui.core.gpu.budget import passing_utilization
from rltui.core.gpu.out_of_memory import figures, size_text
from rltui.core.gpu.report import OutOfMemory, Remedy
from rltui.core.knobs import KnobValue, shown

Role = Literal["trainer", "sft", "inference"]

Move = Literal["halve", "turn_on", "fit_length", "lower_share", "raise_share"]
"""halve: a whole number. turn_on: a switch, or a number that is not set. fit_length: down to the length that
vLLM names as possible, else halve. lower_share, raise_share: `gpu_memory_utilization`."""


@dataclass(frozen=True, slots=True)
class Lever:
    """What to do with which knob. It counts only where a config has such a knob.

    Knobs are named by the end of their dotted path: `data.seq_len` is `sft.data.seq_len` as well.
    """

    roles: tuple[Role, ...]
    move: Move
    knobs: tuple[str, ...]
    """The first of these that there is."""
    reason: str
    kinds: frozenset[str]
    """`OutOfMemory.kind`s against which it helps."""
    on: int = 1
    """For `turn_on`: what a whole number is set to."""
    divides: str = ""
    """Name of a knob beside it that must stay a multiple of it."""
    shared: tuple[str, ...] = ()
    """Whole paths of knobs that set it where it is not set itself."""
    followers: tuple[str, ...] = ()
    """Knobs that must not become larger than it; they go down with it."""
    unless: tuple[str, ...] = ()
    """Switches that exclude it where they are on."""


_WORDS: dict[str, frozenset[str]] = {
    "inference": frozenset({"inference", "infer", "vllm"}),
    "trainer": frozenset({"trainer", "train"}),
    "sft": frozenset({"sft"}),
    "orchestrator": frozenset({"orchestrator", "orch"}),
}
"""Tables of a config, or files where there are several, and whose they are."""
_ENGINE_KINDS = frozenset(
    {"start_check", "no_kv_cache", "kv_cache_small", "load", "warm_up", "graph_capture"}
)
"""vLLM's own words."""


def _role_of(component: str, memory: OutOfMemory) -> Role | None:
    """What a component does: by what it said, else by its id; `None` where neither tells."""
    if memory.kind in _ENGINE_KINDS:
        return "inference"
    name = component.lower()
    if "sft" in name:
        return "sft"
    if "train" in name:
        return "trainer"
    return "inference" if any(word in name for word in _WORDS["inference"]) else None


def _find(
    knobs: Sequence[KnobInfo], names: Iterable[str], *, role: Role, readers: Iterable[str] = ()
) -> KnobInfo | None:
    """The knob of the first name that there is, in no table of another role; one that is set goes first.

    `readers`: who must read it, any of them; nobody in particular where empty.
    """
    wanted = set(readers)
    for name in names:
        fitting = [
            knob
            for knob in knobs
            if _is_named(knob, name) and _may_be_of(knob, role) and (not wanted or wanted & set(knob.readers))
        ]
        if fitting:
            return max(fitting, key=lambda knob: knob.is_set)
    return None


def _is_named(knob: KnobInfo, name: str) -> bool:
    """Its dotted path is `name`, or ends with it."""
    return knob.key == name or knob.key.endswith(f".{name}")


def beside(knobs: Sequence[KnobInfo], knob: KnobInfo, name: str) -> KnobInfo | None:
    """The knob `name` in the same table."""
    table, dot, _ = knob.key.rpartition(".")
    return next((other for other in knobs if other.key == f"{table}{dot}{name}"), None)


def _whole(knob: KnobInfo | None) -> int | None:
    """Its value, where that is a whole number."""
    value = None if knob is None else knob.value
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _may_be_of(knob: KnobInfo, role: Role) -> bool:
    tables = set(knob.key.split(".")[:-1])
    return not any(tables & words for other, words in _WORDS.items() if other != role)


_USUAL_STEP = 0.05
"""Of `gpu_memory_utilization`, where no figure says how much it takes (`facts/vllm.md`, Failures)."""
_LEAST_SHARE, _MOST_SHARE = 0.05, 0.95

Edits = dict[str, KnobValue]
"""Knob → new value."""


@dataclass(frozen=True, slots=True)
class Case:
    memory: OutOfMemory
    knobs: Sequence[KnobInfo]
    component: str
    """That failed."""
    shares_with: tuple[str, ...] = ()
    """Components that have a device in common with it."""
    safe_utilization: float | None = None
    """Largest `gpu_memory_utilization` with which engine and trainer both fit."""
    largest_passing: float | None = None
    """Largest one that passes vLLM's start check now."""
    peak_bytes: int | None = None
    """Most that the trainer on that device held in its last attempt."""


def _edits_of(lever: Lever, role: Role, case: Case, readers: Sequence[str]) -> Edits:
    """What to write; empty where the config has no such knob, or there is nothing to gain."""
    if any(_is_on(name, role, case) for name in lever.unless):
        return {}
    if lever.followers or lever.shared:
        return _halved_together(lever, role, case, readers)
    knob = _find(case.knobs, lever.knobs, role=role, readers=readers)
    if knob is None:
        return {}
    value = _new_value(lever, knob, case, is_own=case.component in readers)
    return {} if value is None or value == knob.value else {knob.key: value}


def _new_value(lever: Lever, knob: KnobInfo, case: Case, *, is_own: bool) -> KnobValue:
    match lever.move:
        case "halve":
            return _halved(knob, _whole(beside(case.knobs, knob, lever.divides)) if lever.divides else None)
        case "turn_on":
            if knob.kind == "bool":
                return None if knob.value else True
            return lever.on if knob.kind == "int" and knob.value is None else None
        case "fit_length":
            return _fitting(knob, case.memory.possible_model_len)
        case "lower_share":
            return _lower_share(knob, case, is_own=is_own)
        case "raise_share":
            return _higher_share(knob, case)


def _halved(knob: KnobInfo, multiple: int | None = None) -> int | None:
    """Half of it, down to the next divisor of `multiple`."""
    value = _whole(knob)
    half = 0 if value is None else value // 2
    if multiple is not None and multiple > 0:
        half = next((part for part in range(half, 0, -1) if multiple % part == 0), 0)
    return half if half >= max(1, knob.bounds[0] or 1) else None


def _fitting(knob: KnobInfo, possible: int | None) -> int | None:
    if possible is None:
        return _halved(knob)
    value = _whole(knob)
    is_valid = possible >= max(1, knob.bounds[0] or 1) and (value is None or possible < value)
    return possible if is_valid else None


def _halved_together(lever: Lever, role: Role, case: Case, readers: Sequence[str]) -> Edits:
    """Half of what the component uses, where the files say it, and no more for those that must not exceed it.

    A value is changed where it is written: prime-rl of summer 2026 refuses a shared key that differs from the
    one it stands for (`facts/prime-rl.md`, Sequence length).
    """
    own = _find(case.knobs, lever.knobs, role=role, readers=readers)
    shared = next((knob for name in lever.shared for knob in case.knobs if knob.key == name), None)
    followers = [knob for name in lever.followers for knob in case.knobs if _is_named(knob, name)]
    primary = own or shared or next(iter(followers), None)
    half = None if primary is None else _halved(primary)
    if primary is None or half is None:
        return {}
    members = [knob for knob in (shared, own, *followers) if knob is not None]
    is_shared = shared is not None and shared.is_set
    is_written = any(knob.is_set for knob in members)
    if shared is not None and not is_written:
        return {shared.key: half}
    edits: Edits = {knob.key: half for knob in members if knob.is_set and (_whole(knob) or 0) > half}
    for knob in members:
        follows = knob is shared or (is_shared and not knob.is_set)
        if not follows and (_whole(knob) or 0) > half:
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
    memory, step = case.memory, _USUAL_STEP
    if memory.needed_bytes is not None and memory.available_bytes is not None and memory.total_bytes:
        step = _rounded_up((memory.needed_bytes - memory.available_bytes) / memory.total_bytes)
    limits = (case.safe_utilization, case.largest_passing)
    target = _allowed(knob, min([value + step, *(limit for limit in limits if limit is not None)]))
    return target if target is not None and target > value else None


def _allowed(knob: KnobInfo, share: float) -> float | None:
    """Such a share in hundredths, no more than makes sense; `None` where it would be next to nothing."""
    low, high = knob.bounds
    target = round(min(share, _MOST_SHARE, _MOST_SHARE if high is None else high), 2)
    return target if target >= max(_LEAST_SHARE, low or 0.0) else None


def _lack(memory: OutOfMemory) -> float:
    """The share of the device that was missing, at least the usual step."""
    if memory.tried_bytes is None or memory.free_bytes is None or not memory.total_bytes:
        return _USUAL_STEP
    return max(_USUAL_STEP, _rounded_up((memory.tried_bytes - memory.free_bytes) / memory.total_bytes))


def _rounded_up(share: float) -> float:
    return (math.floor(share * 100) + 1) / 100


def _share(knob: KnobInfo) -> float | None:
    value = knob.value
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _is_on(name: str, role: Role, case: Case) -> bool:
    knob = _find(case.knobs, [name], role=role)
    return knob is not None and knob.value not in (None, False)


MOST_REMEDIES = 4
_TRAINING: tuple[Role, ...] = ("trainer", "sft")


def remedies(case: Case, levers: Sequence[Lever]) -> tuple[Remedy, ...]:
    """Edits that are likely to help, most advisable first, at most `MOST_REMEDIES`; each on its own is one.

    A trainer beside an engine is first helped by a smaller share for that engine. `levers`: what may be
    turned, in order of advice.
    """
    found: list[Remedy] = []
    taken: set[str] = set()
    for lever, edits, is_own in _edits(case, levers):
        if edits and not taken & edits.keys() and len(found) < MOST_REMEDIES:
            taken |= edits.keys()
            found.append(_remedy(case, lever, edits, is_own=is_own))
    return tuple(found)


def _edits(case: Case, levers: Sequence[Lever]) -> Iterator[tuple[Lever, Edits, bool]]:
    """What each lever would write, and whether it is one of the failed component's own."""
    failed = _role_of(case.component, case.memory)
    if failed in _TRAINING and case.shares_with:
        for lever in levers:
            if lever.move == "lower_share" and case.memory.kind in lever.kinds:
                yield lever, _edits_of(lever, "inference", case, case.shares_with), False
    for lever in levers:
        if case.memory.kind in lever.kinds:
            for role in lever.roles:
                if failed in (None, role):
                    yield lever, _edits_of(lever, role, case, (case.component,)), True


def _remedy(case: Case, lever: Lever, edits: Edits, *, is_own: bool) -> Remedy:
    by_key = {knob.key: knob for knob in case.knobs}
    title = ", ".join(f"{key} {_text(by_key[key].value)} → {_text(value)}" for key, value in edits.items())
    reason = lever.reason if is_own else _room(case.component, case.peak_bytes)
    readers = tuple(dict.fromkeys(reader for key in edits for reader in by_key[key].readers))
    return Remedy(
        title=title,
        reason=": ".join(part for part in (reason, figures(case.memory)) if part),
        edits=edits,
        components=() if case.component in readers else (*readers, case.component),
    )


def _room(component: str, peak_bytes: int | None) -> str:
    peak = "" if peak_bytes is None else f", which held up to {size_text(peak_bytes)}"
    return f"leaves more of the GPU to {component}{peak}"


def _text(value: object) -> str:
    return "unset" if value is None else shown(value)
