from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.base.text import GIB
from rltui.core.gpu.budget import (
    CONTEXT_BYTES,
    GRAPHS_BYTES,
    EngineMeasurements,
    EngineMemory,
    KvCache,
    MemoryRule,
    ModelShape,
    largest_passing_utilization,
    share_bytes,
    utilization_within,
)
from rltui.frameworks.engines.vllm import VLLM
from rltui.frameworks.memory import MEMORY


@pytest.mark.parametrize(
    ("version", "names_device", "graphs_in_budget"),
    [
        ((0, 12), False, False),
        ((0, 14), True, False),
        ((0, 18), True, False),
        ((0, 21), True, True),
        ((1, 0), True, True),
        (None, True, True),
    ],
)
def test_a_version_has_its_rule(
    version: tuple[int, int] | None, names_device: bool, graphs_in_budget: bool
) -> None:
    rule = VLLM.memory.of(version)
    assert ("cuda:" in rule.start_refusal, rule.graphs_in_budget) == (names_device, graphs_in_budget)


@pytest.mark.parametrize("entry", VLLM.memory.versions, ids=lambda entry: str(entry.since))
def test_what_is_predicted_reads_like_what_vllm_says(entry: MemoryRule) -> None:
    pattern = next(pattern for pattern in MEMORY if pattern.name == "F_FREE")
    text = entry.refusal(
        free_bytes=5 * GIB, usable_bytes=23 * GIB, utilization=0.8, budget_bytes=18 * GIB, local_device=2
    )
    result = pattern.compiled.search(text)
    assert result
    assert result.groupdict() | {"free": "5.00", "total": "23.00", "want": "18.00"} == result.groupdict()


SIZES = st.integers(4 * GIB, 300 * GIB)
UTILIZATIONS = st.integers(1, 100).map(lambda part: part / 100)


@given(SIZES, st.integers(0, 300 * GIB))
def test_the_largest_utilization_within_a_size_is_the_largest(total: int, room: int) -> None:
    result = utilization_within(total, room)
    hundredths = 0 if result is None else round(result * 100)
    assert 0 <= hundredths <= 100
    assert hundredths == 0 or math.ceil(total * (hundredths / 100)) <= room
    assert hundredths == 100 or math.ceil(total * ((hundredths + 1) / 100)) > room


def test_a_budget_that_is_rounded_up_beyond_the_size_is_too_large() -> None:
    assert math.ceil(100 * 0.07) == 8
    assert utilization_within(100, 7) == 0.06


@given(SIZES, st.floats(0, 1))
def test_the_largest_passing_one_passes_with_the_context_made(total: int, free_frac: float) -> None:
    free = int(total * free_frac)
    result = largest_passing_utilization(total, free)
    if result is None:
        assert free - CONTEXT_BYTES < 0.02 * total
        return
    assert 0.01 <= result <= 0.99
    assert free - CONTEXT_BYTES >= share_bytes(total, result)


def test_on_a_large_device_one_hundredth_is_kept_for_the_context() -> None:
    free, total = 60 * GIB, 79 * GIB + 9 * GIB // 10
    rule_of_thumb = math.floor(free / total * 100) / 100 - 0.01
    assert largest_passing_utilization(total, free) == round(rule_of_thumb, 2) == 0.74


TOTAL = 80 * GIB
ENGINE = EngineMemory("inference", 0.5, rules=VLLM.memory, max_model_len=4096, version=(0, 16))
SHAPE = ModelShape(
    weights_bytes=16 * GIB,
    kv_bytes_per_token=144 * 1024,
    activation_bytes_per_token=100 * 1024,
    logits_bytes_per_request=4 * 150_000,
    kv_heads=8,
    max_positions=40_960,
)


def cache(
    engine: EngineMemory, measurements: EngineMeasurements | None = None, shape: ModelShape | None = None
) -> KvCache:
    result = known(engine, measurements, shape).kv_cache(TOTAL)
    assert result is not None
    return result


def known(
    engine: EngineMemory, measurements: EngineMeasurements | None = None, shape: ModelShape | None = None
) -> EngineMemory:
    return replace(engine, measured=measurements or EngineMeasurements(), shape=shape or ModelShape())


def test_a_running_engine_holds_more_than_its_budget() -> None:
    old, new = (replace(ENGINE, version=version) for version in ((0, 16), (0, 32)))
    assert new.overhead_bytes == CONTEXT_BYTES
    assert old.overhead_bytes == CONTEXT_BYTES + GRAPHS_BYTES
    assert replace(old, enforce_eager=True).overhead_bytes == CONTEXT_BYTES
    assert known(old, EngineMeasurements(graphs_bytes=3 * GIB)).overhead_bytes == 3 * GIB + CONTEXT_BYTES


def test_the_last_attempt_tells_what_another_utilization_leaves() -> None:
    measurements = EngineMeasurements(budget_bytes=72 * GIB, kv_cache_bytes=50 * GIB, kv_cache_tokens=400_000)
    result = cache(ENGINE, measurements, shape=SHAPE)
    assert result.size_bytes == 40 * GIB - 22 * GIB
    assert result.tokens == 400_000 * 18 // 50
    assert result.requests == pytest.approx(144_000 / 4096)
    assert "measured" in result.notes[0]


def test_a_budget_that_the_output_did_not_name_follows_from_its_utilization() -> None:
    measurements = EngineMeasurements(utilization=0.9, kv_cache_bytes=50 * GIB)
    result = cache(ENGINE, measurements)
    assert result.size_bytes == share_bytes(TOTAL, 0.5) - (share_bytes(TOTAL, 0.9) - 50 * GIB)
    assert result.tokens is None


def test_without_an_attempt_the_model_tells() -> None:
    result = cache(ENGINE, shape=SHAPE)
    forward = 8192 * 100 * 1024
    logits = 2 * 1024 * 4 * 150_000
    assert result.size_bytes == 40 * GIB - 16 * GIB - max(forward, logits)
    assert result.tokens == result.size_bytes // (144 * 1024)
    assert "estimated" in result.notes[0]


def test_from_0_21_on_graphs_are_within_the_budget() -> None:
    old, new = (cache(replace(ENGINE, version=version), shape=SHAPE) for version in ((0, 18), (0, 21)))
    eager = cache(replace(ENGINE, version=(0, 21), enforce_eager=True), shape=SHAPE)
    assert old.size_bytes - new.size_bytes == GRAPHS_BYTES
    assert eager == old


def test_an_unknown_version_is_that_of_the_last_attempt() -> None:
    measurements = EngineMeasurements(version=(0, 16))
    unknown = replace(ENGINE, version=None)
    assert cache(unknown, measurements, shape=SHAPE) == cache(ENGINE, shape=SHAPE)


def test_devices_share_the_weights() -> None:
    alone, shared = (cache(replace(ENGINE, tensor_parallel=parallel), shape=SHAPE) for parallel in (1, 4))
    assert shared.size_bytes - alone.size_bytes == 12 * GIB


def test_devices_share_the_heads_but_no_head_is_halved() -> None:
    for parallel, parts in ((1, 1), (4, 4), (16, 8)):
        engine = replace(ENGINE, tensor_parallel=parallel, kv_cache_memory_bytes=GIB)
        result = cache(engine, shape=SHAPE)
        assert result.tokens == GIB * parts // (144 * 1024)


def test_a_size_that_is_set_counts_whatever_the_utilization() -> None:
    measurements = EngineMeasurements(budget_bytes=72 * GIB, kv_cache_bytes=50 * GIB)
    result = cache(replace(ENGINE, kv_cache_memory_bytes=3 * GIB), measurements)
    assert result.size_bytes == 3 * GIB


def test_a_model_that_takes_long_requests_needs_room_for_one() -> None:
    small = replace(ENGINE, kv_cache_memory_bytes=2 * GIB)
    result = cache(replace(small, max_model_len=None), shape=SHAPE)
    assert result.longest_request == 40_960
    assert not result.suffices
    assert cache(replace(ENGINE, kv_cache_memory_bytes=4096 * 144 * 1024), shape=SHAPE).suffices


def test_nothing_known_says_nothing() -> None:
    assert ENGINE.kv_cache(TOTAL) is None
    assert known(ENGINE, EngineMeasurements(version=(0, 16))).kv_cache(TOTAL) is None


def test_a_figure_that_contradicts_itself_is_not_used() -> None:
    measurements = EngineMeasurements(budget_bytes=GIB, kv_cache_bytes=50 * GIB)
    assert known(ENGINE, measurements).kv_cache(TOTAL) is None


def test_layers_that_are_left_out_are_told_of() -> None:
    result = cache(ENGINE, shape=replace(SHAPE, kv_is_lower_bound=True))
    assert any("upper bound" in note for note in result.notes)


@given(st.integers(1, 99), st.integers(1, 99), st.integers(0, 40 * GIB))
def test_the_same_utilization_gives_the_same_cache_and_more_gives_more(
    old: int, new: int, other_bytes: int
) -> None:
    budget = share_bytes(TOTAL, old / 100)
    measured = max(0, budget - other_bytes)
    measurements = EngineMeasurements(budget_bytes=budget, kv_cache_bytes=measured)
    again = cache(replace(ENGINE, utilization=old / 100), measurements)
    other = cache(replace(ENGINE, utilization=new / 100), measurements)
    assert again.size_bytes == measured
    assert (other.size_bytes > measured) == (new > old)
