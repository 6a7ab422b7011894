from __future__ import annotations

from rltui.core.gpu.report import GpuDevice, GpuReservation, GpuShare
from rltui.core.gpu.reservations import (
    Contention,
    FreeDevices,
    Unavailable,
    contention,
    free_devices,
    other_experiments,
    pressing,
    with_claims,
)

GIB = 1 << 30


def device(index: int = 0, *, free: int = 80, bytes_by_component: dict[str, int] | None = None) -> GpuDevice:
    shares = tuple(
        GpuShare(owner="experiment", experiment=name, component="inference", used_bytes=size * GIB)
        for name, size in (bytes_by_component or {}).items()
    )
    return GpuDevice(
        index=index, uuid=f"GPU-{index}", total_bytes=80 * GIB, free_bytes=free * GIB, shares=shares
    )


def claim(experiment: str, size: int, index: int = 0, component: str = "inference") -> GpuReservation:
    return GpuReservation(
        experiment=experiment, component=component, device=f"/GPU-{index}", size_bytes=size * GIB
    )


def test_what_is_held_already_is_not_claimed_twice() -> None:
    loading = device(free=60, bytes_by_component={"a": 20})
    (pressing_claim,) = pressing(loading, [claim("a", 50), claim("a", 50, index=1)])
    assert pressing_claim.left_bytes == 30 * GIB
    (other,) = pressing(loading, [claim("a", 50, component="trainer")])
    assert other.left_bytes == 50 * GIB, "that was inference"
    (reserved,) = pressing(loading, [claim("a", 50, component="")])
    assert reserved.left_bytes == 30 * GIB
    (reserved_device,) = with_claims([loading], [claim("a", 50)])
    assert (reserved_device.claimed_bytes, reserved_device.unclaimed_bytes) == (30 * GIB, 30 * GIB)
    (taken,) = pressing(device(free=0, bytes_by_component={"a": 80}), [claim("a", 50)])
    assert taken.left_bytes == 0


def test_two_that_do_not_fit_are_in_each_others_way() -> None:
    empty, mine = device(), [claim("b", 50)]
    assert contention([empty], mine) is None
    assert contention(with_claims([empty], [claim("a", 30)]), mine) is None
    (claimed,) = with_claims([empty], [claim("a", 20), claim("c", 20)])
    assert contention([claimed], mine) == Contention(claimed, 50 * GIB, reserved=claimed.claims)
    assert contention([device(free=40)], mine) is None, "used memory is told when it is planned"
    trainer = claim("b", 40, component="trainer")
    assert contention(with_claims([empty], [trainer]), mine) is None, "its own affair"

    full_device = device(free=40, bytes_by_component={"a": 40})
    assert contention([full_device], mine) is None
    (grown,) = with_claims([full_device], [claim("a", 40)])
    held = Contention(grown, 50 * GIB, held_bytes={"a": 40 * GIB})
    assert contention([grown], mine, has_waited=True) == held, "it holds all that it had reserved"
    assert contention(with_claims([full_device], [claim("a", 90)]), [claim("b", 0)]) is None, (
        "nobody knows its size"
    )


def test_free_devices_are_those_that_nobody_uses_or_claims() -> None:
    in_use, claimed, full, free = (
        device(0, bytes_by_component={"a": 1}),
        device(1),
        device(2, free=10),
        device(3),
    )
    claimed = claimed.replace(claims=(claim("b", 0, index=1),))
    everything = [in_use, claimed, full, free]
    assert free_devices(everything, 40 * GIB) == FreeDevices(
        (free,),
        (
            Unavailable(in_use, "used", ("a",)),
            Unavailable(claimed, "reserved", ("b",)),
            Unavailable(full, "full", needed_bytes=40 * GIB),
        ),
    )
    (unused_wanted,) = free_devices([full], 0).unavailable
    assert unused_wanted == Unavailable(full, "full", needed_bytes=72 * GIB)


def test_who_else_is_on_a_device_may_have_no_name() -> None:
    in_use = device(0, bytes_by_component={"a": 1, "": 2})
    in_use = in_use.replace(claims=(claim("b", 1),))
    assert other_experiments(in_use) == ("a", "an experiment", "b")
