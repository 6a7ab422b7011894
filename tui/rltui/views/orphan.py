"""Processes that outlived their components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rltui.core.text import duration, gib, short_command, truncate

if TYPE_CHECKING:
    from rltui.core.api import Orphan


_FULL_COMMAND_WIDTH = 200
"""As much as a question shows."""
_EVIDENCE = {
    "descendant": "a child of its processes",
    "session": "runs in its session",
    "recorded": "was seen among its processes",
    "environment": "has its mark in the environment",
    "gpu": "holds GPU memory, not started by rltui",
}


def owner_text(orphan: Orphan) -> str:
    """`inference attempt 1`, as far as it is known."""
    if orphan.component is None:
        return "an attempt that is not known any more"
    experiment = "" if orphan.experiment is None else f"{orphan.experiment}/"
    attempt = "" if orphan.attempt is None else f" attempt {orphan.attempt}"
    return f"{experiment}{orphan.component}{attempt}"


def evidence_text(orphan: Orphan) -> str:
    """How it was told to belong to an attempt, or that it belongs to none."""
    whose = "" if orphan.evidence == "gpu" else f"of {owner_text(orphan)}: "
    return f"{whose}{_EVIDENCE[orphan.evidence]}"


def brief_orphan(orphan: Orphan) -> str:
    """`pid 4711 VLLM::EngineCore 4m12s 58.0 GiB :8000`, as far as it is known."""
    return " ".join((_pid_text(orphan), *_held(orphan)))


def orphan_text(orphan: Orphan) -> str:
    """`pid 4711 VLLM::EngineCore · of inference attempt 1 · 4m12s · 58.0 GiB · :8000`, as far as known."""
    whose = [] if orphan.component is None else [f"of {owner_text(orphan)}"]
    return " · ".join((_pid_text(orphan), *whose, *_held(orphan)))


def orphan_details(orphan: Orphan) -> list[str]:
    """Lines for a question to be answered with care: which process, what it holds, whose it is."""
    facts = []
    if orphan.age_s is not None:
        facts.append(f"runs for {duration(orphan.age_s)}")
    if orphan.gpu_bytes:
        facts.append(f"holds {gib(orphan.gpu_bytes)} GiB of GPU memory")
    if orphan.ports:
        facts.append(f"listens on {ports_text(orphan.ports)}")
    command = truncate(orphan.command, _FULL_COMMAND_WIDTH)
    lines = (f"pid {orphan.pid} {command}".rstrip(), " · ".join(facts), evidence_text(orphan))
    return [line for line in lines if line]


def orphan_count(orphans: Sequence[Orphan]) -> str:
    """`2 leftover processes`."""
    return "1 leftover process" if len(orphans) == 1 else f"{len(orphans)} leftover processes"


def by_attempt(orphans: Sequence[Orphan]) -> list[list[Orphan]]:
    """By attempt, in the order of their first pid."""
    groups: dict[str, list[Orphan]] = {}
    for orphan in orphans:
        groups.setdefault(owner_text(orphan), []).append(orphan)
    return list(groups.values())


def ports_text(ports: Sequence[int]) -> str:
    """`:8000 :8001`."""
    return " ".join(f":{port}" for port in sorted(set(ports)))


def _pid_text(orphan: Orphan) -> str:
    return f"pid {orphan.pid} {short_command(orphan.command)}".rstrip()


def orphan_cells(orphan: Orphan) -> tuple[str, ...]:
    """`4711`, `VLLM::EngineCore`, `inference attempt 1`, `4m12s`, `58.0 GiB`, `:8000`, as far as known."""
    age = "" if orphan.age_s is None else duration(orphan.age_s)
    memory = f"{gib(orphan.gpu_bytes)} GiB" if orphan.gpu_bytes else ""
    whose = "" if orphan.component is None else owner_text(orphan)
    return str(orphan.pid), short_command(orphan.command), whose, age, memory, ports_text(orphan.ports)


def _held(orphan: Orphan) -> list[str]:
    return [fact for fact in orphan_cells(orphan)[3:] if fact]
