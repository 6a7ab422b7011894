"""All scenes, by name."""

from __future__ import annotations

from tests.ui.scenes import config, gpus, overview, panes, records, runs

SCENES = {
    name: scene
    for module in (overview, panes, gpus, config, runs, records)
    for name, scene in module.SCENES.items()
}
