"""Health of a run: rules over its metrics, their findings, first affected steps, and advice. Pure.

A rule is a function with `@_rule`, which also says what follows from it; its limits are in `Thresholds`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import Field

from rltui.base.tables import TomlTable, list_of_texts
from rltui.base.text import duration
from rltui.core import hints
from rltui.core.experiment.api import HealthIssue, HealthSeverity, RollbackOffer
from rltui.core.logs.lines import plain_text
from rltui.core.metrics.learning import Discard, Learning
from rltui.core.metrics.tracks import Levels, RunTracks, Track


class Symptom(NamedTuple):
    """A finding of a rule about the run as it is now."""

    word: str
    """Short name, such as `reward collapsed`."""
    since: int
    """The first affected step, counted from 1."""
    evidence: str
    advice: str
    severity: HealthSeverity = "warning"
    covers: tuple[str, ...] = ()
    """Ids of rules that tell a part of the same trouble, which is told once."""


class _Reward(NamedTuple):
    """A reward that the run learns from."""

    name: str
    """`the reward`, `the reward of gsm8k`."""
    track: Track
    levels: Levels


@dataclass(frozen=True, slots=True)
class HealthInputs:
    """The inputs of the rules."""

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
    def rewards(self) -> tuple[_Reward, ...]:
        """Those that it learns from: one, unless some of its environments do not; none of a distillation."""
        run, learning = self.run, self.learning
        if learning.target:
            return ()
        if not learning.rewarded:
            return (_Reward("the reward", run.track("reward"), run.levels["reward"]),)
        return tuple(
            _Reward(f"the reward of {plain_text(env)}", track, levels)
            for env, (track, levels) in run.env_rewards.items()
            if env in learning.rewarded
        )


_Role = Literal["trainer", "orchestrator"]
_Find = Callable[[HealthInputs], Symptom | None]


@dataclass(frozen=True, slots=True)
class HealthRule:
    id: str
    role: _Role
    """Whose trouble it is."""
    find: _Find
    concept: str = ""
    """The metric to look at beside the reward; empty: the entropy."""
    spoils: bool = True
    """The weights trained since then are worse than the earlier ones. They are not where the run is slow, nor
    where answers are cut off: the reward may rise all the while.
    """
    damages: bool = False
    """Only an earlier checkpoint helps."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A symptom and the rule that found it."""

    rule: HealthRule
    word: str
    since: int
    evidence: str
    advice: str
    severity: HealthSeverity = "warning"
    covers: tuple[str, ...] = ()


RULES: dict[str, HealthRule] = {}
"""Id → rule, in the order of their findings."""


def _rule(
    id_: str, role: _Role, *, concept: str = "", spoils: bool = True, damages: bool = False
) -> Callable[[_Find], _Find]:
    """Arguments as the fields of `HealthRule`."""

    def register(find: _Find) -> _Find:
        RULES[id_] = HealthRule(id_, role, find, concept, spoils, damages)
        return find

    return register


_NORMAL_STEPS = 50
"""Number of steps that define the normal level."""
_LEVEL = 8
"""Number of steps whose median is the present reward."""
_NEAR_BEST = 0.9
_HIGH = 0.8
"""A reward that begins so high need not rise."""
_SLOW_RISE = 0.05 / 100
"""Rise of the reward in a step that is worth waiting for."""
_SURELY, _PERHAPS = 3.0, 2.0
"""Standard errors of a slope below which it is surely, and perhaps, more."""
_RISE = 0.02
"""Share of the best reward that it still gains, while it rises, in twice that many steps."""
_CLEAR = 2.0
"""A fall that is no collapse is at least this many times the usual difference of the reward."""
_SPIKES, _SPIKE_WINDOW = 3, 10
_SURE_STEPS = 2
"""Number of steps after a resume that are more than its first one."""
_NOTABLE = 0.1
"""Share of what is allowed from which on a jump is worth a word."""
_MUCH = 0.1
"""Share of the rollouts that calls for advice."""
_EDITS = 3
"""Number of edits that are described."""
_BACK = "go back to an earlier checkpoint"


@_rule("non-finite", "trainer", damages=True)
def _non_finite(case: HealthInputs) -> Symptom | None:
    """Is the loss or the gradient NaN or infinite, or missing as the trainer omits such values?"""
    for concept, noun in (("loss", "loss"), ("grad_norm", "gradient")):
        track = case.run.track(concept)
        if not track:
            continue
        newest = track.values[-1]
        missing_steps = [step for step in case.run.trained.steps[-_NORMAL_STEPS:-1] if step > track.steps[-1]]
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
            f"further training is likely wasted: {_BACK} with a lower learning rate",
            "error",
        )
    return None


@_rule("reward-collapse", "orchestrator", damages=True)
def _reward_collapse(case: HealthInputs) -> Symptom | None:
    """Is little left of the best level that the reward has held?"""
    return next(filter(None, (_collapse(reward, case.limits) for reward in case.rewards)), None)


def _collapse(reward: _Reward, limits: Thresholds) -> Symptom | None:
    rewards, best, floor = reward.track, reward.levels.best, reward.levels.floor
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
        f"{reward.name} was {best.value:.2f} around step {best.step} and has been at most {max(newest):.2f}"
        f" since step {since}",
        f"{_BACK} with a lower learning rate",
        "error" if collapsed else "warning",
    )


def _noise(track: Track) -> float:
    """Median difference of the metric from one step to the next."""
    return statistics.median(abs(later - earlier) for earlier, later in pairwise(track.last(_NORMAL_STEPS)))


@_rule("entropy-collapse", "trainer", damages=True)
def _entropy_collapse(case: HealthInputs) -> Symptom | None:
    """Has the policy stopped exploring without having learnt?"""
    run, limits, steps = case.run, case.limits, case.limits.lasting_steps
    track, rewards = run.track("entropy"), run.track("reward")
    newest = track.last(steps)
    if len(track) < 2 * steps or not rewards or case.learning.target or _is_learning(run):
        return None
    start, now = statistics.median(track.values[:steps]), statistics.median(newest)
    best, reward = run.levels["reward"].best, statistics.median(rewards.last(_LEVEL))
    recent = max(track.last(_NORMAL_STEPS))
    is_gone = start > 0 and max(newest) <= limits.entropy_frac * start
    falls_too = best is not None and reward < _NEAR_BEST * best.value
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
        f"{_BACK} with a lower learning rate or a higher temperature",
        covers=("discarded",),
    )


def _is_learning(run: RunTracks) -> bool:
    """The reward is about its best, and that is about perfect, or it still rises."""
    best, rewards = run.levels["reward"].best, run.track("reward")
    recent, earlier = rewards.last(_LEVEL), rewards.last(_LEVEL, before=2 * _LEVEL)
    if best is None or statistics.median(recent) < _NEAR_BEST * best.value:
        return False
    rises = not earlier or statistics.median(recent) > statistics.median(earlier) + _RISE * abs(best.value)
    return rises or best.value >= _NEAR_BEST


@_rule("kl", "trainer", concept="kl")
def _kl(case: HealthInputs) -> Symptom | None:
    """Do the policies of trainer and sampler differ?"""
    return _out_of_range(case, "kl", "KL", -math.inf, case.limits.kl_max)


@_rule("importance-ratio", "trainer", concept="importance_ratio")
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
        f"lower the learning rate; if that does not help, {_BACK}",
    )


@_rule("no-signal", "orchestrator", concept="trainable")
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
        )
    return None


@_rule("weights-lag", "orchestrator", concept="kl")
def _weights_lag(case: HealthInputs) -> Symptom | None:
    """Does the engine sample with weights that are too old, or with those from before a resume?"""
    run = case.run
    if run.served is None or not run.trained or not run.collected:  # SFT: its evals take as long as they take
        return None
    version, read_at = run.served
    step = run.trained.steps[-1] if read_at is None else read_at
    most = case.limits.staleness_steps if case.learning.max_staleness is None else case.learning.max_staleness
    is_from_before = version < run.resumed <= step - _SURE_STEPS
    if step - version <= max(most, _SURE_STEPS) and not is_from_before:
        return None
    before = f", older than the checkpoint {run.resumed} that it went on from" if is_from_before else ""
    return Symptom(
        "weights lag",
        max(version, run.resumed) + 1,
        f"the engine serves v{version} of the weights{before}, and the trainer has done step {step}",
        f"read the lines about weights in the output of orchestrator and engine; {_other_weights(case)}",
        covers=("resume-mismatch", "kl", "importance-ratio", "staleness"),
    )


def _other_weights(case: HealthInputs) -> str:
    return f"`{hints.RESTART_INFERENCE(name=case.name)}` starts the engine again, and what must follow it"


@_rule("resume-mismatch", "trainer", concept="kl")
def _resume_mismatch(case: HealthInputs) -> Symptom | None:
    """Do the policies of trainer and sampler differ since the run went on from a checkpoint?"""
    run, limits = case.run, case.limits
    ratio_room = min(limits.ratio_max - 1, 1 - limits.ratio_min)
    for concept, name, middle, room in (
        ("kl", "KL", 0.0, limits.kl_max), ("importance_ratio", "importance ratio", 1.0, ratio_room)
    ):  # fmt: skip
        track = run.track(concept)
        before, after = track.beside(run.resumed, _LEVEL)
        if not run.resumed or len(before) < _SURE_STEPS or len(after) < _SURE_STEPS:
            continue
        usual = max(abs(value - middle) for value in before)
        edge = max(limits.resume_factor * usual, _NOTABLE * room)
        jumped = [abs(value - middle) > edge for value in after]
        if not all(jumped[:_SURE_STEPS] + jumped[-_SURE_STEPS:]):
            continue
        return Symptom(
            "mismatch after a resume",
            run.resumed + 1,
            f"the {name} between trainer and sampler has been {statistics.median(after):.3g} since the run"
            f" went on after step {run.resumed}; before, it was {statistics.median(before):.3g}",
            "the engine probably has other weights than the checkpoint, or the optimizer lost its state:"
            f" {_other_weights(case)}",
            covers=("kl", "importance-ratio"),
        )
    return None


@_rule("distillation", "trainer", concept="teacher_kl", damages=True)
def _distillation(case: HealthInputs) -> Symptom | None:
    """Does a run that learns from a teacher go away from it, or never come nearer?"""
    if not (concept := case.learning.target):
        return None
    track, sign = case.run.track(concept), 1 if concept == "nll" else -1
    noun = "loss on the teacher's tokens" if concept == "nll" else "KL to the teacher"
    blocks = [
        sign * statistics.median(track.values[end - _LEVEL : end])
        for end in range(_LEVEL, len(track) + 1, _LEVEL)
    ]
    if len(blocks) < 2 or not all(map(math.isfinite, blocks)):
        return None
    now = sign * statistics.median(track.last(_LEVEL))
    start, best, clear = blocks[0], min(blocks), _CLEAR * _noise(track)
    if now > case.limits.teacher_factor * best and now - best > clear and best > 0:
        edge = (case.limits.teacher_factor * best) * sign
        since = track.since(lambda value: sign * value > sign * edge, gap=_LEVEL)
        return Symptom(
            "away from the teacher",
            since,
            f"the {noun} was {best:.3g} and is {now:.3g}",
            f"{_BACK} with a lower learning rate",
        )
    is_over = start - best > max(_RISE * start, clear) or start < case.limits.teacher_near
    if is_over or len(track) < case.limits.flat_steps or "self" in case.learning.signals:
        return None
    return Symptom(
        "no nearer to the teacher",
        track.steps[0],
        f"the {noun} was {start:.3g} in the first {_LEVEL} steps and is {now:.3g} in the last {_LEVEL} of"
        f" {len(track)}",
        "check that the teacher is the model that is meant and has the same tokens; the learning rate may be"
        " too low",
    )


@_rule("discarded", "orchestrator", concept="stale", spoils=False)
def _discarded(case: HealthInputs) -> Symptom | None:
    """Are most rollouts thrown away: too old, failed, or without anything to learn?"""
    run, limits = case.run, case.limits
    steps = run.collected.steps[-limits.lasting_steps :]
    by_step = [_shares(case, step) for step in steps]
    if len(steps) < limits.lasting_steps or not all(
        sum(shares.values()) > limits.discarded_frac for shares in by_step
    ):
        return None
    means = {why: statistics.fmean(shares[why] for shares in by_step) for why in by_step[0]}
    worst = max(means, key=means.__getitem__)
    advice = [
        f"{why}: {text}" + (f" ({', '.join(knobs)})" if (knobs := case.learning.knobs.get(why)) else "")
        for why, text in _AGAINST.items()
        if means[why] >= min(_MUCH, means[worst])
    ]
    shares_text = ", ".join(f"{100 * share:.0f} % {why}" for why, share in means.items() if share > 0)
    return Symptom(
        "rollouts are discarded",
        steps[0],
        f"{100 * sum(means.values()):.0f} % of the rollouts of the last {len(steps)} steps were not trained"
        f" on ({shares_text})",
        "; ".join(advice),
        covers=("staleness",) if means["stale"] >= _MUCH else (),
    )


_AGAINST: dict[Discard, str] = {
    "stale": "allow older ones, keep fewer in flight, or give inference more compute",
    "errored": f"read the failed ones ({hints.ROLLOUTS_ALL()}), and the output of the environment",
    "no signal": "use tasks of medium difficulty, or larger groups",
}


def _shares(case: HealthInputs, step: int) -> dict[Discard, float]:
    """Shares of the rollouts of a step that were not trained on, by reason: as the program tells them where
    most were discarded, else from its metrics.
    """

    def value(concept: str) -> float:
        found = case.run.track(concept).at(step)
        return found if found is not None and 0 <= found <= 1 else 0.0

    if case.run.track("discarded_stale").at(step) is not None:
        stale, errored, silent = map(value, ("discarded_stale", "discarded_errored", "discarded_no_signal"))
    else:
        stale, errored, silent = value("stale"), value("errors"), 0.0
        dropped, kept = (case.run.track(concept).at(step) or 0.0 for concept in ("dropped", "rollouts"))
        if case.run.track("stale").at(step) is None and dropped > 0 and math.isfinite(dropped + kept):
            stale = dropped / (dropped + max(kept, 0.0))
        if case.run.track("all_trainable").at(step) is not None:
            silent = max(0.0, 1 - value("all_trainable") - stale - errored)
    # where it learns from something else too, or has learnt the task, groups without a signal are no loss
    if case.learning.signals != {"reward"} or _is_learning(case.run):
        silent = 0.0
    return {"stale": stale, "errored": errored, "no signal": silent}


@_rule("truncation", "orchestrator", concept="truncation", spoils=False)
def _truncation(case: HealthInputs) -> Symptom | None:
    """Are many answers cut off at their longest length?"""
    track = case.run.track("truncation")
    if (since := _above(track, case.limits.truncated_frac, case.limits.lasting_steps)) is None:
        return None
    return Symptom(
        "rollouts are cut off",
        since,
        f"{100 * track.values[-1]:.0f} % of the rollouts have hit the length limit since step {since}",
        "cut-off answers get unreliable rewards; allow more tokens, or check"
        " that the policy still ends its answers",
    )


@_rule("staleness", "orchestrator", concept="staleness", spoils=False)
def _staleness(case: HealthInputs) -> Symptom | None:
    """Are rollouts sampled with old weights?"""
    track = case.run.track("staleness")
    if (since := _above(track, case.limits.staleness_steps, case.limits.lasting_steps)) is None:
        return None
    return Symptom(
        "rollouts are stale",
        since,
        f"since step {since}, rollouts have been sampled with weights {track.values[-1]:.3g} updates old",
        "keep fewer rollouts in flight, or let inference run fewer steps ahead",
    )


def _above(track: Track, edge: float, steps: int) -> int | None:
    """The first step of the newest streak above `edge`; `None` if the newest steps are not above it."""
    newest = track.last(steps)
    if len(newest) < steps or not min(newest) > edge:
        return None
    return track.since(lambda value: value > edge)


@_rule("grad-norm", "trainer", concept="grad_norm")
def _grad_norm(case: HealthInputs) -> Symptom | None:
    """Does the gradient norm have spikes?"""
    track = case.run.track("grad_norm")
    earlier, newest = track.last(_NORMAL_STEPS, before=_SPIKE_WINDOW), track.last(_SPIKE_WINDOW)
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
        f"lower the learning rate or the gradient clipping norm; if the reward falls, {_BACK}",
    )


@_rule("eval-falls", "orchestrator")
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


@_rule("evals-cancelled", "trainer", concept="eval_cancelled", spoils=False)
def _evals_cancelled(case: HealthInputs) -> Symptom | None:
    """Is each evaluation of an environment cancelled by the next checkpoint?"""
    for key, cancelled in case.run.cancelled_evals.items():
        env = key.name.split("/")[1]
        complete_steps = (
            track.steps[-1]
            for other, track in case.run.evals.items()
            if track and other.name.startswith(f"eval/{env}/")
        )
        last = max(complete_steps, default=-1)
        steps = [step for step in cancelled.steps if step > last]
        if len(steps) < case.limits.cancelled_evals:
            continue
        return Symptom(
            "evals are cancelled",
            steps[0],
            f"the last {len(steps)} evaluations on {plain_text(env)} were cancelled by the next checkpoint,"
            f" since step {steps[0]}",
            "evaluate less often (eval.interval) or fewer examples; or let each finish, and the trainer wait"
            " for it (eval.cancel_on_new_checkpoint = false)",
        )
    return None


@_rule("throughput", "trainer", concept="tokens_per_s", spoils=False)
def _throughput(case: HealthInputs) -> Symptom | None:
    """Has the run been much slower than before for a while?"""
    run, limits = case.run, case.limits
    track, best = run.track("tokens_per_s"), run.levels["tokens_per_s"].best
    newest = track.last(limits.lasting_steps)
    if best is None or len(newest) < limits.lasting_steps:
        return None
    edge = limits.throughput_frac * best.value
    if not max(newest) < edge:
        return None
    since = track.since(lambda value: value < edge)
    start_s, end_s = run.trained.at(since), run.trained.at(track.steps[-1])
    if start_s is None or end_s is None or not end_s - start_s >= limits.throughput_s:
        return None
    return Symptom(
        "throughput is down",
        since,
        f"{newest[-1]:,.0f} tokens/s since step {since}, down from {best.value:,.0f} around step {best.step}",
        "check for other load on this machine and its disks, and for longer rollouts",
    )


@_rule("flat", "orchestrator", spoils=False)
def _flat(case: HealthInputs) -> Symptom | None:
    """Has the reward not risen in many steps?"""
    if case.learning.has_rivals or case.run.has_agents:  # what one gains another may lose
        return None
    return next(filter(None, (_stays(reward, case.limits) for reward in case.rewards)), None)


def _stays(reward: _Reward, limits: Thresholds) -> Symptom | None:
    rewards, best = reward.track, reward.levels.best
    if len(rewards) < limits.flat_steps:
        return None
    start, now = statistics.median(rewards.values[:_LEVEL]), statistics.median(rewards.last(_LEVEL))
    if not math.isfinite(start + now) or start >= _HIGH:
        return None
    edge = start + max(_RISE, _CLEAR * _noise(rewards))
    if now > edge or (best is not None and best.value > edge) or _may_rise(rewards):
        return None
    return Symptom(
        "reward is flat",
        rewards.steps[0],
        f"{reward.name} was {start:.3g} in the first {_LEVEL} steps and is {now:.3g} in the last {_LEVEL} of"
        f" {len(rewards)}",
        "the task may be too hard for the model, or the learning rate too low; evaluate the base model,"
        " and read its rollouts",
    )


def _may_rise(track: Track) -> bool:
    """True if it rises for sure over all steps, or if with its noise a slow rise cannot be told from none."""
    points = [
        (step, value) for step, value in zip(track.steps, track.values, strict=True) if math.isfinite(value)
    ]
    if len(points) < _LEVEL:
        return True
    slope, level = statistics.linear_regression(*zip(*points, strict=True))
    middle = statistics.fmean(step for step, _ in points)
    spread = math.fsum((step - middle) ** 2 for step, _ in points)
    residue = math.fsum((value - level - slope * step) ** 2 for step, value in points)
    error = math.sqrt(residue / (len(points) - 2) / spread)
    return slope > _SURELY * error or slope + _PERHAPS * error >= _SLOW_RISE


@_rule("empty-batches", "orchestrator")
def _empty_batches(case: HealthInputs) -> Symptom | None:
    """Have batches in a row had nothing to train on?"""
    run, limits = case.run, case.limits
    track = run.track("empty_batches")
    if not track or (run.collected and run.collected.steps[-1] >= track.steps[-1]):
        return None
    step, count = track.steps[-1], int(track.values[-1])
    if count < limits.empty_batches:
        return None
    return Symptom(
        "empty batches",
        step,
        f"the last {count} batches for step {step} were empty: no trainable rollout in them",
        f"check their rollouts ({hints.ROLLOUTS_ALL()}): if all of a group get the same reward, or fail,"
        " fix the reward function, or use tasks of medium difficulty or larger groups",
        "error" if count >= limits.many_empty_batches else "warning",
        ("no-signal", "discarded"),
    )


@_rule("no-step", "trainer", spoils=False)
def _no_step(case: HealthInputs) -> Symptom | None:
    """Has there been no step for much longer than usual?"""
    run, limits = case.run, case.limits
    step_times = run.trained.last(_NORMAL_STEPS)
    periods = [later - earlier for earlier, later in pairwise(step_times) if later > earlier]
    # before the first step of this start there is no usual time: it may import, compile, load
    if case.now is None or len(periods) < limits.lasting_steps or step_times[-1] < case.started:
        return None
    median, silence = statistics.median(periods), case.now - step_times[-1]
    if not silence > max(limits.no_step_s, limits.no_step_factor * median, 2 * max(periods)):
        return None
    step = run.trained.steps[-1]
    usual = f"{median:.2g}s" if median < 10 else duration(median)
    return Symptom(
        "no step",
        step + 1,
        f"no step for {duration(silence)} after step {step}; usually one every {usual}",
        "read the last log lines of each component, and find which one the others wait for",
    )


if TYPE_CHECKING:
    RuleId = str
else:
    RuleId = Literal[tuple(RULES)]


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


def findings(case: HealthInputs) -> tuple[Finding, ...]:
    """Findings about a run, the worst first."""
    audible = (rule for rule in RULES.values() if rule.id not in case.limits.silent)
    found = [Finding(rule, *symptom) for rule in audible if (symptom := rule.find(case)) is not None]
    covered = {id_ for finding in found for id_ in finding.covers}
    shown = (finding for finding in found if finding.rule.id not in covered)
    return tuple(sorted(shown, key=lambda finding: finding.severity))  # `error` is before `warning`


def concept_beside(concerns: Sequence[HealthIssue]) -> str:
    """The metric to look at beside the reward: the one of the worst concern, else the entropy."""
    concepts = (RULES[issue.id].concept for issue in concerns if issue.id in RULES)
    return next(filter(None, concepts), "entropy")


def spoils(rule: str) -> bool:
    """Return `HealthRule.spoils` of a rule, and True for one of another version."""
    return rule not in RULES or RULES[rule].spoils


def health_issue_of(
    finding: Finding,
    *,
    component: str | None,
    last_good: int | None,
    edits: Sequence[str],
    back: RollbackOffer | None = None,
    name: str | None = None,
    more_advice: str = "",
    no_resume: str = "",
) -> HealthIssue:
    """A finding for people, with its context.

    Args:
        finding: of a rule.
        component: that it is about.
        last_good: the newest complete checkpoint from before it.
        edits: since that checkpoint, oldest first.
        back: offer to go back there.
        name: of the experiment, if commands need it.
        more_advice: of the framework.
        no_resume: reason why there is no going back to a checkpoint.
    """
    advice = finding.advice.replace(_BACK, "start over") if no_resume else finding.advice
    advice = f"{advice}; {more_advice}" if more_advice else advice
    sentences = [f"{finding.evidence}; {advice}"]
    if no_resume:
        sentences.append(no_resume)
    elif back is not None and back.resume_step is not None:
        sentences.append(hints.way_back(back.resume_step, back.edit, back.edits, name=name))
    elif last_good is not None:
        sentences.append(f"the last good checkpoint is {last_good}")
    elif finding.rule.spoils:
        sentences.append("no earlier checkpoint is complete")
    if edits and (back is None or tuple(edits) != (back.edit,)):
        more = f"{len(edits) - _EDITS} more and " if len(edits) > _EDITS else ""
        sentences.append(f"edited since: {more}{'; '.join(edits[-_EDITS:])}")
    return HealthIssue(
        id=finding.rule.id,
        word=finding.word,
        text=". ".join(
            sentence[0].upper() + sentence[1:] if index else sentence
            for index, sentence in enumerate(sentences)
        ),
        severity=finding.severity,
        component=component,
        since=finding.since,
        evidence=finding.evidence,
        advice=advice,
        last_good=last_good,
        edits=tuple(edits),
        back=back,
    )
