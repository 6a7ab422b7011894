"""Log lines in prime-rl's format, colour always on, as loguru writes them there.

Templates: prime-rl `utils/logger.py`, `orchestrator/orchestrator.py`, `trainer/rl/train.py`,
`trainer/sft/train.py` of spring 2026.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Literal

Level = Literal["DEBUG", "INFO", "SUCCESS", "WARNING", "ERROR"]

_LEVEL_COLOUR: dict[Level, str] = {
    "DEBUG": "\x1b[34m\x1b[1m",
    "INFO": "\x1b[1m",
    "SUCCESS": "\x1b[32m\x1b[1m",
    "WARNING": "\x1b[33m\x1b[1m",
    "ERROR": "\x1b[31m\x1b[1m",
}


def render(level: Level, message: str, clock: str) -> str:
    """One line without its newline; `clock` is HH:MM:SS, the level is right-aligned to seven columns."""
    colour = _LEVEL_COLOUR[level]
    return f"\x1b[2m{clock}\x1b[0m {colour}{level:>7}\x1b[0m {colour}\x1b[22m{message}\x1b[0m\x1b[0m"


def _write(level: Level, message: str) -> None:
    sys.stdout.write(render(level, message, time.strftime("%H:%M:%S")) + "\n")
    sys.stdout.flush()


def info(message: str) -> None:
    _write("INFO", message)


def success(message: str) -> None:
    _write("SUCCESS", message)


def warning(message: str) -> None:
    _write("WARNING", message)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorStep:
    step: int
    time_s: float
    reward: float
    tokens_per_s: float
    tokens_per_sample: float
    async_level: int
    off_policy_steps: int

    def __str__(self) -> str:
        return (
            f"Step {self.step} | Time: {self.time_s:.2f}s | Reward: {self.reward:.4f}"
            f" | Throughput: {self.tokens_per_s:.1f} tokens/s"
            f" | Seq. Length: {self.tokens_per_sample:.1f} tokens/sample"
            f" | Async Level: {self.async_level} | Max. Off-Policy Level: {self.off_policy_steps}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerStep:
    step: int
    time_s: float
    loss: float
    entropy: float
    mismatch_kl: float
    grad_norm: float
    lr: float
    tokens_per_s: float
    peak_gib: float

    def __str__(self) -> str:
        return (
            f"Step {self.step} | Time: {self.time_s:.2f}s | Loss: {self.loss:.4f} | Entropy:"
            f" {self.entropy:.4f}"
            f" | Mismatch KL: {self.mismatch_kl:.4f} | Grad. Norm: {self.grad_norm:.4f} | LR: {self.lr:.2e}"
            f" | Throughput: {self.tokens_per_s:.0f} tokens/s | MFU: 0.0% | Peak Mem.:"
            f" {self.peak_gib:.1f} GiB"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SftStep:
    step: int
    time_s: float
    loss: float
    grad_norm: float
    lr: float
    tokens_per_s: float
    peak_gib: float
    total_gib: float

    def __str__(self) -> str:
        share = 100 * self.peak_gib / self.total_gib
        return (
            f"Step {self.step} | Time: {self.time_s:.2f}s | Loss: {self.loss:.4f}"
            f" | Grad. Norm: {self.grad_norm:.4f} | LR: {self.lr:.2e}"
            f" | Throughput: {self.tokens_per_s:.0f} tokens/s | MFU: 0.0%"
            f" | Peak Mem.: {self.peak_gib:.1f}/{self.total_gib:.1f} GiB ({share:.1f}%)"
        )
