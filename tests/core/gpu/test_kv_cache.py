from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.core.gpu.budget import GRAPHS_BYTES, EngineFigures, EngineMemory, ModelShape, kv_cache, share_bytes
from rltui.core.text import GIB

TOTAL = 80 * GIB
ENGINE = EngineMemory("inference", 0.5, max_model_len=4096, version=(0, 16))
SHAPE = ModelShape(
    weights_bytes=16 * GIB,
    kv_bytes_per_token=144 * 1024,
    activation_bytes_per_token=100 * 1024,
    logits_bytes_per_request=4 * 150_000,
    kv_heads=8,
    max_positions=40_960,
)


def test_the_last_attempt_tells_what_another_utilization_leaves() -> None:
    figures = EngineFigures(budget_bytes=72 * GIB, kv_cache_bytes=50 * GIB, kv_cache_tokens=400_000)
    found = kv_cache(ENGINE, TOTAL, figures=figures, shape=SHAPE)
    assert found is not None
    assert found.size_bytes == 40 * GIB - 22 * GIB
    assert found.tokens == 400_000 * 18 // 50
    assert found.requests == pytest.approx(144_000 / 4096)
    assert "measured" in found.notes[0]


def test_a_budget_that_the_output_did_not_name_follows_from_its_utilization() -> None:
    figures = EngineFigures(utilization=0.9, kv_cache_bytes=50 * GIB)
    found = kv_cache(ENGINE, TOTAL, figures=figures)
    assert found is not None
    assert found.size_bytes == share_bytes(TOTAL, 0.5) - (share_bytes(TOTAL, 0.9) - 50 * GIB)
    assert found.tokens is None


def test_without_an_attempt_the_model_tells() -> None:
    found = kv_cache(ENGINE, TOTAL, shape=SHAPE)
    assert found is not None
    forward = 8192 * 100 * 1024
    logits = 2 * 1024 * 4 * 150_000
    assert found.size_bytes == 40 * GIB - 16 * GIB - max(forward, logits)
    assert found.tokens == found.size_bytes // (144 * 1024)
    assert "estimated" in found.notes[0]


def test_from_0_21_on_graphs_are_within_the_budget() -> None:
    old, new = (
        kv_cache(replace(ENGINE, version=version), TOTAL, shape=SHAPE) for version in ((0, 18), (0, 21))
    )
    eager = kv_cache(replace(ENGINE, version=(0, 21), enforce_eager=True), TOTAL, shape=SHAPE)
    assert old is not None
    assert new is not None
    assert old.size_bytes - new.size_bytes == GRAPHS_BYTES
    assert eager == old


def test_an_unknown_version_is_that_of_the_last_attempt() -> None:
    figures = EngineFigures(version=(0, 16))
    unknown = replace(ENGINE, version=None)
    assert kv_cache(unknown, TOTAL, figures=figures, shape=SHAPE) == kv_cache(ENGINE, TOTAL, shape=SHAPE)


def test_devices_share_the_weights() -> None:
    alone, shared = (
        kv_cache(replace(ENGINE, tensor_parallel=parallel), TOTAL, shape=SHAPE) for parallel in (1, 4)
    )
    assert alone is not None
    assert shared is not None
    assert shared.size_bytes - alone.size_bytes == 12 * GIB


def test_devices_share_the_heads_but_no_head_is_halved() -> None:
    for parallel, parts in ((1, 1), (4, 4), (16, 8)):
        engine = replace(ENGINE, tensor_parallel=parallel, kv_cache_memory_bytes=GIB)
        found = kv_cache(engine, TOTAL, shape=SHAPE)
        assert found is not None
        assert found.tokens == GIB * parts // (144 * 1024)


def test_a_size_that_is_set_counts_whatever_the_utilization() -> None:
    figures = EngineFigures(budget_bytes=72 * GIB, kv_cache_bytes=50 * GIB)
    found = kv_cache(replace(ENGINE, kv_cache_memory_bytes=3 * GIB), TOTAL, figures=figures)
    assert found is not None
    assert found.size_bytes == 3 * GIB


def test_a_model_that_takes_long_requests_needs_room_for_one() -> None:
    small = replace(ENGINE, kv_cache_memory_bytes=2 * GIB)
    found = kv_cache(replace(small, max_model_len=None), TOTAL, shape=SHAPE)
    assert found is not None
    assert found.longest_request == 40_960
    assert not found.suffices
    enough = kv_cache(small, TOTAL, shape=SHAPE)
    assert enough is not None
    assert enough.suffices


def test_nothing_known_says_nothing() -> None:
    assert kv_cache(ENGINE, TOTAL) is None
    assert kv_cache(ENGINE, TOTAL, figures=EngineFigures(version=(0, 16)), shape=ModelShape()) is None


def test_a_figure_that_contradicts_itself_is_not_used() -> None:
    figures = EngineFigures(budget_bytes=GIB, kv_cache_bytes=50 * GIB)
    assert kv_cache(ENGINE, TOTAL, figures=figures) is None


def test_layers_that_are_left_out_are_told_of() -> None:
    found = kv_cache(ENGINE, TOTAL, shape=replace(SHAPE, kv_is_lower_bound=True))
    assert found is not None
    assert any("at most" in note for note in found.notes)


@given(st.integers(1, 99), st.integers(1, 99), st.integers(0, 40 * GIB))
def test_the_same_utilization_gives_the_same_cache_and_more_gives_more(old: int, new: int, kept: int) -> None:
    budget = share_bytes(TOTAL, old / 100)
    measured = max(0, budget - kept)
    figures = EngineFigures(budget_bytes=budget, kv_cache_bytes=measured)
    again = kv_cache(replace(ENGINE, utilization=old / 100), TOTAL, figures=figures)
    other = kv_cache(replace(ENGINE, utilization=new / 100), TOTAL, figures=figures)
    assert again is not None
    assert other is not None
    assert again.size_bytes == measured
    assert (other.size_bytes > measured) == (new > old)
