"""An engine: what an inference server says and does, whichever framework starts it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rltui.core.gpu.budget import EngineMeasurements, EngineRules
from rltui.core.metrics.engine import EngineMetrics


@dataclass(frozen=True, slots=True)
class Engine:
    metrics: EngineMetrics
    """Names at its `/metrics`."""
    memory: EngineRules
    """Rules of the memory that it takes on its devices."""
    start_phases: tuple[tuple[str, str], ...]
    """Regular expression for a line that it prints as it starts → the phase that it shows, in words."""
    read_measurements: Callable[[str], EngineMeasurements | None]
    """Reads memory sizes in the output of a start; `None` if there are none."""
