"""Partitions of SLURM, for display."""

from __future__ import annotations

from dataclasses import dataclass

from rltui.services import slurm, subprocesses


@dataclass(frozen=True, slots=True)
class JobPartition:
    name: str
    is_default: bool
    is_up: bool
    time_limit: str
    """Limit in SLURM's notation: `1-00:00:00`, `infinite`."""
    nodes: int
    gres: str
    """Devices of a node: `gpu:h200:8`; empty: none that SLURM knows of."""


def partitions(*, timeout_s: float) -> tuple[JobPartition, ...]:
    """The partitions in the order of SLURM; empty without SLURM.

    Raises:
        RltuiError: if it does not answer.
    """
    if slurm.is_absent():
        return ()
    printed = subprocesses.check_output(
        ("sinfo", "--noheader", "--format=%P|%a|%l|%D|%G"), timeout_s=timeout_s
    )
    by_name: dict[str, JobPartition] = {}
    for line in printed.decode(errors="replace").splitlines():
        name, state, limit, nodes, gres = line.split("|")
        before = by_name.get(name.rstrip("*"))
        by_name[name.rstrip("*")] = JobPartition(
            name=name.rstrip("*"),
            is_default=name.endswith("*"),
            is_up=state == "up",
            time_limit=limit,
            nodes=int(nodes) + (before.nodes if before is not None else 0),
            gres=before.gres if before is not None and before.gres else gres.replace("(null)", ""),
        )
    return tuple(by_name.values())
