from __future__ import annotations

import math

from rltui.core.metrics import HISTORY, MetricNames, MetricSeries

NAMES = MetricNames()


def step(number: int, reward: float) -> list[dict[str, object]]:
    return [
        {"step": number, "time": 1.0, NAMES.reward: reward, NAMES.step_time: 2.0},
        {"step": number, "time": 1.5, NAMES.trainer_step: 0.1, NAMES.tokens_per_s: 1000.0},
    ]


def series(*numbers: int) -> MetricSeries:
    made = MetricSeries(NAMES)
    for number in numbers:
        for row in step(number, number / 10):
            made.add(row)
    return made


def test_headline_figures() -> None:
    progress = series(1, 2, 3).progress(max_steps=10)
    assert progress.step == 3
    assert progress.rewards == (0.1, 0.2, 0.3)
    assert progress.reward == 0.3
    assert progress.tokens_per_s == 1000.0
    assert progress.eta_s == 14.0


def test_step_counts_when_the_trainer_is_done_with_it() -> None:
    made = series(1)
    made.add(step(2, 0.5)[0])
    assert made.progress(None).step == 1
    assert made.progress(None).reward == 0.5


def test_resumed_run_replaces_what_came_after_the_checkpoint() -> None:
    made = series(1, 2, 3, 4, 5, 3)
    progress = made.progress(None)
    assert progress.step == 3
    assert len(progress.rewards) == 4, "step 4 may be the orchestrator's, ahead of the trainer"
    made.rewind(1)
    assert made.progress(None).step == 1


def test_strange_rows_are_ignored() -> None:
    made = series(1)
    for row in ({}, {"step": "x"}, {"step": 2, "note": "text"}, {"step": 2, "flag": True}):
        made.add(row)
    assert made.progress(None).step == 1


def test_values_that_are_not_finite_stay_out_of_the_figures() -> None:
    made = series(1, 2)
    made.add({"step": 3, NAMES.reward: math.nan, NAMES.step_time: math.inf})
    made.add({"step": 3, NAMES.trainer_step: math.nan, NAMES.tokens_per_s: -math.inf})
    progress = made.progress(max_steps=10)
    assert progress.step == 3, "the step is completed, bad as it is"
    assert progress.rewards == (0.1, 0.2)
    assert (progress.tokens_per_s, progress.step_time_s) == (1000.0, 2.0)
    assert made.newest(NAMES.trainer_step) == 0.1


def test_history_is_bounded() -> None:
    made = series(*range(1, HISTORY + 50))
    assert len(made.steps) == HISTORY
    assert made.progress(None).step == HISTORY + 49


def test_nothing_yet() -> None:
    progress = MetricSeries(NAMES).progress(max_steps=5)
    assert progress.step == 0
    assert progress.reward is None
    assert progress.eta_s is None
