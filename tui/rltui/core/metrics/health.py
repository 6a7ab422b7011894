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
from rltui.core.metrics.tracks import RunTracks, Track


class Symptom(NamedTuple):
    """A finding of a rule about the run as it is now."""

    word: str
    """Short name, such as `reward collapsed`."""
    since: int
    """The first affected step, counted from 1."""
    evidence: str
    advice: str
    severity: HealthSeverity = "warning"


@dataclass(frozen=True, slots=True)
class HealthInputs:
    """The inputs of the rules."""

    run: RunTracks
    limits: Thresholds
    now: float | None = None
    """Set if steps are to be expected …"""
    started: float = 0.0
    """… in the start that began then."""


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
    limits, rewards, levels = case.limits, case.run.track("reward"), case.run.levels["reward"]
    best, newest = levels.best, rewards.last(limits.lasting_steps)
    if best is None or levels.floor is None or len(newest) < limits.lasting_steps:
        return None
    floor = levels.floor
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
        f"the reward was {best.value:.2f} around step {best.step} and has been at most {max(newest):.2f}"
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
    if len(track) < 2 * steps or not rewards or _is_learning(run):
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
    for concept in ("trainable", "grad_norm"):
        track = case.run.track(concept)
        newest = track.last(steps)  # log lines round it: one that is only small does not stay below
        if len(newest) < steps or any(newest):
            continue
        symptom = "no trainable rollout" if concept == "trainable" else "zero gradient"
        mean = f", {rewards[-1]:.3g} on average" if (rewards := case.run.track("reward").last(1)) else ""
        since = track.since(lambda value: value == 0)
        return Symptom(
            "no signal",
            since,
            f"no learning signal since step {since} ({symptom}): probably all rollouts of a group get the"
            f" same reward{mean}",
            "check the reward function; use tasks of medium difficulty, or larger groups",
        )
    return None


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
        if len(track) < 3:
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
    rewards, best = case.run.track("reward"), case.run.levels["reward"].best
    if len(rewards) < case.limits.flat_steps:
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
        f"the reward was {start:.3g} in the first {_LEVEL} steps and is {now:.3g} in the last {_LEVEL} of"
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
    found = (Finding(rule, *symptom) for rule in audible if (symptom := rule.find(case)) is not None)
    return tuple(sorted(found, key=lambda finding: finding.severity))  # `error` is before `warning`


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
