"""The real `pynvml` on a C double of the driver's library, in processes of its own."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rltui.core.gpu.report import GpuReport
from rltui.services.nvml_device import process_name
from rltui.services.nvml_errors import device_problem, session_reason

FAKES = Path(__file__).parents[1] / "fakes" / "nvml"
double: dict[str, Any] = runpy.run_path(str(FAKES / "double.py"))
GIB = 1 << 30

Reports = dict[str, list[GpuReport]]


def run_probe(scripts: dict[str, list[tuple[str, float]]], environment: dict[str, str]) -> Reports:
    """Readings along `[(scenario, seconds), …]`, one reader per script."""
    command = [sys.executable, str(FAKES / "probe.py"), json.dumps(scripts)]
    output = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=30, text=True)
    assert output.stderr == ""
    return {
        name: [GpuReport.model_validate(report) for report in reports]
        for name, reports in json.loads(output.stdout).items()
    }


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """Every scripted reading of this file, taken by one process: starting one costs most of the time."""
    folder = tmp_path_factory.mktemp("scenarios")
    written = {
        "revoked": "count 1\ncount_err 999\n",
        "denied_at_init": "init_err 4\n",
        "not_loaded": "init_err 9\n",
        "none_listed": "count 0\n",
        "odd_code": "init_err 4321\n",
        "hidden_card": "count 2\n1.memory_v2_err 4\n",
        "all_lost": "count 1\n0.all_err 15\n",
        "eight_one_lost": (double["SCENARIOS"] / "eight.conf").read_text() + "3.all_err 15\n",
        "busy_fields": "count 1\n0.power_err 19\n0.util_err 999\n0.util 250\n0.temp 41\n",
        "zero_total": "count 1\n0.total 0\n",
        "over_100_percent": "count 1\n0.util 250\n",
    }
    paths = {path.stem: path for path in double["SCENARIOS"].glob("*.conf")}
    for name, text in written.items():
        paths[name] = folder / f"{name}.conf"
        paths[name].write_text(text)
    sequences: dict[str, list[tuple[str, float]]] = {
        "reboot": [("mismatch", 0), ("shared", 4.9), ("shared", 5.1)],
        "revoked_and_back": [("shared", 0), ("revoked", 1), ("shared", 2)],
        "loses_card_3": [("eight", 0), ("eight_one_lost", 1), ("eight_one_lost", 60)],
        "all_lost_then_mismatch": [("all_lost", 0), ("all_lost", 4.9), ("mismatch", 5.1), ("shared", 10.2)],
    }
    scripts = {name: [(str(path), 0.0)] for name, path in paths.items()}
    scripts |= {name: [(str(paths[step]), at) for step, at in steps] for name, steps in sequences.items()}
    return run_probe(scripts, double["environment"]("shared"))


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
    assert (device.utilization, device.power_w, device.temperature_c) == (0.73, 311.25, 64)
    assert device.problem is None


def test_process_that_computes_and_draws_counts_once(reports: Reports) -> None:
    processes = reports["shared"][0].devices[0].processes
    assert [(process.pid, process.used_bytes) for process in processes] == [
        (4100001, 12 * GIB),
        (4100002, 6174015488),
        (4100003, 268435456),
    ]


def test_eight_cards_keep_their_order_and_processes(reports: Reports) -> None:
    devices = reports["eight"][0].devices
    assert [device.index for device in devices] == list(range(8))
    assert len({device.uuid for device in devices}) == 8
    assert [device.processes[0].pid for device in devices] == list(range(4100010, 4100018))
    assert {device.total_bytes for device in devices} == {80 * GIB}


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


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        ("mismatch", "reboot"),
        ("not_loaded", "driver not loaded"),
        ("denied_at_init", "no permission"),
        ("none_listed", "no NVIDIA GPU"),
        ("revoked", "unknown error"),
        ("odd_code", "error 4321"),
    ],
)
def test_nothing_to_show_has_a_reason(reports: Reports, scenario: str, words: str) -> None:
    [report] = reports[scenario]
    assert not report.available
    assert words in (report.reason or "")
    assert report.devices == ()


def test_unsupported_fields_are_unknown_and_no_problem(reports: Reports) -> None:
    [device] = reports["unsupported"][0].devices
    known = device.model_dump(exclude_none=True, exclude={"uuid"})
    assert known == {"index": 0, "name": "NVIDIA GB10", "processes": ()}


def test_failing_fields_do_not_hide_the_others(reports: Reports) -> None:
    [device] = reports["busy_fields"][0].devices
    assert (device.power_w, device.utilization, device.temperature_c) == (None, None, 41)
    assert (device.total_bytes, device.problem) == (24 * GIB, None)


def test_denied_memory_is_a_problem_of_that_card(reports: Reports) -> None:
    first, second = reports["hidden_card"][0].devices
    assert (first.problem, second.problem) == (None, device_problem(4))


def test_total_of_zero_is_unknown_memory(reports: Reports) -> None:
    [device] = reports["zero_total"][0].devices
    assert (device.total_bytes, device.used_bytes, device.free_bytes) == (None, None, None)


def test_utilization_stays_within_one(reports: Reports) -> None:
    assert reports["over_100_percent"][0].devices[0].utilization == 1.0


def test_old_driver_falls_back_to_the_older_calls(reports: Reports) -> None:
    [device] = reports["old_driver"][0].devices
    assert device.reserved_bytes is None
    assert device.used_bytes == GIB + 466616320
    assert device.temperature_c == 30


def test_unavailable_and_impossible_process_memory_is_unknown(reports: Reports) -> None:
    processes = reports["hidden_memory"][0].devices[0].processes
    assert [(process.pid, process.used_bytes) for process in processes] == [(4100001, None), (4100002, None)]


def test_init_is_tried_again_after_five_seconds(reports: Reports) -> None:
    first, too_early, later = reports["reboot"]
    assert first.reason == too_early.reason == session_reason(18)
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
        "import sys; from rltui.services.nvml import NvmlReader; late = 'pynvml' not in sys.modules;"
        "print(late); reader = NvmlReader(); print(reader.read().model_dump_json()); reader.close()"
    )
    environment = double["environment_without_driver"](tmp_path)
    output = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True, timeout=30, text=True
    )
    late, report = output.stdout.splitlines()
    assert late == "True"
    assert GpuReport.model_validate_json(report).reason == session_reason(12)


def test_process_name_is_the_first_word_of_the_title() -> None:
    title = ["/opt/VLLM::EngineCore_DP0\x1b of 8"]
    process = subprocess.Popen(title, executable="/bin/cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"exec is done\n")
    process.stdin.flush()
    process.stdout.readline()
    name = process_name(process.pid)
    process.communicate()
    assert name == "VLLM::EngineCore_DP0?"


def test_process_name_of_an_ended_process() -> None:
    process = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process_name(process.pid) == "true"  # from `comm`: a zombie has no command line
    process.wait()
    assert process_name(process.pid) == ""
