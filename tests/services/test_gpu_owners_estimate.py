"""Owners of GPU memory where the driver's pids say nothing, as in containers."""

from __future__ import annotations

import os

from tests.services.gpu_reports import GIB, NOW, component, device, holds, report, shares
from tests.services.programs import Start, start

from rltui.core.gpu.report import GpuDevice
from rltui.services.gpu.accounting import GpuOwners, LivingComponent

__all__ = ["start"]  # a fixture, used by name

NOBODY = 2**22 + 1
"""A pid of the host, which no process here has."""


def watcher(*, pids_are_real: bool = False) -> GpuOwners:
    return GpuOwners("mine", pids_are_real=pids_are_real, clock=lambda: NOW)


def look(owners: GpuOwners, used_gib: int, *living: LivingComponent) -> GpuDevice:
    """At one device, with a pid of the host."""
    return owners.attributed(report(device(holds(NOBODY, 20), used_gib=used_gib)), living, []).devices[0]


def test_components_hold_what_came_with_them(start: Start) -> None:
    engine = component(
        "inference", start("sleep", "1000").pid, started_at=NOW + 5, utilization=0.5, attempt=2
    )
    trainer = component("trainer", start("sleep", "1001").pid, started_at=NOW + 9, is_starting=True)
    owners = watcher()
    before = look(owners, 3)
    assert [process.owner for process in before.processes] == ["unknown"]
    look(owners, 43, engine)
    found = look(owners, 55, engine, trainer)
    assert [(process.pid, process.used_bytes) for process in found.processes] == [
        (engine.root_pids[0], 40 * GIB),
        (trainer.root_pids[0], 12 * GIB),
    ]
    first = found.processes[0]
    assert (first.owner, first.experiment, first.component, first.attempt) == (
        "component",
        "mine",
        "inference",
        2,
    )
    assert (first.command, first.estimated) == ("sleep 1000", True)
    assert shares(found) == [
        ("component", "inference", 40, True),
        ("component", "trainer", 12, True),
        ("hidden", None, 3, False),
    ]


def test_components_from_before_are_seeded(start: Start) -> None:
    engine = component("inference", start("sleep", "1000").pid, started_at=NOW - 50, utilization=0.5)
    trainer = component("trainer", start("sleep", "1001").pid, started_at=NOW - 50)
    assert shares(look(watcher(), 60, engine, trainer)) == [
        ("component", "inference", 40, True),
        ("component", "trainer", 20, True),
    ]


def test_pids_that_turn_out_to_be_real_are_used(start: Start) -> None:
    process = start("sleep", "1000")
    given = report(device(holds(process.pid, 30), holds(NOBODY, 5)))
    [found] = watcher().attributed(given, [component("trainer", process.pid)], []).devices
    assert [(one.pid, one.owner, one.estimated) for one in found.processes] == [
        (process.pid, "component", False),
        (NOBODY, "unknown", False),
    ]


def test_devices_that_were_given_to_nobody_keep_what_is_listed(start: Start) -> None:
    """Also a pid that means somebody else here."""
    process = start("sleep", "1000")
    stranger = start("sleep", "1001")
    given = report(device(used_gib=10), device(holds(stranger.pid, 5), index=1, used_gib=10))
    trainer = component("trainer", process.pid, gpus="0")
    first, second = watcher().attributed(given, [trainer], []).devices
    assert [one.component for one in first.processes] == ["trainer"]
    assert second.processes == (holds(stranger.pid, 5),)
    assert shares(second) == [("unknown", None, 5, False), ("hidden", None, 5, False)]


def test_a_component_without_processes_or_devices_holds_nothing(start: Start) -> None:
    not_yet = component("trainer")
    cpu_only = component("orchestrator", start("sleep", "1000").pid, gpus="")
    found = look(watcher(), 60, not_yet, cpu_only)
    assert found.processes == (holds(NOBODY, 20),)


def test_sizes_that_are_not_told_are_estimated_where_two_could_have_them(start: Start) -> None:
    first, second, third = (start("sleep", "1000").pid for _ in range(3))
    engine = component("inference", first, started_at=NOW + 5)
    trainer = component("trainer", second, third, started_at=NOW + 9)
    owners = watcher(pids_are_real=True)
    listed = [holds(first, None), holds(second, None), holds(third, None)]
    for used_gib, living, processes in ((3, [], []), (43, [engine], listed[:1])):
        owners.attributed(report(device(*processes, used_gib=used_gib)), living, [])
    [found] = owners.attributed(report(device(*listed, used_gib=55)), [engine, trainer], []).devices
    assert [(one.pid, one.used_bytes, one.estimated) for one in found.processes] == [
        (first, 40 * GIB, True),
        (second, 12 * GIB, True),
        (third, 0, True),
    ]
    assert shares(found)[-1] == ("hidden", None, 3, False)


def test_one_unknown_component_has_the_rest(start: Start) -> None:
    process = start("sleep", "1000")
    given = report(device(holds(process.pid, None), holds(os.getpid(), 5)))
    [found] = watcher(pids_are_real=True).attributed(given, [component("trainer", process.pid)], []).devices
    assert found.processes[0].used_bytes is None
    assert shares(found) == [("component", "trainer", 35, True), ("mine", None, 5, False)]


def test_device_without_figures_is_no_news(start: Start) -> None:
    trainer = component("trainer", start("sleep", "1000").pid)
    owners = watcher()
    look(owners, 3)
    look(owners, 10, trainer)
    lost = report(device(used_gib=None))
    [found] = owners.attributed(lost, [trainer], []).devices
    assert [(one.component, one.used_bytes) for one in found.processes] == [("trainer", None)]
    assert shares(look(owners, 11, trainer))[0] == ("component", "trainer", 8, True)
