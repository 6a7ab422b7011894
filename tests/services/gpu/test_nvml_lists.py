"""Which processes hold memory, and when they are asked for. The real `pynvml` on the C double."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.nvml.readings import GIB, MIB, Reports, Steps, readings

from rltui.core.gpu.account import scaled_to
from rltui.core.gpu.report import GpuReport
from rltui.services.gpu.account import GpuOwners
from rltui.services.gpu.nvml.device import Identity, Partition
from rltui.services.gpu.nvml.handle import NvmlHandle
from rltui.services.gpu.nvml.values import PID_LIMIT, Entry, listed_bytes, merge_entries


def holding(*, used: int, held: int, pid: int = 42) -> str:
    """A card with one process."""
    return f"count 1\n0.used {used}\n0.compute {pid} {held}\n"


WRITTEN = {
    "mps": f"count 1\n0.used {GIB}\n0.mps 41 1024\n0.compute 40 1024\n0.compute 41 1024\n",
    "holds": holding(used=GIB, held=GIB),
    "holds_less": holding(used=GIB - MIB, held=GIB - MIB),
    "another_holds": holding(used=GIB, held=GIB, pid=43),
    "another_holds_more": holding(used=GIB + 32 * MIB, held=GIB, pid=43),
    "listed_twice": holding(used=GIB, held=GIB) + f"0.compute 43 {GIB}\n",
    "lists_fail": holding(used=2 * GIB, held=GIB) + "0.compute_err 10\n",
    "unknown_yet": f"count 1\n0.used {GIB}\n0.compute 42 na\n",
}
SEQUENCES: dict[str, Steps] = {
    "lists_age": [("holds", 0), ("another_holds", 2.9), ("another_holds", 3)],
    "memory_changes": [("holds", 0), ("another_holds_more", 1)],
    "memory_shrinks": [("holds", 0), ("holds_less", 1)],
    "lists_fail_once": [("holds", 0), ("lists_fail", 1)],
    "becomes_known": [("unknown_yet", 0), ("holds", 1)],
    "stays_unknown": [("unknown_yet", 0), ("unknown_yet", 1), ("holds", 2), ("holds", 4)],
}


pytestmark = pytest.mark.xdist_group("readings of NVML")


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    return readings(tmp_path_factory.mktemp("scenarios"), written=WRITTEN, sequences=SEQUENCES)


def held(report: GpuReport, device: int = 0) -> list[tuple[int, int | None]]:
    """Pid and memory of each process."""
    return [(process.pid, process.used_bytes) for process in report.devices[device].processes]


def test_process_that_computes_and_draws_counts_once(reports: Reports) -> None:
    assert held(reports["shared"][0]) == [(4100001, 12 * GIB), (4100002, 6174015488), (4100003, 268435456)]
    processes = reports["shared"][0].devices[0].processes
    assert [process.kind for process in processes] == ["C", "C+G", "G"]


def test_client_of_mps_is_told_from_one_that_computes_alone(reports: Reports) -> None:
    processes = reports["mps"][0].devices[0].processes
    assert [(process.pid, process.kind) for process in processes] == [(40, "C"), (41, "M+C")]


def test_unavailable_and_impossible_process_memory_is_unknown(reports: Reports) -> None:
    assert held(reports["hidden_memory"][0]) == [(4100001, None), (4100002, None)]


def test_lists_are_read_every_three_seconds(reports: Reports) -> None:
    assert [held(report) for report in reports["lists_age"]] == [[(42, GIB)], [(42, GIB)], [(43, GIB)]]


def test_lists_are_read_when_memory_has_changed(reports: Reports) -> None:
    assert [held(report) for report in reports["memory_changes"]] == [[(42, GIB)], [(43, GIB)]]


def test_lists_are_read_when_they_exceed_what_is_used(reports: Reports) -> None:
    _, after = reports["memory_shrinks"]
    assert held(after) == [(42, GIB - MIB)]
    assert not after.devices[0].processes[0].estimated


def test_lists_that_fail_once_stay_as_they_were(reports: Reports) -> None:
    _, after = reports["lists_fail_once"]
    assert (held(after), after.devices[0].used_bytes) == ([(42, GIB)], 2 * GIB)


def test_lists_that_never_fit_are_estimates(reports: Reports) -> None:
    report = GpuOwners(None, pids_are_real=True).with_owners(reports["listed_twice"][0])
    assert held(report) == [(42, GIB // 2), (43, GIB // 2)]
    assert all(process.estimated for process in report.devices[0].processes)
    assert [share.used_bytes for share in report.devices[0].shares] == [GIB]


def test_unknown_memory_of_a_process_is_asked_for_once_more(reports: Reports) -> None:
    assert [held(report) for report in reports["becomes_known"]] == [[(42, None)], [(42, GIB)]]
    unknown = [(42, None)]
    assert [held(report) for report in reports["stays_unknown"]] == [unknown, unknown, unknown, [(42, GIB)]]


def test_pids_of_another_namespace_are_passed_on(reports: Reports) -> None:
    assert held(reports["host_pids"][0]) == [(3456789, 59592671232)]


class Scripted(NvmlHandle):
    """A device with one process, whose memory and lists change between calls."""

    def __init__(self, *, used: list[int], held: list[int]) -> None:
        super().__init__(None)
        self._used = iter(used)
        self._held = iter(held)

    def call(self, name: str, *arguments: object) -> Any:
        if name == "nvmlDeviceGetMemoryInfo":
            return SimpleNamespace(total=GIB, used=next(self._used), free=0, reserved=0)
        if name == "nvmlDeviceGetComputeRunningProcesses_v3":
            return [SimpleNamespace(pid=42, usedGpuMemory=next(self._held))]
        return []


def test_process_that_shrinks_or_grows_between_the_calls() -> None:
    handle = Scripted(used=[900, 400, 400], held=[900, 300])
    memory, (process,) = Partition(handle, Identity(0)).read(0)
    assert (memory.used_bytes, process.used_bytes, process.estimated) == (400, 300, False)
    handle = Scripted(used=[100, 900], held=[900])
    memory, (process,) = Partition(handle, Identity(0)).read(0)
    assert (memory.used_bytes, process.used_bytes) == (900, 900), "it is within the later memory"


entries = st.tuples(
    st.sampled_from("CGM"),
    st.one_of(st.integers(-1, 6), st.integers(PID_LIMIT - 1, 1 << 32)),
    st.none() | st.integers(0, 2 * GIB),
)


@given(st.lists(entries), st.integers(0, GIB))
def test_processes_are_unique_and_hold_no_more_than_is_used(listed: list[Entry], used_bytes: int) -> None:
    processes = merge_entries(listed, GIB)
    pids = [process.pid for process in processes]
    assert pids == sorted({pid for _, pid, _ in listed if 0 < pid <= PID_LIMIT})
    shown = scaled_to(processes, used_bytes)
    assert listed_bytes(shown) <= used_bytes
    assert [process.pid for process in shown] == pids
    assert [process.used_bytes is None for process in shown] == [p.used_bytes is None for p in processes]
    assert (shown == processes) == (listed_bytes(processes) <= used_bytes)
