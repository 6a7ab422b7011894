from __future__ import annotations

import re

import pytest

from rltui.tinyrl.inference.server import budget_bytes, kv_pool_bytes, startup_error, startup_summary

GIB = 2**30
MEM_SUMMARY = re.compile(
    r"Free memory on device \(([\d.]+)/([\d.]+) GiB\) on startup\."
    r" Desired GPU memory utilization is \(([\d.]+), ([\d.]+) GiB\)"
)
"""Of vLLM."""


def test_startup_error_has_vllm_words() -> None:
    message = startup_error(
        free_bytes=int(5.31 * GIB), total_bytes=int(23.56 * GIB), utilization=0.8, device="cuda:0"
    )
    assert message == (
        "Free memory on device cuda:0 (5.31/23.56 GiB) on startup is less than desired GPU memory utilization"
        " (0.8, 18.85 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
    )


@pytest.mark.parametrize("spare", [0, 1])
def test_startup_passes_where_the_budget_is_free(spare: int) -> None:
    budget = budget_bytes(80 * GIB, 0.9)
    free = budget + spare
    assert startup_error(free_bytes=free, total_bytes=80 * GIB, utilization=0.9, device="cuda:0") is None
    too_little = startup_error(free_bytes=budget - 1, total_bytes=80 * GIB, utilization=0.9, device="cuda:0")
    assert too_little is not None


@pytest.mark.parametrize(("taken_gib", "pool_gib"), [(2, 38), (50, 0)])
def test_pool_is_what_the_budget_leaves(taken_gib: int, pool_gib: int) -> None:
    pool = kv_pool_bytes(
        free_at_start_bytes=70 * GIB,
        free_now_bytes=(70 - taken_gib) * GIB,
        total_bytes=80 * GIB,
        utilization=0.5,
    )
    assert pool == pool_gib * GIB


def test_figures_of_a_passed_check_are_told_in_vllms_words() -> None:
    text = startup_summary(free_bytes=20 * 2**30, total_bytes=24 * 2**30, utilization=0.5)
    match = MEM_SUMMARY.fullmatch(text.rstrip("."))
    assert match is not None
    assert match.groups() == ("20.00", "24.00", "0.5", "12.00")
