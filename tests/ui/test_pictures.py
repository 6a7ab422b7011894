"""The pictures that a person looks at before `--snapshot-update`: one or two of each screen."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pytest
from tests.ui.scenes.every import SCENES
from tests.ui.scenes.scene import SIZES
from textual.pilot import Pilot

pytestmark = pytest.mark.usefixtures("utc")

PICTURES: dict[str, tuple[str, str]] = {
    "overview-wide": ("overview", "wide"),
    "overview-small": ("overview", "small"),
    "overview-eight-gpus": ("overview-eight-gpus", "huge"),
    "failed": ("failed", "middle"),
    "external-down": ("external-down", "medium"),
    "plan-of-everything": ("plan-of-everything", "small"),
    "backoff": ("backoff", "small"),
    "orphans": ("orphans-of-two", "small"),
    "unwell": ("unwell", "huge"),
    "curve": ("curve", "medium"),
    "memory-fix": ("memory-fix-menu", "small"),
    "watch": ("watch", "huge"),
    "help": ("help", "wide"),
    "palette": ("palette", "middle"),
    "knob-editor-error": ("knob-editor-error", "middle"),
    "editor-fraction": ("editor-fraction", "middle"),
    "config-small": ("config", "small"),
    "config-huge": ("config-collected", "huge"),
    "gpu-panel-mig": ("gpu-panel-mig", "small"),
    "gpu-panel-stale": ("gpu-panel-stale", "huge"),
    "gpu-screen-bad-verdict": ("gpu-screen-bad-verdict", "huge"),
    "gpu-screen-eight": ("gpu-screen-eight", "small"),
    "logs": ("logs", "medium"),
    "log-panes": ("log-panes-wrapped", "narrow"),
    "events": ("events", "medium"),
    "metrics": ("metrics", "small"),
    "metrics-zoom": ("metrics-zoom-by-time", "huge"),
    "rollouts": ("rollouts", "medium"),
    "rollouts-comparing": ("rollouts-comparing", "small"),
    "checkpoints": ("checkpoints", "medium"),
    "evaluations": ("evaluations", "medium"),
    "runs": ("runs-queued", "small"),
    "runs-grouped": ("runs-grouped", "medium"),
    "trash": ("runs-trash", "small"),
    "queue": ("queue", "medium"),
    "compare": ("compare", "medium"),
}
"""Scene and size. Other sizes, and other scenes, are looked at in words: `test_screens`."""


class SnapCompare(Protocol):
    def __call__(self, app: object, **options: object) -> bool: ...


@pytest.mark.parametrize("name", PICTURES)
def test_picture(name: str, tmp_path: Path, snap_compare: SnapCompare) -> None:
    of, size = PICTURES[name]

    async def reach(pilot: Pilot[None]) -> None:
        await SCENES[of].reach(pilot, size)

    assert snap_compare(SCENES[of].open(tmp_path), terminal_size=SIZES[size], run_before=reach)
