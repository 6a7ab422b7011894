"""Whose a process on a GPU is, by its ancestors, its attempt and its user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rltui.core.api import Orphan
from rltui.core.gpu.choice import GpuChoice
from rltui.core.gpu.report import GpuOwner
from rltui.services.process_facts import ProcessFacts, ProcessTable
from rltui.services.processes import ProcessId


@dataclass(frozen=True, slots=True)
class LivingComponent:
    """A component of this experiment that runs."""

    component: str
    attempt: int
    root_pids: tuple[int, ...]
    """What all its processes descend from; the first one stands for it where processes cannot be told."""
    is_starting: bool
    started_at: float | None
    """Seconds since the epoch."""
    choice: GpuChoice
    utilization: float | None
    """`gpu_memory_utilization` of an inference engine."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Who a process belongs to, as `GpuProcess` has it."""

    owner: GpuOwner
    experiment: str | None = None
    component: str | None = None
    attempt: int | None = None


class Claims:
    """Owners at one moment, for one experiment or for none."""

    def __init__(
        self,
        table: ProcessTable,
        experiment: str | None,
        living: Sequence[LivingComponent],
        orphans: Sequence[Orphan],
    ) -> None:
        """See `GpuOwners.attributed`."""
        self._table = table
        self._experiment = experiment
        self._roots = {pid: component for component in living for pid in component.root_pids}
        self._orphans = {ProcessId(orphan.pid, orphan.start): orphan for orphan in orphans}

    def is_below_root(self, pid: int) -> bool:
        """It is a component's of this experiment."""
        facts = self._table.facts(pid)
        return facts is not None and any(ancestor.pid in self._roots for ancestor in facts.ancestors)

    def fields(self, pid: int) -> Mapping[str, object]:
        """What a `GpuProcess` says of its process and its owner; nothing where there is no such process."""
        facts = self._table.facts(pid)
        if facts is None:
            return {}
        claim = self._claim(pid, facts)
        return {
            "start": facts.start,
            "name": facts.name,
            "command": facts.command,
            "user": facts.user,
            "owner": claim.owner,
            "experiment": claim.experiment,
            "component": claim.component,
            "attempt": claim.attempt,
        }

    def _claim(self, pid: int, facts: ProcessFacts) -> Claim:
        """The first that holds, from what is certain to what is left."""
        for ancestor in facts.ancestors:
            root = self._roots.get(ancestor.pid)
            if root is not None:
                return Claim("component", self._experiment, root.component, root.attempt)
            orphan = self._orphans.get(ancestor)
            if orphan is not None:
                return Claim("orphan", self._experiment, orphan.component, orphan.attempt)
        origin = self._table.origin(pid)
        if origin is None:
            return Claim("mine" if facts.is_mine else "other")
        # Of this experiment, one that lives was started a moment ago: it is among the living next time.
        home: GpuOwner = "component" if origin.experiment == self._experiment else "experiment"
        owner: GpuOwner = home if origin.lives else "orphan"
        return Claim(owner, origin.experiment, origin.component, origin.attempt)
