"""Processes that outlived their components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rltui.base.text import duration, gib, short_command, truncate
from rltui.views.table import Column, View

if TYPE_CHECKING:
    from rltui.core.experiment.api import Orphan


_FULL_COMMAND_WIDTH = 200
"""A question has room for so much."""
_EVIDENCE = {
    "descendant": "a child of its processes",
    "session": "in its session",
    "recorded": "seen among its processes",
    "environment": "has its tag in the environment",
    "gpu": "holds GPU memory, not started by rltui",
}


def owner_text(orphan: Orphan) -> str:
    """`inference attempt 1`, as far as it is known."""
    if orphan.component is None:
        return "an unknown attempt"
    experiment = "" if orphan.experiment is None else f"{orphan.experiment}/"
    attempt = "" if orphan.attempt is None else f" attempt {orphan.attempt}"
    return f"{experiment}{orphan.component}{attempt}"


def evidence_text(orphan: Orphan) -> str:
    """The evidence that it belongs to an attempt, or that it belongs to none."""
    owner = "" if orphan.evidence == "gpu" else f"of {owner_text(orphan)}: "
    return f"{owner}{_EVIDENCE[orphan.evidence]}"


def brief_orphan(orphan: Orphan) -> str:
    """`pid 4711 VLLM::EngineCore 4m12s 58.0 GiB :8000`, as far as it is known."""
    return " ".join((_pid_text(orphan), *_facts(orphan)))


def orphan_text(orphan: Orphan) -> str:
    """`pid 4711 VLLM::EngineCore · of inference attempt 1 · 4m12s · 58.0 GiB · :8000`, as far as known."""
    owner = [] if orphan.component is None else [f"of {owner_text(orphan)}"]
    return " · ".join((_pid_text(orphan), *owner, *_facts(orphan)))


def orphan_details(orphan: Orphan) -> list[str]:
    """Lines for a question to be answered with care: which process, what it holds, whose it is."""
    facts = []
    if orphan.age_s is not None:
        facts.append(f"running for {duration(orphan.age_s)}")
    if orphan.gpu_bytes:
        facts.append(f"holds {gib(orphan.gpu_bytes)} GiB of GPU memory")
    if orphan.ports:
        facts.append(f"listens on {ports_text(orphan.ports)}")
    command = truncate(orphan.command, _FULL_COMMAND_WIDTH)
    lines = (f"pid {orphan.pid} {command}".rstrip(), " · ".join(facts), evidence_text(orphan))
    return [line for line in lines if line]


def orphan_count(orphans: Sequence[Orphan]) -> str:
    return "1 leftover process" if len(orphans) == 1 else f"{len(orphans)} leftover processes"


def by_attempt(orphans: Sequence[Orphan]) -> list[list[Orphan]]:
    """Attempts are in the order of their first pid."""
    groups: dict[str, list[Orphan]] = {}
    for orphan in orphans:
        groups.setdefault(owner_text(orphan), []).append(orphan)
    return list(groups.values())


def ports_text(ports: Sequence[int]) -> str:
    return " ".join(f":{port}" for port in sorted(set(ports)))


def _pid_text(orphan: Orphan) -> str:
    return f"pid {orphan.pid} {short_command(orphan.command)}".rstrip()


def _age_text(orphan: Orphan, _: float = 0.0) -> str:
    return "" if orphan.age_s is None else duration(orphan.age_s)


def _memory_text(orphan: Orphan, _: float = 0.0) -> str:
    return f"{gib(orphan.gpu_bytes)} GiB" if orphan.gpu_bytes else ""


VIEW: View[Orphan] = View(
    key=lambda orphan: str(orphan.pid),
    columns=(
        Column("pid", lambda orphan, _: str(orphan.pid), is_right=True),
        Column("process", lambda orphan, _: short_command(orphan.command), least=12),
        Column(
            "of", lambda orphan, _: "" if orphan.component is None else owner_text(orphan), least=12, goes=3
        ),
        Column("age", _age_text, is_right=True, goes=2),
        Column("gpu memory", _memory_text, is_right=True),
        Column("ports", lambda orphan, _: ports_text(orphan.ports), goes=1),
    ),
)


def _facts(orphan: Orphan) -> list[str]:
    texts = _age_text(orphan), _memory_text(orphan), ports_text(orphan.ports)
    return [text for text in texts if text]
