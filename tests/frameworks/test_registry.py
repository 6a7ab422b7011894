from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from rltui.errors import ConfigError
from rltui.frameworks import registry
from rltui.frameworks.base import ConfigFile, RunContext

DATA = Path(__file__).parents[1] / "data" / "toml"


def parsed(*names: str) -> list[tuple[str, dict[str, object]]]:
    return [(name, tomllib.loads((DATA / name).read_text())) for name in names]


def test_detect_takes_merged_files_for_tinyrl() -> None:
    assert registry.detect(parsed("era_b_rl.toml")).id == "tinyrl"
    assert registry.detect(parsed("era_b_rl.toml", "era_b_sft.toml")).id == "tinyrl"


@pytest.mark.parametrize(
    ("name", "sign"),
    [
        ("era_c_rl.toml", "orchestrator.group_size"),
        ("era_c_sft.toml", "deployment.num_train_gpus"),
        ("era_a_orch.toml", "rollouts_per_example"),
    ],
)
def test_detect_says_what_is_not_supported(name: str, sign: str) -> None:
    with pytest.raises(ConfigError) as caught:
        registry.detect(parsed(name))
    assert sign in caught.value.details[0]
    assert "not supported yet" in caught.value.details[0]
    assert "--layout" in caught.value.hint
    assert caught.value.exit_code == 3


def test_detect_shows_what_it_saw() -> None:
    with pytest.raises(ConfigError) as caught:
        registry.detect([("x.toml", {"foo": 1, "bar": {}})])
    assert caught.value.details[0] == "x.toml: has foo, bar"


def test_get_suggests() -> None:
    assert registry.get("tinyrl").id == "tinyrl"
    with pytest.raises(ConfigError) as caught:
        registry.get("tiny-rl")
    assert caught.value.hint == "did you mean tinyrl?"


def test_generic_makes_every_scalar_a_knob() -> None:
    generic = registry.get("generic")
    data = {"lr": 1.0, "max_steps": 5, "list": [1], "a": {"b": {"on": True, "x.y": "z"}}}
    files = {"my-run": ConfigFile("my-run", "/c/My Run.toml", data)}
    assert generic.roles("/c/My Run.toml", data) == "my-run"
    knobs = {knob.name: knob.kind for knob in generic.more_knobs(files)}
    assert knobs == {"lr": "float", "max_steps": "int", "a.b.on": "bool", 'a.b."x.y"': "str"}
    assert generic.max_steps(files) == 5
    values = generic.template_values(files, RunContext("/w", "/o", "/py"))
    assert values["config.my-run"] == "/c/My Run.toml"


def test_generic_names_the_file_where_there_are_several() -> None:
    files = {name: ConfigFile(name, f"/c/{name}.toml", {"lr": 1}) for name in ("a", "b")}
    assert [knob.name for knob in registry.get("generic").more_knobs(files)] == ["a.lr", "b.lr"]
