"""Processes that outlived their component, in words for every width. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from rltui.core.api import ORPHAN_EVIDENCE, Orphan
from rltui.core.text import duration, gib, short_command
from rltui.ui.text import clean_line, listed, shortened

FULL_COMMAND_WIDTH = 200
"""As much as a question shows."""


def owner_text(orphan: Orphan) -> str:
    """`inference attempt 1`, as far as it is known."""
    if orphan.component is None:
        return "an attempt that is not known any more"
    experiment = "" if orphan.experiment is None else f"{clean_line(orphan.experiment)}/"
    attempt = "" if orphan.attempt is None else f" attempt {orphan.attempt}"
    return f"{experiment}{clean_line(orphan.component)}{attempt}"


def _ports_text(ports: Sequence[int]) -> str:
    return " ".join(f":{port}" for port in sorted(set(ports)))


def brief(orphan: Orphan) -> str:
    """`pid 4711 VLLM::EngineCore 4m12s 58.0 GiB :8000`, as far as it is known."""
    name = f"pid {orphan.pid} {short_command(clean_line(orphan.command))}".rstrip()
    age = "" if orphan.age_s is None else duration(orphan.age_s)
    memory = f"{gib(orphan.gpu_bytes)} GiB" if orphan.gpu_bytes else ""
    return " ".join(part for part in (name, age, memory, _ports_text(orphan.ports)) if part)


def aged(orphans: Sequence[Orphan], by_s: float) -> list[Orphan]:
    """As they are `by_s` seconds later."""
    return [
        orphan if orphan.age_s is None else orphan.model_copy(update={"age_s": orphan.age_s + by_s})
        for orphan in orphans
    ]


def held_text(orphans: Sequence[Orphan]) -> str:
    """What they hold together, `58.0 GiB, :8000`; empty where nothing is known of it."""
    memory = sum(orphan.gpu_bytes or 0 for orphan in orphans)
    ports = _ports_text([port for orphan in orphans for port in orphan.ports])
    return ", ".join(part for part in (f"{gib(memory)} GiB" if memory else "", ports) if part)


def details(orphan: Orphan) -> tuple[str, str, str]:
    """Three lines, for a question to be answered with care: which process, what it holds, whose it is."""
    facts = []
    if orphan.age_s is not None:
        facts.append(f"runs for {duration(orphan.age_s)}")
    if orphan.gpu_bytes:
        facts.append(f"holds {gib(orphan.gpu_bytes)} GiB of GPU memory")
    if orphan.ports:
        facts.append(f"listens on {_ports_text(orphan.ports)}")
    whose = "" if orphan.evidence == "gpu" else f"of {owner_text(orphan)}: "
    return (
        f"pid {orphan.pid} {shortened(clean_line(orphan.command), FULL_COMMAND_WIDTH)}".rstrip(),
        " · ".join(facts),
        f"{whose}{ORPHAN_EVIDENCE[orphan.evidence]}",
    )


def by_attempt(orphans: Sequence[Orphan]) -> list[list[Orphan]]:
    """By attempt, in the order of their first pid."""
    groups: dict[str, list[Orphan]] = {}
    for orphan in orphans:
        groups.setdefault(owner_text(orphan), []).append(orphan)
    return list(groups.values())


def count_text(orphans: Sequence[Orphan]) -> str:
    """`2 leftover processes`."""
    return "1 leftover process" if len(orphans) == 1 else f"{len(orphans)} leftover processes"


def _first_that_fits(texts: Sequence[str], width: int) -> str:
    return next((text for text in texts if len(text) <= width), shortened(texts[-1], width))


def _weight(orphan: Orphan) -> tuple[int, bool, bool]:
    """What holds most comes first, Python's own helper, which holds nothing, last."""
    return -(orphan.gpu_bytes or 0), not orphan.ports, "resource_tracker" in orphan.command


def _group_line(group: Sequence[Orphan], width: int) -> str:
    group = sorted(group, key=_weight)
    whose = f"⚠ {count_text(group)} of {owner_text(group[0])}"
    held = held_text(group)
    all_named = ", ".join(map(brief, group))
    first_named = brief(group[0]) + (", …" if len(group) > 1 else "")
    return _first_that_fits(
        [f"{whose}: {all_named}", f"{whose}: {first_named}", f"{whose}: {held}" if held else whose, whose],
        width,
    )


def bar_lines(orphans: Sequence[Orphan], width: int, *, rows: int, hint: str) -> list[str]:
    """A line per attempt, at most `rows` of them; `hint` (which key ends them) closes the last one.

    What there is no room for goes in this order: further processes, names, and what they hold.
    """
    groups = by_attempt(orphans)
    room = max(0, width - len(hint))
    if len(groups) > rows:
        owners = listed([owner_text(group[0]) for group in groups])
        held = held_text(orphans)
        short = f"⚠ {count_text(orphans)}"
        holding = f"{short}: {held}" if held else short
        texts = [f"{short} of {owners}: {held}" if held else f"{short} of {owners}", holding, short]
        return [_first_that_fits(texts, room) + hint]
    lines = [_group_line(group, room) for group in groups]
    return [*lines[:-1], lines[-1] + hint] if lines else []
