"""Which resolutions a component needs."""

from __future__ import annotations

from rltui.frameworks.base import Resolution
from rltui.frameworks.resolutions import needed

PARTS = Resolution(
    edits={}, outputs={"trainer": ("out/a_*/trainer.toml",), "env": ("none", "out/envs/*.json")}
)
LAUNCHER = Resolution(edits={}, outputs={"launcher": ("rl.toml",)})


def test_only_those_are_needed_of_which_an_output_is_wanted() -> None:
    assert needed([PARTS, LAUNCHER], ["env.Math"]) == [PARTS]
    assert needed([PARTS, LAUNCHER], ["launcher"]) == [LAUNCHER]
    assert needed([PARTS, LAUNCHER], ["launcher", "trainer"]) == [PARTS, LAUNCHER]
    assert needed([PARTS, LAUNCHER], ["rl", "envs", "env"]) == [PARTS]
    assert needed([PARTS, LAUNCHER], ["rl", "envs"]) == []
