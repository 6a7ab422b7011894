"""Rollouts."""

from __future__ import annotations

from collections.abc import Sequence

from rltui.core import hints

_BLOCKS = "▁▂▃▄▅▆▇█"


def histogram_blocks(counts: Sequence[int]) -> str:
    """A cell per count, as high as the count beside the largest one; where there is none, a dot."""
    most, top = max(counts, default=0), len(_BLOCKS) - 1
    return "".join("·" if not count else _BLOCKS[round(count / most * top)] for count in counts)


def no_rollouts_text(framework: str) -> str:
    """Why there are none, by the id of the framework."""
    if framework == "verifiers":
        return (
            "vf-rl leaves no files of rollouts; its samples are in the log of the trainer: "
            f"{hints.LOGS_GREP(component='trainer', pattern='[╭│]')}"
        )
    return "No rollouts yet: they appear here with the first step."
