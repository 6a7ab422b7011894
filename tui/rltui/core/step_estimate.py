"""How long a training step will take, by the steps that were measured. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rltui.core.config_report import DerivedValue
from rltui.core.units import grouped

NAME = "estimated step time"


@dataclass(frozen=True, slots=True)
class StepSample:
    """A step that was measured."""

    step: int
    """As the framework numbers it."""
    seconds: float
    size: float | None
    """What it worked through, in the unit of the step to come; `None`: not known."""
    is_same: bool
    """The config was the one of the step to come."""


def estimate_step(samples: Sequence[StepSample], *, size: float | None, unit: str) -> DerivedValue | None:
    """The time of a step of `size` units: as with the same config, else at the pace of the others.

    `samples`: oldest first. `None` where they do not tell.
    """
    same = [sample for sample in samples if sample.is_same]
    if same:
        seconds = statistics.median(sample.seconds for sample in same)
        return _figure(seconds, f"median of {_steps(same)}, with this config")
    known = [(sample, sample.size) for sample in samples if sample.size]
    total_s = sum(sample.seconds for sample, _ in known)
    if not size or total_s <= 0:
        return None
    pace = sum(worth for _, worth in known) / total_s
    measured = f"{grouped(pace)} {unit} per s in {_steps([sample for sample, _ in known])}"
    return _figure(size / pace, f"{grouped(size)} {unit} per step / {measured}, with another config")


def _figure(seconds: float, text: str) -> DerivedValue:
    return DerivedValue(name=NAME, value=float(f"{seconds:.3g}"), unit="s", text=text)


def _steps(samples: Sequence[StepSample]) -> str:
    first, last = samples[0].step, samples[-1].step
    return f"step {last}" if first == last else f"steps {first} to {last}"
