"""What prime-rl needs of the GPUs: vLLM's share, and the supervised trainer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rltui.core.config_data import value_at
from rltui.core.gpu.budget import EngineMemory
from rltui.core.gpu.training import Training
from rltui.core.kinds import is_number
from rltui.core.toml.values import TomlValue
from rltui.frameworks.engines.rules import RULES
from rltui.frameworks.gpu_needs import GpuNeeds
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.prime_rl import derived_values, values
from rltui.frameworks.prime_rl.generation import Generation
from rltui.frameworks.schemas import SchemaFramework

_UTILIZATION = 0.9
"""vLLM's own default; prime-rl does not change it."""
_MODEL = ("inference.vllm.model", "inference.model.name", "model.name")
_TENSOR_PARALLEL = ("inference.vllm.tensor_parallel_size", "inference.parallel.tp")


@dataclass(frozen=True)
class PrimeRlGpuNeeds(GpuNeeds):
    reader: SchemaFramework
    """Reads values of its config."""
    generation_of: Callable[[ConfigFiles], Generation]
    config: Callable[[ConfigFiles], Mapping[str, Any]]
    """The merged config of an RL run, as the run gets it; empty for SFT."""
    is_served: bool
    """The run uses a server that it does not start, whatever its config says."""

    def count(self, files: ConfigFiles) -> int | None:
        counts = (item.value for item in self.reader.derive(files) if item.name == "GPUs")
        return next((count for count in counts if isinstance(count, int)), 1)

    def engine(self, files: ConfigFiles) -> EngineMemory | None:
        """Memory that vLLM takes; `None` without a server, and if the utilization is no share."""
        g, data = self.generation_of(files), self.config(files)
        share = value_at(data, g.utilization)
        share = _UTILIZATION if share is None else share
        if not is_number(share) or not 0 < share <= 1:
            return None
        if self.is_served or not values.is_table(data, "inference"):
            return None
        return EngineMemory(
            "inference",
            float(share),
            rules=RULES,
            model=values.text(data, *_MODEL),
            dtype=values.text(data, "inference.vllm.dtype", "inference.model.dtype"),
            kv_cache_dtype=values.text(
                data, "inference.vllm.kv_cache_dtype", "inference.vllm_extra.kv_cache_dtype"
            ),
            tensor_parallel=max(1, *(values.count(data, key, 1) for key in _TENSOR_PARALLEL)),
            max_model_len=_argument(data, "max_model_len"),
            max_num_seqs=_argument(data, "max_num_seqs"),
            max_num_batched_tokens=_argument(data, "max_num_batched_tokens"),
            enforce_eager=any(value is True for value in _arguments(data, "enforce_eager")),
            kv_cache_memory_bytes=_argument(data, "kv_cache_memory_bytes"),
            version=g.vllm,
        )

    def training(self, files: ConfigFiles) -> Training | None:
        """Training of `sft`. `None` while a value has a wrong type or is out of bounds."""
        sound_values = self.reader.sound_values(files) if "sft" in files else None
        return (
            None if sound_values is None else derived_values.training(sound_values, self.reader.names(files))
        )


def _arguments(data: Mapping[str, Any], name: str) -> list[TomlValue]:
    """Values of an argument of vLLM in the tables of all generations."""
    return [value_at(data, f"inference.{table}.{name}") for table in ("vllm", "model", "vllm_extra")]


def _argument(data: Mapping[str, Any], name: str) -> int | None:
    numbers_ = (values.optional_count({name: value}, name) for value in _arguments(data, name))
    return next((number for number in numbers_ if number is not None), None)
