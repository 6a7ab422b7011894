"""`rltui gpus` on a box without experiments, and beside one. NVML is the C double."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from tests.conftest import Box
from tests.e2e.gpu_box import SERVING, scenario_of, with_gpus
from tests.fakes.nvml import double
from tests.terminal import Terminal
from tests.waiting import retry_until

from rltui.core.gpu.report import GpuReport

pytestmark = pytest.mark.e2e

SCENARIO = """\
driver 580.95.05
count 1
0.name NVIDIA H200
0.uuid GPU-8932f937-d72c-4106-c12f-20bd9faed9f6
0.total 150323855360
0.reserved 1073741824
0.used 12884901888
0.util 73
0.power 311250
0.temp 64
"""


@pytest.fixture
def gpu_box(box: Box) -> Box:
    """One GPU, on which the test itself computes."""
    return with_gpus(box, f"{SCENARIO}0.compute {os.getpid()} 8589934592\n")


@contextmanager
def started(box: Box, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "rltui", "gpus", *arguments],
        cwd=box.work,
        env=box.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A background shell ignores ctrl+c, and so would all that is started from it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_without_a_driver_it_says_why(box: Box) -> None:
    folder = box.root / "no-driver"
    folder.mkdir()
    bare = replace(box, env={**double.environment_without_driver(folder), **box.env})
    result = bare.run("gpus")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("no GPU figures: ")
    assert len(result.stdout.splitlines()) == 1
    assert GpuReport.from_plain(bare.json("gpus")).available is False


def test_it_names_device_and_holders(gpu_box: Box) -> None:
    result = gpu_box.run("gpus")
    assert (result.returncode, result.stderr) == (0, "")
    header, _, mine, hidden = result.stdout.splitlines()
    assert header == "GPU 0 · NVIDIA H200 · 12.0 of 140 GiB used · 127 free · 73% · 311 W · 64 °C"
    assert mine.startswith(f"    8.0  {os.getpid()}  ")
    assert "yours, unattributed" in mine
    assert hidden.startswith("    4.0  ")
    assert hidden.endswith("driver or unlisted processes")


def test_json_is_one_report(gpu_box: Box) -> None:
    report = GpuReport.from_plain(gpu_box.json("gpus"))
    assert report.interval_s is None, "no other reading follows"
    [device] = report.devices
    [process] = device.processes
    assert (process.pid, process.owner) == (os.getpid(), "mine")
    assert sum(share.used_bytes for share in device.shares) == device.used_bytes
    assert device.budgets == ()


def test_watching_prints_a_line_for_each_reading_until_ctrl_c(gpu_box: Box) -> None:
    with started(gpu_box, "--json", "--watch", "0.5") as process:
        assert process.stdout is not None
        reports = [GpuReport.from_json(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert {report.interval_s for report in reports} == {0.5}
    times = [report.sampled_at or 0.0 for report in reports]
    assert 0.4 < times[2] - times[1] < 5.0


def test_it_ends_quietly_when_nobody_reads_any_more(gpu_box: Box) -> None:
    with started(gpu_box, "--json", "--watch", "0.5") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=10) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize("seconds", ["0.4", "nan", "inf", "x", "-1"])
def test_an_interval_must_be_sensible(box: Box, seconds: str) -> None:
    refusal = box.run("gpus", f"--watch={seconds}")
    assert refusal.returncode == 2
    assert "not a number of seconds from 0.5 to 3600" in refusal.stderr


@pytest.mark.tmux
def test_on_a_terminal_it_draws_in_place_and_leaves_the_last_reading(gpu_box: Box) -> None:
    script = f"trap : INT; {sys.executable} -m rltui gpus --watch 0.5; echo ended $?; sleep 30"
    terminal = Terminal(["sh", "-c", script], cwd=gpu_box.work, env=gpu_box.env, columns=50, rows=10)
    try:
        screen = terminal.wait_for("every 0.5 s")
        assert screen.count("NVIDIA H200") == 1
        assert max(map(len, screen.splitlines())) <= 50
        scenario_of(gpu_box).write_text(SCENARIO.replace("0.used 12884901888", "0.used 0"))
        screen = terminal.wait_for(" 0.0 of 140 GiB")
        assert "12.0 of" not in screen
        assert "yours" not in screen, "a row that is gone is not left on the screen"
        terminal.press("C-c")
        after = terminal.wait_for("ended 130")
        assert after.count("NVIDIA") == 1
    finally:
        terminal.close()


@pytest.mark.slow
def test_a_driver_that_hangs_is_told(box: Box) -> None:
    stuck = with_gpus(box, SCENARIO + "*.all_delay_ms 60000\n")
    result = stuck.run("gpus", timeout_s=40)
    assert result.returncode == 1
    assert result.stderr.startswith("rltui: the NVIDIA driver has not answered for 10 s")
    doctor = {item["name"]: item for item in stuck.json("doctor", timeout_s=40)["checks"]}
    assert "has not answered" in doctor["gpu"]["text"]


@pytest.mark.slow
@pytest.mark.tmux
def test_with_a_name_it_is_what_the_supervisor_sees(gpu_box: Box) -> None:
    box = gpu_box
    (box.work / "run.toml").write_text("max_steps = 1\n")
    source = json.dumps(["cat", str(box.work / "other")])
    other = box.json("gpus")
    (box.work / "other").write_text(json.dumps(other, indent=1) + "\n")
    (box.work / "parts.toml").write_text(f'{SERVING}[[gpu_source]]\nname = "node-2"\ncommand = {source}\n')
    up = box.run("up", "run.toml", "-l", "parts.toml", "-n", "one", "-o", "out")
    assert up.returncode == 0, up.stderr

    def hosts() -> list[str]:
        return [device["host"] for device in box.json("gpus", "one")["devices"]]

    assert retry_until(lambda: hosts() == ["", "node-2"] and hosts(), timeout_s=20)
    assert "node-2: GPU 0 · NVIDIA H200" in box.run("gpus", "one").stdout
    with started(box, "one", "--json", "--watch", "0.5") as process:
        assert process.stdout is not None
        for _ in range(2):
            assert GpuReport.from_json(process.stdout.readline()).available
    assert box.run("gpus", "none").returncode == 2
    assert box.run("down", "one").returncode == 0
    report = box.run("gpus", "one")
    assert report.returncode == 2
    assert "one is not running" in report.stderr


CREATE = """
from pathlib import Path
from rltui.client import creation, draft
from rltui.core.experiment.request import ConfigLine, ExperimentRequest
config = ConfigLine((Path("run.toml"),))
request = ExperimentRequest(config, layout="parts.toml", name="one", output_dir=Path("out"))
creation.create(draft.ConfiguredRequest.plain(request))
"""


@pytest.mark.slow
@pytest.mark.tmux
def test_opening_runs_no_command_of_a_layout_that_nobody_trusts(box: Box) -> None:
    """Finding H2: the supervisor lives, nobody said yes yet."""
    (box.work / "run.toml").write_text("max_steps = 1\n")
    source = json.dumps(["sh", "-c", "touch ran; sleep 600"])
    layout = SERVING.replace('gpus = "0"\n', "")
    (box.work / "parts.toml").write_text(f'{layout}[[gpu_source]]\nname = "node-2"\ncommand = {source}\n')
    command = [sys.executable, "-c", CREATE]
    subprocess.run(command, cwd=box.work, env=box.env, check=True, capture_output=True)

    def problem() -> str | None:
        sources = box.json("gpus", "one")["sources"]
        return str(sources[0]["problem"]) if sources else None

    assert f"rltui trust {box.work.resolve()}" in str(retry_until(problem, timeout_s=20))
    assert not (box.work / "ran").exists()
    assert box.run("start", "one").returncode == 0
    retry_until((box.work / "ran").exists, timeout_s=20)
