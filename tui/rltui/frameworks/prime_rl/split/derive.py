"""Figures that follow from a config of this generation."""

from __future__ import annotations

from rltui.core.config_report import DerivedValue
from rltui.frameworks.base import BatchKnobs, ConfigFiles
from rltui.frameworks.batch_figures import batch_figures, packing_figures
from rltui.frameworks.prime_rl.sft_figures import sft_figures
from rltui.frameworks.prime_rl.split.check import check

BATCH = BatchKnobs(
    "orchestrator.batch_size",
    "",
    "orchestrator.rollouts_per_example",
    "orchestrator.seq_len",
    oversampling="orchestrator.oversampling_factor",
)
"""Batches are a number of rollouts only."""


def derive(files: ConfigFiles) -> tuple[DerivedValue, ...]:
    """What a step amounts to. Empty while a value has a wrong type or is out of bounds."""
    values = check.sound_values(files)
    if values is None:
        return ()
    found: list[DerivedValue] = []
    if "orchestrator" in files:
        max_tokens = "orchestrator.sampling.max_tokens"
        ranks = values["orchestrator.num_train_workers"]
        found.extend(batch_figures(values, BATCH, max_tokens=max_tokens))
        found.extend(
            packing_figures(values, BATCH, max_tokens=max_tokens, row_tokens=BATCH.seq_len, ranks=ranks)
        )
    if "sft" in files:
        found.extend(sft_figures(values, gpus=None))
    return tuple(found)
