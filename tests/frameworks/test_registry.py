from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from rltui.errors import ConfigError
from rltui.frameworks import registry
from rltui.frameworks.base import ConfigFile, RunContext

DATA = Path(__file__).parents[1] / "data" / "prime_rl"


def parsed(*names: str) -> list[tuple[str, dict[str, object]]]:
    return [(name, tomllib.loads((DATA / name).read_text())) for name in names]


TINYRL_RL = ("rl.toml", {"seed": 0, "orchestrator": {"batch_size": 8}})
TINYRL_SFT = ("sft.toml", {"data": {"batch_size": 8, "min_chars": 4}})
PRIME_RL_FILES = [
    (("era_a/train.toml", "era_a/orch.toml", "era_a/infer.toml"), "prime-rl-split"),
    (("era_a/orch.toml", "era_a/infer.toml", "era_a/train.toml"), "prime-rl-split"),
    (("era_b/rl.toml",), "prime-rl-merged"),
    (("era_c/rl.toml",), "prime-rl"),
    (("era_c/sft.toml",), "prime-rl"),
]


@pytest.mark.parametrize(("names", "framework"), PRIME_RL_FILES)
def test_detect_tells_the_generations_of_prime_rl(names: tuple[str, ...], framework: str) -> None:
    assert registry.detect(parsed(*names)).id == framework


def test_detect_tells_tinyrl_by_its_own_knobs() -> None:
    assert registry.detect([TINYRL_RL]).id == "tinyrl"
    assert registry.detect([TINYRL_RL, TINYRL_SFT]).id == "tinyrl"


@pytest.mark.parametrize(
    ("parsed_files", "candidates"),
    [
        (parsed("era_a/sft.toml"), ("prime-rl", "prime-rl-merged", "prime-rl-split")),
        (parsed("era_b/sft.toml"), ("prime-rl", "prime-rl-merged", "prime-rl-split")),
        ([("rl.toml", {"orchestrator": {"batch_size": 8}, "trainer": {}})], ("prime-rl", "prime-rl-merged")),
    ],
    ids=["sft of 2025", "sft of spring", "shared knobs"],
)
def test_detect_asks_where_nothing_tells(
    parsed_files: list[tuple[str, dict[str, object]]], candidates: tuple[str, ...]
) -> None:
    with pytest.raises(registry.AmbiguousConfigError) as caught:
        registry.detect(parsed_files)
    assert caught.value.candidates == candidates
    assert "--framework" in caught.value.hint
    assert registry.detect(parsed_files, installed="prime-rl-merged").id == "prime-rl-merged"


def test_the_checkout_dates_a_file_of_summer_which_else_counts_as_new() -> None:
    """Finding P1: group_size came in May 2026, run folders, which set generations apart, in August."""
    files = [("rl.toml", {"orchestrator": {"group_size": 8}, "trainer": {}})]
    with pytest.raises(registry.AmbiguousConfigError) as caught:
        registry.detect(files)
    assert registry.likely(caught.value, files) == "prime-rl"
    assert registry.detect(files, installed="prime-rl-merged").id == "prime-rl-merged"
    assert registry.detect(files, installed="prime-rl").id == "prime-rl"


def test_detect_says_what_each_file_looks_like() -> None:
    with pytest.raises(ConfigError) as caught:
        registry.detect(parsed("era_c/rl.toml", "era_a/orch.toml"))
    assert "rl file of prime-rl (August 2026 on)" in caught.value.details[0]
    assert "orchestrator file of prime-rl, three files" in caught.value.details[1]
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"slurm": {"job_name": "x"}}, "an overlay, as in `rl @ base.toml @ overlay.toml`"),
        ({"output_dir": "x", "slurm": {}}, "write its tables into a copy of the base"),
        (
            {"model": "m", "env": {"id": "x"}, "inference": {"args": {}}, "trainer": {"args": {}}},
            "is for vf-rl of verifiers",
        ),
    ],
    ids=["slim", "overlay", "vf-rl"],
)
def test_detect_says_what_a_file_is_that_cannot_be_run_alone(data: dict[str, object], words: str) -> None:
    """Findings P9, C5."""
    with pytest.raises(registry.UnknownConfigError) as caught:
        registry.detect([("x.toml", data)])
    assert words in caught.value.details[0]


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
    assert generic.role("/c/My Run.toml", data) == "my-run"
    knobs = {knob.name: knob.kind for knob in generic.knobs(files)}
    assert knobs == {"lr": "float", "max_steps": "int", "a.b.on": "bool", 'a.b."x.y"': "str"}
    assert generic.max_steps(files) == 5
    values = generic.template_values(files, RunContext("/w", "/o", "/py"))
    assert values["config.my-run"] == "/c/My Run.toml"


def test_generic_names_the_file_where_there_are_several() -> None:
    files = {name: ConfigFile(name, f"/c/{name}.toml", {"lr": 1}) for name in ("a", "b")}
    assert [knob.name for knob in registry.get("generic").knobs(files)] == ["a.lr", "b.lr"]
