from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.nvml import double
from tests.waiting import retry_until

from rltui.core.gpu.report import GpuDevice, GpuReport
from rltui.errors import RltuiError
from rltui.services.gpu import account
from rltui.services.gpu.sampling import GpuReadings, GpuSampler

LONG_S = 1000.0


class Reader:
    """Counts readings. While `blocked`, the present one does not end."""

    driver = "the driver"
    stuck_hint = ""

    def __init__(self) -> None:
        self.begun = 0
        self.closed = False
        self.free = threading.Event()
        self.free.set()

    def read(self) -> GpuReport:
        self.begun += 1
        begun = self.begun
        self.free.wait()
        return GpuReport(available=True, sampled_at=begun)

    def close(self) -> None:
        self.closed = True


class Running:
    """A sampler on such a reader, with what it handed over."""

    def __init__(self) -> None:
        self.reader = Reader()
        self.taken: list[GpuReport] = []
        self.sampler = GpuSampler(self.take, reader=self.reader)
        self.sampler.set_interval(LONG_S)
        self.sampler.start()

    def take(self, reading: GpuReport, interval_s: float) -> None:
        self.taken.append(reading.replace(interval_s=interval_s))

    def wait_for(self, count: int) -> None:
        retry_until(lambda: len(self.taken) >= count)


@pytest.fixture
def running() -> Iterator[Running]:
    made = Running()
    made.wait_for(1)
    yield made
    made.reader.free.set()
    assert made.sampler.close(10)


def block(running: Running) -> None:
    """Have a reading under way that does not end."""
    begun = running.reader.begun
    running.reader.free.clear()
    running.sampler.read_now()
    retry_until(lambda: running.reader.begun > begun)


def test_interval_takes_effect_during_a_pause(running: Running) -> None:
    assert running.taken[0].interval_s == LONG_S
    running.sampler.set_interval(0.01)
    running.wait_for(4)
    assert running.taken[-1].interval_s == 0.01


def test_a_wanted_reading_begins_after_it_was_wanted(running: Running) -> None:
    block(running)
    running.sampler.read_now()
    running.sampler.read_now()
    running.reader.free.set()
    running.wait_for(3)
    running.sampler.read_now()
    running.wait_for(4)
    assert [report.sampled_at for report in running.taken] == [1, 2, 3, 4]


def test_turns_that_pass_during_a_reading_are_left_out(running: Running) -> None:
    block(running)
    running.sampler.set_interval(0.1)
    began = time.monotonic() - running.sampler.stuck_s
    retry_until(lambda: running.sampler.stuck_s > 0.55)
    running.reader.free.set()
    running.wait_for(3)
    turns = (time.monotonic() - began) / 0.1
    assert turns >= 6
    assert running.reader.begun <= turns - 2


def test_a_reading_that_hangs_is_seen_and_does_not_hold_anybody_up(running: Running) -> None:
    assert running.sampler.stuck_s == 0.0
    block(running)
    retry_until(lambda: running.sampler.stuck_s > 0.02)
    before = time.monotonic()
    assert not running.sampler.close(0.05)
    assert time.monotonic() - before < 1
    running.reader.free.set()
    assert running.sampler.close(10)
    assert len(running.taken) == 1, "nothing is handed over after the end"


def test_close_gives_the_driver_back(running: Running) -> None:
    assert running.sampler.close()
    assert running.reader.closed
    assert running.sampler.close()
    assert GpuSampler(lambda reading, interval_s: None, reader=Reader()).close(), "before the start"


def test_a_taker_that_fails_is_called_again(caplog: pytest.LogCaptureFixture) -> None:
    taken = []

    def take(reading: GpuReport, interval_s: float) -> None:
        taken.append(reading)
        raise RuntimeError("the loop is closed")

    sampler = GpuSampler(take, reader=Reader())
    sampler.set_interval(0.01)
    sampler.start()
    retry_until(lambda: len(taken) >= 2)
    assert sampler.close(10)
    assert "the loop is closed" in caplog.text


HUNG = """\
import sys, time
from rltui.services.gpu.sampling import GpuSampler
taken = []
sampler = GpuSampler(lambda *reading: taken.append(reading))
sampler.start()
while sampler.stuck_s < 0.2:
    time.sleep(0.01)
print(sampler.close(0.1), taken)
"""


def test_a_program_ends_while_its_driver_hangs(tmp_path: Path) -> None:
    scenario = tmp_path / "hung.conf"
    scenario.write_text("count 1\n0.compute_delay_ms 3600000\n")
    done = subprocess.run(
        [sys.executable, "-c", HUNG],
        env=double.environment(scenario),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "False []\n", "")


def report(*uuids: str, used_bytes: int = 0) -> GpuReport:
    devices = (GpuDevice(index=i, uuid=uuid, used_bytes=used_bytes) for i, uuid in enumerate(uuids))
    return GpuReport(available=True, devices=tuple(devices))


def test_chosen_devices_follow_the_readings() -> None:
    readings = GpuReadings()
    first = "0"
    assert readings.chosen(first) == ()
    readings.take(report("GPU-a"))
    assert [device.uuid for device in readings.chosen(first)] == ["GPU-a"]
    seen = readings.present
    readings.take(report("GPU-a", used_bytes=7))
    assert [device.used_bytes for device in readings.chosen(first)] == [7]
    assert readings.present == seen
    readings.amend(report("GPU-b"))
    assert [device.uuid for device in readings.chosen(first)] == ["GPU-b"]
    assert readings.present != seen


def test_one_reading_is_that_or_why_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    report = GpuReport(available=True, sampled_at=7.0)

    def answers(interval_s: float | None, experiment: str | None) -> Iterator[GpuReport]:
        assert (interval_s, experiment) == (None, "one")
        yield report

    def hangs(interval_s: float | None, experiment: str | None) -> Iterator[GpuReport]:
        raise RltuiError("the driver hangs")
        yield report

    monkeypatch.setattr(account, "readings", answers)
    assert account.read_once("one") == report
    monkeypatch.setattr(account, "readings", hangs)
    assert account.read_once("one") == GpuReport(available=False, reason="the driver hangs")
