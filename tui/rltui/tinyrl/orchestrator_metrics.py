"""The orchestrator's row of `metrics.jsonl` (keys: prime-rl of summer 2026)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from rltui.tinyrl.metrics import log_metrics, spread
from rltui.tinyrl.rollouts import Rollout


@dataclass(slots=True)
class Progress:
    """Totals since the beginning of the run, kept in checkpoints."""

    next_example_id: int = 0
    total_rollouts: int = 0
    total_tokens: int = 0
    total_tasks: int = 0

    def add(self, rollouts: list[Rollout], next_example_id: int) -> None:
        """Count a shipped batch."""
        self.next_example_id = next_example_id
        self.total_rollouts += len(rollouts)
        self.total_tokens += sum(rollout.token_count for rollout in rollouts)
        self.total_tasks += len({rollout.example_id for rollout in rollouts})

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


def _group_shares(rollouts: list[Rollout]) -> dict[str, float]:
    """Share of groups in which no, every or some attempt was perfect."""
    groups = [
        [item.reward for item in group] for _, group in groupby(rollouts, key=lambda item: item.example_id)
    ]
    none = sum(max(rewards) < 1 for rewards in groups) / len(groups)
    every = sum(min(rewards) == 1 for rewards in groups) / len(groups)
    prefix = "train/agg/all/agent"
    return {
        f"{prefix}/solved_none": none,
        f"{prefix}/solved_all": every,
        f"{prefix}/solved_some": 1 - none - every,
    }


def step_metrics(
    output_dir: Path,
    step: int,
    rollouts: list[Rollout],
    ages: list[int],
    dropped: int,
    progress: Progress,
    times: dict[str, float],
) -> None:
    """Append the row; `rollouts` is sorted by example, `ages` counts policy updates since each was drawn."""
    rewards = [rollout.reward for rollout in rollouts]
    inputs = [len(rollout.prompt_ids) for rollout in rollouts]
    outputs = [len(rollout.completion_ids) for rollout in rollouts]
    tokens = [float(rollout.token_count) for rollout in rollouts]
    trainable = [rollout.advantage != 0 for rollout in rollouts]
    values: dict[str, float] = {
        **spread("train/agg/all/agent/reward", rewards),
        # every rollout that arrives whole is admitted, so both subsets are the same
        **spread("train/agg/effective/agent/reward", rewards),
        **spread("train/agg/effective/agent/num_total_tokens", tokens),
        **spread("train/agg/all/num_total_tokens", tokens),
        **spread("train/agg/all/num_input_tokens", [float(count) for count in inputs]),
        **spread("train/agg/all/num_output_tokens", [float(count) for count in outputs]),
        "train/agg/all/agent/is_truncated/mean": sum(item.is_truncated for item in rollouts) / len(rollouts),
        "train/agg/all/agent/is_trainable/mean": sum(trainable) / len(rollouts),
        **_group_shares(rollouts),
        "progress/rollouts": len(rollouts),
        "progress/tasks": len({rollout.example_id for rollout in rollouts}),
        "progress/input_tokens": sum(inputs),
        "progress/output_tokens": sum(outputs),
        "progress/tokens": sum(inputs) + sum(outputs),
        "progress/total_rollouts": progress.total_rollouts,
        "progress/total_tokens": progress.total_tokens,
        "progress/total_tasks": progress.total_tasks,
        "off_policy/mean": sum(ages) / len(ages),
        "off_policy/max": max(ages),
        "off_policy/dropped": dropped,
        **times,
    }
    log_metrics(output_dir, step, values)
