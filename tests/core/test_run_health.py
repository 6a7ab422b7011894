from __future__ import annotations

import random

import pytest

from rltui.core.metrics import HISTORY, LASTING, MetricNames, MetricSeries, large_step

NAMES = MetricNames()
CLIMB = [step / 50 for step in range(50)]


def words(rewards: list[float], entropies: list[float] | None = None, gradient: float = 0.3) -> list[str]:
    series = MetricSeries(NAMES)
    for step, reward in enumerate(rewards, 1):
        entropy = entropies[step - 1] if entropies else 1.0
        series.add({"step": step, NAMES.reward: reward})
        series.add({"step": step, NAMES.trainer_step: 0.1, NAMES.entropy: entropy, NAMES.gradient: gradient})
    return [concern.word for concern in series.progress(None).concerns]


def test_a_reward_that_fell_to_nothing_has_collapsed() -> None:
    assert words(CLIMB + [0.98] * 10 + [0.0, 0.0, 0.01, 0.0, 0.0]) == ["reward collapsed"]
    assert words(CLIMB + [0.98] * 10 + [0.0] * (LASTING - 1)) == [], "not yet for sure"
    assert words(CLIMB + [0.98] * 10 + [0.0] * (2 * HISTORY)) == ["reward collapsed"], "not forgotten"


def test_a_collapse_is_over_when_the_reward_is_back_or_the_run_went_back() -> None:
    assert words(CLIMB + [0.0] * 10 + [0.5]) == []
    series = MetricSeries(NAMES)
    for step, reward in enumerate([0.01] * 20 + [0.9] * 20 + [0.0] * 10, 1):
        series.add({"step": step, NAMES.reward: reward})
    assert series.progress(None).concerns
    series.rewind(20)
    assert not series.progress(None).concerns, "back before the climb"


@pytest.mark.parametrize("seed", range(20))
def test_healthy_runs_give_no_cause_for_concern(seed: int) -> None:
    chance = random.Random(seed)
    noisy = [chance.gauss(0.3 + step / 1000, 0.1) for step in range(300)]
    rare = [float(chance.random() < 0.05) for _ in range(300)]
    negative = [chance.gauss(-1, 0.3) for _ in range(300)]
    bounded = [min(1.0, max(0.0, chance.gauss(step / 300, 0.2))) for step in range(300)]
    for rewards in (noisy, rare, negative, bounded, [0.0] * 100, CLIMB):
        for end in range(0, len(rewards), 17):
            assert words(rewards[:end]) == []


def test_a_policy_that_explores_no_more() -> None:
    falling = [1.0] * 20 + [0.001] * 10
    assert words([0.5] * 20 + [0.2] * 10, falling) == ["entropy is gone"]
    assert words([0.1] * 20 + [0.9] * 10, falling) == [], "it has learnt the one right answer"


def test_a_gradient_of_nothing_teaches_nothing() -> None:
    assert words([0.5] * 12, gradient=0.0) == ["no signal"]
    assert words([0.5] * 5, gradient=0.0) == []


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (1e-6, 0.2, "0.2 is 200,000 times higher than 1e-06: is that meant?"),
        (1e-3, 1e-5, "1e-05 is 100 times lower than 0.001: is that meant?"),
        (1e-6, 1e-5, None),
        (None, 1e-5, None),
        (0.0, 1e-5, None),
    ],
)
def test_a_learning_rate_far_from_the_last_one(before: object, after: object, text: str | None) -> None:
    found = large_step("trainer.optim.lr", before, after)
    assert found == text
    assert large_step("trainer.seq_len", before, after) is None
