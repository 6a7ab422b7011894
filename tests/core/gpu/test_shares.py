"""Shares of a device's memory add up, whatever was read."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.core.gpu.report import GpuDevice, GpuOwner, GpuProcess, GpuShare, MemoryKind
from rltui.core.gpu.shares import shares as shares_of_processes

GIB = 1 << 30
OWNERS = get_args(GpuOwner)[:-1]


def shares(device: GpuDevice) -> tuple[GpuShare, ...]:
    return shares_of_processes(device, device.processes)


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
    found = shares(device)
    assert all(share.used_bytes >= 0 for share in found)
    assert sorted(pid for share in found for pid in share.pids) == sorted(p.pid for p in device.processes)
    if device.used_bytes is not None and device.memory_kind != "unified":
        assert sum(share.used_bytes for share in found) == device.used_bytes
    else:
        assert all(share.owner != "hidden" for share in found)
        assert sum(share.used_bytes for share in found) == sum(p.used_bytes or 0 for p in device.processes)


@given(devices())
def test_shares_of_known_processes_are_never_larger_than_they(device: GpuDevice) -> None:
    sizes = {process.pid: process.used_bytes for process in device.processes}
    for share in shares(device):
        members = [sizes[pid] for pid in share.pids]
        known = [size for size in members if size is not None]
        if share.owner != "hidden" and len(known) == len(members):
            assert share.used_bytes <= sum(known)
            assert share.estimated or share.used_bytes == sum(known)


def device(*processes: GpuProcess, used: int | None = 80 * GIB, kind: MemoryKind = "v2") -> GpuDevice:
    return GpuDevice(index=0, used_bytes=used, memory_kind=kind, processes=processes)


def process(
    pid: int, owner: GpuOwner, gib: int | None, component: str | None = None, **more: str
) -> GpuProcess:
    used = None if gib is None else gib * GIB
    return GpuProcess.model_validate(
        {"pid": pid, "owner": owner, "used_bytes": used, "component": component, **more}
    )


def test_components_come_first_then_groups_by_size() -> None:
    found = shares(
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
        (share.owner, share.component, share.user, share.pids, share.used_bytes // GIB) for share in found
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
    assert not any(share.estimated for share in found)


def test_nothing_is_hidden_where_all_is_accounted_for() -> None:
    assert [share.owner for share in shares(device(process(1, "mine", 80)))] == ["mine"]
    assert shares(device(used=0)) == ()
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
    found = shares(device(process(1, "component", None, "trainer"), second))
    assert [(share.used_bytes, share.estimated) for share in found] == [
        (0, True),
        (0, True),
        (80 * GIB, False),
    ]
    assert found[-1].owner == "hidden"


def test_the_rest_is_hidden_beside_a_stranger_of_unknown_size() -> None:
    stranger, hidden = shares(device(process(1, "other", None)))
    assert (stranger.used_bytes, hidden.used_bytes) == (0, 80 * GIB)


def test_processes_read_later_than_the_total_are_scaled() -> None:
    first, second = shares(device(process(1, "mine", 30), process(2, "other", 60), used=45 * GIB))
    assert (first.used_bytes, second.used_bytes) == (15 * GIB, 30 * GIB)
    assert first.estimated
    assert second.estimated


@pytest.mark.parametrize("kind", ["v2", "unified"])
def test_without_a_total_processes_stand_for_themselves(kind: MemoryKind) -> None:
    used = 100 * GIB if kind == "unified" else None
    found = shares(device(process(1, "mine", 3), process(2, "other", None), used=used, kind=kind))
    assert [(share.owner, share.used_bytes) for share in found] == [("mine", 3 * GIB), ("other", 0)]
