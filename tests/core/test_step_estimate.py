from __future__ import annotations

import pytest

from rltui.core.step_estimate import StepSample, estimate_step


def sample(step: int, seconds: float, size: float | None = 1000.0, *, is_same: bool = False) -> StepSample:
    return StepSample(step, seconds, size, is_same)


def test_steps_with_this_config_tell_by_their_median() -> None:
    samples = [
        sample(1, 50.0),
        sample(2, 4.0, is_same=True),
        sample(3, 6.0, is_same=True),
        sample(4, 4.1, is_same=True),
    ]
    found = estimate_step(samples, size=9.0, unit="tokens")
    assert found is not None
    assert (found.name, found.value, found.unit) == ("estimated step time", 4.1, "s")
    assert found.text == "median of steps 2 to 4, with this config"


def test_other_steps_tell_the_pace() -> None:
    samples = [sample(3, 2.0, 1000.0), sample(4, 3.0, 2000.0), sample(5, 7.0, None)]
    found = estimate_step(samples, size=1200.0, unit="tokens")
    assert found is not None
    assert found.value == 2.0
    assert found.text == "1,200 tokens per step / 600 tokens per s in steps 3 to 4, with another config"


@pytest.mark.parametrize(
    ("samples", "size"),
    [([], 9.0), ([sample(1, 2.0)], None), ([sample(1, 2.0, None)], 9.0), ([sample(1, 0.0)], 9.0)],
    ids=["no steps", "no size", "no sizes", "no time"],
)
def test_nothing_is_guessed(samples: list[StepSample], size: float | None) -> None:
    assert estimate_step(samples, size=size, unit="tokens") is None
