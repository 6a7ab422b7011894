"""Rules about the pipeline of the run: weights, rollouts, batches, speed."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise

from rltui.base.text import duration
from rltui.core import hints
from rltui.core.logs.lines import plain_text
from rltui.core.metrics.health.rule import LEVEL, NORMAL_STEPS, HealthInputs, HealthRule, Symptom, is_learning
from rltui.core.metrics.learning import Discard
from rltui.core.metrics.tracks import Track

_SURE_STEPS = 2
"""Number of steps after a resume that are more than its first one."""
_NOTABLE = 0.1
"""Share of what is allowed from which on a jump is worth a word."""
_MUCH = 0.1
"""Share of the rollouts that calls for advice."""


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
        concept="kl",
    )


def _other_weights(case: HealthInputs) -> str:
    return f"`{hints.RESTART_INFERENCE(name=case.name)}` starts the engine again, and what must follow it"


def _resume_mismatch(case: HealthInputs) -> Symptom | None:
    """Do the policies of trainer and sampler differ since the run went on from a checkpoint?"""
    run, limits = case.run, case.limits
    ratio_room = min(limits.ratio_max - 1, 1 - limits.ratio_min)
    for concept, name, middle, room in (
        ("kl", "KL", 0.0, limits.kl_max), ("importance_ratio", "importance ratio", 1.0, ratio_room)
    ):  # fmt: skip
        track = run.track(concept)
        before, after = track.around_resume(run.resumed, LEVEL)
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
            concept=concept,
        )
    return None


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
        concept=next(filter(run.track, _SHOWN[worst]), ""),
    )


_AGAINST: dict[Discard, str] = {
    "stale": "allow older ones, keep fewer in flight, or give inference more compute",
    "errored": f"read the failed ones ({hints.ROLLOUTS_ALL()}), and the output of the environment",
    "no signal": "use tasks of medium difficulty, or larger groups",
}
_SHOWN: dict[Discard, tuple[str, ...]] = {
    "stale": ("discarded_stale", "cancelled", "dropped"),
    "errored": ("discarded_errored", "errors"),
    "no signal": ("discarded_no_signal", "all_trainable"),
}
"""Concepts that show how many, the first that the run has."""


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
        stale, errored, silent = value("cancelled"), value("errors"), 0.0
        dropped, kept = (case.run.track(concept).at(step) or 0.0 for concept in ("dropped", "rollouts"))
        if case.run.track("cancelled").at(step) is None and dropped > 0 and math.isfinite(dropped + kept):
            stale = dropped / (dropped + max(kept, 0.0))
        if case.run.track("all_trainable").at(step) is not None:
            silent = max(0.0, 1 - value("all_trainable") - stale - errored)
    # where it learns from something else too, or has learnt the task, groups without a signal are no loss
    if case.learning.signals != {"reward"} or is_learning(case.run):
        silent = 0.0
    return {"stale": stale, "errored": errored, "no signal": silent}


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
        concept="truncation",
    )


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
        concept="staleness",
    )


def _above(track: Track, edge: float, steps: int) -> int | None:
    """The first step of the newest streak above `edge`; `None` if the newest steps are not above it."""
    newest = track.last(steps)
    if len(newest) < steps or not min(newest) > edge:
        return None
    return track.since(lambda value: value > edge)


def _evals_cancelled(case: HealthInputs) -> Symptom | None:
    """Is each evaluation of an environment cancelled by the next checkpoint?"""
    for env, cancelled in case.run.cancelled_evals.items():
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
            "evaluate less often, or fewer examples; or let each finish, and the trainer wait for it",
        )
    return None


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
        concept="tokens_per_s",
    )


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


def _no_step(case: HealthInputs) -> Symptom | None:
    """Has there been no step for much longer than usual?"""
    run, limits = case.run, case.limits
    step_times = run.trained.last(NORMAL_STEPS)
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


RULES = (
    HealthRule("weights-lag", "orchestrator", _weights_lag),
    HealthRule("resume-mismatch", "trainer", _resume_mismatch),
    HealthRule("discarded", "orchestrator", _discarded, spoils=False),
    HealthRule("truncation", "orchestrator", _truncation, spoils=False),
    HealthRule("staleness", "orchestrator", _staleness, spoils=False),
    HealthRule("evals-cancelled", "trainer", _evals_cancelled, spoils=False),
    HealthRule("throughput", "trainer", _throughput, spoils=False),
    HealthRule("empty-batches", "orchestrator", _empty_batches),
    HealthRule("no-step", "trainer", _no_step, spoils=False),
)
