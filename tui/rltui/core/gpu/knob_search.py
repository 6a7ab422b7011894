"""Finds the knobs that a lever means among those that a config has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rltui.core.config_report import KnobInfo
from rltui.core.gpu.lever import Role
from rltui.core.gpu.report import OutOfMemory

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


def role_of(component: str, memory: OutOfMemory) -> Role | None:
    """What a component does: by what it said, else by its id; `None` where neither tells."""
    if memory.kind in _ENGINE_KINDS:
        return "inference"
    name = component.lower()
    if "sft" in name:
        return "sft"
    if "train" in name:
        return "trainer"
    return "inference" if any(word in name for word in _WORDS["inference"]) else None


def find(
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
            if is_named(knob, name) and _may_be_of(knob, role) and (not wanted or wanted & set(knob.readers))
        ]
        if fitting:
            return max(fitting, key=lambda knob: knob.is_set)
    return None


def is_named(knob: KnobInfo, name: str) -> bool:
    """Its dotted path is `name`, or ends with it."""
    return knob.key == name or knob.key.endswith(f".{name}")


def beside(knobs: Sequence[KnobInfo], knob: KnobInfo, name: str) -> KnobInfo | None:
    """The knob `name` in the same table."""
    table, dot, _ = knob.key.rpartition(".")
    return next((other for other in knobs if other.key == f"{table}{dot}{name}"), None)


def whole(knob: KnobInfo | None) -> int | None:
    """Its value, where that is a whole number."""
    value = None if knob is None else knob.value
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _may_be_of(knob: KnobInfo, role: Role) -> bool:
    tables = set(knob.key.split(".")[:-1])
    return not any(tables & words for other, words in _WORDS.items() if other != role)
