from __future__ import annotations

import math

import pytest

from rltui.core.metrics.progress import HISTORY, MetricNames, MetricSeries
from rltui.core.metrics.seats import with_means_of_seats

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
    metrics.add({"step": 2, NAMES.reward_all: 0.19999999999999998})
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


def test_the_reward_of_several_agents_is_their_mean_without_those_that_are_not_trained() -> None:
    def row(number: int, **rewards: float) -> dict[str, object]:
        effective = {f"train/agg/effective/{name}/reward/mean": value for name, value in rewards.items()}
        trainable = {f"train/agg/all/{name}/is_trainable/mean": 0.5 for name in rewards}
        judge = {"train/agg/all/judge/is_trainable/mean": 0.0, "train/agg/all/judge/reward/mean": 9.0}
        return {"step": number, **effective, **trainable, **judge}

    folded = with_means_of_seats(row(1, player0=0.2, player1=0.6))
    assert folded["train/agg/effective/reward/mean"] == 0.4
    assert folded["train/agg/all/is_trainable/mean"] == 0.5
    assert with_means_of_seats({"step": 1, NAMES.reward: 0.2}) == {"step": 1, NAMES.reward: 0.2}
    metrics = MetricSeries(NAMES)
    metrics.add(folded)
    metrics.add(with_means_of_seats(row(2, solver=0.3)))
    metrics.add(with_means_of_seats(row(3, agent=0.1, user=0.5)))
    assert metrics.progress(None).rewards == (0.4, 0.3, 0.3)


def test_a_run_without_advantages_is_told_by_what_it_learns_from() -> None:
    def target(*rows: dict[str, float]) -> tuple[str, float] | None:
        metrics = MetricSeries(NAMES)
        for number, row in enumerate(rows, 1):
            metrics.add({"step": number, "loss/mean": 0.7, **row})
        found = metrics.progress(None).target
        return None if found is None else (found.title, found.points[-1][1])

    teacher, reward = {"ref_kl/mean": -0.03}, {NAMES.reward: 0.4}
    trained = {NAMES.trainable[0]: 0.5}
    assert target(teacher | reward) == ("teacher KL", 0.03)
    assert target({"nll/mean": 1.2} | reward) == ("loss", 1.2)
    assert target({}) == ("loss", 0.7), "SFT"
    assert target(reward) is None
    assert target(teacher | reward | trained, teacher | reward) is None, (
        "some of its rollouts have advantages"
    )


def test_the_version_of_the_weights_is_read_from_rows_without_a_step() -> None:
    metrics = series(1, 2)
    metrics.add({"step": None, "watcher/policy_version": 2.0, "producer": "orch"})
    assert metrics.progress(None).served == 2
    for odd in (None, True, "3", float("nan"), float("inf"), [3]):
        metrics.add({"step": None, "watcher/policy_version": odd})
    assert metrics.progress(None).served == 2
    metrics.add({"step": 3, "policy/applied": 3})
    assert metrics.progress(None).served == 3
