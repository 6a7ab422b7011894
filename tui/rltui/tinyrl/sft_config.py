"""Knobs of `sft.toml`: the warm-up that gives RL something to improve."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, model_validator

from rltui.tinyrl.config import Section
from rltui.tinyrl.rules import sft_problems


class SftModelSection(Section):
    hidden_size: int = Field(default=96, ge=4)
    """Width of the new model."""
    intermediate_size: int = Field(default=192, ge=4)
    """Width of its feed-forward layers."""
    num_hidden_layers: int = Field(default=3, ge=1)
    """Number of its layers."""
    num_attention_heads: int = Field(default=4, ge=1)
    """Attention heads per layer."""
    max_position_embeddings: int = Field(default=512, ge=8)
    """Longest sequence that the new model takes."""


class DataSection(Section):
    batch_size: int = Field(default=64, ge=1)
    """Examples per optimizer step."""
    micro_batch_size: int = Field(default=64, ge=1)
    """Examples computed at once; batch_size is reached in several such rounds."""
    seq_len: int = Field(default=128, ge=1)
    """Longest example."""
    min_chars: int = Field(default=4, ge=1)
    """Shortest text to reverse."""
    max_chars: int = Field(default=7, ge=1)
    """Longest text to reverse."""
    give_up_frac: float = Field(default=0.6, ge=0.0, le=1.0)
    """Share of examples that give up after two letters: the bad habit that RL then has to break."""


class SftOptimSection(Section):
    lr: float = Field(default=3e-3, ge=0.0)
    """Learning rate of the warm-up; it falls to zero."""
    weight_decay: float = Field(default=0.01, ge=0.0)
    """Pull of all weights towards zero."""
    max_norm: float = Field(default=1.0, ge=0.0)
    """Longer gradients are scaled down to this norm."""


class SftSchedulerSection(Section):
    warmup_steps: int = Field(default=20, ge=0)
    """Steps over which the learning rate rises to its full size."""


class SftConfig(Section):
    """All of `sft.toml`."""

    output_dir: Path = Path("outputs/reverse-text-sft")
    """The model folder; it appears whole, after the last step."""
    max_steps: int = Field(default=380, ge=1)
    """Optimizer steps of the warm-up."""
    seed: int = Field(default=0, ge=0)
    """Start of all random numbers: same seed, same model."""
    model: SftModelSection = SftModelSection()
    """Architecture of the new model."""
    data: DataSection = DataSection()
    """Synthetic demonstrations."""
    optim: SftOptimSection = SftOptimSection()
    """Optimizer."""
    scheduler: SftSchedulerSection = SftSchedulerSection()
    """Learning rate over time."""

    @model_validator(mode="after")
    def _check(self) -> SftConfig:
        problems = sft_problems(self)
        if problems:
            raise ValueError("\n".join(problems))
        return self
