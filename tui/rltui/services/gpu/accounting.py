"""Whose the memory of the GPUs is."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rltui.core.api import Orphan
from rltui.core.gpu.devices import GpuChoice, chosen_devices
from rltui.core.gpu.report import GpuDevice, GpuOwner, GpuProcess, GpuReport, GpuShare
from rltui.core.gpu.shares import ChangeEstimate, MemoryOwner, shares
from rltui.services import processes
from rltui.services.processes import ProcessId
from rltui.services.processes.origin import ProcessFacts, ProcessTable


@dataclass(frozen=True, slots=True, kw_only=True)
class LivingComponent(MemoryOwner):
    root_pids: tuple[int, ...]
    """What all its processes descend from; the first one stands for it where processes cannot be told."""
    choice: GpuChoice


class Holders(NamedTuple):
    processes: tuple[GpuProcess, ...]
    shares: tuple[GpuShare, ...]


class _Claim(NamedTuple):
    owner: GpuOwner
    experiment: str | None = None
    component: str | None = None
    attempt: int | None = None


class _Claims:
    """Owners at one moment, for one experiment or for none."""

    def __init__(
        self,
        table: ProcessTable,
        experiment: str | None,
        living: Sequence[LivingComponent],
        orphans: Sequence[Orphan],
    ) -> None:
        """See `GpuOwners.holders`."""
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
        return {
            "start": facts.start,
            "name": facts.name,
            "command": facts.command,
            "user": facts.user,
            **self._claim(pid, facts)._asdict(),
        }

    def _claim(self, pid: int, facts: ProcessFacts) -> _Claim:
        """The first that holds, from what is certain to what is left."""
        for ancestor in facts.ancestors:
            root = self._roots.get(ancestor.pid)
            if root is not None:
                return _Claim("component", self._experiment, root.component, root.attempt)
            orphan = self._orphans.get(ancestor)
            if orphan is not None:
                return _Claim("orphan", self._experiment, orphan.component, orphan.attempt)
        origin = self._table.origin(pid)
        if origin is None:
            return _Claim("mine" if facts.is_mine else "other")
        # Of this experiment, one that lives was started a moment ago: it is among the living next time.
        home: GpuOwner = "component" if origin.experiment == self._experiment else "experiment"
        owner: GpuOwner = home if origin.lives else "orphan"
        return _Claim(owner, origin.experiment, origin.component, origin.attempt)


class GpuOwners:
    """Names the owner of every process and every share. Keep one for as long as devices are read.

    It remembers titles, which it reads every 5 s only, and how the memory of each device changed. A call
    reads `/proc` for each process on a GPU and each of its ancestors. Not for two threads at a time.
    """

    def __init__(
        self,
        experiment: str | None,
        *,
        pids_are_real: bool | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin to watch; components that are older are adopted, as `ChangeEstimate` says.

        Args:
            experiment: name of the one whose components will be given; `None`: of none.
            pids_are_real: the driver's pids name processes here. `None`: true in the initial namespace only.
            clock: seconds since the epoch.
            monotonic: seconds.
        """
        self._experiment = experiment
        self._pids_are_real = processes.in_initial_pid_namespace() if pids_are_real is None else pids_are_real
        self._since = clock()
        self._table = ProcessTable(monotonic=monotonic)
        self._estimates: dict[str, ChangeEstimate] = {}
        self._claimed = _Claimed()

    def attributed(
        self, report: GpuReport, living: Sequence[LivingComponent] = (), orphans: Sequence[Orphan] = ()
    ) -> GpuReport:
        """`report`, which is a bare reading, with the `holders` of every device."""
        found = self.holders(report.devices, living, orphans)
        devices = tuple(device.model_copy(update=found[device.key]._asdict()) for device in report.devices)
        return report.model_copy(update={"devices": devices})

    def holders(
        self, devices: Sequence[GpuDevice], living: Sequence[LivingComponent], orphans: Sequence[Orphan]
    ) -> Mapping[str, Holders]:
        """By device key, the owner of every process, and whose the used memory is.

        In another pid namespace than the driver's, as in most containers, the processes of a device that was
        given to components are replaced by one per component, with an estimate of what that holds. That is
        taken to be the case when no listed pid is a component's.

        Processes on other hosts stay as they are.

        Args:
            devices: of a reading, without owners.
            living: the components that run now, in start order.
            orphans: what is known to be left of the experiment's dead attempts.
        """
        tenants = _tenants(devices, living)
        self._table.look_again()
        self._claimed.keep_for((*living, *orphans, self._table.refreshed_at))
        claims = _Claims(self._table, self._experiment, living, orphans)
        local = {process.pid for device in devices if not device.host for process in device.processes}
        pids_tell = self._pids_are_real or not tenants or any(claims.is_below_root(pid) for pid in local)
        found: dict[str, Holders] = {}
        for device in devices:
            here, processes = tenants.get(device.key, ()), device.processes
            held = self._held(device, here)  # also while it is not needed: an estimate lives from history
            if pids_tell and not device.host:
                processes = _with_estimates(self._claimed.of(device, claims), held)
            elif here:
                # one process per component, where the listed ones cannot be told
                processes = tuple(
                    GpuProcess.model_validate(
                        {
                            "pid": component.root_pids[0],
                            "used_bytes": held.get(component.component),
                            "estimated": True,
                            **claims.fields(component.root_pids[0]),
                        }
                    )
                    for component in here
                )
            found[device.key] = Holders(processes, shares(device, processes))
        return found

    def _held(self, device: GpuDevice, tenants: Sequence[LivingComponent]) -> Mapping[str, int]:
        """Guessed bytes by component."""
        if device.host or device.used_bytes is None:
            return {}
        estimate = self._estimates.setdefault(device.key, ChangeEstimate(since=self._since))
        usable_bytes = device.usable_bytes or device.used_bytes
        return estimate.update(device.used_bytes, tenants, usable_bytes=usable_bytes)


class _Claimed:
    """Listed processes with their owners, for as long as neither a list nor who may own one is another.

    NVML's lists are read every few seconds, memory every second.
    """

    def __init__(self) -> None:
        self._situation: tuple[object, ...] = ()
        self._known: dict[str, tuple[tuple[GpuProcess, ...], tuple[GpuProcess, ...]]] = {}
        """By device key: as listed, and with owners."""

    def keep_for(self, situation: tuple[object, ...]) -> None:
        """Forget everything if this is another situation than before."""
        if situation != self._situation:
            self._situation, self._known = situation, {}

    def of(self, device: GpuDevice, claims: _Claims) -> tuple[GpuProcess, ...]:
        """The processes of `device`, with owners and without estimates."""
        listed, claimed = self._known.get(device.key, ((), ()))
        # as objects of one reading: a process may be replaced by one that looks like it
        if not (len(listed) == len(device.processes) and all(map(operator.is_, listed, device.processes))):
            claimed = tuple(
                process.model_copy(update=claims.fields(process.pid)) for process in device.processes
            )
            self._known[device.key] = device.processes, claimed
        return claimed


def _tenants(
    devices: Sequence[GpuDevice], living: Sequence[LivingComponent]
) -> dict[str, tuple[LivingComponent, ...]]:
    """By key of each device that was given to somebody who has begun to run."""
    tenants: dict[str, tuple[LivingComponent, ...]] = {}
    for component in living:
        chosen = chosen_devices(component.choice, devices)
        for device in chosen if component.root_pids else ():
            tenants[device.key] = (*tenants.get(device.key, ()), component)
    return tenants


def _with_estimates(found: tuple[GpuProcess, ...], held: Mapping[str, int]) -> tuple[GpuProcess, ...]:
    """Sizes of components' processes where NVML gives none: a component's first one stands for all of them.

    Where they are all of one component, that has simply the rest, which `shares` knows better.
    """
    unknown = [process for process in found if process.used_bytes is None]
    parties = {(process.owner, process.component) for process in unknown}
    if len(parties) < 2:
        return found
    left = dict(held)
    for process in found:
        if process.owner == "component" and process.component in left:
            left[process.component] -= process.used_bytes or 0
    return tuple(_with_estimate(process, left) for process in found)


def _with_estimate(process: GpuProcess, left: dict[str, int]) -> GpuProcess:
    """Takes all that is left for its component."""
    component = process.component
    if process.used_bytes is not None or process.owner != "component" or component not in left:
        return process
    used_bytes, left[component] = max(0, left[component]), 0
    return process.model_copy(update={"used_bytes": used_bytes, "estimated": True})
