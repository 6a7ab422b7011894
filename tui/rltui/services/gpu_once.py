"""Readings of this machine's GPUs, for programs that do not stay."""

from __future__ import annotations

import queue
from collections.abc import Generator
from contextlib import closing

from rltui.core.gpu.report import GpuReport
from rltui.errors import RltuiError
from rltui.services.gpu_owners import GpuOwners
from rltui.services.gpu_sampler import GpuSampler

ANSWER_S = 10.0
"""A driver that takes longer for one reading hangs."""


def read_once(experiment: str | None = None) -> GpuReport:
    """With owners; components of `experiment` count as one's own. A driver that hangs is its reason."""
    with closing(readings(None, experiment)) as reports:
        try:
            return next(reports)
        except RltuiError as error:
            return GpuReport(available=False, reason=error.title)


def readings(interval_s: float | None, experiment: str | None = None) -> Generator[GpuReport, None, None]:
    """As `read_once`: one, or endlessly many where an interval is given. To be closed in the end.

    Raises:
        RltuiError: if the driver hangs. The thread that asks it is left behind.
    """
    arrived: queue.SimpleQueue[GpuReport] = queue.SimpleQueue()
    sampler, owners = GpuSampler(arrived.put), GpuOwners(experiment)
    if interval_s is not None:
        sampler.set_interval(interval_s)
    sampler.start()
    try:
        first = owners.attributed(_newest(arrived, ANSWER_S), (), ())
        yield first.model_copy(update={"interval_s": interval_s})
        while interval_s is not None:
            yield owners.attributed(_newest(arrived, interval_s + ANSWER_S), (), ())
    finally:
        sampler.close()


def _newest(arrived: queue.SimpleQueue[GpuReport], patience_s: float) -> GpuReport:
    """Those that came while nobody took them are left out."""
    try:
        report = arrived.get(timeout=patience_s)
    except queue.Empty:
        raise RltuiError(
            f"the NVIDIA driver has not answered for {ANSWER_S:g} s",
            hint="does nvidia-smi answer? A driver that hangs often needs a reboot; see `dmesg`",
        ) from None
    while not arrived.empty():
        report = arrived.get()
    return report
