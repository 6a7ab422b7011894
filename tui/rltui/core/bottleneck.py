"""Who waits for whom in a run, measured over its last steps, and the knob that moves it. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rltui.core.api import Bottleneck
from rltui.core.run_figures import RunFigures, Track
from rltui.core.stalls import InferenceActivity

_STEPS = 10
_FEWEST_STEPS = 3
_MUCH = 0.25
"""Share of the time from which on somebody waits for another."""
_GAP = 10.0
"""A step that took so many times the usual time had a restart in it."""
_FULL = 0.9
"""Share of the KV cache in use, from which on it is full."""
_QUEUED = 0.1
"""Share of the requests that wait, from which on there is a queue."""


@dataclass(frozen=True, slots=True)
class BottleneckKnobs:
    """Dotted keys of the knobs that move a bottleneck; `None` for those that this config cannot have."""

    in_flight: str | None = None
    kv_memory: str | None = None
    sequences: str | None = None
    """Requests that the inference server works on at the same time."""
    lead: str | None = None
    """How far rollouts may be ahead of the training."""


def bottleneck(
    run: RunFigures,
    activities: Sequence[InferenceActivity],
    knobs: BottleneckKnobs,
    names: Mapping[str, str],
    *,
    started: float = 0.0,
) -> Bottleneck | None:
    """Who waits most. `activities`: of all inference servers together, the last looks, oldest first.

    `names`: the components that are `trainer`, `orchestrator` and `inference`. `started`: of the present
    attempts; what waited before that says nothing of them.
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
            do = "give it more memory, or have fewer or shorter rollouts"
        elif load is not None and load.is_queued:
            advice, knob = f"{load.waiting:.0f} requests wait for the server", knobs.sequences
            do = "let it work on more at the same time, or add inference GPUs"
        elif load is not None:
            advice, knob = f"the server has room ({load.running:.0f} requests run)", knobs.in_flight
            do = "have more rollouts in flight"
        else:
            advice, knob = "rollouts are slower than the training", knobs.in_flight
            do = "have more rollouts in flight, or add inference GPUs"
        where = f" ({knob})" if knob else ""
        return _made(names.get("trainer", "trainer"), "a batch", waits, f"{advice}: {do}{where}", knob)
    ahead = f"let them be further ahead with {knobs.lead}" if knobs.lead else "give the trainer more GPUs"
    return _made(
        names.get("orchestrator", "orchestrator"),
        "weights",
        waits,
        f"training is slower than the rollouts: {ahead}, or train on less per step",
        knobs.lead,
    )


def _in_queue(
    activities: Sequence[InferenceActivity], knobs: BottleneckKnobs, names: Mapping[str, str]
) -> Bottleneck | None:
    """Where no metrics tell who waits, the queue of the servers does."""
    load = _load(activities)
    if load is None or not load.is_queued:
        return None
    what, knob = ("KV cache", knobs.kv_memory) if load.is_full else ("a free place", knobs.sequences)
    where = f" ({knob})" if knob else ""
    name, share = names.get("inference", "inference"), load.waiting / (load.waiting + load.running)
    both = load.waiting + load.running
    text = f"{load.waiting:.0f} of {both:.0f} requests to {name} wait for {what}: give it more{where}"
    return Bottleneck(waits=name, waits_for=what, share_frac=round(share, 3), steps=0, text=text, knob=knob)


def _made(who: str, what: str, waits: tuple[float, int], advice: str, knob: str | None) -> Bottleneck:
    share, steps = waits
    text = f"{who} waits for {what} {100 * share:.0f} % of the time, in the last {steps} steps; {advice}"
    return Bottleneck(
        waits=who, waits_for=what, share_frac=round(share, 3), steps=steps, text=text, knob=knob
    )


def _share(waits: Track, done: Track, started: float) -> tuple[float, int] | None:
    """Share of the last steps that was waited, and of how many; `None` where that is not known."""
    spans: list[tuple[float, float]] = []
    for step, wait in zip(waits.steps[-_STEPS:], waits.last(_STEPS), strict=True):
        end, begin = done.at(step), done.at(step - 1)
        if end is not None and begin is not None and end > begin >= started and wait >= 0:
            spans.append((min(wait, end - begin), end - begin))
    if len(spans) < _FEWEST_STEPS:
        return None
    usual = statistics.median(span for _, span in spans)
    counted = [(wait, span) for wait, span in spans if span <= _GAP * usual]
    return sum(wait for wait, _ in counted) / sum(span for _, span in counted), len(counted)


@dataclass(frozen=True, slots=True)
class _Load:
    """Means over the last looks at the servers."""

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
    uses = [each.kv_usage_frac for each in activities if each.kv_usage_frac is not None]
    return _Load(
        statistics.mean(each.running for each in activities),
        statistics.mean(each.waiting for each in activities),
        statistics.mean(uses) if uses else None,
    )
