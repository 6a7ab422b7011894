"""The line that each program prints per step, with figures that follow from the step alone."""

from __future__ import annotations

from tests.fakes.prime_rl.generation import Generation


def reward(step: int) -> float:
    """A reward that rises towards 1."""
    return step / (step + 4)


DISCARDED = (
    "Discarded 96/128 episodes (75.0%): stale=80, errored=10, no_signal=6. Review max_off_policy_steps,"
    " episode errors, and reward signal."
)


def rollouts(step: int, shows: frozenset[str]) -> dict[str, float]:
    """Metrics of an orchestrator's step, by agent. A judge is not trained: it has none of the batch."""
    agents = ("player0", "player1") if "seats" in shows else ("agent",)
    judges = ("judge",) if "seats" in shows else ()
    row: dict[str, float] = {"train/agg/all/has_error/mean": 0.0, "train/agg/all/cancelled/mean": 0.0}
    trainable = 0.0 if "teacher" in shows else 0.9
    for part, names in (("all", (*agents, *judges)), ("effective", agents)):
        for number, agent in enumerate(names):
            prefix = f"train/agg/{part}/{agent}"
            row[f"{prefix}/reward/mean"] = reward(step) if number != 1 else 1 - reward(step)
            row[f"{prefix}/is_trainable/mean"] = 0.0 if agent in judges else trainable
            row[f"{prefix}/num_total_tokens/mean"] = 99.9
    return row


def policies(step: int, shows: frozenset[str], *, resumed: bool) -> dict[str, float]:
    """Metrics of the trainer that compare its policy with the sampler's, and with a teacher's."""
    row = {"mismatch_kl/all/mean": 0.15 if resumed and "mismatch" in shows else 0.0004}
    return {**row, "ref_kl/mean": -loss(step)} if "teacher" in shows else row


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
