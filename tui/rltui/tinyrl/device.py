"""The device that a program computes on, and its memory."""

from __future__ import annotations

import os
import resource

import torch

from rltui.base.text import GIB


def device() -> torch.device:
    """The GPU if there is one, else the CPU."""
    return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def peak_gib() -> float:
    """Most memory this process held so far: reserved on the GPU, else resident, in GiB."""
    if torch.cuda.is_available():
        return float(torch.cuda.max_memory_reserved()) / GIB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB


def total_gib() -> float:
    """Memory of the GPU, else of the machine, in GiB."""
    if torch.cuda.is_available():
        return float(torch.cuda.get_device_properties(0).total_memory) / GIB
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
