"""Whether a run still learns, from its metrics: what a person should look at before another hour is spent.

Pure. The limits are wide: a healthy run, also one whose reward is noisy or rare, gives no cause for concern.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from rltui.core.api import Concern

WINDOW = 8
"""Steps whose median counts as a level that was held."""
LASTING = 5
"""So many newest steps must agree."""
FALLEN = 0.1
"""Share of the best level below which a reward has collapsed."""
SURE = 3.0
"""The best level must be so many times the spread around it: rare rewards come and go."""
DEAD_ENTROPY = 0.01
"""Share of the first entropies below which the policy explores no more."""
LARGE_STEP = 10.0
"""A learning rate that changes by more than this factor is seldom meant."""


def held_level(rewards: Sequence[float]) -> float | None:
    """The reward that the newest `WINDOW` of `rewards` held; `None` where they are too few or too spread."""
    window = rewards[-WINDOW:]
    if len(window) < WINDOW:
        return None
    level = statistics.median(window)
    spread = statistics.median(abs(reward - level) for reward in window)
    return level if level > 0 and level >= SURE * spread else None


def collapse(rewards: Sequence[float], best: float | None) -> Concern | None:
    """The reward fell from `best`, a level it held, to about nothing, and stays there. Oldest first."""
    newest = rewards[-LASTING:]
    if best is None or len(newest) < LASTING or max(newest) > FALLEN * best:
        return None
    return Concern(
        word="reward collapsed",
        text=f"the reward held {best:.2f} and has been at most {max(newest):.2f} for {LASTING} steps:"
        " go back to a checkpoint before the fall, with a lower learning rate",
    )


def dead_entropy(entropies: Sequence[float], rewards: Sequence[float], best: float | None) -> Concern | None:
    """The policy always says the same although its reward is not the best it had. Both oldest first."""
    first, newest = entropies[:LASTING], entropies[-LASTING:]
    if len(entropies) < 2 * LASTING or not rewards:
        return None
    if max(newest) > DEAD_ENTROPY * statistics.median(first):
        return None
    if best is not None and rewards[-1] >= 0.9 * best:
        return None
    return Concern(
        word="entropy is gone",
        text=f"the entropy fell from {statistics.median(first):.2g} to {max(newest):.2g}: the policy explores"
        " no more; go back to an earlier checkpoint, with a lower learning rate or a higher temperature",
    )


def no_signal(gradients: Sequence[float]) -> Concern | None:
    """The gradient is exactly nothing: all rollouts of each group get the same reward. Oldest first."""
    newest = gradients[-2 * LASTING :]  # log lines round it: one that is only small does not stay below
    if len(newest) < 2 * LASTING or any(newest):
        return None
    return Concern(
        word="no signal",
        text=f"the gradient has been 0 for {len(newest)} steps: every rollout of a group gets the same"
        " reward, so nothing is learnt; use tasks that are neither too easy nor too hard, or larger groups",
    )


def large_step(key: str, before: object, after: object) -> str | None:
    """Why a new value of the knob `key` is seldom meant, in words: a learning rate far from the last one."""
    if key.rpartition(".")[2] not in ("lr", "learning_rate"):
        return None
    if not (_is_rate(before) and _is_rate(after)):
        return None
    factor = max(float(after) / float(before), float(before) / float(after))  # type: ignore[arg-type]  # checked
    if factor <= LARGE_STEP * (1 + 1e-9):
        return None
    way = "higher" if float(after) > float(before) else "lower"  # type: ignore[arg-type]  # checked
    return f"{after:g} is {factor:,.0f} times {way} than {before:g}: is that meant?"


def _is_rate(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
