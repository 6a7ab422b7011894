"""Whose a device's used memory is, by its processes, or guessed from how it changes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import get_args

from rltui.core.gpu.report import GpuDevice, GpuOwner, GpuProcess, GpuShare

_RANK = {owner: rank for rank, owner in enumerate(get_args(GpuOwner))}


def shares(device: GpuDevice, processes: Sequence[GpuProcess]) -> tuple[GpuShare, ...]:
    """`GpuDevice.shares` by these processes: every one is in one share, and the sum is `used_bytes`.

    - What no process accounts for is the share `hidden`. Where the only processes of unknown size belong to
      one component, it is that component's instead, as an estimate.
    - Processes that hold more together than is used, since they were read a moment later than the total, are
      all made smaller by the same factor, as an estimate.
    - Of unified memory most is the CPU's, and where the total is unknown so is the rest: the processes then
      stand for themselves, and nothing is hidden.

    Processes that rltui did not start have one share per user, all others one per component.
    """
    members: dict[tuple[GpuOwner, str | None, str | None, str | None], list[GpuProcess]] = {}
    for process in processes:
        user = process.user if process.owner in ("mine", "other", "unknown") else None
        key = (process.owner, process.experiment, process.component, user)
        members.setdefault(key, []).append(process)
    groups = [_Group(*key, tuple(of_key)) for key, of_key in members.items()]
    used = None if device.memory_kind == "unified" else device.used_bytes
    if used is None:
        return _sorted(group.share(group.known_bytes) for group in groups)
    known = sum(group.known_bytes for group in groups)
    if known > used:
        parts = _scaled([group.known_bytes for group in groups], used)
        return _sorted(group.share(part, estimated=True) for group, part in zip(groups, parts, strict=True))
    unknown = [group for group in groups if group.is_unknown]
    heir = unknown[0] if len(unknown) == 1 and unknown[0].owner == "component" else None
    found = [group.share(group.known_bytes + (used - known if group is heir else 0)) for group in groups]
    if heir is None and used > known:
        found.append(GpuShare(owner="hidden", used_bytes=used - known))
    return _sorted(found)


@dataclass(frozen=True, slots=True)
class _Group:
    owner: GpuOwner
    experiment: str | None
    component: str | None
    user: str | None
    processes: tuple[GpuProcess, ...]

    @property
    def known_bytes(self) -> int:
        return sum(process.used_bytes or 0 for process in self.processes)

    @property
    def is_unknown(self) -> bool:
        return any(process.used_bytes is None for process in self.processes)

    def share(self, used_bytes: int, *, estimated: bool = False) -> GpuShare:
        return GpuShare(
            owner=self.owner,
            experiment=self.experiment,
            component=self.component,
            user=self.user,
            pids=tuple(process.pid for process in self.processes),
            used_bytes=used_bytes,
            estimated=estimated or self.is_unknown or any(process.estimated for process in self.processes),
        )


def _scaled(sizes: Sequence[int], total: int) -> list[int]:
    """Parts of `total` in proportion to `sizes`, whose sum is larger: exact, each at most its size."""
    parts: list[int] = []
    before = 0
    for size in sizes:
        before += size
        parts.append(before * total // sum(sizes) - sum(parts))
    return parts


def _sorted(found: Iterable[GpuShare]) -> tuple[GpuShare, ...]:
    return tuple(sorted(found, key=lambda share: (_RANK[share.owner], -share.used_bytes, share.pids)))


RELEASE_UPDATES = 30
"""How long the memory of an ended component is still expected to be given back. Drivers lag by seconds."""


@dataclass(frozen=True, slots=True)
class MemoryOwner:
    """A living component that was given the device."""

    component: str
    attempt: int
    is_starting: bool = False
    started_at: float | None = None
    """Seconds since the epoch. `None` while unknown: older than the others, and younger than the watch."""
    utilization: float | None = None
    """It is an inference engine with this `gpu_memory_utilization`."""

    @property
    def key(self) -> tuple[str, int]:
        """Names it for good: component and attempt."""
        return self.component, self.attempt


class ChangeEstimate:
    """What the components on one device hold, by the changes of what is used there. Bytes.

    Growth is the youngest tenant's, one that is starting before one that is ready. A fall is first what a
    tenant that has ended gives back, then the youngest's that has something. What was used before the first
    tenant is nobody's. An attempt replaced between two updates leaves its memory to its successor.

    Tenants from before the watch have no history here: an engine is taken to hold what its utilization
    allows, the others to share the rest.
    """

    def __init__(self, *, since: float) -> None:
        """`since`: when the watch began, in seconds since the epoch; maybe before the first update."""
        self._since = since
        self._used: int | None = None
        self._living: dict[tuple[str, int], int] = {}
        self._ended: dict[tuple[str, int], int] = {}
        """Most recently ended last."""
        self._ended_age: dict[tuple[str, int], int] = {}

    def update(self, used_bytes: int, tenants: Sequence[MemoryOwner], *, usable_bytes: int) -> dict[str, int]:
        """What each tenant holds now, by component: never negative, together at most `used_bytes`.

        Args:
            used_bytes: of the device.
            tenants: all that live now, each component once, in the order they are started in.
            usable_bytes: what a utilization is a part of: see `GpuDevice.usable_bytes`.
        """
        before, self._used = used_bytes if self._used is None else self._used, used_bytes
        self._hand_over(tenants)
        newcomers = [tenant for tenant in tenants if tenant.key not in self._living]
        self._living |= {tenant.key: 0 for tenant in newcomers}
        if used_bytes >= before:
            for tenant in _youngest_first(tenants)[:1]:
                self._living[tenant.key] += used_bytes - before
        else:
            self._fall(before - used_bytes, tenants)
        adopted = [
            each for each in newcomers if each.started_at is not None and each.started_at < self._since
        ]
        self._seed(adopted, used_bytes, usable_bytes)
        return {tenant.component: self._living[tenant.key] for tenant in tenants}

    def _hand_over(self, tenants: Iterable[MemoryOwner]) -> None:
        """Tenants that are gone leave what they had to a successor, or are about to give it back."""
        living = {tenant.key for tenant in tenants}
        newest = {tenant.component: tenant.key for tenant in tenants if tenant.key not in self._living}
        self._ended_age = {key: age + 1 for key, age in self._ended_age.items() if age < RELEASE_UPDATES}
        self._ended = {key: held for key, held in self._ended.items() if key in self._ended_age}
        for key in [key for key in self._living if key not in living]:
            held = self._living.pop(key)
            successor = newest.get(key[0])
            if successor is not None:
                self._living[successor] = held
            else:
                self._ended[key], self._ended_age[key] = held, 0

    def _fall(self, size: int, tenants: Sequence[MemoryOwner]) -> None:
        for ledger, keys in (
            (self._ended, list(reversed(self._ended))),
            (self._living, [tenant.key for tenant in _youngest_first(tenants)]),
        ):
            for key in keys:
                given_back = min(size, ledger[key])
                ledger[key] -= given_back
                size -= given_back

    def _seed(self, adopted: Sequence[MemoryOwner], used_bytes: int, usable_bytes: int) -> None:
        rest = used_bytes - sum(self._living.values()) - sum(self._ended.values())
        for tenant in adopted:
            if tenant.utilization is not None:
                held = min(rest, int(tenant.utilization * usable_bytes))
                self._living[tenant.key] += held
                rest -= held
        others = [tenant for tenant in adopted if tenant.utilization is None]
        for tenant in others:
            self._living[tenant.key] += rest // len(others)


def _youngest_first(tenants: Sequence[MemoryOwner]) -> list[MemoryOwner]:
    """Of equal age, the one that is started last comes first."""
    oldest_first = sorted(tenants, key=lambda tenant: (tenant.is_starting, tenant.started_at or 0.0))
    return oldest_first[::-1]
