"""Reservations of GPU memory in sentences: what a start waits for, why a device cannot be had."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from rltui.base.text import count_text, gib, join_words

if TYPE_CHECKING:
    from rltui.core.gpu.report import GpuReport, GpuReservation
    from rltui.core.gpu.reservations import Contention, FreeDevices, Unavailable


def reserved_text(reservations: Collection[GpuReservation]) -> str:
    """`40.0 GiB reserved for b, which is starting`; empty if nothing remains to be taken."""
    remaining = [reservation for reservation in reservations if reservation.left_bytes]
    if not remaining:
        return ""
    size = gib(sum(reservation.left_bytes for reservation in remaining))
    names = list(dict.fromkeys(reservation.experiment for reservation in remaining))
    return f"{size} GiB reserved for {_starting_text(names)}"


def contention_text(contention: Contention) -> str:
    """`GPU 0: needs 50.0 GiB, 40.0 GiB free, 40.0 GiB held by a`, for what waits for that."""
    held_bytes = contention.held_bytes
    needed, free = gib(contention.needed_bytes), gib(contention.device.free_bytes or 0)
    needs = f"GPU {contention.device.label}: needs {needed} GiB, {free} GiB free"
    if reserved := reserved_text(contention.reserved):
        return f"{needs}; {reserved}"
    return f"{needs}, {gib(sum(held_bytes.values()))} GiB held by {join_words(list(held_bytes))}"


def shortage_text(report: GpuReport, free: FreeDevices, count: int) -> str:
    """Say why these are not the `count` devices that a start needs; empty if they are enough."""
    if not report.available:
        return f"cannot read any GPU of this machine: {report.reason}"
    looked_at = len(free.devices) + len(free.unavailable)
    if len(free.devices) >= count:
        return ""
    if looked_at < count:
        return f"{count_text(count, 'GPU')} needed, {looked_at} found"
    reasons = "; ".join(f"GPU {item.device.label} {_unavailable_text(item)}" for item in free.unavailable)
    return f"{count} of {looked_at} GPUs needed, {len(free.devices)} free: {reasons}"


def _unavailable_text(unavailable: Unavailable) -> str:
    match unavailable.reason:
        case "unreadable":
            return "cannot be read"
        case "used":
            return f"is used by {join_words(list(unavailable.experiments))}"
        case "reserved":
            return f"is reserved for {_starting_text(unavailable.experiments)}"
        case "full":
            free = gib(unavailable.device.free_bytes or 0)
            return f"has {free} of {gib(unavailable.needed_bytes)} GiB free"


def _starting_text(names: Collection[str]) -> str:
    return f"{join_words(list(names))}, which {'is' if len(names) == 1 else 'are'} starting"
