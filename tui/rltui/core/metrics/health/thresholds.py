"""The ids of the rules, and their limits, which the user may change."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rltui.base.tables import TomlTable, list_of_texts

RuleId = Literal[
    "non-finite", "reward-collapse", "entropy-collapse", "kl", "importance-ratio", "no-signal",
    "distillation", "grad-norm", "eval-falls", "flat", "weights-lag", "resume-mismatch",
    "discarded", "truncation", "staleness", "evals-cancelled", "throughput", "empty-batches",
    "no-step",
]  # fmt: skip


class Thresholds(TomlTable):
    """Limits of the rules. The table `[health]` of the settings changes them."""

    silent: Annotated[tuple[RuleId, ...], list_of_texts()] = ()
    """Rules that are switched off."""
    lasting_steps: int = Field(default=5, ge=1, le=1000)
    """Number of newest steps that must agree before a rule fires."""
    reward_collapse_frac: float = Field(default=0.1, gt=0, lt=1, allow_inf_nan=False)
    """The reward has collapsed if no more than this share is left of the best level that it held."""
    reward_drop_frac: float = Field(default=0.5, gt=0, lt=1, allow_inf_nan=False)
    """If no more than this share is left for twice as many steps, it fell, which is a warning."""
    entropy_frac: float = Field(default=0.05, gt=0, lt=1, allow_inf_nan=False)
    """The entropy is gone below this share of the first one, unless the reward is near its best."""
    entropy_fall_frac: float = Field(default=0.4, gt=0, lt=1, allow_inf_nan=False)
    """It falls if this share is left of the highest in the last 50 steps, and the reward falls with it."""
    kl_max: float = Field(default=0.2, gt=0, allow_inf_nan=False)
    """Highest mean KL per token between the trainer's policy and the one that sampled the rollouts."""
    ratio_min: float = Field(default=0.5, ge=0, le=1, allow_inf_nan=False)
    """Lowest mean importance ratio."""
    ratio_max: float = Field(default=2.0, ge=1, allow_inf_nan=False)
    """Highest mean importance ratio."""
    resume_factor: float = Field(default=10.0, gt=1, allow_inf_nan=False)
    """After a resume KL or ratio may be this many times as far off as before it."""
    teacher_factor: float = Field(default=1.5, gt=1, allow_inf_nan=False)
    """The KL or loss to a teacher may rise to this many times its best level."""
    teacher_near: float = Field(default=0.01, ge=0, allow_inf_nan=False)
    """A KL or loss that begins below this one need not fall."""
    discarded_frac: float = Field(default=0.5, gt=0, lt=1, allow_inf_nan=False)
    """Largest share of rollouts that are not trained on: too old, failed, or without a signal."""
    no_signal_steps: int = Field(default=10, ge=1, le=1000)
    """Number of steps without any group whose rewards differ: nothing is learnt from them."""
    empty_batches: int = Field(default=3, ge=1, le=1000)
    """Number of batches in a row without anything to train on that are a warning …"""
    many_empty_batches: int = Field(default=7, ge=1, le=1000)
    """… and number that are an error: prime-rl's orchestrator gives up at 10."""
    flat_steps: int = Field(default=50, ge=16, le=10000)
    """Number of steps in which the reward has not risen above its first ones."""
    truncated_frac: float = Field(default=0.5, gt=0, le=1, allow_inf_nan=False)
    """Largest share of rollouts that are cut off at their longest length."""
    grad_norm_factor: float = Field(default=10.0, gt=1, allow_inf_nan=False)
    """A gradient norm is a spike at this many times the median; three in ten steps are reported."""
    eval_drop_frac: float = Field(default=0.1, gt=0, lt=1, allow_inf_nan=False)
    """Two evals in a row this share below the best one, while the reward rises, are reported."""
    cancelled_evals: int = Field(default=3, ge=1, le=1000)
    """Number of evaluations in a row that were cancelled by the next checkpoint."""
    throughput_frac: float = Field(default=0.4, gt=0, lt=1, allow_inf_nan=False)
    """Throughput is down below this share of the best that the run held."""
    throughput_s: float = Field(default=120.0, ge=0, allow_inf_nan=False)
    """Time for which it must have been down: a shared machine is slow for a while."""
    staleness_steps: float = Field(default=8.0, gt=0, allow_inf_nan=False)
    """Rollouts may be sampled with weights that are this many updates old."""
    no_step_factor: float = Field(default=10.0, gt=1, allow_inf_nan=False)
    """No step for this many times the median is reported …"""
    no_step_s: float = Field(default=180.0, ge=0, allow_inf_nan=False)
    """… but never before this many seconds."""
