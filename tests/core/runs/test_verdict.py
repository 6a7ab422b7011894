"""The verdict on two groups of scores, also on every split of recorded runs into groups of three seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from statistics import fmean

import pytest

from rltui.core.metrics.levels import late_mean
from rltui.core.runs.scores import compare_scores, half_width

DATA = Path(__file__).parents[2] / "data"
SEEDS = range(8)


def rewards_of_good_runs() -> list[list[float]]:
    """The reward of each step of the example's `rl.toml`, by seed."""
    runs = []
    for seed in SEEDS:
        lines = (DATA / "health" / f"good-{seed}.txt").read_text().splitlines()
        runs.append([float(words[3]) for line in lines if (words := line.split())[0] == "o"])
    return runs


def rewards_of_fast_runs() -> list[list[float]]:
    """The same with `lr = 1e-3`."""
    lines = (DATA / "metrics" / "rewards-of-lr-1e-3.txt").read_text().splitlines()
    return [[float(word) for word in line.split()] for line in lines]


def scores_at(runs: list[list[float]], step: int) -> list[float]:
    return [score for run in runs if (score := late_mean(run[:step])) is not None]


def splits() -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    for one in combinations(SEEDS, 3):
        for other in combinations([seed for seed in SEEDS if seed not in one], 3):
            yield one, other


def test_runs_that_differ_by_their_seed_alone_are_not_told_apart() -> None:
    counts = Counter[str]()
    for step in (40, 60, 100, 150, 200):
        scores = scores_at(rewards_of_good_runs(), step)
        for one, other in splits():
            counts[compare_scores([scores[i] for i in one], [scores[i] for i in other]).verdict] += 1
    assert counts["undistinguishable"] >= 0.95 * counts.total()


def test_a_learning_rate_that_is_too_high_is_worse() -> None:
    for step in (100, 200):
        good, fast = scores_at(rewards_of_good_runs(), step), scores_at(rewards_of_fast_runs(), step)
        verdicts = [
            compare_scores(worse, [good[i] for i in one]).verdict
            for one in combinations(SEEDS, 3)
            for worse in combinations(fast, 3)
        ]
        assert verdicts.count("worse") >= 0.95 * len(verdicts), step


def test_one_run_on_each_side_proves_nothing() -> None:
    """However many steps they have: of runs that differ by their seed alone, most would seem to differ."""
    verdict = compare_scores([0.2], [0.9])
    assert (verdict.ci95, verdict.verdict) == (None, "undistinguishable")
    assert verdict.diff == pytest.approx(-0.7)
    assert "seed" in verdict.next
    assert compare_scores([], [0.9]).diff is None


def test_one_trial_is_compared_with_the_noise_of_the_baseline() -> None:
    baseline = [0.90, 0.91, 0.92]
    assert compare_scores([0.97], baseline).verdict == "better"
    assert compare_scores([0.85], baseline).verdict == "worse"
    assert compare_scores([0.85], baseline, better="lower").verdict == "better"
    close = compare_scores([0.94], baseline)
    assert close.verdict == "undistinguishable"
    assert close.ci95 is not None
    assert close.ci95[0] == pytest.approx(0.03 - 4.303 * 0.01 * (4 / 3) ** 0.5, rel=1e-3)
    assert (close.n, close.seeds) == (4, 1)


def test_pairs_take_out_what_both_have_in_common() -> None:
    baseline = [0.1, 0.5, 0.9]
    scores = [score + gain for score, gain in zip(baseline, (0.10, 0.11, 0.12), strict=True)]
    assert compare_scores(scores, baseline).verdict == "undistinguishable"
    paired = compare_scores(scores, baseline, paired=True)
    assert (paired.verdict, paired.n, paired.seeds) == ("better", 3, 3)
    assert paired.diff == pytest.approx(fmean((0.10, 0.11, 0.12)))


def test_equal_scores_are_equal_and_the_seeds_that_would_tell_are_counted() -> None:
    assert compare_scores([1.0, 1.0], [1.0, 1.0]).verdict == "undistinguishable"
    assert compare_scores([0.5, 0.5], [1.0, 1.0]).verdict == "worse"
    near = compare_scores([0.50, 0.60, 0.70], [0.56, 0.66, 0.76])
    assert near.next == "to prove a difference of this size: about 44 seeds a side"
    nearer = compare_scores([0.50, 0.60, 0.70], [0.50, 0.60, 0.71])
    assert nearer.next == "to prove a difference of this size: more than 50 seeds a side"


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(1, 12.706), (4, 2.776), (4.9, 2.776), (30, 2.042), (31, 2.040), (120, 1.980)]
)
def test_the_interval_is_students(degrees: float, quantile: float) -> None:
    assert half_width(1.0, degrees) == pytest.approx(quantile, abs=2e-3)
