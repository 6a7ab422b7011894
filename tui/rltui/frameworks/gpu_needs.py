"""The needs of a framework's programs for GPUs, by its config: a record of functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rltui.core.gpu.budget import EngineMemory
from rltui.core.gpu.training import Training
from rltui.frameworks.answers import unknown
from rltui.frameworks.inputs import ConfigFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNeeds:
    """The default: nothing is known."""

    count: Callable[[ConfigFiles], int | None] = unknown
    """GPUs that a run cannot do without, or as many as are known; `None` if it may run without one."""
    engine: Callable[[ConfigFiles], EngineMemory | None] = unknown
    """Memory that the inference server of the run takes; `None` if it has none, or a value is faulty."""
    training: Callable[[ConfigFiles], Training | None] = unknown
    """Values that decide about the memory of the supervised trainer; `None` if there is none."""
