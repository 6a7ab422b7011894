"""The difference of two groups of scores, each the outcome of a run: better, worse, or chance. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean, variance
from typing import Literal

from rltui.base.values import Value

_POWER = 7.85
"""(1.96 + 0.84)²: the variances of a difference that show it four times of five."""
_MOST_SEEDS = 50
"""More are no advice."""


class ScoreVerdict(Value):
    """The verdict on the scores of one group against those of a baseline."""

    diff: float | None = None
    """Their mean minus that of the baseline; `None` if one of the two has no score."""
    ci95: tuple[float, float] | None = None
    """The bounds of the difference; `None` if there are too few scores."""
    n: int = 0
    """Number of scores on both sides; of pairs, where they were paired."""
    seeds: int = 0
    """Number of scores of the smaller side, each of its own seed."""
    verdict: Literal["better", "worse", "undistinguishable"] = "undistinguishable"
    on: str = ""
    """Meaning of the scores: `reward to step 200`, `eval reverse-text`."""
    next: str = ""
    """Advice on how to learn more; empty: nothing need be done."""


def half_width(stderr: float, degrees: float, comparisons: float = 1) -> float:
    """Half of the 95 % interval of a mean, or of so many that shall all hold together; `degrees` of freedom
    are rounded down.
    """
    return _quantile(max(int(degrees), 1), 1 - 0.05 / comparisons) * stderr


@lru_cache(maxsize=256)
def _quantile(degrees: int, share: float) -> float:
    """The bound that Student's t is within, on both sides, with this probability."""
    low, high = 0.0, math.pi / 2  # as the angle whose tangent is t / √degrees
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _share_within(middle, degrees) < share else (low, middle)
    return math.tan(low) * math.sqrt(degrees)


def _share_within(angle: float, degrees: int) -> float:
    """Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    is_odd = degrees % 2
    term, total, square = math.cos(angle) if is_odd else 1.0, 0.0, math.cos(angle) ** 2
    for index in range(1 + is_odd, degrees, 2):
        total += term
        term *= square * index / (index + 1)
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if is_odd else total


def compare_scores(
    scores: Sequence[float],
    baseline: Sequence[float],
    *,
    paired: bool = False,
    better: str = "higher",
    comparisons: float = 1,
) -> ScoreVerdict:
    """Compare independent scores, a run each. `paired`: the first of both belong together, and so on.
    `comparisons`: so many share the 5 % chance of an error.

    One score against several has their variance; one against one has none, and no verdict.
    """
    if not scores or not baseline:
        return ScoreVerdict(seeds=0, n=len(scores) + len(baseline))
    diff = fmean(scores) - fmean(baseline)
    first, second = len(scores), len(baseline)
    seeds = min(first, second)
    if paired:
        gaps = [score - base for score, base in zip(scores, baseline, strict=True)]
        count, degrees = seeds, seeds - 1.0
        square = variance(gaps) / seeds if seeds > 1 else None
    else:
        count = first + second
        square, degrees = _error_of_means(scores, baseline)
    if square is None:
        return ScoreVerdict(
            diff=diff, n=count, seeds=seeds, next="one seed a side proves nothing: run 2 more of each"
        )
    half = half_width(math.sqrt(square), degrees, comparisons)
    result = ScoreVerdict(diff=diff, ci95=(diff - half, diff + half), n=count, seeds=seeds)
    if abs(diff) > half:
        return result.replace(verdict="better" if (diff > 0) == (better != "lower") else "worse")
    needed = math.ceil(_POWER * square * seeds / diff**2) if diff else _MOST_SEEDS + 1
    amount = f"about {max(needed, seeds + 1)}" if needed <= _MOST_SEEDS else f"more than {_MOST_SEEDS}"
    return result.replace(next=f"to prove a difference of this size: {amount} seeds a side")


def _error_of_means(one: Sequence[float], other: Sequence[float]) -> tuple[float | None, float]:
    """The variance of the difference of two means and its degrees of freedom, after Welch; `None` for one
    score against one.
    """
    if len(one) == 1 or len(other) == 1:
        several = max(one, other, key=len)
        count = len(several)
        return (variance(several) * (1 + 1 / count) if count > 1 else None), count - 1.0
    parts = [(variance(scores) / len(scores), len(scores) - 1) for scores in (one, other)]
    square = math.fsum(part for part, _ in parts)
    spread = math.fsum(part * part / degrees for part, degrees in parts)
    return square, square * square / spread if spread else len(one) + len(other) - 2.0
