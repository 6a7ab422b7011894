"""What a start waits for on a GPU, and why one cannot be had, in sentences."""

from __future__ import annotations

from rltui.core.gpu.report import GpuDevice, GpuReport, GpuReservation
from rltui.core.gpu.reservations import Contention, FreeDevices, Unavailable
from rltui.views.gpu.reservations import contention_text, reserved_text, shortage_text

GIB = 1 << 30
GPUS = [
    GpuDevice(index=index, uuid=f"GPU-{index}", total_bytes=80 * GIB, free_bytes=80 * GIB)
    for index in range(5)
]


def reservation(experiment: str, left: int) -> GpuReservation:
    return GpuReservation(experiment=experiment, device="/GPU-0", size_bytes=50 * GIB, left_bytes=left * GIB)


def test_reserved_memory_is_added_up_and_says_who_starts() -> None:
    assert reserved_text([reservation("a", 20), reservation("b", 0), reservation("a", 5)]) == (
        "25.0 GiB reserved for a, which is starting"
    )
    assert reserved_text([reservation("a", 0)]) == "", "all is taken"


def test_who_waits_reads_for_whom() -> None:
    claims = (reservation("a", 20), reservation("c", 20))
    assert contention_text(Contention(GPUS[0], 50 * GIB, reserved=claims)) == (
        "GPU 0: needs 50.0 GiB, 80.0 GiB free; 40.0 GiB reserved for a and c, which are starting"
    )
    assert contention_text(Contention(GPUS[0], 50 * GIB, held_bytes={"a": 40 * GIB})) == (
        "GPU 0: needs 50.0 GiB, 80.0 GiB free, 40.0 GiB held by a"
    )


def test_a_shortage_names_each_device_that_cannot_be_had() -> None:
    in_use, claimed, full, unread, free = GPUS
    full = full.replace(free_bytes=10 * GIB)
    looked_at = FreeDevices(
        (free,),
        (
            Unavailable(in_use, "used", ("a",)),
            Unavailable(claimed, "reserved", ("b",)),
            Unavailable(full, "full", needed_bytes=40 * GIB),
            Unavailable(unread, "unreadable"),
        ),
    )
    report = GpuReport(available=True)
    assert shortage_text(report, looked_at, 1) == ""
    assert shortage_text(report, looked_at, 2) == (
        "2 of 5 GPUs needed, 1 free: GPU 0 is used by a; GPU 1 is reserved for b, which is starting; GPU 2"
        " has 10.0 of 40.0 GiB free; GPU 3 cannot be read"
    )
    assert shortage_text(report, looked_at, 6) == "6 GPUs needed, 5 found"
    unavailable = GpuReport(available=False, reason="no")
    assert shortage_text(unavailable, FreeDevices((), ()), 1) == "cannot read any GPU of this machine: no"
