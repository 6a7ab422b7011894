"""A device's used memory, divided among those who hold it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import get_args

from rltui.core.gpu.report import GpuDevice, GpuOwner, GpuProcess, GpuShare

_RANK = {owner: rank for rank, owner in enumerate(get_args(GpuOwner))}


def shares(device: GpuDevice) -> tuple[GpuShare, ...]:
    """`GpuDevice.shares` by its processes: every process is in one share, and the sum is `used_bytes`.

    - What no process accounts for is the share `hidden`. Where the only processes of unknown size belong to
      one component, it is that component's instead, as an estimate.
    - Processes that hold more together than is used, since they were read a moment later than the total, are
      all made smaller by the same factor, as an estimate.
    - Of unified memory most is the CPU's, and where the total is unknown so is the rest: the processes then
      stand for themselves, and nothing is hidden.

    Processes that rltui did not start have one share per user, all others one per component.
    """
    groups = _groups(device.processes)
    used = None if device.memory_kind == "unified" else device.used_bytes
    if used is None:
        return _sorted(group.share(group.known_bytes) for group in groups)
    known = sum(group.known_bytes for group in groups)
    if known > used:
        parts = _scaled([group.known_bytes for group in groups], used)
        return _sorted(group.share(part, estimated=True) for group, part in zip(groups, parts, strict=True))
    heir = _heir(groups)
    found = [group.share(group.known_bytes + (used - known if group is heir else 0)) for group in groups]
    if heir is None and used > known:
        found.append(GpuShare(owner="hidden", used_bytes=used - known))
    return _sorted(found)


@dataclass(frozen=True, slots=True)
class _Group:
    """Processes of one owner."""

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
        """In part at least."""
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


def _groups(processes: Sequence[GpuProcess]) -> list[_Group]:
    members: dict[tuple[GpuOwner, str | None, str | None, str | None], list[GpuProcess]] = {}
    for process in processes:
        user = process.user if process.owner in ("mine", "other", "unknown") else None
        key = (process.owner, process.experiment, process.component, user)
        members.setdefault(key, []).append(process)
    return [_Group(*key, tuple(of_key)) for key, of_key in members.items()]


def _heir(groups: Sequence[_Group]) -> _Group | None:
    """The component to which memory without a process must belong."""
    unknown = [group for group in groups if group.is_unknown]
    return unknown[0] if len(unknown) == 1 and unknown[0].owner == "component" else None


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
