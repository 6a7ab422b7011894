"""The account of a device's memory: by its processes, or estimated from changes of the used memory. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import get_args

from rltui.core.gpu.report import GpuDevice, GpuOwner, GpuProcess, GpuShare

_RANK = {owner: rank for rank, owner in enumerate(get_args(GpuOwner))}


def scaled_to(processes: Sequence[GpuProcess], used_bytes: int | None) -> tuple[GpuProcess, ...]:
    """The processes; where they hold more together than is used, since they were read a moment earlier or
    later, all are made smaller by the same factor, as estimates.

    `used_bytes`: `None` where that is unknown, or says nothing about them.
    """
    total = sum(process.used_bytes or 0 for process in processes)
    if used_bytes is None or total <= used_bytes:
        return tuple(processes)
    scaled: list[GpuProcess] = []
    listed = scaled_sum = 0
    for process in processes:
        if process.used_bytes:
            listed += process.used_bytes
            size = listed * used_bytes // total - scaled_sum
            scaled_sum += size
            process = process.replace(used_bytes=size, estimated=True)
        scaled.append(process)
    return tuple(scaled)


def shares(device: GpuDevice, processes: Sequence[GpuProcess]) -> tuple[GpuShare, ...]:
    """`GpuDevice.shares` by these processes, which hold no more than is used: every one is in one share, and
    the sum is `used_bytes`.

    - What no process accounts for is the share `hidden`. Where the only processes of unknown size belong to
      one component, it is that component's instead, as an estimate.
    - Of unified memory most is the CPU's, and where the total is unknown so is the rest: the processes then
      stand for themselves, and nothing is hidden.

    Processes that rltui did not start have one share per user, all others one per component.
    """
    members: dict[tuple[GpuOwner, str | None, str | None, str | None], list[GpuProcess]] = {}
    for process in processes:
        user = process.user if process.owner in ("mine", "other", "unknown") else None
        key = (process.owner, process.experiment, process.component, user)
        members.setdefault(key, []).append(process)
    unknown = [key for key, group in members.items() if any(process.used_bytes is None for process in group)]
    used_bytes, rest = attributable_bytes(device), 0
    if used_bytes is not None:
        rest = used_bytes - sum(process.used_bytes or 0 for process in processes)
    heir = unknown[0] if len(unknown) == 1 and unknown[0][0] == "component" else None
    result = [
        GpuShare(
            owner=key[0],
            experiment=key[1],
            component=key[2],
            user=key[3],
            pids=tuple(process.pid for process in group),
            used_bytes=sum(process.used_bytes or 0 for process in group) + (rest if key == heir else 0),
            estimated=key in unknown or any(process.estimated for process in group),
        )
        for key, group in members.items()
    ]
    if heir is None and rest:
        result.append(GpuShare(owner="hidden", used_bytes=rest))
    return tuple(sorted(result, key=lambda share: (_RANK[share.owner], -share.used_bytes, share.pids)))


def attributable_bytes(device: GpuDevice) -> int | None:
    """Used memory that its processes hold; `None` if it is unknown, or mostly that of the CPU's programs."""
    return None if device.memory_kind == "unified" else device.used_bytes


RELEASE_UPDATES = 30
"""Updates during which the memory of a finished component may still be given back. Drivers lag by seconds."""


@dataclass(frozen=True, slots=True)
class MemoryOwner:
    """A living component that the device is assigned to."""

    component: str
    attempt: int
    is_starting: bool = False
    started_at: float | None = None
    """Seconds since the epoch. `None` while unknown: treated as older than the others, and younger than the
    watch.
    """
    utilization: float | None = None
    """`gpu_memory_utilization` of an inference engine; `None` for any other component."""

    @property
    def key(self) -> tuple[str, int]:
        """Component and attempt: a permanent name."""
        return self.component, self.attempt


class ChangeEstimate:
    """Memory that the components on one device hold, in bytes, estimated from the changes of the used memory.

    Growth is the youngest owner's, one that is starting before one that is ready. A fall is first what a
    finished owner gives back, then the youngest's that has something. What was used before the first
    owner is nobody's. An attempt replaced between two updates leaves its memory to its successor.

    Owners from before the watch have no history here: an engine is taken to hold what its utilization
    allows, the others to share the rest.
    """

    def __init__(self, *, since: float) -> None:
        """`since`: start of the watch, in seconds since the epoch; maybe before the first update."""
        self._since = since
        self._used: int | None = None
        self._living: dict[tuple[str, int], int] = {}
        self._finished: dict[tuple[str, int], int] = {}
        """Most recently finished last."""
        self._finished_age: dict[tuple[str, int], int] = {}

    def update(self, used_bytes: int, owners: Sequence[MemoryOwner], *, usable_bytes: int) -> dict[str, int]:
        """Component → bytes that each owner holds now: never negative, together at most `used_bytes`.

        Args:
            used_bytes: of the device.
            owners: all that live now, each component once, in the order they are started in.
            usable_bytes: what a utilization is a share of: see `GpuDevice.usable_bytes`.
        """
        previous, self._used = used_bytes if self._used is None else self._used, used_bytes
        self._hand_over(owners)
        newcomers = [owner for owner in owners if owner.key not in self._living]
        self._living |= {owner.key: 0 for owner in newcomers}
        if used_bytes >= previous:
            for owner in _youngest_first(owners)[:1]:
                self._living[owner.key] += used_bytes - previous
        else:
            self._fall(previous - used_bytes, owners)
        adopted = [
            owner for owner in newcomers if owner.started_at is not None and owner.started_at < self._since
        ]
        self._seed(adopted, used_bytes, usable_bytes)
        return {owner.component: self._living[owner.key] for owner in owners}

    def _hand_over(self, owners: Iterable[MemoryOwner]) -> None:
        """Pass the memory of owners that are gone to a successor, or expect it to be given back."""
        living = {owner.key for owner in owners}
        newest = {owner.component: owner.key for owner in owners if owner.key not in self._living}
        self._finished_age = {
            key: age + 1 for key, age in self._finished_age.items() if age < RELEASE_UPDATES
        }
        self._finished = {
            key: held_bytes for key, held_bytes in self._finished.items() if key in self._finished_age
        }
        for key in [key for key in self._living if key not in living]:
            held_bytes = self._living.pop(key)
            successor = newest.get(key[0])
            if successor is not None:
                self._living[successor] = held_bytes
            else:
                self._finished[key], self._finished_age[key] = held_bytes, 0

    def _fall(self, size: int, owners: Sequence[MemoryOwner]) -> None:
        for ledger, keys in (
            (self._finished, list(reversed(self._finished))),
            (self._living, [owner.key for owner in _youngest_first(owners)]),
        ):
            for key in keys:
                released_bytes = min(size, ledger[key])
                ledger[key] -= released_bytes
                size -= released_bytes

    def _seed(self, adopted: Sequence[MemoryOwner], used_bytes: int, usable_bytes: int) -> None:
        rest = used_bytes - sum(self._living.values()) - sum(self._finished.values())
        for owner in adopted:
            if owner.utilization is not None:
                held_bytes = min(rest, int(owner.utilization * usable_bytes))
                self._living[owner.key] += held_bytes
                rest -= held_bytes
        others = [owner for owner in adopted if owner.utilization is None]
        for owner in others:
            self._living[owner.key] += rest // len(others)


def _youngest_first(owners: Sequence[MemoryOwner]) -> list[MemoryOwner]:
    """Sorted by age; of equal age, the one that is started last comes first."""
    oldest_first = sorted(owners, key=lambda owner: (owner.is_starting, owner.started_at or 0.0))
    return oldest_first[::-1]
