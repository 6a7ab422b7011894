from __future__ import annotations

import pytest

from rltui.core.metrics import StepSample, estimate_step


def sample(step: int, seconds: float, size: float | None = 1000.0) -> StepSample:
    return StepSample(step, seconds, size)


def test_the_steps_of_the_last_size_tell_by_their_median() -> None:
    samples = [sample(1, 50.0, 2000.0), sample(2, 4.0), sample(3, 6.0), sample(4, 4.1)]
    found = estimate_step(samples, size=1000.0, unit="tokens")
    assert found is not None
    assert (found.name, found.value, found.unit) == ("estimated step time", 4.1, "s")
    assert found.text == "median of steps 2 to 4"


def test_another_size_takes_its_share_of_the_same_time() -> None:
    samples = [sample(3, 2.0, 9.0), sample(4, 3.0, 2000.0), sample(5, 7.0, 2000.0)]
    found = estimate_step(samples, size=1200.0, unit="tokens")
    assert found is not None
    assert found.value == 3.0
    assert found.text == "1,200 tokens per step at the pace of 2,000 in 5 s, the median of steps 4 to 5"


def test_where_sizes_are_not_known_steps_take_what_they_took() -> None:
    found = estimate_step([sample(1, 2.0, None), sample(2, 4.0, None)], size=None, unit="tokens")
    assert found is not None
    assert found.value == 3.0


@pytest.mark.parametrize(
    ("samples", "size"),
    [([], 9.0), ([sample(1, 2.0)], None), ([sample(1, 2.0, None)], 9.0), ([sample(1, 0.0)], 9.0)],
    ids=["no steps", "no size", "no sizes", "no time"],
)
def test_nothing_is_guessed(samples: list[StepSample], size: float | None) -> None:
    assert estimate_step(samples, size=size, unit="tokens") is None
