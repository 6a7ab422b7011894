"""Reservations of free memory on a device, where several experiments start at once. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from rltui.core.gpu.report import GpuDevice, GpuReport, GpuReservation
from rltui.core.text import count_text, gib, join_words


def with_reservations(report: GpuReport, reservations: Collection[GpuReservation]) -> GpuReport:
    """Put the part of the reservations that is still to be taken on each device of the report."""
    if not reservations:
        return report
    devices = tuple(
        device.model_copy(update={"claims": pressing(device, reservations)}) for device in report.devices
    )
    return report.model_copy(update={"devices": devices})


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


def reservation_text(reservations: Sequence[GpuReservation]) -> str:
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
    devices: Sequence[GpuDevice],
    new_reservations: Collection[GpuReservation],
    *,
    own: Collection[GpuReservation] = (),
    others: Collection[GpuReservation] = (),
    has_waited: bool = False,
) -> Contention | None:
    """The memory of others that is in the way of the new ones, on the first device with too little, if any.

    Memory that is simply used stands in nobody's way here: whoever starts against it was told.

    Args:
        devices: of a reading.
        new_reservations: of the start in question.
        own: earlier ones of the same experiment.
        others: those of other experiments.
        has_waited: the start has waited for one of them that was starting: what that holds now is waited
            for, too.
    """
    for device in devices:
        size = sum(
            reservation.size_bytes for reservation in new_reservations if reservation.device == device.key
        )
        if not size or device.free_bytes is None:
            continue
        theirs = pressing(device, others)
        remaining_bytes = sum(reservation.left_bytes for reservation in (*theirs, *pressing(device, own)))
        if size <= device.free_bytes - remaining_bytes:
            continue
        need = f"GPU {device.label}: needs {gib(size)} GiB, {gib(device.free_bytes)} GiB free"
        if text := reservation_text(theirs):
            return Contention(f"{need}; {text}", is_starting=True)
        held_bytes = _held_by_others(device)
        if has_waited and held_bytes:
            text = f"{need}, {gib(sum(held_bytes.values()))} GiB held by {join_words(list(held_bytes))}"
            return Contention(text, is_starting=False)
    return None


def _held_by_others(device: GpuDevice) -> Mapping[str, int]:
    bytes_by_experiment: dict[str, int] = {}
    for share in device.shares:
        if share.owner == "experiment" and share.experiment and share.used_bytes:
            bytes_by_experiment[share.experiment] = (
                bytes_by_experiment.get(share.experiment, 0) + share.used_bytes
            )
    return bytes_by_experiment


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
