"""Whose a process on a GPU is, by its ancestors, its attempt and its user."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rltui.core.api import Orphan
from rltui.core.gpu.choice import GpuChoice
from rltui.core.gpu.report import GpuOwner
from rltui.services.process_facts import FactsCache, ProcessFacts
from rltui.services.processes import ProcessId
from rltui.services.processes.identity import ProcessStat, read_stat


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


class Family:
    """One look at the processes on the GPUs. Reads each process and each ancestor once."""

    def __init__(
        self,
        facts: FactsCache,
        experiment: str | None,
        living: Sequence[LivingComponent],
        orphans: Sequence[Orphan],
    ) -> None:
        """See `GpuOwners.attributed`."""
        self._facts = facts
        self._experiment = experiment
        self._roots = {pid: component for component in living for pid in component.root_pids}
        self._orphans = {ProcessId(orphan.pid, orphan.start): orphan for orphan in orphans}
        self._stats: dict[int, ProcessStat | None] = {}
        self._values: dict[int, Mapping[str, object]] = {}

    @property
    def seen(self) -> Collection[int]:
        """Pids that values were asked for."""
        return self._values.keys()

    def is_below_root(self, pid: int) -> bool:
        """It is a component's of this experiment."""
        return any(ancestor.pid in self._roots for ancestor in self._ancestors(pid))

    def values(self, pid: int) -> Mapping[str, object]:
        """Fields of a `GpuProcess` to set; none where there is no such process."""
        if pid not in self._values:
            stat = self._stat(pid)
            facts = self._facts.facts(pid, stat.id.start if stat else None)
            self._values[pid] = self._described(pid, facts) if facts is not None else {}
        return self._values[pid]

    def _described(self, pid: int, facts: ProcessFacts) -> Mapping[str, object]:
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
        for ancestor in self._ancestors(pid):
            root = self._roots.get(ancestor.pid)
            if root is not None:
                return Claim("component", self._experiment, root.component, root.attempt)
            orphan = self._orphans.get(ancestor)
            if orphan is not None:
                return Claim("orphan", self._experiment, orphan.component, orphan.attempt)
        origin = facts.origin
        if origin is None:
            return Claim("mine" if facts.is_mine else "other")
        # Of this experiment, one that lives was started a moment ago: it is among the living next time.
        home: GpuOwner = "component" if origin.experiment == self._experiment else "experiment"
        owner: GpuOwner = home if origin.lives else "orphan"
        return Claim(owner, origin.experiment, origin.component, origin.attempt)

    def _ancestors(self, pid: int) -> Iterator[ProcessId]:
        """The process itself, its parent and so on."""
        while pid > 0 and (stat := self._stat(pid)) is not None:
            yield stat.id
            pid = stat.parent

    def _stat(self, pid: int) -> ProcessStat | None:
        if pid not in self._stats:
            self._stats[pid] = read_stat(pid)
        return self._stats[pid]
