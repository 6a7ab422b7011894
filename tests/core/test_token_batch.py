from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.core.batch import RolloutBatch, TokenBatch, in_rollouts, in_tokens, oversampling

GROUPS = st.integers(1, 64)
MEANS = st.floats(1.0, 100_000.0)


@pytest.mark.parametrize(
    ("batch", "made"),
    [
        (RolloutBatch(128), TokenBatch(12_787, 128)),
        (RolloutBatch(128, factor=2.0), TokenBatch(12_787, 256)),
        (RolloutBatch(128, factor=1.3), TokenBatch(12_787, 166)),
        (RolloutBatch(128, inflight=64), TokenBatch(12_787, 64)),
        (RolloutBatch(128, inflight=8), TokenBatch(12_787, 16)),
    ],
    ids=["plain", "twice", "a fraction", "fixed", "less than a group"],
)
def test_in_tokens(batch: RolloutBatch, made: TokenBatch) -> None:
    assert in_tokens(batch, group=16, mean_tokens=99.9) == made


@pytest.mark.parametrize(
    ("batch", "made"),
    [
        (TokenBatch(12_787, 128), RolloutBatch(128)),
        (TokenBatch(12_787, 256), RolloutBatch(128, factor=2.0)),
        (TokenBatch(12_787, 166), RolloutBatch(128, factor=1.3)),
        (TokenBatch(12_787, 64), RolloutBatch(128, inflight=64)),
        (TokenBatch(12_787), RolloutBatch(128)),
        (TokenBatch(10), RolloutBatch(16)),
        (TokenBatch(2300), RolloutBatch(16)),
        (TokenBatch(2500), RolloutBatch(32)),
    ],
    ids=["plain", "twice", "a fraction", "fixed", "nothing in flight", "at least a group", "down", "up"],
)
def test_in_rollouts(batch: TokenBatch, made: RolloutBatch) -> None:
    assert in_rollouts(batch, group=16, mean_tokens=99.9) == made


@given(GROUPS, st.integers(1, 200), MEANS, st.one_of(st.none(), st.floats(1.0, 8.0)), st.integers(0, 20_000))
def test_there_and_back_is_the_same_batch(
    group: int, groups: int, mean: float, factor: float | None, inflight: int
) -> None:
    fixed = inflight if factor is None and inflight >= group else None
    batch = RolloutBatch(group * groups, inflight=fixed, factor=factor)
    tokens = in_tokens(batch, group=group, mean_tokens=mean)
    back = in_rollouts(tokens, group=group, mean_tokens=mean)
    assert back.size == batch.size
    assert back.at_once == batch.at_once
    assert in_tokens(back, group=group, mean_tokens=mean) == tokens


@given(GROUPS, st.integers(1, 10_000_000), MEANS, st.integers(1, 20_000))
def test_back_is_in_whole_groups_and_within_half_a_group(
    group: int, tokens: int, mean: float, inflight: int
) -> None:
    made = in_rollouts(TokenBatch(tokens, inflight), group=group, mean_tokens=mean)
    assert made.size % group == 0
    assert made.at_once == inflight
    assert made.inflight is None or made.factor is None, "one of them, never both"
    assert made.size == group or abs(made.size - tokens / mean) <= group / 2 + 1e-6


@pytest.mark.parametrize(("size", "inflight", "factor"), [(3, 10, 3.4), (7, 8, 1.2), (128, 127, None)])
def test_oversampling_has_few_decimals(size: int, inflight: int, factor: float | None) -> None:
    assert oversampling(size, inflight) == factor
