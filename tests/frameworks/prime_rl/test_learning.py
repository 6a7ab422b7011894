"""What a run learns from, by the algorithms of its sources."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from rltui.core.metrics.learning import Learning
from rltui.frameworks import registry
from rltui.frameworks.inputs import ConfigFile
from rltui.frameworks.prime_rl.configs import CURRENT, MERGED

FIXTURES = Path(__file__).parents[2] / "data" / "prime_rl"
OPD = 'type = "opd"\nteacher.name = "big"\nteacher.base_url = ["http://teacher/v1"]\n'


def learning(generation: str, name: str, before: str = "", source: str = "", after: str = "") -> Learning:
    """Of a fixture with more text: before its table of sources, in its source, and as further sources."""
    text = (FIXTURES / f"{name}.toml").read_text()
    text = text.replace('[orchestrator.train.algo]\ntype = "grpo"\n', "")
    table = "[[orchestrator.train.source]]\n"
    text = text.replace(table, f"{before}{table}{source}", 1)
    files = {"rl": ConfigFile("rl", "/rl.toml", tomllib.loads(text + after))}
    return registry.get(generation).config.learning(files)


@pytest.mark.parametrize(
    ("name", "algo"), [("era_c/rl", "orchestrator.algo"), ("era_d/rl", "orchestrator.train.algo")]
)
def test_the_algorithms_of_the_sources_tell(name: str, algo: str) -> None:
    usual = learning(CURRENT, name)
    assert (usual.target, usual.rewarded, usual.has_rivals, usual.max_staleness) == (
        "",
        frozenset(),
        False,
        8,
    )
    distilled = learning(CURRENT, name, before=f"[{algo}]\n{OPD}")
    assert (distilled.signals, distilled.target) == (frozenset({"teacher"}), "teacher_kl")
    assert learning(CURRENT, name, before=f'[{algo}]\ntype = "opsd"\n').signals == {"self"}
    assert learning(CURRENT, name, before=f'[{algo}]\ntype = "sft"\n').target == "nll"
    echo = learning(CURRENT, name, before=f'[{algo}]\ntype = "echo"\n')
    assert (echo.target, "reward" in echo.signals) == ("", True)
    game = '\n[[orchestrator.train.source]]\nname = "game"\nenv.taskset.id = "game"\nalgo.type = "rae"\n'
    mixed = learning(CURRENT, name, before=f"[{algo}]\n{OPD}", after=game)
    assert (mixed.target, mixed.rewarded, mixed.has_rivals) == ("", frozenset({"game"}), True)
    assert mixed.signals == {"teacher", "reward"}


def test_the_knobs_against_discards_are_those_of_the_file() -> None:
    assert learning(CURRENT, "era_c/rl").knobs == {
        "stale": ("orchestrator.max_off_policy_steps", "orchestrator.concurrency.max_inflight"),
        "no signal": ("orchestrator.group_size", "orchestrator.train.filter_zero_advantages"),
    }
    assert learning(CURRENT, "era_d/rl", source="min_abs_advantage = 0.3\n").knobs["no signal"] == (
        "orchestrator.train.group_size", "orchestrator.train.select",
        "orchestrator.train.source.0.min_abs_advantage",
    )  # fmt: skip


def test_earlier_generations_learn_from_their_reward() -> None:
    assert learning(MERGED, "era_b/rl").signals == {"reward"}
