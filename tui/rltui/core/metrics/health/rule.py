"""What a rule is: a function from metrics to a symptom, and what follows from that."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rltui.core.experiment.api import HealthSeverity
from rltui.core.logs.lines import plain_text
from rltui.core.metrics.health.thresholds import RuleId, Thresholds
from rltui.core.metrics.learning import Learning
from rltui.core.metrics.tracks import LeveledTrack, RunTracks

NORMAL_STEPS = 50
"""Number of steps that define the normal level."""
LEVEL = 8
"""Number of steps whose median is the present reward."""
NEAR_BEST = 0.9
RISE = 0.02
"""Share of the best reward that it still gains, while it rises, in twice that many steps."""
BACK = "go back to an earlier checkpoint"


class Symptom(NamedTuple):
    """A finding of a rule about the run as it is now."""

    word: str
    """Short name, such as `reward collapsed`."""
    since: int
    """The first affected step, counted from 1."""
    evidence: str
    advice: str
    severity: HealthSeverity = "warning"
    covers: tuple[RuleId, ...] = ()
    """Rules that tell a part of the same trouble, which is told once."""
    concept: str = ""
    """The metric to look at beside the reward; empty: the entropy."""


@dataclass(frozen=True, slots=True)
class HealthInputs:
    """All that rules judge by: metrics, limits, and what the run learns from."""

    run: RunTracks
    limits: Thresholds
    now: float | None = None
    """Set if steps are to be expected …"""
    started: float = 0.0
    """… in the start that began then."""
    learning: Learning = Learning()
    name: str | None = None
    """Of the experiment, if commands need it."""

    @property
    def rewards(self) -> dict[str, LeveledTrack]:
        """Return those that it learns from, by `the reward` or `the reward of gsm8k`: one, unless some of its
        environments do not; none of a distillation.
        """
        run, learning = self.run, self.learning
        if learning.target:
            return {}
        if not learning.rewarded:
            return {"the reward": run.levels["reward"]}
        return {
            f"the reward of {plain_text(env)}": reward
            for env, reward in run.env_rewards.items()
            if env in learning.rewarded
        }


@dataclass(frozen=True, slots=True)
class HealthRule:
    id: RuleId
    role: Literal["trainer", "orchestrator"]
    """Whose trouble it is."""
    find: Callable[[HealthInputs], Symptom | None]
    spoils: bool = True
    """The weights trained since then are worse than the earlier ones. They are not where the run is slow, nor
    where answers are cut off: the reward may rise all the while.
    """
    damages: bool = False
    """Only an earlier checkpoint helps."""


def is_learning(run: RunTracks) -> bool:
    """The reward is about its best, and that is about perfect, or it still rises."""
    best, rewards = run.levels["reward"].best, run.track("reward")
    recent, earlier = rewards.last(LEVEL), rewards.last(LEVEL, before=2 * LEVEL)
    if best is None or statistics.median(recent) < NEAR_BEST * best.value:
        return False
    rises = not earlier or statistics.median(recent) > statistics.median(earlier) + RISE * abs(best.value)
    return rises or best.value >= NEAR_BEST
