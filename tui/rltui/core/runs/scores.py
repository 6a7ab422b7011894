"""The difference of two groups of scores, each the outcome of a run: better, worse, or chance. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance
from typing import Literal

from rltui.base.values import Value

_QUANTILES = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""95 % of Student's distribution with 1, 2, … degrees of freedom lie within these bounds."""
_Z = 1.959964
_POWER = 7.85
"""(1.96 + 0.84)²: the variances of a difference that show it four times of five."""
_MOST_SEEDS = 50
"""More are no advice."""


class ScoreVerdict(Value):
    """How the scores of one group stand to those of a baseline."""

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
    """What the scores are: `reward to step 200`, `eval reverse-text`."""
    next: str = ""
    """What would tell more; empty: nothing need be done."""

    def rounded(self) -> ScoreVerdict:
        """The same with six digits of each number, for programs that pay by the byte."""
        bounds = None if self.ci95 is None else (_rounded(self.ci95[0]), _rounded(self.ci95[1]))
        return self.replace(diff=None if self.diff is None else _rounded(self.diff), ci95=bounds)


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def half_width(stderr: float, degrees: float) -> float:
    """Half of the 95 % interval of a mean; `degrees` of freedom are rounded down."""
    whole = int(degrees)
    if whole <= len(_QUANTILES):
        return _QUANTILES[max(whole, 1) - 1] * stderr
    excess = (_Z**3 + _Z) / (4 * whole) + (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / (96 * whole**2)
    return (_Z + excess) * stderr  # the first terms of Cornish and Fisher's expansion


def compare_scores(
    scores: Sequence[float], baseline: Sequence[float], *, paired: bool = False, better: str = "higher"
) -> ScoreVerdict:
    """Compare independent scores, a run each. `paired`: the first of both belong together, and so on.

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
    half = half_width(math.sqrt(square), degrees)
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
