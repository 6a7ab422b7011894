from __future__ import annotations

from pathlib import Path

import pytest

from rltui.services.gpu.nvml.values import Memory, throttle_reasons, unified_memory


def test_unified_memory_counts_what_the_kernel_calls_available_as_free(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  100 kB\nMemFree:  5 kB\nMemAvailable:  60 kB\nSwapTotal: 7 kB\n")
    assert unified_memory(meminfo) == Memory(
        "unified", total_bytes=102400, used_bytes=40960, free_bytes=61440
    )


def test_unified_memory_is_unknown_where_the_kernel_does_not_tell(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    assert unified_memory(meminfo) is None
    meminfo.write_text("MemTotal:  100 kB\n")
    assert unified_memory(meminfo) is None


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0x0, ()),
        (0x1 | 0x4, ()),
        (0x8, ("hardware slowdown",)),
        (0x8 | 0x80, ("power brake",)),
        (0x20 | 0x4, ("thermal slowdown",)),
        (0x1000000, ()),
    ],
    ids=["none", "normal", "no cause given", "cause given", "beside a normal one", "unknown"],
)
def test_only_what_slows_a_card_down_is_named(bits: int, words: tuple[str, ...]) -> None:
    assert throttle_reasons(bits) == words
