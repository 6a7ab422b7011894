"""Rows of `metrics.jsonl`, with the keys of prime-rl's file monitor."""

from __future__ import annotations

import math
import time
from pathlib import Path

from rltui.tinyrl import log_lines
from rltui.tinyrl.files import append_json_line


def log_metrics(output_dir: Path, step: int, values: dict[str, float]) -> None:
    """Append one row; values that are not finite are left out, with a warning, as in prime-rl."""
    finite = {key: value for key, value in values.items() if math.isfinite(value)}
    if dropped := sorted(values.keys() - finite.keys()):
        log_lines.warning(
            f"Dropping {len(dropped)} non-finite value(s) from step {step}: {', '.join(dropped)}"
        )
    append_json_line(output_dir / "metrics.jsonl", {"step": step, "time": time.time(), **finite})


def distribution(prefix: str, values: list[float]) -> dict[str, float]:
    """Mean, max, min and the 10th and 90th percentile (nearest rank) of a non-empty list."""
    sorted_values = sorted(values)
    last = len(sorted_values) - 1
    return {
        f"{prefix}/mean": sum(sorted_values) / len(sorted_values),
        f"{prefix}/max": sorted_values[-1],
        f"{prefix}/min": sorted_values[0],
        f"{prefix}/p10": sorted_values[round(0.1 * last)],
        f"{prefix}/p90": sorted_values[round(0.9 * last)],
    }
