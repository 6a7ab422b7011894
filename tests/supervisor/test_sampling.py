from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from rltui.core.gpu.report import GpuDevice, GpuReport, GpuShare
from rltui.frameworks.engines.vllm import VLLM
from rltui.supervisor.metrics.sampling import RunSampler

GIB = 1 << 30


def device(index: int, use: float, **used_bytes: int) -> GpuDevice:
    shares = [
        GpuShare(owner="component", component=name, used_bytes=size * GIB)
        for name, size in used_bytes.items()
    ]
    other_share = GpuShare(owner="unknown", used_bytes=7 * GIB)
    return GpuDevice(index=index, utilization=use, shares=(*shares, other_share))


def test_memory_and_use_by_component(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    points: list[tuple[Mapping[str, float], str]] = []
    sampler = RunSampler(lambda values, source: points.append((values, source)), VLLM.metrics)
    sampler.gpus(
        GpuReport(available=True, devices=(device(0, 0.5, trainer=3), device(1, 1.0, trainer=4, inference=9)))
    )
    assert points == [
        (
            {"gpu_memory/trainer": 7 * GIB, "gpu_memory/inference": 9 * GIB, "gpu_use/trainer": 0.75,
             "gpu_use/inference": 1.0},
            "rltui",
        )
    ]  # fmt: skip
    for second, size in ((1, 20), (2, 5), (10, 6)):
        now = 100.0 + second
        sampler.gpus(GpuReport(available=True, devices=(device(0, 0.0, trainer=size),)))
    assert points[1:] == [({"gpu_memory/trainer": 20 * GIB, "gpu_use/trainer": 0.0}, "rltui")], (
        "the most of ten seconds"
    )
    sampler.gpus(GpuReport(available=False))
    assert len(points) == 2
    sampler.started("trainer", 3)
    assert points[2:] == [({"starts/trainer": 3.0}, "rltui")]
