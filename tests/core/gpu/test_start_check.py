from __future__ import annotations

from rltui.core.gpu.forecast_text import lack_of_memory
from rltui.core.gpu.report import GpuDevice, GpuProcess
from rltui.core.text import GIB


def device(index: int, *, free: float, **values: object) -> GpuDevice:
    base = {"index": index, "total_bytes": 80 * GIB, "free_bytes": round(free * GIB)}
    return GpuDevice.model_validate(base | values)


def test_names_what_is_needed_free_and_held() -> None:
    holders = (
        GpuProcess(pid=4711, used_bytes=58 * GIB, name="VLLM::EngineCore"),
        GpuProcess(pid=9, used_bytes=9 * GIB, component="trainer", name="python"),
        GpuProcess(pid=8, used_bytes=GIB // 4, name="xorg"),
    )
    full = device(0, free=12.1, reserved_bytes=GIB // 10, processes=holders)
    assert lack_of_memory([full], 0.9) == (
        "GPU 0: needs 71.9 GiB free, 12.1 GiB free, 58.0 GiB held by pid 4711 VLLM::EngineCore, "
        "9.0 GiB held by trainer pid 9 python"
    )


def test_enough_memory_and_unreadable_devices_are_no_obstacle() -> None:
    roomy, full = device(0, free=73), device(1, free=1)
    assert lack_of_memory([roomy], 0.9) is None
    assert lack_of_memory([roomy, full], 0.9) is not None
    assert lack_of_memory([GpuDevice(index=0, problem="lost")], 0.9) is None
    assert lack_of_memory([], 0.9) is None


def test_a_budget_that_is_just_free_is_no_obstacle_and_a_slice_is_named() -> None:
    piece = GpuDevice(index=2, mig=1, total_bytes=1001, free_bytes=501)
    assert lack_of_memory([piece], 0.5) is None
    lacking = lack_of_memory([piece.model_copy(update={"free_bytes": 500})], 0.5)
    assert lacking is not None
    assert lacking.startswith("GPU 2.1: ")
