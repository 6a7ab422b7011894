"""Figures that follow from a tinyrl config, with the arithmetic in words."""

from __future__ import annotations

from rltui.core.config_report import DerivedValue
from rltui.frameworks.base import ConfigFiles
from rltui.frameworks.batch_figures import accumulation, batch_figures
from rltui.frameworks.tinyrl.configs import CONFIGS
from rltui.frameworks.tinyrl.rules import BATCH


def derive(files: ConfigFiles) -> tuple[DerivedValue, ...]:
    """What a step amounts to. Empty while a value has a wrong type or is out of bounds."""
    values = CONFIGS.sound_values(files)
    if values is None:
        return ()
    found: list[DerivedValue] = []
    if "rl" in files:
        found.extend(batch_figures(values, BATCH, max_tokens="orchestrator.sampling.max_tokens"))
    if "sft" in files:
        found.append(
            accumulation(
                values,
                batch="sft.data.batch_size",
                micro="sft.data.micro_batch_size",
                name="sft micro-batches per optimizer step",
            )
        )
    return tuple(found)
