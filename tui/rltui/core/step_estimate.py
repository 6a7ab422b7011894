"""How long a training step will take, by the steps that were measured. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rltui.core.config_report import DerivedValue
from rltui.core.text import grouped

NAME = "estimated step time"


@dataclass(frozen=True, slots=True)
class StepSample:
    """A step that was measured."""

    step: int
    """As the framework numbers it."""
    seconds: float
    size: float | None
    """What it worked through, in the unit of the step to come; `None`: not known."""


def estimate_step(samples: Sequence[StepSample], *, size: float | None, unit: str) -> DerivedValue | None:
    """The time of a step of `size` units, at the pace of the steps that were measured last, all of one size.

    `samples`: oldest first. `None` where they do not tell. One way for every config: what does not change
    the size does not change the estimate.
    """
    last = [sample for sample in samples if sample.size == samples[-1].size]
    if not last:
        return None
    then, seconds = last[-1].size, statistics.median(sample.seconds for sample in last)
    if seconds <= 0:
        return None
    if size == then:
        return _figure(seconds, f"median of {_steps(last)}")
    if not size or not then:
        return None
    pace = f"{grouped(then)} in {seconds:.3g} s, the median of {_steps(last)}"
    return _figure(size * seconds / then, f"{grouped(size)} {unit} per step at the pace of {pace}")


def _figure(seconds: float, text: str) -> DerivedValue:
    return DerivedValue(name=NAME, value=float(f"{seconds:.3g}"), unit="s", text=text)


def _steps(samples: Sequence[StepSample]) -> str:
    first, last = samples[0].step, samples[-1].step
    return f"step {last}" if first == last else f"steps {first} to {last}"
