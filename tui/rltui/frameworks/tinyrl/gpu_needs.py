"""What the embedded engine needs of the GPUs: the share of its inference server."""

from __future__ import annotations

from dataclasses import dataclass

from rltui.core.gpu.budget import EngineMemory
from rltui.frameworks.engines.rules import RULES
from rltui.frameworks.gpu_needs import GpuNeeds
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.schemas import SchemaFramework

UTILIZATION = "inference.gpu_memory_utilization"


@dataclass(frozen=True)
class TinyRlGpuNeeds(GpuNeeds):
    reader: SchemaFramework
    """Reads values of its config."""
    is_served: bool
    """The run uses a server that it does not start."""

    def engine(self, files: ConfigFiles) -> EngineMemory | None:
        """Memory that the inference server takes on a CUDA device, as vLLM does; `None` for faulty values."""
        if self.is_served:
            return None
        names = (UTILIZATION, "inference.model.max_model_len", "inference.max_num_seqs")
        utilization, max_model_len, max_num_seqs = (self.reader.sound_value(files, name) for name in names)
        if utilization is None or max_model_len is None or max_num_seqs is None:
            return None
        return EngineMemory(
            "inference",
            utilization,
            rules=RULES,
            model=self.reader.sound_value(files, "model.name"),
            max_model_len=max_model_len,
            max_num_seqs=max_num_seqs,
            dtype="float32",
            enforce_eager=True,
        )
