"""What frameworks do with their rollouts, in words, for a run that has no files of them."""

from __future__ import annotations

from rltui.core import hints

ELSEWHERE = {
    "verifiers": "vf-rl writes no rollout files; its samples are in the trainer's log:"
    f" {hints.LOGS_GREP(component='trainer', pattern='[╭│]')}"
}
"""Framework that never writes any → where its samples are."""
WRITERS = "prime-rl writes them since April 2026, to rollouts/ or monitors/file/traces/"
