from __future__ import annotations

from pathlib import Path

from rltui.services.gpu.nvml_handle import Memory, unified_memory


def test_unified_memory_counts_what_the_kernel_calls_available_as_free(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  100 kB\nMemFree:  5 kB\nMemAvailable:  60 kB\nSwapTotal: 7 kB\n")
    assert unified_memory(meminfo) == Memory("unified", total=102400, used=40960, free=61440)


def test_unified_memory_is_unknown_where_the_kernel_does_not_tell(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    assert unified_memory(meminfo) is None
    meminfo.write_text("MemTotal:  100 kB\n")
    assert unified_memory(meminfo) is None
