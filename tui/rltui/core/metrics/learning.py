"""What a run learns from, as its config says: health must know it. Pure."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Literal

Signal = Literal["reward", "teacher", "self", "tokens", "observations"]
"""Its reward; the KL to a teacher, or to itself as it has seen a demonstration; a teacher's tokens; what
environments answer, beside the reward.
"""
Discard = Literal["stale", "errored", "no signal"]
"""Why a rollout was not trained on."""


@dataclass(frozen=True, slots=True)
class Learning:
    signals: frozenset[Signal] = frozenset({"reward"})
    rewarded: frozenset[str] = frozenset()
    """Environments that learn from their reward, where others do not; empty: there is no such difference."""
    has_rivals: bool = False
    """What one agent gains another may lose, so that a reward that does not rise says nothing."""
    max_staleness: int | None = None
    """Number of updates by which the weights that sample may be behind."""
    knobs: Mapping[Discard, tuple[str, ...]] = field(default_factory=dict)
    """Dotted keys of this config that change how many rollouts are discarded."""

    @property
    def target(self) -> str:
        """Concept of the metric that falls while a run without rewards learns; empty: it has rewards."""
        if "reward" in self.signals:
            return ""
        return "nll" if "tokens" in self.signals else "teacher_kl"


TARGETS = {
    "teacher_kl": ("ref_kl/mean", "teacher KL", -1),
    "nll": ("nll/mean", "loss", 1),
    "loss": ("loss/mean", "loss", 1),
}
"""Concept of what a run without rewards learns by → its key, its name for people, and its sign there."""


def target_by_metrics(known: Container[str], *, is_rewarded: bool) -> str:
    """The concept that a run learns by, as its metrics show; empty: its reward, or nothing is known yet.

    `known`: the concepts with values. `is_rewarded`: some rollout had an advantage.
    """
    if is_rewarded:
        return ""
    concepts = ("teacher_kl", "nll") if "reward" in known else TARGETS
    return next((concept for concept in concepts if concept in known), "")
