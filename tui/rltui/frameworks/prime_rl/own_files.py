"""Where a run of each generation leaves its files, and what makes a checkpoint complete.

Read at the sources of the three generations. torch's distributed checkpoint writes `.metadata` last; the
orchestrator's half is complete when `progress.pt` is there.
"""

from __future__ import annotations

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
SPLIT_SFT = RunFiles(
    checkpoint_marker="",
    checkpoint_parts=(_TRAINER_HALF,),
    first_step=0,
    artifacts=("checkpoints", "weights"),
    stale_after_resume=("checkpoints", "weights"),
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
_CURRENT_ARTIFACTS = ("metrics.jsonl", "checkpoints", "rollouts", "broadcasts", "token_exports", "logs")
"""With `logs`: the launcher refuses a folder that has any of an earlier run's files."""
CURRENT_RL = RunFiles(
    checkpoint_marker="",
    checkpoint_parts=(_TRAINER_HALF, _ORCHESTRATOR_HALF),
    artifacts=_CURRENT_ARTIFACTS,
    stale_always=("broadcasts",),
    stale_batches=("rollouts",),
    stale_after_resume=("checkpoints",),
)
"""Broadcasts of any step are stale: a `STABLE` or `NCCL_READY` of an earlier pair misleads the next one, and
the trainer broadcasts its weights anew as it starts."""
CURRENT_SFT = RunFiles(
    checkpoint_marker="",
    checkpoint_parts=(_TRAINER_HALF,),
    artifacts=_CURRENT_ARTIFACTS,
    stale_always=("broadcasts",),
    stale_batches=("rollouts",),
    stale_after_resume=("checkpoints",),
)
