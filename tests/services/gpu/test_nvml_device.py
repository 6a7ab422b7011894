"""Each figure of a device, with the real `pynvml` on the C double."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.nvml import double
from tests.fakes.nvml.readings import GIB, Reports, Steps, readings

from rltui.services.gpu.nvml.handle import NO_SLICES, device_problem

MIG = (double.SCENARIOS / "mig.conf").read_text()
WRITTEN = {
    "hidden_card": "count 2\n1.memory_v2_err 4\n",
    "busy_fields": "count 1\n0.power_err 19\n0.util_err 999\n0.util 250\n0.temp 41\n",
    "zero_total": "count 1\n0.total 0\n",
    "over_100_percent": "count 1\n0.util 250 250\n",
    "old_reasons": "count 1\n*.event_reasons_err 13\n0.throttle 0x20\n",
    "undivided": "count 1\n0.mig 1\n",
    "mig_moved": MIG.replace("0.4.", "0.3.").replace("0.0.compute 4100001", "0.0.compute 4100009"),
    "mig_gone": MIG + "0.all_err 15\n",
    "mig_slice_removed": "\n".join(line for line in MIG.splitlines() if not line.startswith("0.1.")),
    "mig_slice_denied": MIG + "0.1.memory_err 4\n",
    "no_limit": "count 1\n",
    "limit": "count 1\n0.power_limit 300000\n",
    "revoked": "count 1\ncount_err 999\n",
}
SEQUENCES: dict[str, Steps] = {
    "slice_removed": [("mig", 0), ("mig_slice_removed", 4.9), ("mig_slice_removed", 5)],
    "slice_moved": [("mig", 0), ("mig", 4), ("mig_moved", 5), ("mig_moved", 7)],
    "divided_card_lost": [("mig", 0), ("mig_gone", 1)],
    "remembers_refusal": [("no_limit", 0), ("limit", 5), ("revoked", 6), ("limit", 7)],
    "slow_figures": [("two", 0), ("throttled", 4.9), ("throttled", 5)],
}


pytestmark = pytest.mark.xdist_group("readings of NVML")


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    return readings(tmp_path_factory.mktemp("scenarios"), written=WRITTEN, sequences=SEQUENCES)


def test_shared_card_is_read_in_full(reports: Reports) -> None:
    [report] = reports["shared"]
    [device] = report.devices
    assert (report.available, report.reason, report.driver) == (True, None, "570.124.06")
    assert report.sampled_at is not None
    assert device.uuid == "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
    assert device.name == "NVIDIA GeForce RTX 4090"
    assert device.total_bytes == 24 * GIB
    assert (device.reserved_bytes, device.used_bytes) == (466616320, 19327352832)
    assert device.free_bytes == 24 * GIB - 466616320 - 19327352832
    assert device.memory_kind == "v2"
    assert (device.utilization, device.memory_utilization) == (0.73, 0.31)
    assert (device.power_w, device.power_limit_w, device.temperature_c) == (311.25, 450, 64)
    assert (device.sm_clock_mhz, device.max_sm_clock_mhz, device.memory_clock_mhz) == (2520, 3105, 10501)
    assert (device.pcie_generation, device.pcie_width) == (4, 16)
    assert (device.throttle, device.ecc_errors, device.nvlinks) == ((), None, None)
    assert (device.mig, device.problem) == (None, None)


def test_card_that_is_too_hot_and_has_errors(reports: Reports) -> None:
    hot, well = reports["throttled"][0].devices
    assert (hot.throttle, hot.ecc_errors) == (("thermal slowdown", "hardware thermal slowdown"), 12)
    assert (well.throttle, well.ecc_errors) == ((), 0)
    assert reports["old_reasons"][0].devices[0].throttle == ("thermal slowdown",)
    assert [device.nvlinks for device in reports["two"][0].devices] == [12, 12], "the active ones"


def test_slices_are_rows_of_their_own(reports: Reports) -> None:
    *slices, whole = reports["mig"][0].devices
    assert [device.label for device in slices] == ["0.0", "0.1", "0.4"]
    assert [device.uuid[:8] for device in slices] == ["MIG-c6d4", "MIG-2b6c", "MIG-8f21"]
    assert [device.name[-8:] for device in slices] == [" 3g.20gb", "G 1g.5gb", "G 1g.5gb"]
    assert [(device.memory_kind, device.total_bytes) for device in slices] == [
        ("v1", 20937965568),
        ("v1", 5100273664),
        ("v1", 5100273664),
    ]
    assert [device.used_bytes for device in slices] == [18253611008, 3221225472, 13631488]
    assert [[(process.pid, process.used_bytes) for process in device.processes] for device in slices] == [
        [(4100001, 18119393280)],
        [(4100002, None)],
        [],
    ]
    assert {(device.power_w, device.temperature_c, device.sm_clock_mhz) for device in slices} == {
        (143, 47, 1095)
    }
    assert {(device.utilization, device.problem) for device in slices} == {(None, None)}
    assert (whole.label, whole.power_w, whole.memory_kind) == ("1", 61, "v2")


def test_slice_that_was_removed_leaves_within_five_seconds(reports: Reports) -> None:
    before, shortly_after, after = reports["slice_removed"]
    assert [device.label for device in before.devices] == ["0.0", "0.1", "0.4", "1"]
    assert [device.label for device in shortly_after.devices] == ["0.0", "0.1", "0.4", "1"]
    assert [device.label for device in after.devices] == ["0.0", "0.4", "1"]
    assert after.devices[1] == before.devices[2]


def test_slice_that_is_listed_again_is_the_same(reports: Reports) -> None:
    _, before, moved, later = reports["slice_moved"]
    assert [device.label for device in moved.devices] == ["0.0", "0.1", "0.3", "1"]
    assert moved.devices[2].uuid == before.devices[2].uuid
    pids = [report.devices[0].processes[0].pid for report in (before, moved, later)]
    assert pids == [4100001, 4100001, 4100009], "its processes need not be asked for again"


def test_slice_in_trouble_does_not_hide_the_others(reports: Reports) -> None:
    problems = [device.problem for device in reports["mig_slice_denied"][0].devices]
    assert problems == [None, device_problem(4), None, None]


def test_lost_card_takes_its_slices_along(reports: Reports) -> None:
    before, after = reports["divided_card_lost"]
    assert [device.uuid for device in after.devices] == [device.uuid for device in before.devices]
    assert [device.problem for device in after.devices] == [*[device_problem(15)] * 3, None]


def test_card_with_mig_and_no_slices_says_so(reports: Reports) -> None:
    [device] = reports["undivided"][0].devices
    assert (device.label, device.problem) == ("0", NO_SLICES)


def test_unsupported_fields_are_unknown_and_no_problem(reports: Reports) -> None:
    [device] = reports["unsupported"][0].devices
    memory = {"memory_kind", "total_bytes", "used_bytes", "free_bytes"}  # of this machine
    known = {
        name: value
        for name, value in device.to_plain().items()
        if (value and name not in {"uuid", *memory}) or name == "index"
    }
    assert known == {"index": 0, "name": "NVIDIA GB10"}


def test_unsupported_field_is_asked_for_once_per_session(reports: Reports) -> None:
    limits = [report.devices[0].power_limit_w for report in reports["remembers_refusal"] if report.available]
    assert limits == [None, None, 300]


def test_slow_figures_are_five_seconds_old_at_most(reports: Reports) -> None:
    cool, early, late = (report.devices[0] for report in reports["slow_figures"])
    assert (cool.temperature_c, early.temperature_c, late.temperature_c) == (61, 61, 91)
    assert (cool.utilization, early.utilization) == (0.97, 1.0)


def test_failing_fields_do_not_hide_the_others(reports: Reports) -> None:
    [device] = reports["busy_fields"][0].devices
    assert (device.power_w, device.utilization, device.temperature_c) == (None, None, 41)
    assert (device.total_bytes, device.problem) == (24 * GIB, None)


def test_denied_memory_is_a_problem_of_that_card(reports: Reports) -> None:
    first, second = reports["hidden_card"][0].devices
    assert (first.problem, second.problem) == (None, device_problem(4))


@pytest.mark.parametrize("scenario", ["unified", "zero_total"])
def test_unified_memory_is_that_of_the_machine(reports: Reports, scenario: str) -> None:
    [device] = reports[scenario][0].devices
    installed = next(line for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line)
    assert device.memory_kind == "unified"
    assert device.total_bytes == int(installed.split()[1]) * 1024
    assert device.used_bytes is not None
    assert device.free_bytes == device.total_bytes - device.used_bytes
    assert 0 < device.used_bytes < device.total_bytes
    assert (device.reserved_bytes, device.problem) == (None, None)


def test_utilization_stays_within_one(reports: Reports) -> None:
    [device] = reports["over_100_percent"][0].devices
    assert (device.utilization, device.memory_utilization) == (1.0, 1.0)


def test_old_driver_falls_back_to_the_older_calls(reports: Reports) -> None:
    [device] = reports["old_driver"][0].devices
    assert (device.memory_kind, device.reserved_bytes) == ("v1", None)
    assert device.used_bytes == GIB + 466616320
    assert device.temperature_c == 30
