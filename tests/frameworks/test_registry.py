from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from rltui.errors import ConfigError
from rltui.frameworks import registry
from rltui.frameworks.registry import framework_of_tree

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
        ({"slurm": {"job_name": "x"}}, "has only slurm: an overlay"),
        ({"output_dir": "x", "slurm": {}}, "name its base before it: @ BASE.toml @ x.toml"),
        ({"num_examples": 5, "env": [{"id": "x"}]}, "rltui eval run ENV --model NAME"),
    ],
    ids=["slim", "overlay", "evals"],
)
def test_detect_says_what_a_file_is_that_cannot_be_run_alone(data: dict[str, object], words: str) -> None:
    """Finding P9."""
    with pytest.raises(registry.UnknownConfigError) as caught:
        registry.detect([("x.toml", data)])
    assert words in caught.value.title
    with pytest.raises(registry.UnknownConfigError) as caught:
        registry.detect([("x.toml", data), ("y.toml", {"foo": 1})])
    assert words in caught.value.details[0]
    assert caught.value.details[1] == "y.toml: has foo"


def test_get_suggests() -> None:
    assert registry.get("tinyrl").id == "tinyrl"
    with pytest.raises(ConfigError) as caught:
        registry.get("tiny-rl")
    assert caught.value.hint == "did you mean tinyrl?"


TREES = {
    "split, by the launcher": (
        "prime-rl-split",
        ("logs", "logs/rl.log", "logs/inference.stdout", "logs/orchestrator.stdout", "logs/trainer.stdout",
         "logs/orchestrator.log", "logs/trainer", "logs/trainer/rank_0.log", "torchrun", "rollouts"),
    ),
    "split, by hand": ("prime-rl-split", ("logs", "logs/trainer", "logs/trainer/rank_0.log", "weights")),
    "split, one file so far": ("prime-rl-split", ("logs", "logs/inference.stdout")),
    "merged, in February 2026": (
        "prime-rl-merged",
        ("logs", "logs/trainer.stdout", "logs/inference.stdout", "run_default", "configs/trainer.toml"),
    ),
    "merged, in April 2026": (
        "prime-rl-merged",
        ("logs", "logs/trainer.log", "logs/orchestrator.log", "logs/envs", "run_default", "configs/rl.toml"),
    ),
    "merged, sft": ("prime-rl-merged", ("logs", "logs/trainer.log", "logs/trainer", "checkpoints")),
    "current": (
        "prime-rl",
        ("logs", "logs/latest", "logs/attempt_1", "configs", "configs/trainer.json", "metrics.jsonl"),
    ),
    "latest": (
        "prime-rl",
        ("logs", "configs", "configs/latest", "configs/attempt_1", "monitors", "monitors/file"),
    ),
    "latest, evals only": ("prime-rl", ("monitors", "monitors/file")),
    "current, only resolved": ("prime-rl", ("configs", "configs/trainer.json")),
    "current, where an older run left its own": (
        "prime-rl",
        ("logs/trainer.stdout", "run_default", "logs/attempt_1", "configs/trainer.toml"),
    ),
    "tinyrl": ("tinyrl", ("control", "control/trainer.json", "metrics.jsonl", "rollouts", "weights")),
    "nothing": (None, ()),
    "a folder of runs": (None, ("run-1", "run-2", "notes.txt")),
    "logs of something else": (None, ("logs", "logs/server.log", "configs", "configs/a.yaml")),
}  # fmt: skip


@pytest.mark.parametrize(("framework", "names"), TREES.values(), ids=TREES)
def test_who_wrote_it(framework: str | None, names: tuple[str, ...]) -> None:
    assert framework_of_tree(names) == framework
