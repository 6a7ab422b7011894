"""Which resolutions a component needs."""

from __future__ import annotations

from rltui.frameworks.launch import Resolution

PARTS = Resolution(
    edits={}, outputs={"trainer": ("out/a_*/trainer.toml",), "env": ("none", "out/envs/*.json")}
)
LAUNCHER = Resolution(edits={}, outputs={"launcher": ("rl.toml",)})


def needed(wanted: list[str]) -> list[Resolution]:
    return [resolution for resolution in (PARTS, LAUNCHER) if resolution.makes(wanted)]


def test_only_those_are_needed_of_which_an_output_is_wanted() -> None:
    assert needed(["env.Math"]) == [PARTS]
    assert needed(["launcher"]) == [LAUNCHER]
    assert needed(["launcher", "trainer"]) == [PARTS, LAUNCHER]
    assert needed(["rl", "envs", "env"]) == [PARTS]
    assert needed(["rl", "envs"]) == []
