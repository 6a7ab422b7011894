from __future__ import annotations

import pytest

from rltui.base.text import GIB
from rltui.core.gpu.budget import passing_utilization
from rltui.core.gpu.out_of_memory import (
    size_bytes,
    size_text,
    with_allocation_sizes,
)
from rltui.core.gpu.report import OutOfMemory
from rltui.views.gpu.advice import failure_text

ALLOCATION = OutOfMemory(
    kind="allocation",
    local_device=1,
    tried_bytes=2 * GIB,
    free_bytes=300 << 20,
    total_bytes=79 * GIB,
    in_use_bytes=70 * GIB,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("5.31 GiB", 5701569085),
        ("20.00 MiB", 20 << 20),
        ("512 bytes", 512),
        ("982.50 KiB", 1006080),
        ("1 TiB", 1 << 40),
        ("?", None),
        ("12", None),
        ("5 GB", None),
    ],
)
def test_sizes_of_error_texts(text: str, size: int | None) -> None:
    assert size_bytes(text) == size


def test_small_sizes_are_not_told_as_nothing() -> None:
    assert [size_text(size) for size in (0, 512, 20 << 20, GIB, 141 * GIB)] == [
        "0",
        "1 MiB",
        "20 MiB",
        "1.0 GiB",
        "141 GiB",
    ]


@pytest.mark.parametrize(
    ("free", "total", "share"),
    [(5.31, 23.56, 0.21), (60.12, 79.19, 0.74), (0.1, 24, 0.0), (24, 24, 0.99), (1, 0, 0.0)],
)
def test_the_utilization_that_passes_leaves_room_for_the_context(
    free: float, total: float, share: float
) -> None:
    assert passing_utilization(free, total) == share


def test_words_of_vllm_get_the_figures_of_torch() -> None:
    memory = with_allocation_sizes(OutOfMemory(kind="warm_up", requests=8), ALLOCATION)
    assert (memory.kind, memory.requests, memory.tried_bytes) == ("warm_up", 8, 2 * GIB)
    assert with_allocation_sizes(OutOfMemory(kind="other"), ALLOCATION) == ALLOCATION
    budget = OutOfMemory(kind="start_check", free_bytes=1)
    assert with_allocation_sizes(budget, ALLOCATION) == budget, "another failure's figures"


@pytest.mark.parametrize(
    ("memory", "text"),
    [
        (
            ALLOCATION.replace(device=6),
            (
                "out of memory on GPU 6: tried to allocate 2.0 GiB, 0.3 GiB of 79.0 GiB free;"
                " this process held 70.0 GiB"
            ),
        ),
        (
            OutOfMemory(kind="allocation", tried_bytes=1 << 30, holders=((7, GIB), (8, 9 * GIB))),
            "out of memory: tried to allocate 1.0 GiB; pid 8 of the host held 9.0 GiB",
        ),
        (
            OutOfMemory(
                kind="start_check",
                free_bytes=5 * GIB,
                total_bytes=24 * GIB,
                utilization=0.8,
                needed_bytes=19 * GIB,
            ),
            (
                "out of memory at the start check: 5.0 GiB of 24.0 GiB free,"
                " gpu_memory_utilization 0.8 asks for 19.0 GiB"
            ),
        ),
        (
            OutOfMemory(
                kind="kv_cache_small", needed_bytes=4 * GIB, available_bytes=GIB, possible_model_len=9808
            ),
            (
                "out of memory for the KV cache: one request of max_model_len needs 4.0 GiB, available:"
                " 1.0 GiB, 9808 tokens would fit"
            ),
        ),
        (OutOfMemory(kind="no_kv_cache"), "out of memory: no room left for the KV cache"),
        (OutOfMemory(kind="warm_up", requests=1024), "out of memory in the warm-up with 1024 requests"),
        (OutOfMemory(kind="graph_capture"), "out of memory while capturing CUDA graphs"),
        (OutOfMemory(kind="other"), "out of memory"),
    ],
)
def test_failure_text(memory: OutOfMemory, text: str) -> None:
    assert failure_text(memory) == text
