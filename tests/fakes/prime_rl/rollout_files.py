"""Rollouts as files: what the trainer reads, and what people can read."""

from __future__ import annotations

import json
from pathlib import Path

from tests.fakes.prime_rl import step_lines
from tests.fakes.prime_rl.generation import Generation
from tests.fakes.prime_rl.switches import switches

_PROMPT, _ANSWER = "Reverse: abc", "cba"


def write_batch(generation: Generation, output: Path, step: int, ranks: int) -> None:
    """The files that a trainer waits for."""
    folder = output / generation.batches / f"step_{step}"
    folder.mkdir(parents=True, exist_ok=True)
    ranked = "rank_{}.pt" if generation.name == "A1" else "rank_{}.bin"
    shared = generation.name in ("B0", "B1")
    for name in ["rollouts.bin"] if shared else [ranked.format(rank) for rank in range(ranks)]:
        partial = folder / f"{name}.tmp"
        partial.write_text(f"batch of step {step}")
        partial.rename(folder / name)


def write_readable(generation: Generation, output: Path, step: int) -> None:
    """Write the rollouts that B1 and C leave for people; the others leave nothing readable."""
    folder = output / "rollouts" / f"step_{step}"
    if generation.name == "B1":
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "train_rollouts.jsonl").write_text(json.dumps(_rollout(step)) + "\n")
    elif generation.name == "C":
        for cohort in ("all", "effective"):
            file = folder / "train" / cohort / "traces.jsonl"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(_episode(step)) + "\n")


def write_evaluated(generation: Generation, output: Path, step: int, count: int) -> None:
    """Write the episodes of an evaluation, where August's generation has them."""
    if generation.has_attempts:
        return
    for cohort in ("all", "effective"):
        file = output / "rollouts" / f"step_{step}" / "eval" / cohort / "traces.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(_episode(step)) + "\n" for _ in range(count)))


def _rollout(step: int) -> dict[str, object]:
    return {
        "example_id": step,
        "env_name": "reverse-text",
        "prompt": [{"role": "user", "content": _PROMPT}],
        "completion": [{"role": "assistant", "content": _ANSWER}],
        "reward": step_lines.reward(step),
        "is_truncated": False,
    }


def _episode(step: int) -> dict[str, object]:
    nodes = [
        {"parent": None, "message": {"role": "user", "content": _PROMPT}, "sampled": False},
        {"parent": 0, "message": {"role": "assistant", "content": _ANSWER}, "sampled": True},
    ]
    traces = [
        {
            "id": f"t{step}-{agent}",
            "agent": {"name": agent, "trainable": True},
            "nodes": nodes,
            "rewards": {"lcs": {"score": step_lines.reward(step), "weight": 1.0}},
            "info": {"advantage": 0.1},
            "is_completed": True,
            "ok": True,
        }
        for agent in (("player0", "player1") if "seats" in switches().shows else ("agent",))
    ]
    return {"id": f"e{step}", "env": {"name": "reverse-text"}, "ok": True, "errors": [], "traces": traces}
