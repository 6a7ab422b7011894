"""Folders as each generation leaves them, and who wrote them."""

from __future__ import annotations

import pytest

from rltui.frameworks.registry import IDS, framework_of_tree, get

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


def test_every_framework_that_writes_folders_is_known() -> None:
    assert [each for each in IDS if not get(each).signs] == ["generic"]
