"""The agents of an episode, each with metrics of its own: means over those that are trained. Pure."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping
from typing import Any

from rltui.core.metrics.progress import numbers

_OF_SEAT = re.compile(r"train/agg/(effective|all)/([^/]+)/((?:reward|is_trainable|is_truncated)/mean)")
_ONLY = "agent"
"""Name of an agent that is alone."""


def without_seat(name: str) -> str:
    """The name of what a line tells of all agents together, as if there were one."""
    return name.replace(f"/{_ONLY}/", "/", 1)


def with_means_of_seats(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row, and under names without an agent the means over those that are trained.

    A program never tells them together: what one gains another may lose. Those that are trained have
    metrics of the batch.
    """
    matches = {name: match for name in row if (match := _OF_SEAT.fullmatch(name)) is not None}
    if all(match[2] == _ONLY for match in matches.values()):
        return row
    trained = {match[2] for match in matches.values() if match[1] == "effective"}
    values: dict[str, list[float]] = {}
    for name, value in numbers({name: row[name] for name in matches}).items():
        part, seat, metric = matches[name].groups()
        if seat in trained and math.isfinite(value):
            values.setdefault(f"train/agg/{part}/{metric}", []).append(value)
    return {**row, **{name: statistics.fmean(means) for name, means in values.items()}}
