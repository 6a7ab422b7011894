from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from rltui.core.metrics import (
    HISTORY,
    MetricNames,
    MetricSeries,
    NonFiniteWatch,
    StepSample,
    estimate_step,
    large_step,
    non_finite_alerts,
)

NAMES = MetricNames()


def step(number: int, reward: float) -> list[dict[str, object]]:
    return [
        {"step": number, "time": 1.0, NAMES.reward: reward, NAMES.step_time: 2.0},
        {"step": number, "time": 1.5, NAMES.trainer_step: 0.1, NAMES.tokens_per_s: 1000.0},
    ]


def series(*numbers: int) -> MetricSeries:
    metrics = MetricSeries(NAMES)
    for number in numbers:
        for row in step(number, number / 10):
            metrics.add(row)
    return metrics


def test_headline_figures() -> None:
    progress = series(1, 2, 3).progress(max_steps=10)
    assert progress.step == 3
    assert progress.rewards == (0.1, 0.2, 0.3)
    assert progress.reward == 0.3
    assert progress.tokens_per_s == 1000.0
    assert progress.eta_s == 14.0


def test_the_reward_of_all_rollouts_is_told_where_some_are_not_trained_on() -> None:
    metrics = series(1, 2)
    assert metrics.progress(None).reward_all is None
    metrics.add({"step": 2, NAMES.reward_all: 0.2})
    assert metrics.progress(None).reward_all is None, "it is the same"
    metrics.add({"step": 2, NAMES.reward_all: 0.05})
    assert metrics.progress(None).reward_all == 0.05
    metrics.add({"step": 3, NAMES.reward_all: 0.01})
    assert metrics.progress(None).reward_all == 0.05, "of the step whose reward is told"


def test_step_counts_when_the_trainer_is_done_with_it() -> None:
    metrics = series(1)
    metrics.add(step(2, 0.5)[0])
    assert metrics.progress(None).step == 1
    assert metrics.progress(None).reward == 0.5


def test_resumed_run_replaces_what_came_after_the_checkpoint() -> None:
    metrics = series(1, 2, 3, 4, 5, 3)
    progress = metrics.progress(None)
    assert progress.step == 3
    assert len(progress.rewards) == 4, "step 4 may be the orchestrator's, ahead of the trainer"
    metrics.rewind(1)
    assert metrics.progress(None).step == 1


def test_strange_rows_are_ignored() -> None:
    metrics = series(1)
    for row in ({}, {"step": "x"}, {"step": 2, "note": "text"}, {"step": 2, "flag": True}):
        metrics.add(row)
    assert metrics.progress(None).step == 1


def test_values_that_are_not_finite_stay_out_of_the_figures() -> None:
    metrics = series(1, 2)
    metrics.add({"step": 3, NAMES.reward: math.nan, NAMES.step_time: math.inf})
    metrics.add({"step": 3, NAMES.trainer_step: math.nan, NAMES.tokens_per_s: -math.inf})
    progress = metrics.progress(max_steps=10)
    assert progress.step == 3, "the step is completed, bad as it is"
    assert progress.rewards == (0.1, 0.2)
    assert (progress.tokens_per_s, progress.step_time_s) == (1000.0, 2.0)
    assert metrics.newest(NAMES.trainer_step) == 0.1


def test_history_is_bounded() -> None:
    metrics = series(*range(1, HISTORY + 50))
    assert len(metrics.steps) == HISTORY
    assert metrics.progress(None).step == HISTORY + 49


def test_nothing_yet() -> None:
    progress = MetricSeries(NAMES).progress(max_steps=5)
    assert progress.step == 0
    assert progress.reward is None
    assert progress.eta_s is None


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (1e-6, 0.2, "0.2 is 200,000 times higher than 1e-06; is that intended?"),
        (1e-3, 1e-5, "1e-05 is 100 times lower than 0.001; is that intended?"),
        (1e-6, 1e-5, None),
        (None, 1e-5, None),
        (0.0, 1e-5, None),
    ],
)
def test_a_learning_rate_far_from_the_last_one(before: object, after: object, text: str | None) -> None:
    result = large_step("trainer.optim.lr", before, after)
    assert result == text
    assert large_step("trainer.seq_len", before, after) is None


NAN, INF = math.nan, math.inf


def writer(row: Mapping[str, Any]) -> str | None:
    return "trainer" if "loss/mean" in row else None


def alerts(watch: NonFiniteWatch, *rows: dict[str, object]) -> list[str]:
    for row in rows:
        watch.add(row)
    return [str(item) for item in watch.take()]


def test_a_metric_is_told_once_until_it_is_finite_again() -> None:
    watch = NonFiniteWatch(writer)
    assert alerts(watch, {"step": 11, "loss/mean": 0.5}) == []
    assert alerts(watch, {"step": 12, "loss/mean": NAN}) == ["loss/mean is nan at step 12 (trainer)"]
    assert alerts(watch, {"step": 13, "loss/mean": INF}) == []
    assert alerts(watch, {"step": 14, "loss/mean": 0.4}) == []
    assert alerts(watch, {"step": 15, "loss/mean": -INF}) == ["loss/mean is -inf at step 15 (trainer)"]


def test_one_that_is_well_again_within_a_look_is_told() -> None:
    watch = NonFiniteWatch(writer)
    rows: list[dict[str, object]] = [{"step": 1, "grad": NAN}, {"step": 2, "grad": 1.0}]
    assert alerts(watch, *rows) == ["grad is nan at step 1"]
    assert watch.now == {}


def test_what_is_no_metric_is_passed_over() -> None:
    watch = NonFiniteWatch(writer)
    assert alerts(watch, {"step": 1, "time": NAN, "note": "nan", "flag": True}) == []
    assert alerts(watch, {"step": NAN, "loss/mean": NAN}) == ["loss/mean is nan (trainer)"]


def test_many_at_once_are_one_alert_per_component() -> None:
    watch = NonFiniteWatch(writer)
    watch.add({"step": 3, "reward": NAN})
    watch.add({"step": 3, "loss/mean": NAN, **{f"loss/{name}": INF for name in "abcd"}})
    first, second = non_finite_alerts(watch.take())
    assert (first.component, first.title) == (None, "a metric is not finite")
    assert (second.component, second.title) == ("trainer", "5 metrics are not finite")
    assert second.text.startswith("loss/mean is nan at step 3 (trainer), loss/a is inf at step 3 (trainer),")
    assert " and 2 more. Further training" in second.text
    assert {(alert.kind, alert.severity) for alert in (first, second)} == {("metric", "error")}


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


def test_the_step_time_is_the_trainers() -> None:
    """Both programs tell one, in the same file; the orchestrator's is shorter."""
    metrics = MetricSeries(NAMES)
    metrics.add({"step": 1, NAMES.reward: 0.1, NAMES.step_time: 17.5})
    assert metrics.step_time_s == 17.5, "nobody else has told any"
    for number in (1, 2, 3):
        metrics.add({"step": number, NAMES.trainer_step: 0.1, NAMES.step_time: 90.9})
        metrics.add({"step": number + 1, NAMES.reward: 0.1, NAMES.step_time: 17.5})
    assert metrics.step_time_s == 90.9
    assert metrics.progress(max_steps=10).eta_s == pytest.approx(7 * 90.9)
