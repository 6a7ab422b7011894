"""The waiting program of a run, measured over its last steps, and the knob that moves it. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rltui.core.experiment.api import Bottleneck
from rltui.core.metrics.engine import InferenceActivity
from rltui.core.metrics.tracks import RunTracks, Track

_STEPS = 10
_FEWEST_STEPS = 3
_MUCH = 0.25
"""Share of the time above which a wait counts."""
_SOME = 0.1
"""Share of the time from which on a wait of the other one counts, too."""
_GAP = 10.0
"""A step that took this many times the median had a restart in it."""
_FULL = 0.9
"""Share of the KV cache in use above which it counts as full."""
_QUEUED = 0.1
"""Share of waiting requests above which there is a queue."""


@dataclass(frozen=True, slots=True)
class BottleneckKnobs:
    """Dotted keys of the knobs that move a bottleneck; `None` for those that this config cannot have."""

    in_flight: str | None = None
    kv_memory: str | None = None
    sequences: str | None = None
    """Requests that the inference server works on at the same time."""
    lead: str | None = None
    """Number of steps that rollouts may be ahead of the training."""


def bottleneck(
    run: RunTracks,
    activities: Sequence[InferenceActivity],
    knobs: BottleneckKnobs,
    names: Mapping[str, str],
    *,
    started: float = 0.0,
) -> Bottleneck | None:
    """The program that waits most. `activities`: of all inference servers together, the last samples, oldest
    first.

    `names`: the components that are `trainer`, `orchestrator` and `inference`. `started`: start time of the
    present attempts; earlier waits are ignored.
    """
    trainer = _share(run.track("wait_for_batch"), run.trained, started)
    orchestrator = _share(run.track("wait_for_policy"), run.collected, started)
    waits = max(trainer or (0.0, 0), orchestrator or (0.0, 0))
    if waits[0] < _MUCH:
        return _in_queue(activities, knobs, names) if trainer is None and orchestrator is None else None
    if waits == trainer:
        load = _load(activities)
        if load is not None and load.is_full:
            advice, knob = f"the KV cache is full ({load.kv_text})", knobs.kv_memory
            do = "give the KV cache more memory, or use fewer or shorter rollouts"
        elif load is not None and load.is_queued:
            advice, knob = f"{load.waiting:.0f} requests are waiting for the server", knobs.sequences
            do = "let the server run more requests at a time, or give it more compute"
        elif load is not None:
            advice, knob = f"the server has room ({load.running:.0f} requests running)", knobs.in_flight
            do = "keep more rollouts in flight"
        else:
            advice, knob = "rollouts are slower than training", knobs.in_flight
            do = "keep more rollouts in flight, or give inference more compute"
        where = f" ({knob})" if knob else ""
        return _bottleneck(names.get("trainer", "trainer"), "a batch", waits, f"{advice}: {do}{where}", knob)
    # being further ahead helps only where the trainer waits in its turn
    lead = knobs.lead if trainer is None or trainer[0] >= _SOME else None
    remedy = f"raise {lead}" if lead else "give the trainer more compute, or less work per step"
    return _bottleneck(
        names.get("orchestrator", "orchestrator"),
        "weights",
        waits,
        f"training is slower than rollouts: {remedy}",
        lead,
    )


def _in_queue(
    activities: Sequence[InferenceActivity], knobs: BottleneckKnobs, names: Mapping[str, str]
) -> Bottleneck | None:
    """Judge by the queue of the servers, if no metrics tell who waits."""
    load = _load(activities)
    if load is None or not load.is_queued:
        return None
    what, knob, do = (
        ("KV cache", knobs.kv_memory, "give the cache more memory")
        if load.is_full
        else ("a free slot", knobs.sequences, "allow more requests at a time")
    )
    where = f" ({knob})" if knob else ""
    name, share = names.get("inference", "inference"), load.waiting / (load.waiting + load.running)
    total = load.waiting + load.running
    text = f"{load.waiting:.0f} of {total:.0f} requests to {name} wait for {what}; {do}{where}"
    return Bottleneck(waits=name, waits_for=what, share_frac=round(share, 3), steps=0, text=text, knob=knob)


def _bottleneck(who: str, what: str, waits: tuple[float, int], advice: str, knob: str | None) -> Bottleneck:
    share, steps = waits
    text = f"{who} waits for {what} {100 * share:.0f} % of the time (last {steps} steps); {advice}"
    return Bottleneck(
        waits=who, waits_for=what, share_frac=round(share, 3), steps=steps, text=text, knob=knob
    )


def _share(waits: Track, step_ends: Track, started: float) -> tuple[float, int] | None:
    """Waiting share of the last steps, and their number; `None` if unknown."""
    spans: list[tuple[float, float]] = []
    for step, wait in zip(waits.steps[-_STEPS:], waits.last(_STEPS), strict=True):
        end_s, start_s = step_ends.at(step), step_ends.at(step - 1)
        if end_s is not None and start_s is not None and end_s > start_s >= started and wait >= 0:
            spans.append((min(wait, end_s - start_s), end_s - start_s))
    if len(spans) < _FEWEST_STEPS:
        return None
    median_s = statistics.median(span for _, span in spans)
    regular = [(wait, span) for wait, span in spans if span <= _GAP * median_s]
    return sum(wait for wait, _ in regular) / sum(span for _, span in regular), len(regular)


@dataclass(frozen=True, slots=True)
class _Load:
    """Means over the last samples of the servers."""

    running: float
    waiting: float
    kv_frac: float | None

    @property
    def is_full(self) -> bool:
        return self.kv_frac is not None and self.kv_frac >= _FULL

    @property
    def is_queued(self) -> bool:
        return self.waiting >= 1 and self.waiting >= _QUEUED * (self.waiting + self.running)

    @property
    def kv_text(self) -> str:
        return f"{100 * (self.kv_frac or 0.0):.0f} %"


def _load(activities: Sequence[InferenceActivity]) -> _Load | None:
    if not activities:
        return None
    usage_fracs = [activity.kv_usage_frac for activity in activities if activity.kv_usage_frac is not None]
    return _Load(
        statistics.mean(activity.running for activity in activities),
        statistics.mean(activity.waiting for activity in activities),
        statistics.mean(usage_fracs) if usage_fracs else None,
    )
