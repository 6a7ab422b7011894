"""What the screens say, at every size that they are looked at: words, signs, numbers and keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.params import slow_but
from tests.ui.scenes.every import SCENES
from tests.ui.scenes.scene import SIZES
from tests.ui.test_pictures import PICTURES

pytestmark = pytest.mark.usefixtures("utc")

LOOKS = {
    f"{name}-{size}": (name, size)
    for name, scene in SCENES.items()
    for size in scene.sizes
    if (name, size) not in PICTURES.values()
}
"""Those that have no picture, in whose test the same is asserted."""
ALWAYS = (
    "watch-small", "links-small", "memory-fix-small", "gpu-panel-orphans-small", "log-panes-panes",
    "runs-swept-small", "logs-search-middle", "events-small", "runs-none-small", "compare-curves-medium",
    "checkpoints-prune-small", "checkpoints-upload-small", "evaluations-ask-small",
)  # fmt: skip
"""Looked at in the default run."""


@pytest.mark.parametrize("look", slow_but(LOOKS, *ALWAYS))
async def test_screen_says(look: tuple[str, str], tmp_path: Path) -> None:
    name, size = look
    app = SCENES[name].open(tmp_path)
    async with app.run_test(size=SIZES[size]) as pilot:
        await SCENES[name].reach(pilot, size)
