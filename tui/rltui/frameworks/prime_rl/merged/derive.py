"""Figures that follow from a config of this generation."""

from __future__ import annotations

from rltui.core.config_report import DerivedValue
from rltui.frameworks.base import ConfigFiles
from rltui.frameworks.batch_figures import batch_figures, packing_figures
from rltui.frameworks.prime_rl.merged.check import check
from rltui.frameworks.prime_rl.merged.rules import BATCH, COMPLETION
from rltui.frameworks.prime_rl.sft_figures import sft_figures


def derive(files: ConfigFiles) -> tuple[DerivedValue, ...]:
    """What a step amounts to. Empty while a value has a wrong type or is out of bounds."""
    values = check.sound_values(files)
    if values is None:
        return ()
    found: list[DerivedValue] = []
    if "rl" in files:
        max_tokens = next((name for name in COMPLETION if values[name] is not None), COMPLETION[0])
        found.extend(batch_figures(values, BATCH, max_tokens=max_tokens))
        found.extend(
            packing_figures(
                values,
                BATCH,
                max_tokens=max_tokens,
                row_tokens="trainer.model.seq_len",
                ranks=values["orchestrator.num_train_workers"],
            )
        )
    if "sft" in files:
        is_one_node = values["sft.deployment.type"] == "single_node"
        found.extend(sft_figures(values, gpus=values["sft.deployment.num_gpus"] if is_one_node else None))
    return tuple(found)
