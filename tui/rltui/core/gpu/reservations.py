"""Reservations of free memory on a device, where several experiments start at once. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from rltui.base.text import count_text, gib, join_words
from rltui.core.gpu.report import GpuDevice, GpuReservation


def with_claims(
    devices: Iterable[GpuDevice], reservations: Collection[GpuReservation]
) -> tuple[GpuDevice, ...]:
    """The devices with the part of these reservations that is still to be taken of each."""
    return tuple(device.model_copy(update={"claims": pressing(device, reservations)}) for device in devices)


def pressing(device: GpuDevice, reservations: Iterable[GpuReservation]) -> tuple[GpuReservation, ...]:
    """Those on the device, with `left_bytes`: memory that their components hold already is in the reading."""
    return tuple(
        reservation.model_copy(
            update={"left_bytes": max(0, reservation.size_bytes - held_bytes(device, reservation))}
        )
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


def reserved_text(reservations: Sequence[GpuReservation]) -> str:
    """`40.0 GiB reserved for b, which is starting`; empty if nothing remains to be taken."""
    remaining = {reservation.experiment: 0 for reservation in reservations if reservation.left_bytes}
    for reservation in reservations:
        if reservation.left_bytes:
            remaining[reservation.experiment] += reservation.left_bytes
    if not remaining:
        return ""
    size = gib(sum(remaining.values()))
    return f"{size} GiB reserved for {join_words(list(remaining))}, which {_is(remaining)} starting"


def _is(names: Collection[str]) -> str:
    return "is" if len(names) == 1 else "are"


class Contention(NamedTuple):
    """Memory of other experiments that is in the way of a start."""

    text: str
    """Continues the words "waits for"."""
    is_starting: bool
    """The memory is about to be taken by a start that will come to an end; otherwise it is held."""


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
        need_text = f"GPU {device.label}: needs {gib(size)} GiB, {gib(device.free_bytes or 0)} GiB free"
        theirs = [claim for claim in device.claims if claim.experiment not in experiments]
        if text := reserved_text(theirs):
            return Contention(f"{need_text}; {text}", is_starting=True)
        held_bytes: dict[str, int] = {}
        for share in device.shares:
            if share.owner == "experiment" and share.experiment and share.used_bytes:
                held_bytes[share.experiment] = held_bytes.get(share.experiment, 0) + share.used_bytes
        if has_waited and held_bytes:
            text = f"{gib(sum(held_bytes.values()))} GiB held by {join_words(list(held_bytes))}"
            return Contention(f"{need_text}, {text}", is_starting=False)
    return None


def free_devices(
    devices: Sequence[GpuDevice], count: int, bytes_each: int
) -> tuple[tuple[GpuDevice, ...], str]:
    """The first `count` devices that no experiment uses or reserves and that have `bytes_each` free; if they
    are too few, none and the reason. Their `claims` are those of all experiments.

    `bytes_each`: 0 if unknown, which asks for devices that nobody else uses either.
    """
    reasons = {device.label: _unavailable_reason(device, bytes_each) for device in devices}
    free = tuple(device for device in devices if not reasons[device.label])
    if len(free) >= count:
        return free[:count], ""
    if len(devices) < count:
        return (), f"{count_text(count, 'GPU')} needed, {len(devices)} found"
    reasons_text = "; ".join(f"GPU {label} {reason}" for label, reason in reasons.items() if reason)
    return (), f"{count} of {len(devices)} GPUs needed, {len(free)} free: {reasons_text}"


def other_experiments(device: GpuDevice) -> tuple[str, ...]:
    """Names of the experiments besides the one of the report that use the device or are about to."""
    users = {share.experiment or "an experiment" for share in device.shares if share.owner == "experiment"}
    return tuple(sorted(users | {reservation.experiment for reservation in device.claims}))


def _unavailable_reason(device: GpuDevice, bytes_each: int) -> str:
    if device.problem or device.free_bytes is None:
        return "cannot be read"
    users = {share.experiment or "an experiment" for share in device.shares if share.owner in _RLTUIS}
    if users:
        return f"is used by {join_words(sorted(users))}"
    claimants = sorted({reservation.experiment for reservation in device.claims})
    if claimants:
        return f"is reserved for {join_words(claimants)}, which {_is(claimants)} starting"
    needed = bytes_each or round(_UNUSED_FRAC * (device.usable_bytes or 0))
    if device.free_bytes < needed:
        return f"has {gib(device.free_bytes)} of {gib(needed)} GiB free"
    return ""


_UNUSED_FRAC = 0.9
"""Share that must be free on an unused device: a desktop session, or a driver, may have the rest."""
_RLTUIS = ("component", "experiment", "orphan")
"""Owners of memory that rltui started."""
