"""Where a run of each generation leaves its files, and what makes a checkpoint complete.

Read at the sources of the generations. torch's distributed checkpoint writes `.metadata` last; the
orchestrator's half is complete when `progress.pt` is there, which SFT does not have.
"""

from __future__ import annotations

from dataclasses import replace

from rltui.frameworks.base import RunFiles

_TRAINER_HALF = "checkpoints/step_{step}/trainer/.metadata"
_ORCHESTRATOR_HALF = "checkpoints/step_{step}/orchestrator/progress.pt"

SPLIT_RL = RunFiles(
    checkpoint_marker="",
    checkpoint_parts=(_TRAINER_HALF, _ORCHESTRATOR_HALF),
    first_step=0,
    artifacts=("checkpoints", "rollouts", "broadcasts", "weights", "evals"),
    stale_batches=("rollouts",),
    stale_after_resume=("checkpoints", "broadcasts", "weights"),
)
MERGED_RL = RunFiles(
    checkpoint_parts=(f"run_default/{_ORCHESTRATOR_HALF}",),
    first_step=0,
    artifacts=("checkpoints", "rollouts", "weights", "run_default"),
    stale_batches=("rollouts", "run_default/rollouts"),
    stale_after_resume=("checkpoints", "weights", "run_default/checkpoints", "run_default/broadcasts"),
)
MERGED_SFT = RunFiles(
    first_step=0,
    artifacts=("checkpoints", "weights"),
    stale_after_resume=("checkpoints", "weights"),
)
SPLIT_SFT = replace(MERGED_SFT, checkpoint_marker="", checkpoint_parts=(_TRAINER_HALF,))
CURRENT_RL = RunFiles(
    metrics=("monitors/file/metrics.jsonl", "metrics.jsonl"),
    checkpoint_marker="",
    checkpoint_parts=(_TRAINER_HALF, _ORCHESTRATOR_HALF),
    artifacts=(
        "metrics.jsonl", "monitors", "checkpoints", "rollouts", "batches", "broadcasts", "token_exports",
        "trainer_step", "logs",
    ),
    stale_always=("broadcasts",),
    stale_batches=("rollouts", "batches"),
    stale_after_resume=("checkpoints",),
    beats=dict.fromkeys(("trainer", "sft", "rl"), "trainer_step"),
)  # fmt: skip
"""Of August 2026, and of what came after: with `monitors`, `batches` in place of `rollouts`, and the last
finished step in a file.

With `logs`: the launcher refuses a folder that has any of an earlier run's files. Broadcasts of any step are
stale: a marker of an earlier pair (`STABLE`, `NCCL_READY`, `.sender_ready` …) misleads the next one, and the
trainer broadcasts its weights anew as it starts."""
CURRENT_SFT = replace(CURRENT_RL, checkpoint_parts=(_TRAINER_HALF,))
