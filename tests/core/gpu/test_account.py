"""Shares of a device's memory add up, whatever was read."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.core.gpu.account import (
    RELEASE_UPDATES,
    ChangeEstimate,
    MemoryOwner,
    attributable_bytes,
    scaled_to,
)
from rltui.core.gpu.account import shares as shares_of_processes
from rltui.core.gpu.report import GpuDevice, GpuOwner, GpuProcess, GpuShare, MemoryKind

GIB = 1 << 30
OWNERS = get_args(GpuOwner)[:-1]


def shares(device: GpuDevice) -> tuple[GpuShare, ...]:
    return shares_of_processes(device, scaled_to(device.processes, attributable_bytes(device)))


sizes = st.none() | st.integers(0, 200 * GIB)
names = st.none() | st.sampled_from(["inference", "trainer"])


@st.composite
def devices(draw: st.DrawFn) -> GpuDevice:
    pids = draw(st.lists(st.integers(1, 1 << 22), unique=True, max_size=8))
    processes = tuple(
        GpuProcess(
            pid=pid,
            used_bytes=draw(sizes),
            owner=draw(st.sampled_from(OWNERS)),
            component=draw(names),
            user=draw(st.sampled_from(["ann", "bob"])),
            estimated=draw(st.booleans()),
        )
        for pid in pids
    )
    kind: MemoryKind = draw(st.sampled_from(get_args(MemoryKind)))
    return GpuDevice(index=0, memory_kind=kind, used_bytes=draw(sizes), processes=processes)


@given(devices())
def test_shares_are_whole_and_complete(device: GpuDevice) -> None:
    result = shares(device)
    assert all(share.used_bytes >= 0 for share in result)
    assert sorted(pid for share in result for pid in share.pids) == sorted(p.pid for p in device.processes)
    if device.used_bytes is not None and device.memory_kind != "unified":
        assert sum(share.used_bytes for share in result) == device.used_bytes
    else:
        assert all(share.owner != "hidden" for share in result)
        assert sum(share.used_bytes for share in result) == sum(p.used_bytes or 0 for p in device.processes)


@given(devices())
def test_shares_of_known_processes_are_never_larger_than_they(device: GpuDevice) -> None:
    sizes = {process.pid: process.used_bytes for process in device.processes}
    for share in shares(device):
        members = [sizes[pid] for pid in share.pids]
        sizes_known = [size for size in members if size is not None]
        if share.owner != "hidden" and len(sizes_known) == len(members):
            assert share.used_bytes <= sum(sizes_known)
            assert share.estimated or share.used_bytes == sum(sizes_known)


def device(*processes: GpuProcess, used_bytes: int | None = 80 * GIB, kind: MemoryKind = "v2") -> GpuDevice:
    return GpuDevice(index=0, used_bytes=used_bytes, memory_kind=kind, processes=processes)


def process(
    pid: int, owner: GpuOwner, gib: int | None, component: str | None = None, **more: str
) -> GpuProcess:
    used_bytes = None if gib is None else gib * GIB
    return GpuProcess.from_plain(
        {"pid": pid, "owner": owner, "used_bytes": used_bytes, "component": component, **more}
    )


def test_components_come_first_then_groups_by_size() -> None:
    result = shares(
        device(
            process(1, "other", 5, user="ann"),
            process(2, "other", 9, user="bob"),
            process(3, "mine", 1, user="me"),
            process(4, "orphan", 2, "inference", experiment="a"),
            process(5, "component", 3, "trainer", experiment="a"),
            process(6, "component", 30, "inference", experiment="a"),
            process(7, "component", 10, "inference", experiment="a"),
            process(8, "experiment", 4, "trainer", experiment="b"),
        )
    )
    assert [
        (share.owner, share.component, share.user, share.pids, share.used_bytes // GIB) for share in result
    ] == [
        ("component", "inference", None, (6, 7), 40),
        ("component", "trainer", None, (5,), 3),
        ("orphan", "inference", None, (4,), 2),
        ("experiment", "trainer", None, (8,), 4),
        ("mine", None, "me", (3,), 1),
        ("other", None, "bob", (2,), 9),
        ("other", None, "ann", (1,), 5),
        ("hidden", None, None, (), 16),
    ]
    assert not any(share.estimated for share in result)


def test_nothing_is_hidden_where_all_is_accounted_for() -> None:
    assert [share.owner for share in shares(device(process(1, "mine", 80)))] == ["mine"]
    assert shares(device(used_bytes=0)) == ()
    [hidden] = shares(device())
    assert (hidden.owner, hidden.used_bytes, hidden.estimated) == ("hidden", 80 * GIB, False)


def test_the_rest_is_the_component_of_unknown_size() -> None:
    inference, trainer = shares(
        device(process(1, "component", None, "trainer"), process(2, "component", 60, "inference"))
    )
    assert (inference.component, inference.used_bytes, inference.estimated) == ("inference", 60 * GIB, False)
    assert (trainer.component, trainer.used_bytes, trainer.estimated) == ("trainer", 20 * GIB, True)


@pytest.mark.parametrize("second", [process(2, "component", None, "inference"), process(2, "other", None)])
def test_the_rest_is_hidden_where_it_could_be_two_parties(second: GpuProcess) -> None:
    result = shares(device(process(1, "component", None, "trainer"), second))
    assert [(share.used_bytes, share.estimated) for share in result] == [
        (0, True),
        (0, True),
        (80 * GIB, False),
    ]
    assert result[-1].owner == "hidden"


def test_the_rest_is_hidden_beside_a_stranger_of_unknown_size() -> None:
    stranger, hidden = shares(device(process(1, "other", None)))
    assert (stranger.used_bytes, hidden.used_bytes) == (0, 80 * GIB)


def test_processes_read_later_than_the_total_are_scaled() -> None:
    first, second = shares(device(process(1, "mine", 30), process(2, "other", 60), used_bytes=45 * GIB))
    assert (first.used_bytes, second.used_bytes) == (15 * GIB, 30 * GIB)
    assert first.estimated
    assert second.estimated


@pytest.mark.parametrize("kind", ["v2", "unified"])
def test_without_a_total_processes_stand_for_themselves(kind: MemoryKind) -> None:
    used_bytes = 100 * GIB if kind == "unified" else None
    result = shares(
        device(process(1, "mine", 3), process(2, "other", None), used_bytes=used_bytes, kind=kind)
    )
    assert [(share.owner, share.used_bytes) for share in result] == [("mine", 3 * GIB), ("other", 0)]


TOTAL = 80
BEGIN = 1000.0
ENGINE = MemoryOwner("inference", 1, started_at=BEGIN + 10, utilization=0.5)
TRAINER = MemoryOwner("trainer", 1, started_at=BEGIN + 20)

tenants = st.builds(
    MemoryOwner,
    st.sampled_from(["inference", "trainer", "judge"]),
    st.integers(1, 3),
    is_starting=st.booleans(),
    started_at=st.none() | st.floats(BEGIN - 100, BEGIN + 100),
    utilization=st.none() | st.floats(0, 1),
)
living = st.lists(tenants, max_size=3, unique_by=lambda tenant: tenant.component)
updates = st.lists(st.tuples(st.integers(0, TOTAL), living), max_size=40)


def watch(*steps: tuple[int, list[MemoryOwner]], estimate: ChangeEstimate | None = None) -> dict[str, int]:
    """What is estimated after the last step."""
    watched = estimate or ChangeEstimate(since=BEGIN)
    estimates: dict[str, int] = {}
    for used_bytes, present in steps:
        estimates = watched.update(used_bytes, present, usable_bytes=TOTAL)
    return estimates


@given(updates)
def test_estimates_are_possible(steps: list[tuple[int, list[MemoryOwner]]]) -> None:
    estimate = ChangeEstimate(since=BEGIN)
    for used_bytes, present in steps:
        estimates = watch((used_bytes, present), estimate=estimate)
        assert set(estimates) == {tenant.component for tenant in present}
        assert all(size >= 0 for size in estimates.values())
        assert sum(estimates.values()) <= used_bytes


@given(st.integers(0, 30), st.lists(st.integers(0, TOTAL), min_size=1))
def test_one_tenant_has_what_was_not_there_before_it(before: int, readings: list[int]) -> None:
    """As long as the rest of the device stays as it is."""
    estimates = watch((before, []), *[(before + reading, [TRAINER]) for reading in readings])
    assert estimates == {"trainer": readings[-1]}


def test_growth_is_the_youngest_tenants() -> None:
    assert watch((5, []), (6, [ENGINE]), (45, [ENGINE]), (57, [ENGINE, TRAINER])) == {
        "inference": 40,
        "trainer": 12,
    }


def test_growth_is_the_starting_tenants_before_a_younger_ready_one() -> None:
    starting = MemoryOwner("inference", 1, is_starting=True, started_at=BEGIN + 10)
    assert watch((0, []), (10, [starting, TRAINER])) == {"inference": 10, "trainer": 0}


def test_of_equal_age_the_last_one_grows() -> None:
    first, second = MemoryOwner("a", 1), MemoryOwner("b", 1)
    assert watch((0, []), (10, [first, second])) == {"a": 0, "b": 10}


def test_fall_is_the_ended_tenants_also_some_updates_later() -> None:
    steps = [(5, []), (45, [ENGINE]), (60, [ENGINE, TRAINER])]
    assert watch(*steps, (60, [TRAINER]), (59, [TRAINER]), (20, [TRAINER])) == {"trainer": 15}
    assert watch(*steps, (18, [TRAINER])) == {"trainer": 13}


def test_fall_is_the_youngest_tenants_as_far_as_it_has_something() -> None:
    steps = [(5, []), (45, [ENGINE]), (60, [ENGINE, TRAINER])]
    assert watch(*steps, (50, [ENGINE, TRAINER])) == {"inference": 40, "trainer": 5}
    assert watch(*steps, (40, [ENGINE, TRAINER])) == {"inference": 35, "trainer": 0}
    assert watch(*steps, (2, [ENGINE, TRAINER])) == {"inference": 0, "trainer": 0}


def test_memory_that_an_ended_tenant_keeps_is_nobodys_in_the_end() -> None:
    steps = [(5, []), (45, [ENGINE]), (60, [ENGINE, TRAINER])]
    waiting = [(60, [TRAINER])] * RELEASE_UPDATES
    assert watch(*steps, *waiting, (50, [TRAINER])) == {"trainer": 15}
    assert watch(*steps, *waiting, (60, [TRAINER]), (50, [TRAINER])) == {"trainer": 5}


def test_successor_starts_with_nothing_while_the_ended_gives_back() -> None:
    again = MemoryOwner("inference", 2, is_starting=True, started_at=BEGIN + 60)
    steps = [(5, []), (45, [ENGINE]), (45, [])]
    assert watch(*steps, (46, [again])) == {"inference": 1}
    assert watch(*steps, (46, [again]), (6, [again]), (30, [again])) == {"inference": 25}


def test_restart_between_two_updates_hands_over() -> None:
    again = MemoryOwner("inference", 2, is_starting=True, started_at=BEGIN + 60)
    assert watch((5, []), (45, [ENGINE]), (45, [again])) == {"inference": 40}
    assert watch((5, []), (45, [ENGINE]), (25, [again])) == {"inference": 20}


def test_adopted_engine_holds_its_share_and_others_the_rest() -> None:
    engine = MemoryOwner("inference", 1, started_at=BEGIN - 10, utilization=0.5)
    trainer, judge = (
        MemoryOwner("trainer", 1, started_at=BEGIN - 5),
        MemoryOwner("judge", 1, started_at=BEGIN - 5),
    )
    assert watch((70, [engine, trainer])) == {"inference": 40, "trainer": 30}
    assert watch((70, [engine, trainer, judge])) == {"inference": 40, "trainer": 15, "judge": 15}
    assert watch((30, [engine, trainer])) == {"inference": 30, "trainer": 0}
    assert watch((70, [engine])) == {"inference": 40}
    assert watch((70, [engine]), (72, [engine])) == {"inference": 42}


def test_tenant_adopted_after_the_first_update_gets_nobodys_memory() -> None:
    engine = MemoryOwner("inference", 1, started_at=BEGIN - 10, utilization=0.5)
    assert watch((70, []), (71, [engine])) == {"inference": 41}


def test_tenant_started_under_the_watch_gets_nothing_that_was_there() -> None:
    assert watch((50, [TRAINER])) == {"trainer": 0}
    assert watch((50, [MemoryOwner("trainer", 1)])) == {"trainer": 0}
