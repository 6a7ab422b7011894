"""Completes readings with the owners of the devices' memory: components, experiments, other users."""

from __future__ import annotations

import operator
import queue
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from rltui.core.experiment.api import Orphan
from rltui.core.gpu.account import ChangeEstimate, MemoryOwner, attributable_bytes, scaled_to, shares
from rltui.core.gpu.devices import GpuChoice, chosen_devices
from rltui.core.gpu.report import GpuDevice, GpuOwner, GpuProcess, GpuReport, GpuShare
from rltui.core.gpu.reservations import with_claims
from rltui.errors import RltuiError
from rltui.services import processes
from rltui.services.gpu.reservations import ReservationFiles
from rltui.services.gpu.sampling import READING_TIMEOUT_S, GpuReader, GpuSampler
from rltui.services.processes import ProcessId
from rltui.services.processes.origin import ProcessDetails, ProcessTable


@dataclass(frozen=True, slots=True, kw_only=True)
class LivingComponent(MemoryOwner):
    root_pids: tuple[int, ...]
    """Ancestors of all its processes; the first stands for it if processes cannot be identified."""
    choice: GpuChoice


class Holders(NamedTuple):
    processes: tuple[GpuProcess, ...]
    shares: tuple[GpuShare, ...]


class _Ownership(NamedTuple):
    owner: GpuOwner
    experiment: str | None = None
    component: str | None = None
    attempt: int | None = None


class _OwnerLookup:
    """Finds owners at one moment, for one experiment or for none."""

    def __init__(
        self,
        table: ProcessTable,
        experiment: str | None,
        living: Sequence[LivingComponent],
        orphans: Sequence[Orphan],
    ) -> None:
        self._table = table
        self._experiment = experiment
        self._roots = {pid: component for component in living for pid in component.root_pids}
        self._orphans = {ProcessId(orphan.pid, orphan.start): orphan for orphan in orphans}

    def is_below_root(self, pid: int) -> bool:
        """True if it belongs to a component of this experiment."""
        facts = self._table.facts(pid)
        return facts is not None and any(ancestor.pid in self._roots for ancestor in facts.ancestors)

    def fields(self, pid: int) -> Mapping[str, object]:
        """The fields of a `GpuProcess` on its process and owner; empty if there is no such process."""
        facts = self._table.facts(pid)
        if facts is None:
            return {}
        return {
            "start": facts.start,
            "name": facts.name,
            "command": facts.command,
            "user": facts.user,
            **self._ownership(pid, facts)._asdict(),
        }

    def _ownership(self, pid: int, facts: ProcessDetails) -> _Ownership:
        """The first match, from the most certain evidence to the least."""
        for ancestor in facts.ancestors:
            root = self._roots.get(ancestor.pid)
            if root is not None:
                return _Ownership("component", self._experiment, root.component, root.attempt)
            orphan = self._orphans.get(ancestor)
            if orphan is not None:
                return _Ownership("orphan", self._experiment, orphan.component, orphan.attempt)
        origin = self._table.origin(pid)
        if origin is None:
            return _Ownership("mine" if facts.is_mine else "other")
        # Of this experiment, one that lives was started a moment ago: it is among the living next time.
        home: GpuOwner = "component" if origin.experiment == self._experiment else "experiment"
        owner: GpuOwner = home if origin.lives else "orphan"
        return _Ownership(owner, origin.experiment, origin.component, origin.attempt)


class GpuOwners:
    """Names the owner of every process and every share. Use one instance for as long as devices are read.

    It caches titles, which it reads every 5 s only, and the history of each device's memory. A call reads
    `/proc` for each process on a GPU and each of its ancestors. Not for two threads at a time.
    """

    def __init__(
        self,
        experiment: str | None,
        *,
        pids_are_real: bool | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start to watch; components that are older are adopted, as `ChangeEstimate` says.

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
        self._owned_processes = _OwnedProcesses()

    def with_owners(
        self, report: GpuReport, living: Sequence[LivingComponent] = (), orphans: Sequence[Orphan] = ()
    ) -> GpuReport:
        """`report`, a reading without owners, with the `holders` of every device."""
        holders = self.holders(report.devices, living, orphans)
        devices = tuple(device.replace(**held._asdict()) for device, held in holders)
        return report.replace(devices=devices)

    def holders(
        self, devices: Sequence[GpuDevice], living: Sequence[LivingComponent], orphans: Sequence[Orphan]
    ) -> Iterator[tuple[GpuDevice, Holders]]:
        """Each device with the owner of every process, and the shares of the used memory.

        In another pid namespace than the driver's, as in most containers, the processes of a device that was
        assigned to components are replaced by one per component, with an estimate of its memory. This is
        assumed if no listed pid is a component's.

        Processes on other hosts stay unchanged.

        Args:
            devices: of a reading, without owners.
            living: the components that run now, in start order.
            orphans: the known processes of the experiment that outlived their attempt.
        """
        by_device = _components_by_device(devices, living)
        self._table.refresh()
        self._owned_processes.reset_unless((*living, *orphans, self._table.refreshed_at))
        owners = _OwnerLookup(self._table, self._experiment, living, orphans)
        local = {process.pid for device in devices if not device.host for process in device.processes}
        are_pids_usable = (
            self._pids_are_real or not by_device or any(owners.is_below_root(pid) for pid in local)
        )
        for device in devices:
            components, processes = by_device.get(device.key, ()), device.processes
            # also while it is not needed: an estimate lives from history
            estimates = self._estimate_bytes(device, components)
            if are_pids_usable and not device.host:
                processes = _with_estimates(self._owned_processes.of(device, owners), estimates)
            elif components:
                # one process per component, where the listed ones cannot be told
                processes = tuple(
                    GpuProcess.from_plain(
                        {
                            "pid": component.root_pids[0],
                            "used_bytes": estimates.get(component.component),
                            "estimated": True,
                            **owners.fields(component.root_pids[0]),
                        }
                    )
                    for component in components
                )
            processes = scaled_to(processes, attributable_bytes(device))
            yield device, Holders(processes, shares(device, processes))

    def _estimate_bytes(self, device: GpuDevice, components: Sequence[LivingComponent]) -> Mapping[str, int]:
        """Component → estimated bytes."""
        if device.host or device.used_bytes is None:
            return {}
        estimate = self._estimates.setdefault(device.key, ChangeEstimate(since=self._since))
        usable_bytes = device.usable_bytes or device.used_bytes
        return estimate.update(device.used_bytes, components, usable_bytes=usable_bytes)


class _OwnedProcesses:
    """Listed processes with their owners, cached until the list or the possible owners change.

    NVML's lists are read every few seconds, memory every second.
    """

    def __init__(self) -> None:
        self._situation: tuple[object, ...] = ()
        self._cached: dict[str, tuple[tuple[GpuProcess, ...], tuple[GpuProcess, ...]]] = {}
        """Device key → processes as listed, and with owners."""

    def reset_unless(self, situation: tuple[object, ...]) -> None:
        """Clear the cache if the situation differs from that of the last call."""
        if situation != self._situation:
            self._situation, self._cached = situation, {}

    def of(self, device: GpuDevice, owners: _OwnerLookup) -> tuple[GpuProcess, ...]:
        listed, owned = self._cached.get(device.key, ((), ()))
        # as objects of one reading: a process may be replaced by one that looks like it
        if not (len(listed) == len(device.processes) and all(map(operator.is_, listed, device.processes))):
            owned = tuple(process.replace(**owners.fields(process.pid)) for process in device.processes)
            self._cached[device.key] = device.processes, owned
        return owned


def _components_by_device(
    devices: Sequence[GpuDevice], living: Sequence[LivingComponent]
) -> dict[str, tuple[LivingComponent, ...]]:
    """Device key → the running components that it is assigned to."""
    by_device: dict[str, tuple[LivingComponent, ...]] = {}
    for component in living:
        chosen = chosen_devices(component.choice, devices)
        for device in chosen if component.root_pids else ():
            by_device[device.key] = (*by_device.get(device.key, ()), component)
    return by_device


def _with_estimates(
    processes: tuple[GpuProcess, ...], estimates: Mapping[str, int]
) -> tuple[GpuProcess, ...]:
    """Fill in sizes that NVML does not give: a component's first process stands for all of them.

    If they all belong to one component, it simply has the rest, which `shares` computes better.
    """
    unknown = [process for process in processes if process.used_bytes is None]
    owners = {(process.owner, process.component) for process in unknown}
    if len(owners) < 2:
        return processes
    remaining = dict(estimates)
    for process in processes:
        if process.owner == "component" and process.component in remaining:
            remaining[process.component] -= process.used_bytes or 0
    return tuple(_with_estimate(process, remaining) for process in processes)


def _with_estimate(process: GpuProcess, remaining: dict[str, int]) -> GpuProcess:
    """Assign all that remains for its component."""
    component = process.component
    if process.used_bytes is not None or process.owner != "component" or component not in remaining:
        return process
    used_bytes, remaining[component] = max(0, remaining[component]), 0
    return process.replace(used_bytes=used_bytes, estimated=True)


def read_once(experiment: str | None = None) -> GpuReport:
    """One reading with owners, and with what experiments besides `experiment` that are starting will take.

    Components of `experiment` count as own. A hang of the driver is the report's `reason`.
    """
    with closing(readings(None, experiment)) as reports:
        try:
            return next(reports)
        except RltuiError as error:
            return GpuReport(available=False, reason=error.title)


def readings(interval_s: float | None, experiment: str | None = None) -> Generator[GpuReport, None, None]:
    """Yield one reading as `read_once`, or endlessly many if an interval is given. Close it in the end.

    Raises:
        RltuiError: if the driver hangs. The thread that reads is abandoned.
    """
    arrived: queue.SimpleQueue[GpuReport] = queue.SimpleQueue()
    sampler, owners = GpuSampler(lambda reading, _: arrived.put(reading)), GpuOwners(experiment)
    reservations = ReservationFiles(experiment or "")
    if interval_s is not None:
        sampler.set_interval(interval_s)
    sampler.start()
    try:
        timeout_s = READING_TIMEOUT_S
        while True:
            reading = _newest(arrived, timeout_s, sampler.reader)
            report = owners.with_owners(reading)
            devices = with_claims(report.devices, reservations.others())
            yield report.replace(devices=devices, interval_s=interval_s)
            if interval_s is None:
                return
            timeout_s = interval_s + READING_TIMEOUT_S
    finally:
        sampler.close()


def _newest(arrived: queue.SimpleQueue[GpuReport], timeout_s: float, reader: GpuReader) -> GpuReport:
    """Wait for the next reading; older ones that nobody fetched are skipped."""
    try:
        reading = arrived.get(timeout=timeout_s)
    except queue.Empty:
        message = f"{reader.driver} has not answered for {READING_TIMEOUT_S:g} s"
        raise RltuiError(message, hint=reader.stuck_hint) from None
    while not arrived.empty():
        reading = arrived.get()
    return reading
