"""What a step amounts to, in every generation."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from rltui.core.config.batch import BatchKnobs
from rltui.core.config.report import DerivedValue
from rltui.frameworks import registry
from rltui.frameworks.inputs import ConfigFile, ConfigFiles
from rltui.frameworks.prime_rl.configs import CURRENT, MERGED, SPLIT

FIXTURES = Path(__file__).parents[2] / "data" / "prime_rl"
SOURCE = '\n[[orchestrator.train.source]]\nname = "b"\nenv.taskset.id = "b"\n'


def real(name: str) -> str:
    return (FIXTURES / f"{name}.toml").read_text()


def of(role: str, text: str) -> ConfigFiles:
    return {role: ConfigFile(role, f"/{role}.toml", tomllib.loads(text))}


def figures(generation: str, role: str, text: str) -> dict[str, DerivedValue]:
    return {value.name: value for value in registry.get(generation).config.derive(of(role, text))}


def test_three_files() -> None:
    derived = figures(SPLIT, "orchestrator", real("era_a/orch") + "\n")
    assert derived["prompts per step"].text == "128 rollouts / 16 per example = 8 prompts per step"
    assert derived["rollouts in flight"].text == "128 * 1 = 128 rollouts at once, 8 whole groups of 16"
    assert derived["micro-batches per optimizer step"].text == (
        "at most 128 rollouts / 1 = 128 packed micro-batches, at least 8"
    )
    sft = figures(SPLIT, "sft", real("era_a/sft"))
    assert sft["sft tokens per step"].text == "32 packed rows * 4096 tokens = 131072 tokens per step"
    assert sft["sft micro-batches per optimizer step on one GPU"].value == 32
    assert figures(SPLIT, "trainer", real("era_a/train")) == {}


def test_one_file() -> None:
    derived = figures(MERGED, "rl", real("era_b/rl") + "\n[deployment]\nnum_train_gpus = 2\n")
    assert derived["prompts per step"].value == 8
    assert derived["rollouts in flight"].value == 128
    assert derived["sampled tokens per step"].value == 128 * 128
    assert derived["rollouts per micro-batch"].text == (
        "2048 tokens / 2048 of the longest rollout = 1; 16 of 128 new tokens, not counting prompts"
    )
    assert derived["micro-batches per optimizer step"].text == (
        "at most 128 rollouts / 1 = 64 packed micro-batches on each of 2 ranks, at least 4"
    )
    sft = figures(MERGED, "sft", "deployment.num_gpus = 4\n")
    assert sft["sft micro-batches per optimizer step"].value == 32


def test_token_batches() -> None:
    tokens = "orchestrator.token_batch_size = 65536\norchestrator.max_inflight_rollouts = 64\n"
    derived = figures(
        MERGED, "rl", tokens + "orchestrator.rollouts_per_example = 16\ntrainer.optim.lr = 1e-6\n"
    )
    assert derived["micro-batches per optimizer step"].value == 32
    assert derived["rollouts in flight"].value == 64
    text = real("era_c/rl").replace("batch_size = 128", "token_batch_size = 65536")
    assert figures(CURRENT, "rl", text)["tokens per step"].value == 65536


def test_the_group_size_may_have_either_name() -> None:
    text = "trainer = {}\n[orchestrator]\n%s = 8"
    for name in ("group_size", "rollouts_per_example"):
        assert figures(MERGED, "rl", text % name)["prompts per step"].value == 16


def test_run_folders() -> None:
    derived = figures(CURRENT, "rl", real("era_c/rl"))
    assert derived["prompts per step"].value == 8
    assert derived["micro-batches per optimizer step"].value == 128
    assert derived["episodes in flight"].text.endswith("at least 1, at most 1024")
    assert derived["GPUs"].value == 2
    fixed = "\n[orchestrator.concurrency]\nmin_inflight = 32\nmax_inflight = 32\n"
    assert figures(CURRENT, "rl", real("era_c/rl") + fixed)["episodes in flight"].value == 32
    sft = figures(CURRENT, "sft", real("era_c/sft"))
    assert sft["sft tokens per step"].value == 32 * 4096
    assert sft["sft micro-batches per optimizer step"].value == 32
    assert sft["sft tokens of the run"].value == 100 * 32 * 4096
    assert "eval episodes in flight" in sft


def test_the_group_size_of_the_sources_counts() -> None:
    """Finding P0: `128 / 1 per example` was told of a file whose `[orchestrator.train]` says 16."""
    derived = figures(CURRENT, "rl", real("era_d/rl"))
    assert derived["prompts per step"].text == "128 rollouts / 16 per example = 8 prompts per step"
    both = figures(CURRENT, "rl", real("era_d/rl") + SOURCE + "group_size = 4\n")
    assert both["prompts per step"].value is None
    assert both["prompts per step"].text == (
        "128 rollouts / 4 or 16 per example (set by the source) = 8 to 32 prompts per step"
    )


@pytest.mark.parametrize(
    ("generation", "role", "text"),
    [
        (SPLIT, "orchestrator", "batch_size = []"),
        (CURRENT, "rl", real("era_c/rl").replace("batch_size = 128", "batch_size = 0")),
    ],
    ids=["list", "zero"],
)
def test_no_figures_while_a_value_is_wrong(generation: str, role: str, text: str) -> None:
    assert figures(generation, role, text) == {}


def knobs(generation: str, role: str, name: str) -> BatchKnobs | None:
    return registry.get(generation).config.batch_knobs(of(role, real(name)))


def test_batches_are_counted_by_the_keys_of_the_file() -> None:
    names = knobs(SPLIT, "orchestrator", "era_a/orch")
    assert names is not None
    assert (names.group_size, names.token_batch_size) == ("orchestrator.rollouts_per_example", "")
    names = knobs(MERGED, "rl", "era_b/rl")
    assert names is not None
    assert names.inflight == "orchestrator.max_inflight_rollouts"
    names = knobs(CURRENT, "rl", "era_c/rl")
    assert names is not None
    assert (names.group_size, names.inflight) == ("orchestrator.group_size", None)
    names = knobs(CURRENT, "rl", "era_d/rl")
    assert names is not None
    assert (names.group_size, names.token_batch_size) == ("orchestrator.train.group_size", "")
    assert knobs(CURRENT, "sft", "era_c/sft") is None


def test_what_moves_a_bottleneck_is_called_as_in_the_file() -> None:
    def of_file(generation: str, role: str, name: str) -> tuple[str | None, ...]:
        names = registry.get(generation).config.bottleneck_knobs(of(role, real(name)))
        return names.in_flight, names.kv_memory, names.sequences, names.lead

    assert of_file(MERGED, "rl", "era_b/rl") == (
        "orchestrator.max_inflight_rollouts", "inference.gpu_memory_utilization", None, "max_async_level"
    )  # fmt: skip
    assert of_file(CURRENT, "rl", "era_d/rl") == (
        "orchestrator.concurrency.max_inflight", "inference.vllm.gpu_memory_utilization", None,
        "orchestrator.max_off_policy_steps",
    )  # fmt: skip
    assert of_file(CURRENT, "sft", "era_c/sft") == (None, None, None, None)
