"""What to edit after an out-of-memory error: knobs that the config has, and the measured figures. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rltui.core.config_report import KnobInfo
from rltui.core.gpu.knob_search import role_of
from rltui.core.gpu.lever import Lever, Role
from rltui.core.gpu.lever_moves import Case, Edits, edits_of
from rltui.core.gpu.out_of_memory import figures, size_text
from rltui.core.gpu.report import OutOfMemory, Remedy
from rltui.core.knobs import shown

MOST_REMEDIES = 4
_TRAINING: tuple[Role, ...] = ("trainer", "sft")


def remedies(
    memory: OutOfMemory,
    knobs: Sequence[KnobInfo],
    levers: Sequence[Lever],
    *,
    component: str,
    shares_with: Sequence[str] = (),
    safe_utilization: float | None = None,
    largest_passing: float | None = None,
    peak_bytes: int | None = None,
) -> tuple[Remedy, ...]:
    """Edits that are likely to help, most advisable first, at most `MOST_REMEDIES`; each on its own is one.

    A trainer beside an engine is first helped by a smaller share for that engine.

    Args:
        memory: what the failed component said.
        knobs: all that the config has, as it is now.
        levers: what may be turned, in order of advice.
        component: that failed.
        shares_with: components that have a device in common with it.
        safe_utilization: largest `gpu_memory_utilization` with which engine and trainer both fit.
        largest_passing: largest one that passes vLLM's start check now.
        peak_bytes: most that the trainer on that device held in its last attempt.
    """
    case = Case(memory, knobs, component, tuple(shares_with), safe_utilization, largest_passing)
    found: list[Remedy] = []
    taken: set[str] = set()
    for lever, edits, is_own in _edits(case, levers):
        if edits and not taken & edits.keys() and len(found) < MOST_REMEDIES:
            taken |= edits.keys()
            found.append(_remedy(case, lever, edits, is_own=is_own, peak_bytes=peak_bytes))
    return tuple(found)


def _edits(case: Case, levers: Sequence[Lever]) -> Iterator[tuple[Lever, Edits, bool]]:
    """What each lever would write, and whether it is one of the failed component's own."""
    failed = role_of(case.component, case.memory)
    if failed in _TRAINING and case.shares_with:
        for lever in levers:
            if lever.move == "lower_share" and case.memory.kind in lever.kinds:
                yield lever, edits_of(lever, "inference", case, case.shares_with), False
    for lever in levers:
        if case.memory.kind in lever.kinds:
            for role in lever.roles:
                if failed in (None, role):
                    yield lever, edits_of(lever, role, case, (case.component,)), True


def _remedy(case: Case, lever: Lever, edits: Edits, *, is_own: bool, peak_bytes: int | None) -> Remedy:
    by_key = {knob.key: knob for knob in case.knobs}
    title = ", ".join(f"{key} {_text(by_key[key].value)} → {_text(value)}" for key, value in edits.items())
    reason = lever.reason if is_own else _room(case.component, peak_bytes)
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
