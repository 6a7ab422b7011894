"""Reservations of free memory on a device, where several experiments start at once. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from rltui.core.gpu.report import GpuDevice, GpuReservation


def with_claims(
    devices: Iterable[GpuDevice], reservations: Collection[GpuReservation]
) -> tuple[GpuDevice, ...]:
    """The devices with the part of these reservations that is still to be taken of each."""
    return tuple(device.replace(claims=pressing(device, reservations)) for device in devices)


def pressing(device: GpuDevice, reservations: Iterable[GpuReservation]) -> tuple[GpuReservation, ...]:
    """Those on the device, with `left_bytes`: memory that their components hold already is in the reading."""
    return tuple(
        reservation.replace(left_bytes=max(0, reservation.size_bytes - held_bytes(device, reservation)))
        for reservation in reservations
        if reservation.device == device.key
    )


def held_bytes(device: GpuDevice, reservation: GpuReservation) -> int:
    return sum(
        share.used_bytes
        for share in device.shares
        if share.owner in ("component", "experiment")
        and share.experiment == reservation.experiment
        and reservation.component in ("", share.component)
    )


@dataclass(frozen=True, slots=True)
class Contention:
    """Memory of other experiments that is in the way of a start on a device."""

    device: GpuDevice
    needed_bytes: int
    reserved: tuple[GpuReservation, ...] = ()
    """Memory that is about to be taken, by starts that will come to an end."""
    held_bytes: Mapping[str, int] = field(default_factory=dict)
    """Experiment → memory that it holds, where none is reserved."""


def contention(
    devices: Iterable[GpuDevice], needs: Collection[GpuReservation], *, has_waited: bool = False
) -> Contention | None:
    """The memory of others that is in the way of a start, on the first device with too little, if any.

    Memory that is simply used stands in nobody's way here: whoever starts against it was told.

    Args:
        devices: of a reading, with the claims of all experiments, those of the start in question left out.
        needs: of the start: reservations of its experiment.
        has_waited: the start has waited for one of them that was starting: what that holds now is waited
            for, too.
    """
    experiments = {need.experiment for need in needs}
    for device in devices:
        size = sum(need.size_bytes for need in needs if need.device == device.key)
        if not size or device.unclaimed_bytes is None or size <= device.unclaimed_bytes:
            continue
        theirs = [claim for claim in device.claims if claim.experiment not in experiments]
        if reserved := tuple(claim for claim in theirs if claim.left_bytes):
            return Contention(device, size, reserved=reserved)
        held_bytes: dict[str, int] = {}
        for share in device.shares:
            if share.owner == "experiment" and share.experiment and share.used_bytes:
                held_bytes[share.experiment] = held_bytes.get(share.experiment, 0) + share.used_bytes
        if has_waited and held_bytes:
            return Contention(device, size, held_bytes=held_bytes)
    return None


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why a start that wants devices of its own cannot have one."""

    device: GpuDevice
    reason: Literal["unreadable", "used", "reserved", "full"]
    experiments: tuple[str, ...] = ()
    """Names of the experiments that use it, or that are starting and have reserved it."""
    needed_bytes: int = 0
    """Memory that would have to be free on it."""


@dataclass(frozen=True, slots=True)
class FreeDevices:
    """The devices, of some, that a start can have for itself."""

    devices: tuple[GpuDevice, ...]
    unavailable: tuple[Unavailable, ...]


def free_devices(devices: Iterable[GpuDevice], bytes_each: int) -> FreeDevices:
    """The devices that no experiment uses or reserves and that have `bytes_each` free. Their `claims` are
    those of all experiments.

    `bytes_each`: 0 if unknown, which asks for devices that nobody else uses either.
    """
    reasons = [(device, _unavailable(device, bytes_each)) for device in devices]
    return FreeDevices(
        tuple(device for device, reason in reasons if reason is None),
        tuple(reason for _, reason in reasons if reason is not None),
    )


def other_experiments(device: GpuDevice) -> tuple[str, ...]:
    """Names of the experiments besides the one of the report that use the device or are about to."""
    users = {share.experiment or "an experiment" for share in device.shares if share.owner == "experiment"}
    return tuple(sorted(users | {reservation.experiment for reservation in device.claims}))


def _unavailable(device: GpuDevice, bytes_each: int) -> Unavailable | None:
    if device.problem or device.free_bytes is None:
        return Unavailable(device, "unreadable")
    users = {share.experiment or "an experiment" for share in device.shares if share.owner in _RLTUIS}
    if users:
        return Unavailable(device, "used", tuple(sorted(users)))
    if device.claims:
        claimants = {reservation.experiment for reservation in device.claims}
        return Unavailable(device, "reserved", tuple(sorted(claimants)))
    needed = bytes_each or round(_UNUSED_FRAC * (device.usable_bytes or 0))
    return Unavailable(device, "full", needed_bytes=needed) if device.free_bytes < needed else None


_UNUSED_FRAC = 0.9
"""Share that must be free on an unused device: a desktop session, or a driver, may have the rest."""
_RLTUIS = ("component", "experiment", "orphan")
"""Owners of memory that rltui started."""
