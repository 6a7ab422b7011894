"""The line that each program prints per step, with figures that follow from the step alone."""

from __future__ import annotations

from tests.fakes.prime_rl.generation import Generation


def reward(step: int) -> float:
    """A reward that rises towards 1."""
    return step / (step + 4)


def loss(step: int) -> float:
    """A loss that falls towards 0."""
    return 1.5 / (step + 1)


def orchestrator(generation: Generation, step: int, time_s: float, *, behind: int) -> str:
    """`behind`: by how many steps the weights that answered are older than the step."""
    if generation.is_late:
        return (
            f"Step {step} | {_duration(time_s):>7} | Reward {reward(step):.4f} | Trainable 120/128 (93.8%) | "
            f"Turns 1.0 | Branches 1.0 | Max Off-Policy {max(behind, 0)} | Error 0.0% | Cancelled 0.0% | "
            f"Truncation 1.0%{' | Timeout 0.0%' if generation.has_attempts else ''}"
        )
    throughput = "" if generation.name == "B1" else " Throughput: 1234.5 tokens/s |"
    return (
        f"Step {step} | Time: {time_s:.2f}s | Reward: {reward(step):.4f} |{throughput} "
        f"Seq. Length: 99.9 tokens/sample | Async Level: {behind} | Max. Off-Policy Level: 0"
    )


def trainer(generation: Generation, step: int, time_s: float) -> str:
    if generation.is_late:
        return (
            f"Step {step} | {_duration(time_s):>7} | Loss {loss(step):.4f} | Entropy 0.5000 | "
            "Mismatch KL 0.0001 | Grad. Norm 0.1234 | LR 3.00e-06 | Throughput 12345 tokens/s | MFU 12.3% | "
            "Peak Mem. 34.5 GiB"
        )
    return (
        f"Step {step} | Time: {time_s:.2f}s | Loss: {loss(step):.4f} | Entropy: 0.5000 | Mismatch KL: 0.0001 "
        "| Grad. Norm: 0.1234 | LR: 3.00e-06 | Throughput: 12345 tokens/s | MFU: 12.3% | Peak Mem.: 34.5 GiB"
    )


def sft(generation: Generation, step: int, time_s: float) -> str:
    if generation.is_late:
        return (
            f"Step {step} | {_duration(time_s):>7} | Loss {loss(step):.4f} | Grad. Norm 0.5000 | "
            "LR 2.00e-05 | Throughput 12345 tokens/s | MFU 12.3% | Peak Mem. 34.5/79.6 GiB (43.3%)"
        )
    return (
        f"Step {step} | Time: {time_s:.2f}s | Loss: {loss(step):.4f} | Grad. Norm: 0.5000 | LR: 2.00e-05 | "
        "Throughput: 12345 tokens/s | MFU: 12.3% | Peak Mem.: 34.5/79.6 GiB (43.3%)"
    )


def _duration(time_s: float) -> str:
    return f"{round(time_s * 1000)}ms" if time_s < 1 else f"{time_s:.1f}s"
