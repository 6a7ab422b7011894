from __future__ import annotations

import os
from pathlib import Path

import pytest

from rltui.core.config.report import DerivedValue
from rltui.core.metrics.progress import MetricSeries
from rltui.frameworks.tinyrl import TINYRL
from rltui.services.config.files import load_files, write_snapshot
from rltui.services.config.step_times import StepSample, StepTimes, estimate_step
from rltui.services.experiment.files import ControlFolder

TOKENS_KEY = "train/agg/effective/agent/num_total_tokens/mean"


class Box:
    """A run of tinyrl on the disk."""

    def __init__(self, folder: Path) -> None:
        self.control = ControlFolder(folder / "out")
        self.series = MetricSeries(TINYRL.progress.names)
        self.times = StepTimes(TINYRL, self.control, lambda: self.series)
        self.config = folder / "rl.toml"

    def write(self, batch: str) -> None:
        self.config.write_text(f'[model]\nname = "m"\n[orchestrator]\n{batch}\n[trainer]\n[inference]\n')

    def start(self, attempt: int) -> None:
        folder = self.control.attempt_dir("orchestrator", attempt)
        write_snapshot(load_files([self.config], TINYRL), folder)
        os.utime(folder / "config", (attempt, attempt))

    def step(self, step: int, seconds: float, tokens: float | None = None) -> None:
        row = {"step": step, "time/step": seconds, "loss/mean": 1.0}
        self.series.add(row if tokens is None else {**row, TOKENS_KEY: tokens})

    def estimate(self) -> DerivedValue | None:
        figures = self.times.derive(load_files([self.config], TINYRL))
        return next((item for item in figures if item.name == "estimated step time"), None)


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def test_nothing_measured_nothing_estimated(box: Box) -> None:
    box.write("batch_size = 128")
    assert box.estimate() is None


def test_the_same_config_takes_as_long_and_twice_the_batch_twice_as_long(box: Box) -> None:
    box.write("batch_size = 128")
    box.start(1)
    for step in range(1, 6):
        box.step(step, 4.0)
    found = box.estimate()
    assert found is not None
    assert (found.value, found.text) == (4.0, "median of steps 1 to 5")
    box.write("batch_size = 256")
    found = box.estimate()
    assert found is not None
    assert found.value == 8.0
    assert found.text.startswith("256 rollouts per step at a pace of 128 in 4 s, the median of steps")


@pytest.mark.parametrize("edit", ["max_steps = 7", "[inference]\ngpu_memory_utilization = 0.4"])
def test_what_does_not_move_a_step_does_not_move_its_estimate(box: Box, edit: str) -> None:
    """Finding B3: the two sides of an edit came from two estimators."""
    box.write("batch_size = 128")
    box.start(1)
    for step, seconds in enumerate((9.0, 4.0, 5.0, 4.5), start=1):
        box.step(step, seconds)
    before = box.estimate()
    assert before is not None
    text = box.config.read_text()
    box.config.write_text(f"{edit}\n{text}" if "[" not in edit else text.replace("[inference]", edit))
    assert box.estimate() == before


def test_steps_count_for_the_config_they_ran_with(box: Box) -> None:
    box.write("batch_size = 128")
    box.start(1)
    box.step(1, 4.0, tokens=50.0)
    box.times.update()
    box.write("token_batch_size = 12800\nmax_inflight_rollouts = 128")
    box.start(2)
    found = box.estimate()
    assert found is not None
    assert found.value == 8.0
    assert found.text == "12,800 tokens per step at a pace of 6,400 in 4 s, the median of step 1"
    box.step(2, 7.0, tokens=50.0)
    found = box.estimate()
    assert found is not None
    assert (found.value, found.text) == (7.0, "median of step 2")


def test_a_broken_value_estimates_nothing(box: Box) -> None:
    box.write("batch_size = 128")
    box.start(1)
    box.step(1, 4.0)
    box.write('batch_size = "x"')
    assert box.estimate() is None


def sample(step: int, seconds: float, size: float | None = 1000.0) -> StepSample:
    return StepSample(step, seconds, size)


def test_the_steps_of_the_last_size_tell_by_their_median() -> None:
    samples = [sample(1, 50.0, 2000.0), sample(2, 4.0), sample(3, 6.0), sample(4, 4.1)]
    result = estimate_step(samples, size=1000.0, unit="tokens")
    assert result is not None
    assert (result.name, result.value, result.unit) == ("estimated step time", 4.1, "s")
    assert result.text == "median of steps 2 to 4"


def test_another_size_takes_its_share_of_the_same_time() -> None:
    samples = [sample(3, 2.0, 9.0), sample(4, 3.0, 2000.0), sample(5, 7.0, 2000.0)]
    result = estimate_step(samples, size=1200.0, unit="tokens")
    assert result is not None
    assert result.value == 3.0
    assert result.text == "1,200 tokens per step at a pace of 2,000 in 5 s, the median of steps 4 to 5"


def test_where_sizes_are_not_known_steps_take_what_they_took() -> None:
    result = estimate_step([sample(1, 2.0, None), sample(2, 4.0, None)], size=None, unit="tokens")
    assert result is not None
    assert result.value == 3.0


@pytest.mark.parametrize(
    ("samples", "size"),
    [([], 9.0), ([sample(1, 2.0)], None), ([sample(1, 2.0, None)], 9.0), ([sample(1, 0.0)], 9.0)],
    ids=["no steps", "no size", "no sizes", "no time"],
)
def test_nothing_is_guessed(samples: list[StepSample], size: float | None) -> None:
    assert estimate_step(samples, size=size, unit="tokens") is None
