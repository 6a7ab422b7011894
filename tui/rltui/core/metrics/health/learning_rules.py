"""Rules about what the run learns: reward, policy, gradient, evaluations."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise

from rltui.core.logs.lines import plain_text
from rltui.core.metrics.health.rule import (
    BACK,
    LEVEL,
    NEAR_BEST,
    NORMAL_STEPS,
    RISE,
    HealthInputs,
    HealthRule,
    Symptom,
    is_learning,
)
from rltui.core.metrics.health.thresholds import Thresholds
from rltui.core.metrics.learning import TARGETS
from rltui.core.metrics.tracks import LeveledTrack, Track

_HIGH = 0.8
"""A reward that begins so high need not rise."""
_SLOW_RISE = 0.05 / 100
"""Rise of the reward in a step that is worth waiting for."""
_SURELY, _PERHAPS = 3.0, 2.0
"""Standard errors of a slope below which it is surely, and perhaps, more."""
_CLEAR = 2.0
"""A fall that is no collapse is at least this many times the usual difference of the reward."""
_SPIKES, _SPIKE_WINDOW = 3, 10


def _non_finite(case: HealthInputs) -> Symptom | None:
    """Is the loss or the gradient NaN or infinite, or missing as the trainer omits such values?"""
    for concept, noun in (("loss", "loss"), ("grad_norm", "gradient")):
        track = case.run.track(concept)
        if not track:
            continue
        newest = track.values[-1]
        missing_steps = [step for step in case.run.trained.steps[-NORMAL_STEPS:-1] if step > track.steps[-1]]
        if math.isfinite(newest) and not missing_steps:
            continue
        value = "not finite" if math.isfinite(newest) else str(newest)
        since = (
            missing_steps[0] if math.isfinite(newest) else track.since(lambda value: not math.isfinite(value))
        )
        more = " (the trainer omits the metric)" if missing_steps else ""
        return Symptom(
            f"{noun} is {value}",
            since,
            f"the {noun} has been {value} since step {since}{more}",
            f"further training is likely wasted: {BACK} with a lower learning rate",
            "error",
        )
    return None


def _reward_collapse(case: HealthInputs) -> Symptom | None:
    """Is little left of the best level that the reward has held?"""
    return next(filter(None, (_collapse(*reward, case.limits) for reward in case.rewards.items())), None)


def _collapse(name: str, reward: LeveledTrack, limits: Thresholds) -> Symptom | None:
    rewards, best, floor = reward.track, reward.best, reward.floor
    newest = rewards.last(limits.lasting_steps)
    if best is None or floor is None or len(newest) < limits.lasting_steps:
        return None
    collapsed = (max(newest) - floor) / (best.value - floor) <= limits.reward_collapse_frac
    if not collapsed:
        newest = rewards.last(2 * limits.lasting_steps)
        if (max(newest) - floor) / (best.value - floor) > limits.reward_drop_frac:
            return None
        if best.value - max(newest) < _CLEAR * _noise(rewards):
            return None
    share = limits.reward_collapse_frac if collapsed else limits.reward_drop_frac
    edge = floor + share * (best.value - floor)
    since = rewards.since(lambda value: not value > edge)
    return Symptom(
        "reward collapsed" if collapsed else "reward dropped",
        since,
        f"{name} was {best.value:.2f} around step {best.step} and has been at most {max(newest):.2f}"
        f" since step {since}",
        f"{BACK} with a lower learning rate",
        "error" if collapsed else "warning",
    )


def _noise(track: Track) -> float:
    """Median difference of the metric from one step to the next."""
    return statistics.median(abs(later - earlier) for earlier, later in pairwise(track.last(NORMAL_STEPS)))


def _entropy_collapse(case: HealthInputs) -> Symptom | None:
    """Has the policy stopped exploring without having learnt?"""
    run, limits, steps = case.run, case.limits, case.limits.lasting_steps
    track, rewards = run.track("entropy"), run.track("reward")
    newest = track.last(steps)
    if len(track) < 2 * steps or not rewards or case.learning.target or is_learning(run):
        return None
    start, now = statistics.median(track.values[:steps]), statistics.median(newest)
    best, reward = run.levels["reward"].best, statistics.median(rewards.last(LEVEL))
    recent = max(track.last(NORMAL_STEPS))
    is_gone = start > 0 and max(newest) <= limits.entropy_frac * start
    falls_too = best is not None and reward < NEAR_BEST * best.value
    if not is_gone and not (falls_too and now <= limits.entropy_fall_frac * recent):
        return None
    reference, edge = (
        (start, limits.entropy_frac * start) if is_gone else (recent, limits.entropy_fall_frac * recent)
    )
    return Symptom(
        "entropy collapsed" if is_gone else "entropy is falling",
        track.since(lambda value: value <= edge),
        f"the entropy fell from {reference:.2g} to {now:.2g}, and the reward ({reward:.2f}) does not rise"
        " with it: the policy explores less without learning more",
        f"{BACK} with a lower learning rate or a higher temperature",
        covers=("discarded",),
    )


def _kl(case: HealthInputs) -> Symptom | None:
    """Do the policies of trainer and sampler differ?"""
    return _out_of_range(case, "kl", "KL", -math.inf, case.limits.kl_max)


def _importance_ratio(case: HealthInputs) -> Symptom | None:
    """Do the policies of trainer and sampler differ, as told by the importance ratio?"""
    low, high = case.limits.ratio_min, case.limits.ratio_max
    return _out_of_range(case, "importance_ratio", "importance ratio", low, high)


def _out_of_range(case: HealthInputs, concept: str, name: str, low: float, high: float) -> Symptom | None:
    track, steps = case.run.track(concept), case.limits.lasting_steps
    if len(track) < steps:
        return None
    middle = statistics.median(track.last(steps))
    if low <= middle <= high:
        return None
    since = track.since(lambda value: not low <= value <= high, gap=steps)
    limits_text = f"at most {high:g}" if low == -math.inf else f"{low:g} to {high:g}"
    return Symptom(
        f"{name} out of range",
        since,
        f"the {name} between trainer and sampler has been {middle:.3g} since step {since};"
        f" expected {limits_text}",
        f"lower the learning rate; if that does not help, {BACK}",
        concept=concept,
    )


def _no_signal(case: HealthInputs) -> Symptom | None:
    """Do all rollouts of each group get the same reward, so that nothing is learnt?"""
    steps = case.limits.no_signal_steps
    is_of_rewards = case.learning.signals == {"reward"}  # otherwise other rollouts, or tokens, may teach
    for concept in ("trainable", "grad_norm") if is_of_rewards else ("grad_norm",):
        track = case.run.track(concept)
        newest = track.last(steps)  # log lines round it: one that is only small does not stay below
        if len(newest) < steps or any(newest):
            continue
        symptom = "no trainable rollout" if concept == "trainable" else "zero gradient"
        mean = f", {rewards[-1]:.3g} on average" if (rewards := case.run.track("reward").last(1)) else ""
        since = track.since(lambda value: value == 0)
        if case.learning.target:
            why, advice = "", "check that the teacher answers, and that it is another model"
        else:
            why = f": probably all rollouts of a group get the same reward{mean}"
            advice = "check the reward function; use tasks of medium difficulty, or larger groups"
        return Symptom(
            "no signal",
            since,
            f"no learning signal since step {since} ({symptom}){why}",
            advice,
            covers=("discarded",),
            concept=concept,
        )
    return None


def _distillation(case: HealthInputs) -> Symptom | None:
    """Does a run that learns from a teacher go away from it, or never come nearer?"""
    if not (concept := case.learning.target):
        return None
    track, (_, _, sign) = case.run.track(concept), TARGETS[concept]
    noun = "loss on the teacher's tokens" if concept == "nll" else "KL to the teacher"
    blocks = [
        sign * statistics.median(track.values[end - LEVEL : end])
        for end in range(LEVEL, len(track) + 1, LEVEL)
    ]
    if len(blocks) < 2 or not all(map(math.isfinite, blocks)):
        return None
    now = sign * statistics.median(track.last(LEVEL))
    start, best, clear = blocks[0], min(blocks), _CLEAR * _noise(track)
    if now > case.limits.teacher_factor * best and now - best > clear and best > 0:
        edge = (case.limits.teacher_factor * best) * sign
        since = track.since(lambda value: sign * value > sign * edge, gap=LEVEL)
        return Symptom(
            "away from the teacher",
            since,
            f"the {noun} was {best:.3g} and is {now:.3g}",
            f"{BACK} with a lower learning rate",
            concept=concept,
        )
    is_over = start - best > max(RISE * start, clear) or start < case.limits.teacher_near
    if is_over or len(track) < case.limits.flat_steps or "self" in case.learning.signals:
        return None
    return Symptom(
        "no nearer to the teacher",
        track.steps[0],
        f"the {noun} was {start:.3g} in the first {LEVEL} steps and is {now:.3g} in the last {LEVEL} of"
        f" {len(track)}",
        "check that the teacher is the model that is meant and has the same tokens; the learning rate may be"
        " too low",
        concept=concept,
    )


def _grad_norm(case: HealthInputs) -> Symptom | None:
    """Does the gradient norm have spikes?"""
    track = case.run.track("grad_norm")
    earlier, newest = track.last(NORMAL_STEPS, before=_SPIKE_WINDOW), track.last(_SPIKE_WINDOW)
    if len(earlier) < _SPIKE_WINDOW:
        return None
    median = statistics.median(earlier)
    edge = case.limits.grad_norm_factor * median
    spikes = [index for index, value in enumerate(newest) if value > edge]
    if not median > 0 or len(spikes) < _SPIKES:
        return None
    return Symptom(
        "gradient spikes",
        track.steps[len(track) - len(newest) + spikes[0]],
        f"{len(spikes)} of the last {len(newest)} gradient norms are up to {max(newest):.3g}; the median"
        f" is {median:.3g}",
        f"lower the learning rate or the gradient clipping norm; if the reward falls, {BACK}",
        concept="grad_norm",
    )


def _eval_falls(case: HealthInputs) -> Symptom | None:
    """Do evaluations get worse while the reward rises?"""
    rewards = case.run.track("reward")
    for key, track in case.run.evals.items():
        if len(track) < 3 or case.learning.target:
            continue
        best = max(track.values)
        best_step = track.steps[track.values.index(best)]
        newest = track.last(2)
        if not (best > 0 and max(newest) <= (1 - case.limits.eval_drop_frac) * best):
            continue
        reward_then, reward_now = rewards.around(best_step), rewards.around(track.steps[-1])
        if reward_then is None or reward_now is None or not reward_now > reward_then:
            continue
        return Symptom(
            "evals are falling",
            best_step + 1,
            f"{plain_text(key.name)} was {best:.3g} at step {best_step} and is {newest[-1]:.3g} at step"
            f" {track.steps[-1]}, while the reward rose from {reward_then:.3g} to {reward_now:.3g}",
            "the policy may be exploiting the reward: read its rollouts; go back to the checkpoint with"
            " the best eval",
        )
    return None


def _flat(case: HealthInputs) -> Symptom | None:
    """Has the reward not risen in many steps?"""
    if case.learning.has_rivals or case.run.has_agents:  # what one gains another may lose
        return None
    return next(filter(None, (_stays(*reward, case.limits) for reward in case.rewards.items())), None)


def _stays(name: str, reward: LeveledTrack, limits: Thresholds) -> Symptom | None:
    rewards, best = reward.track, reward.best
    if len(rewards) < limits.flat_steps:
        return None
    start, now = statistics.median(rewards.values[:LEVEL]), statistics.median(rewards.last(LEVEL))
    if not math.isfinite(start + now) or start >= _HIGH:
        return None
    edge = start + max(RISE, _CLEAR * _noise(rewards))
    if now > edge or (best is not None and best.value > edge) or _may_rise(rewards):
        return None
    return Symptom(
        "reward is flat",
        rewards.steps[0],
        f"{name} was {start:.3g} in the first {LEVEL} steps and is {now:.3g} in the last {LEVEL} of"
        f" {len(rewards)}",
        "the task may be too hard for the model, or the learning rate too low; evaluate the base model,"
        " and read its rollouts",
    )


def _may_rise(track: Track) -> bool:
    """True if it rises for sure over all steps, or if with its noise a slow rise cannot be told from none."""
    points = [
        (step, value) for step, value in zip(track.steps, track.values, strict=True) if math.isfinite(value)
    ]
    if len(points) < LEVEL:
        return True
    slope, level = statistics.linear_regression(*zip(*points, strict=True))
    middle = statistics.fmean(step for step, _ in points)
    spread = math.fsum((step - middle) ** 2 for step, _ in points)
    residue = math.fsum((value - level - slope * step) ** 2 for step, value in points)
    error = math.sqrt(residue / (len(points) - 2) / spread)
    return slope > _SURELY * error or slope + _PERHAPS * error >= _SLOW_RISE


RULES = (
    HealthRule("non-finite", "trainer", _non_finite, damages=True),
    HealthRule("reward-collapse", "orchestrator", _reward_collapse, damages=True),
    HealthRule("entropy-collapse", "trainer", _entropy_collapse, damages=True),
    HealthRule("kl", "trainer", _kl),
    HealthRule("importance-ratio", "trainer", _importance_ratio),
    HealthRule("no-signal", "orchestrator", _no_signal),
    HealthRule("distillation", "trainer", _distillation, damages=True),
    HealthRule("grad-norm", "trainer", _grad_norm),
    HealthRule("eval-falls", "orchestrator", _eval_falls),
    HealthRule("flat", "orchestrator", _flat, spoils=False),
)
