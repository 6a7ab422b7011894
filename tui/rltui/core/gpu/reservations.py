"""Who may count on the free memory of a device, where several experiments start at once. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from rltui.core.gpu.report import GpuDevice, GpuReport, GpuReservation
from rltui.core.text import gib, listed


def with_reservations(report: GpuReport, claims: Collection[GpuReservation]) -> GpuReport:
    """`report` with what is left of these on each of its devices."""
    if not claims:
        return report
    devices = tuple(
        device.model_copy(update={"claims": pressing(device, claims)}) for device in report.devices
    )
    return report.model_copy(update={"devices": devices})


def pressing(device: GpuDevice, claims: Iterable[GpuReservation]) -> tuple[GpuReservation, ...]:
    """Those on the device, with `left_bytes`: what their components hold already is in the reading."""
    return tuple(
        claim.model_copy(update={"left_bytes": max(0, claim.size_bytes - held_bytes(device, claim))})
        for claim in claims
        if claim.device == device.key
    )


def held_bytes(device: GpuDevice, claim: GpuReservation) -> int:
    return sum(
        share.used_bytes
        for share in device.shares
        if share.owner in ("component", "experiment")
        and share.experiment == claim.experiment
        and claim.component in ("", share.component)
    )


def reservation_text(claims: Sequence[GpuReservation]) -> str:
    """`40.0 GiB are claimed by b, which is starting`; empty where nothing is left to take."""
    left = {claim.experiment: 0 for claim in claims if claim.left_bytes}
    for claim in claims:
        if claim.left_bytes:
            left[claim.experiment] += claim.left_bytes
    if not left:
        return ""
    size = gib(sum(left.values()))
    return f"{size} GiB are claimed by {listed(list(left))}, which {_is(left)} starting"


def _is(names: Collection[str]) -> str:
    return "is" if len(names) == 1 else "are"


class Contention(NamedTuple):
    """What of other experiments is in the way of a start."""

    text: str
    """Behind "waits for"."""
    is_starting: bool
    """It is about to be taken, by one whose start will come to an end; else it is held."""


def contention(
    devices: Sequence[GpuDevice],
    wanted: Collection[GpuReservation],
    *,
    own: Collection[GpuReservation] = (),
    others: Collection[GpuReservation] = (),
    has_waited: bool = False,
) -> Contention | None:
    """What of others is in the way of who wants these, on the first device where that is so; `None`: nothing.

    Memory that is simply used stands in nobody's way here, since who starts against it was told.

    Args:
        devices: of a reading.
        wanted: new claims.
        own: earlier ones of the same experiment.
        others: those of other experiments.
        has_waited: for one of them, when it was starting: it is waited for while it holds what it took, too.
    """
    for device in devices:
        size = sum(claim.size_bytes for claim in wanted if claim.device == device.key)
        if not size or device.free_bytes is None:
            continue
        theirs = pressing(device, others)
        left = sum(claim.left_bytes for claim in (*theirs, *pressing(device, own)))
        if size <= device.free_bytes - left:
            continue
        need = f"GPU {device.label}: needs {gib(size)} GiB, {gib(device.free_bytes)} GiB free"
        if words := reservation_text(theirs):
            return Contention(f"{need}, of which {words}", is_starting=True)
        held = _held_by_others(device)
        if has_waited and held:
            text = f"{need}, {gib(sum(held.values()))} GiB held by {listed(list(held))}"
            return Contention(text, is_starting=False)
    return None


def _held_by_others(device: GpuDevice) -> Mapping[str, int]:
    held: dict[str, int] = {}
    for share in device.shares:
        if share.owner == "experiment" and share.experiment and share.used_bytes:
            held[share.experiment] = held.get(share.experiment, 0) + share.used_bytes
    return held


def free_devices(
    devices: Sequence[GpuDevice], count: int, bytes_each: int
) -> tuple[tuple[GpuDevice, ...], str]:
    """The first `count` devices that no experiment uses or claims and that have `bytes_each` free; none, and
    why, where there are not so many. Their `claims` are those of all experiments.

    `bytes_each`: 0 where that is not known, which asks for devices that nobody else uses either.
    """
    reasons = {device.label: _why_taken(device, bytes_each) for device in devices}
    found = tuple(device for device in devices if not reasons[device.label])
    if len(found) >= count:
        return found[:count], ""
    if len(devices) < count:
        number = {0: "is none", 1: "is 1"}.get(len(devices), f"are {len(devices)}")
        return (), f"{count} {'GPU is' if count == 1 else 'GPUs are'} needed, there {number}"
    why = "; ".join(f"GPU {label} {reason}" for label, reason in reasons.items() if reason)
    return (), f"{count} of {len(devices)} GPUs needed, {len(found)} free: {why}"


def other_experiments(device: GpuDevice) -> tuple[str, ...]:
    """Names of the experiments besides the one of the report that use the device or are about to."""
    users = {share.experiment or "an experiment" for share in device.shares if share.owner == "experiment"}
    return tuple(sorted(users | {claim.experiment for claim in device.claims}))


def _why_taken(device: GpuDevice, bytes_each: int) -> str:
    if device.problem or device.free_bytes is None:
        return "cannot be read"
    users = {share.experiment or "an experiment" for share in device.shares if share.owner in _RLTUIS}
    if users:
        return f"is used by {listed(sorted(users))}"
    claimants = sorted({claim.experiment for claim in device.claims})
    if claimants:
        return f"is claimed by {listed(claimants)}, which {_is(claimants)} starting"
    needed = bytes_each or round(_UNUSED_FRAC * (device.usable_bytes or 0))
    if device.free_bytes < needed:
        return f"has {gib(device.free_bytes)} of {gib(needed)} GiB free"
    return ""


_UNUSED_FRAC = 0.9
"""Of a device that is free: a desktop session, or a driver, may have the rest."""
_RLTUIS = ("component", "experiment", "orphan")
"""Owners of memory that rltui started."""
