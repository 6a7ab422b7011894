"""What vf-rl needs of the GPUs: one for vLLM at least, and another for the trainer."""

from __future__ import annotations

from dataclasses import dataclass

from rltui.core.gpu.budget import EngineMemory
from rltui.frameworks.engines.rules import RULES
from rltui.frameworks.gpu_needs import GpuNeeds
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.schemas import SchemaFramework


@dataclass(frozen=True)
class VfRlGpuNeeds(GpuNeeds):
    reader: SchemaFramework
    """Reads values of its config."""

    def count(self, files: ConfigFiles) -> int | None:
        del files
        return 2  # inference and trainer cannot share one

    def engine(self, files: ConfigFiles) -> EngineMemory | None:
        """Memory that vLLM takes; `None` while a value is faulty."""
        v = self.reader.sound_values(files)
        if v is None:
            return None
        args = {
            key.rpartition(".")[2]: value for key, value in v.items() if key.startswith("inference.args.")
        }
        return EngineMemory(
            "inference",
            float(args["gpu_memory_utilization"]),
            rules=RULES,
            model=v["model"],
            dtype=args["dtype"],
            kv_cache_dtype=args["kv_cache_dtype"],
            tensor_parallel=args["tensor_parallel_size"],
            max_model_len=args["max_model_len"],
            max_num_seqs=args["max_num_seqs"],
            max_num_batched_tokens=args["max_num_batched_tokens"],
            enforce_eager=args["enforce_eager"],
            version=(0, 10),
        )
