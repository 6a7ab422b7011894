"""One reading of this machine's GPUs, for programs that do not stay."""

from __future__ import annotations

import queue

from rltui.core.gpu.report import GpuReport
from rltui.services.gpu_owners import GpuOwners
from rltui.services.gpu_sampler import GpuSampler

ANSWER_S = 10.0
"""A driver that takes longer for one reading hangs."""


def read_once(experiment: str | None = None) -> GpuReport:
    """With owners; components of `experiment` count as one's own.

    A driver that hangs is a reason of the report, and the thread that asks it is left behind.
    """
    arrived: queue.SimpleQueue[GpuReport] = queue.SimpleQueue()
    sampler = GpuSampler(arrived.put)
    sampler.start()
    try:
        return GpuOwners(experiment).attributed(arrived.get(timeout=ANSWER_S), (), ())
    except queue.Empty:
        reason = f"the NVIDIA driver has not answered for {ANSWER_S:g} s; see nvidia-smi and dmesg"
        return GpuReport(available=False, reason=reason)
    finally:
        sampler.close()
