"""What the programs of a framework need of the GPUs, as its config says. The default: nothing is known."""

# ruff: noqa: ARG002 - defaults look at nothing that they are given

from __future__ import annotations

from typing import TYPE_CHECKING

from rltui.core.gpu.budget import EngineMemory
from rltui.core.gpu.training import Training

if TYPE_CHECKING:
    from rltui.frameworks.inputs import ConfigFiles


class GpuNeeds:
    def count(self, files: ConfigFiles) -> int | None:
        """GPUs that a run cannot do without, or as many as are known; `None` if it may run without one."""
        return None

    def engine(self, files: ConfigFiles) -> EngineMemory | None:
        """Memory that the inference server of the run takes; `None` if it has none, or a value is faulty."""
        return None

    def training(self, files: ConfigFiles) -> Training | None:
        """Values that decide about the memory of the supervised trainer; `None` if there is none."""
        return None
