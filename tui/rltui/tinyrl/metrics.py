"""Rows of `metrics.jsonl`, with the keys of prime-rl's file monitor, and what memory it has."""

from __future__ import annotations

import math
import os
import resource
import time
from pathlib import Path

import torch

from rltui.tinyrl import log_lines
from rltui.tinyrl.files import append_json_line


def log_metrics(output_dir: Path, step: int, values: dict[str, float]) -> None:
    """Append one row; values that are not finite are left out, with a warning, as there."""
    finite = {key: value for key, value in values.items() if math.isfinite(value)}
    if dropped := sorted(values.keys() - finite.keys()):
        log_lines.warning(
            f"Dropping {len(dropped)} non-finite value(s) from step {step}: {', '.join(dropped)}"
        )
    append_json_line(output_dir / "metrics.jsonl", {"step": step, "time": time.time(), **finite})


def spread(prefix: str, values: list[float]) -> dict[str, float]:
    """Mean, max, min and the 10th and 90th percentile (nearest rank) of a non-empty list."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return {
        f"{prefix}/mean": sum(ordered) / len(ordered),
        f"{prefix}/max": ordered[-1],
        f"{prefix}/min": ordered[0],
        f"{prefix}/p10": ordered[round(0.1 * last)],
        f"{prefix}/p90": ordered[round(0.9 * last)],
    }


GIB = 2**30


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


def device() -> torch.device:
    """The GPU where there is one."""
    return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
