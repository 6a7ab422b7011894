"""Sessions with the driver and trouble with it. The real `pynvml` on the C double."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.fakes.nvml import double
from tests.fakes.nvml.readings import GIB, Reports, Steps, readings

from rltui.core.gpu.report import GpuReport
from rltui.services.gpu.nvml.handle import NOT_LISTED, device_problem, session_reason

EIGHT = (double.SCENARIOS / "eight.conf").read_text()
WRITTEN = {
    "revoked": "count 1\ncount_err 999\n",
    "denied_at_init": "init_err 4\n",
    "not_loaded": "init_err 9\n",
    "none_listed": "count 0\n",
    "odd_code": "init_err 4321\n",
    "all_lost": "count 1\n0.all_err 15\n",
    "eight_one_lost": EIGHT + "3.all_err 15\n",
    "seven_left": EIGHT.replace("count 8", "count 7"),
    "later": "count 1\n0.used 1024\nat 1000 0.used 2048\nat 0.000001 0.compute 42 7\n0.compute 42 9\n",
}
SEQUENCES: dict[str, Steps] = {
    "reboot": [("mismatch", 0), ("shared", 4.9), ("shared", 5.1)],
    "patience": [("mismatch", 0), ("mismatch", 5), ("shared", 14.9), ("shared", 15)],
    "revoked_and_back": [("shared", 0), ("revoked", 1), ("shared", 2)],
    "loses_card_3": [("eight", 0), ("eight_one_lost", 1), ("eight_one_lost", 60)],
    "comes_back": [("eight", 0), ("eight_one_lost", 1), ("eight", 5.9), ("eight", 6)],
    "driver_reload": [("eight", 0), ("revoked", 10), ("seven_left", 11)],
    "lost_before_named": [("eight", 0), ("revoked", 1), ("eight_one_lost", 6)],
    "all_lost_then_mismatch": [("all_lost", 0), ("all_lost", 4.9), ("mismatch", 5.1), ("shared", 15.2)],
}


pytestmark = pytest.mark.xdist_group("readings of NVML")


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    return readings(tmp_path_factory.mktemp("scenarios"), written=WRITTEN, sequences=SEQUENCES)


def test_eight_cards_keep_their_order_and_processes(reports: Reports) -> None:
    devices = reports["eight"][0].devices
    assert [device.index for device in devices] == list(range(8))
    assert len({device.uuid for device in devices}) == 8
    assert [device.processes[0].pid for device in devices] == list(range(4100010, 4100018))
    assert {device.total_bytes for device in devices} == {80 * GIB}
    assert {len(device.processes) for device in devices} == {4}


def test_lost_card_is_named_and_the_other_still_shows(reports: Reports) -> None:
    healthy, lost = reports["lost"][0].devices
    assert healthy.total_bytes == 80 * GIB
    assert lost.problem == device_problem(15)
    assert lost.total_bytes is None


def test_card_lost_later_keeps_its_identity_and_the_session(reports: Reports) -> None:
    before, after, much_later = reports["loses_card_3"]
    for report in (after, much_later):
        assert [device.index for device in report.devices if device.problem] == [3]
        assert (report.devices[3].uuid, report.devices[3].name) == (
            before.devices[3].uuid,
            "NVIDIA H100 80GB HBM3",
        )
    _, lost, too_early, later = reports["comes_back"]
    assert lost.devices[3].problem == too_early.devices[3].problem == device_problem(15)
    assert later.devices[3].problem is None, "after five seconds"


def test_card_that_a_new_session_does_not_list_is_not_forgotten(reports: Reports) -> None:
    before, during, after = reports["driver_reload"]
    assert not during.available
    assert [device.problem for device in after.devices] == [None] * 7 + [NOT_LISTED]
    assert (after.devices[7].uuid, after.devices[7].label) == (before.devices[7].uuid, "7")


def test_card_lost_before_a_new_session_keeps_its_name(reports: Reports) -> None:
    before, _, after = reports["lost_before_named"]
    assert [device.uuid for device in after.devices] == [device.uuid for device in before.devices]
    assert [device.index for device in after.devices if device.problem] == [3]


def test_nothing_to_show_has_a_reason(reports: Reports) -> None:
    for scenario, words in {
        "mismatch": "reboot",
        "not_loaded": "kernel module is not loaded",
        "denied_at_init": "no permission",
        "none_listed": "no NVIDIA GPU",
        "revoked": "unknown error",
        "odd_code": "error 4321",
    }.items():
        [report] = reports[scenario]
        assert not report.available
        assert words in (report.reason or "")
        assert report.devices == ()


def test_scenario_moves_on_with_time(reports: Reports) -> None:
    [report] = reports["later"]
    assert report.devices[0].used_bytes == 1024
    assert [(process.pid, process.used_bytes) for process in report.devices[0].processes] == [(42, 7)]


def test_init_is_tried_again_after_pauses_that_grow(reports: Reports) -> None:
    first, too_early, later = reports["reboot"]
    assert first.reason == too_early.reason == session_reason(18)
    assert later.available
    *failing, too_early, later = reports["patience"]
    assert {report.reason for report in [*failing, too_early]} == {session_reason(18)}
    assert later.available


def test_trouble_of_one_reading_passes(reports: Reports) -> None:
    before, during, after = reports["revoked_and_back"]
    assert (before.available, during.available, after.available) == (True, False, True)
    assert after.devices == before.devices


def test_new_session_where_nothing_could_be_read(reports: Reports) -> None:
    lost, same_session, new_session, recovered = reports["all_lost_then_mismatch"]
    assert [device.problem for device in lost.devices] == [device_problem(15)]
    assert same_session.available
    assert new_session.reason == session_reason(18)
    assert recovered.available


def test_machine_without_driver_says_so_and_imports_pynvml_late(tmp_path: Path) -> None:
    code = (
        "import sys; from rltui.services.gpu.nvml import NvmlReader; late = 'pynvml' not in sys.modules;"
        "print(late); reader = NvmlReader(); print(reader.read().to_json().decode()); reader.close()"
    )
    environment = double.environment_without_driver(tmp_path)
    output = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True, timeout=30, text=True
    )
    late, report = output.stdout.splitlines()
    assert late == "True"
    assert GpuReport.from_json(report).reason == session_reason(12)
