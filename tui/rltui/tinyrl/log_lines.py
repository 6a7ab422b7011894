"""Log lines in prime-rl's format, colour always on, as loguru writes them there.

Templates: prime-rl `utils/logger.py`, `orchestrator/orchestrator.py`, `trainer/rl/train.py`,
`trainer/sft/train.py` of spring 2026.
"""

from __future__ import annotations

import sys
import time
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


def orchestrator_step(
    *,
    step: int,
    time_s: float,
    reward: float,
    tokens_per_s: float,
    tokens_per_sample: float,
    async_level: int,
    off_policy_steps: int,
) -> str:
    return (
        f"Step {step} | Time: {time_s:.2f}s | Reward: {reward:.4f} | Throughput: {tokens_per_s:.1f} tokens/s"
        f" | Seq. Length: {tokens_per_sample:.1f} tokens/sample"
        f" | Async Level: {async_level} | Max. Off-Policy Level: {off_policy_steps}"
    )


def trainer_step(
    *,
    step: int,
    time_s: float,
    loss: float,
    entropy: float,
    mismatch_kl: float,
    grad_norm: float,
    lr: float,
    tokens_per_s: float,
    peak_gib: float,
) -> str:
    return (
        f"Step {step} | Time: {time_s:.2f}s | Loss: {loss:.4f} | Entropy: {entropy:.4f}"
        f" | Mismatch KL: {mismatch_kl:.4f} | Grad. Norm: {grad_norm:.4f} | LR: {lr:.2e}"
        f" | Throughput: {tokens_per_s:.0f} tokens/s | MFU: 0.0% | Peak Mem.: {peak_gib:.1f} GiB"
    )


def sft_step(
    *,
    step: int,
    time_s: float,
    loss: float,
    grad_norm: float,
    lr: float,
    tokens_per_s: float,
    peak_gib: float,
    total_gib: float,
) -> str:
    return (
        f"Step {step} | Time: {time_s:.2f}s | Loss: {loss:.4f} | Grad. Norm: {grad_norm:.4f} | LR: {lr:.2e}"
        f" | Throughput: {tokens_per_s:.0f} tokens/s | MFU: 0.0%"
        f" | Peak Mem.: {peak_gib:.1f}/{total_gib:.1f} GiB ({100 * peak_gib / total_gib:.1f}%)"
    )
