from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from rltui.core.gpu.budget import (
    CONTEXT_BYTES,
    GRAPHS_BYTES,
    MARGIN_BYTES,
    budget_bytes,
    largest_passing_utilization,
    overhead_bytes,
    passes_start_check,
    rule,
    safe_utilization,
    utilization_within,
)
from rltui.core.gpu.report import GpuDevice
from rltui.core.text import GIB

SIZES = st.integers(4 * GIB, 300 * GIB)
UTILIZATIONS = st.integers(1, 100).map(lambda part: part / 100)


def device(total: int, **values: object) -> GpuDevice:
    return GpuDevice.model_validate({"index": 0, "total_bytes": total, **values})


def test_a_budget_is_a_share_of_what_the_driver_leaves() -> None:
    rtx_3090 = device(24576 * 2**20, reserved_bytes=445 * 2**20)
    assert budget_bytes(rtx_3090, 0.8) == math.ceil((24576 - 445) * 2**20 * 0.8)
    assert budget_bytes(GpuDevice(index=0), 0.8) is None


@given(SIZES, UTILIZATIONS, UTILIZATIONS)
def test_budgets_grow_with_utilization_and_never_exceed_the_device(
    total: int, one: float, two: float
) -> None:
    low, high = sorted((one, two))
    budgets = [budget_bytes(device(total), utilization) for utilization in (low, high)]
    assert budgets[0] is not None
    assert budgets[1] is not None
    assert budgets[0] <= budgets[1] <= total


@given(SIZES, st.integers(0, 300 * GIB))
def test_the_largest_utilization_within_a_size_is_the_largest(total: int, room: int) -> None:
    found = utilization_within(total, room)
    hundredths = 0 if found is None else round(found * 100)
    assert 0 <= hundredths <= 100
    assert hundredths == 0 or math.ceil(total * (hundredths / 100)) <= room
    assert hundredths == 100 or math.ceil(total * ((hundredths + 1) / 100)) > room


def test_a_budget_that_is_rounded_up_beyond_the_size_is_too_large() -> None:
    assert math.ceil(100 * 0.07) == 8
    assert utilization_within(100, 7) == 0.06


@given(SIZES, st.floats(0, 1))
def test_the_largest_passing_one_passes_with_the_context_made(total: int, free_frac: float) -> None:
    free = int(total * free_frac)
    found = largest_passing_utilization(device(total), free)
    if found is None:
        assert free - CONTEXT_BYTES < 0.02 * total
        return
    assert 0.01 <= found <= 0.99
    budget = budget_bytes(device(total), found)
    assert budget is not None
    assert passes_start_check(free - CONTEXT_BYTES, budget)


def test_on_a_large_device_one_hundredth_is_kept_for_the_context() -> None:
    free, total = 60 * GIB, 79 * GIB + 9 * GIB // 10
    rule_of_thumb = math.floor(free / total * 100) / 100 - 0.01
    assert largest_passing_utilization(device(total), free) == round(rule_of_thumb, 2) == 0.74


def test_a_running_engine_holds_more_than_its_budget() -> None:
    old, new = rule((0, 16)), rule((0, 32))
    assert overhead_bytes(new) == CONTEXT_BYTES
    assert overhead_bytes(old) == CONTEXT_BYTES + GRAPHS_BYTES
    assert overhead_bytes(old, eager=True) == CONTEXT_BYTES
    assert overhead_bytes(old, graphs_bytes=3 * GIB) == 3 * GIB + CONTEXT_BYTES


@given(SIZES, st.integers(0, 300 * GIB), st.integers(0, 4 * GIB))
def test_a_safe_utilization_leaves_the_margin_and_one_more_hundredth_does_not(
    total: int, trainer: int, overhead: int
) -> None:
    found = safe_utilization(device(total), room_bytes=total, overhead_bytes=overhead, trainer_bytes=trainer)

    def spare(utilization: float) -> int:
        return total - math.ceil(total * utilization) - overhead - trainer

    if found is not None:
        assert 0.01 <= found <= 1
        assert spare(found) >= MARGIN_BYTES
    assert spare(round((found or 0) + 0.01, 2)) < MARGIN_BYTES
