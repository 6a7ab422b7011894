"""The GPUs that prime-rl needs: the devices, vLLM's share of them, and the supervised trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from rltui.base.kinds import is_number
from rltui.base.template import Missing, TemplateValue
from rltui.base.text import count_text
from rltui.core.config.data import value_at
from rltui.core.config.rules import Values, is_on
from rltui.core.gpu.budget import EngineMemory
from rltui.core.gpu.training import Training
from rltui.frameworks.engines.vllm import VLLM
from rltui.frameworks.gpu_needs import GpuNeeds
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.prime_rl import configs, values
from rltui.frameworks.prime_rl.generation import Generation
from rltui.frameworks.prime_rl.run_config import RunConfigReader
from rltui.frameworks.schemas import Names, SchemaConfig

_UTILIZATION = 0.9
"""vLLM's own default; prime-rl does not change it."""
_ENGINE_TABLES = ("inference.vllm", "inference.model", "inference.vllm_extra", "inference")
"""Tables with arguments of vLLM, in all generations."""


@dataclass(frozen=True, slots=True)
class GpuSplit:
    """Devices of both, named as in `CUDA_VISIBLE_DEVICES`; empty if no GPU is known."""

    inference: tuple[str, ...] = ()
    trainer: tuple[str, ...] = ()
    fault: Missing | None = None
    """Reason why the devices of this box do not suffice."""

    @property
    def is_shared(self) -> bool:
        return not set(self.inference).isdisjoint(self.trainer)

    def value(self, component: str) -> TemplateValue:
        """The value of a layout's `{gpus.<component>}`."""
        if self.fault is not None:
            return self.fault
        return ",".join(self.trainer if component == "trainer" else self.inference)


def device_counts(g: Generation, data: Mapping[str, Any], *, by_launcher: bool = False) -> tuple[int, int]:
    """Numbers of devices for inference and trainer. Early launchers reserve some for a server that does not
    exist.
    """
    ids = values.numbers(data, "trainer_gpu_ids")
    trainer = len(ids) if ids else prod(values.count(data, key, 1) for key in g.train_gpus)
    serves = values.is_table(data, "inference") or (by_launcher and not g.run_folders)
    return prod(values.count(data, key, 1) for key in g.infer_gpus) if serves else 0, max(1, trainer)


def split_devices(
    g: Generation, data: Mapping[str, Any], devices: Sequence[str], *, by_launcher: bool = False
) -> GpuSplit:
    """Split the devices: by number in files from before February 2026, where the lists may overlap; else the
    first devices for inference, the next for the trainer.

    On a box with one, both get it, which prime-rl's own launcher refuses from 2026 on.
    """
    if not devices:
        return GpuSplit()
    inference_ids, trainer_ids = (
        values.numbers(data, "inference_gpu_ids"),
        values.numbers(data, "trainer_gpu_ids"),
    )
    if inference_ids is not None or trainer_ids is not None:
        return GpuSplit(tuple(map(str, inference_ids or (0,))), tuple(map(str, trainer_ids or (1,))))
    inference, trainer = device_counts(g, data, by_launcher=by_launcher)
    total = inference + trainer
    if total <= len(devices):
        return GpuSplit(tuple(devices[:inference]), tuple(devices[inference:total]))
    if len(devices) == 1 and inference <= 1 and trainer == 1:
        return GpuSplit(tuple(devices[:inference]), tuple(devices))
    have = count_text(len(devices), "GPU")
    return GpuSplit(
        fault=Missing(
            f"the config asks for {total} GPUs ({inference} for inference, {trainer} for the trainer);"
            f" available: {have}",
            hint=(
                "lower the numbers of GPUs in the config, or make more GPUs visible with CUDA_VISIBLE_DEVICES"
            ),
        )
    )


def gpu_needs_of(config: RunConfigReader, reader: SchemaConfig) -> GpuNeeds:
    """The part of a framework; `reader` reads values of its files."""

    def count(files: ConfigFiles) -> int | None:
        if "sft" in files and config.has_parts(files):
            return sum(device_counts(config.generation_of(files), config(files)))
        counts = (item.value for item in reader.derive(files) if item.name == "GPUs")
        return next((count for count in counts if isinstance(count, int)), 1)

    def engine(files: ConfigFiles) -> EngineMemory | None:
        """Memory that vLLM takes; `None` without a server, and if the utilization is no share."""
        g, data = config.generation_of(files), config.of_parts(files)
        shares = (value_at(data, key) for key in _engine_keys("gpu_memory_utilization"))
        share = next((value for value in shares if value is not None), _UTILIZATION)
        if not is_number(share) or not 0 < share <= 1:
            return None
        if config.servers or not values.is_table(data, "inference"):
            return None
        return EngineMemory(
            "inference",
            float(share),
            rules=VLLM.memory,
            model=values.text(data, *_concept_keys("served_model"), "model.name"),
            dtype=values.text(data, *_engine_keys("dtype")),
            kv_cache_dtype=values.text(data, *_engine_keys("kv_cache_dtype")),
            tensor_parallel=max(1, *(values.count(data, key, 1) for key in _concept_keys("tensor_parallel"))),
            max_model_len=_argument(data, "max_model_len"),
            max_num_seqs=_argument(data, "max_num_seqs"),
            max_num_batched_tokens=_argument(data, "max_num_batched_tokens"),
            enforce_eager=any(value_at(data, key) is True for key in _engine_keys("enforce_eager")),
            kv_cache_memory_bytes=_argument(data, "kv_cache_memory_bytes"),
            version=g.vllm,
        )

    def training(files: ConfigFiles) -> Training | None:
        """Training of SFT. `None` while a value has a wrong type or is out of bounds."""
        sound_values = reader.sound_values(files) if "sft" in files else None
        component = "trainer" if config.has_parts(files) else "sft"
        return None if sound_values is None else _training(component, sound_values, reader.names(files))

    return GpuNeeds(count=count, engine=engine, training=training)


_OFF_DEVICE = ("lora", "experimental.lora", "optim_cpu_offload", "fsdp_cpu_offload", "full_offload")
"""Keys of `[model]` that leave less on the device than full weights, gradients and moments."""


def _training(component: str, v: Values, names: Names) -> Training | None:
    """Values that decide about the memory of SFT; `None` without rows to train on."""
    batch, micro, seq_len = (
        v.get(f"sft.data.{key}") for key in ("batch_size", "micro_batch_size", "seq_len")
    )
    if not (batch and micro and seq_len):
        return None
    gpus, together = (
        v.get(names("sft_gpus")) or 1,
        (v.get("sft.model.cp") or 1) * (v.get("sft.model.tp") or 1),
    )
    return Training(
        component,
        v.get("sft.model.name"),
        micro,
        seq_len,
        batch // max(1, gpus // together),
        "data.micro_batch_size",
        "data.seq_len",
        processes=gpus,
        recomputes=is_on(v.get("sft.model.ac")),
        is_full=not any(is_on(v.get(f"sft.model.{key}")) for key in _OFF_DEVICE) and together == 1,
    )


def _engine_keys(argument: str) -> list[str]:
    """All keys that ever were this argument of vLLM."""
    return [f"{table}.{argument}" for table in _ENGINE_TABLES]


def _concept_keys(concept: str) -> tuple[str, ...]:
    """The same, by concept."""
    return configs.OVERLAY.concepts[concept].keys


def _argument(data: Mapping[str, Any], name: str) -> int | None:
    numbers = (values.optional_count(data, key) for key in _engine_keys(name))
    return next((number for number in numbers if number is not None), None)
