"""Our verdict on hundreds of generated configs beside that of prime-rl's own models."""

from __future__ import annotations

import random
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.prime_rl_configs.conftest import Real
from tests.prime_rl_configs.rule_edits import MAKERS
from tests.prime_rl_configs.variants import Variant, edited, of_knobs, of_rules

from rltui.core.config_report import Problem
from rltui.frameworks.base import ConfigFile
from rltui.frameworks.prime_rl.current.check import check
from rltui.frameworks.prime_rl.current.knobs import KNOBS

pytestmark = [pytest.mark.primerl, pytest.mark.timeout(900)]
FIXTURES = Path(__file__).parents[1] / "data" / "prime_rl" / "era_c"
SEED = 20_260_821
ROUNDS = 12
OURS = (
    ("vLLM refuses it as it starts", r"gpu_memory_utilization must be", ""),
    ("no such port", r"port must be a whole number ≥ 1 and ≤ 65535", ""),
    (
        "nothing runs on no GPU",
        r"(_gpus|gpus_per_node|tensor_parallel_size|\.cp|\.ep|_replicate) must be a",
        "",
    ),
    ("nothing fits into nothing", r"(seq_len|max_num_seqs|max_completion_tokens) must be a", ""),
    ("the launcher refuses it", r"must name the port of|is no address", "base_url"),
    ("two listen on one port", r"takes port \d+, as", ""),
    ("the trainer stops as it starts", r"must be divisible by \d+, what sft\.deployment", ""),
    ("only -1 stands for all", r"num_examples must be a whole number ≥ -1", ""),
)
"""Rules that the package leaves to vLLM, the launcher or the trainer: why, our message, our key."""
NOT_CLAIMED = (
    ("renderers have a package of their own", r"renderer\.", ""),
    ("elements of lists", r"probabilities\.\d", ""),
    ("runs on several machines", r"", "num_infer_nodes"),
)
"""What the package refuses and we do not look at: why, its path, its message."""


def is_ours(problem: Problem) -> bool:
    return any(re.search(said, problem.message) and key in (problem.key or "") for _, said, key in OURS)


def is_not_claimed(error: dict[str, str]) -> bool:
    return any(
        re.search(at, error["at"]) and re.search(said, error["message"]) for _, at, said in NOT_CLAIMED
    )


def bases(real: Real, role: str) -> list[tuple[str, dict[str, Any]]]:
    """Sound configs to start from: our fixture first, then the examples of the checkout."""
    found: list[tuple[str, dict[str, Any]]] = []
    for path in (FIXTURES / f"{role}.toml", *real.examples()):
        config = tomllib.loads(path.read_text())
        is_rl = "trainer" in config or "orchestrator" in config
        if is_rl == (role == "rl") and (is_rl or "data" in config) and not real.errors(role, config):
            found.append((path.name, config))
    return found


def variants(real: Real, role: str) -> list[Variant]:
    chance = random.Random(f"{SEED} {role}")
    knobs = [knob for knob in KNOBS if knob.file == role]
    start = bases(real, role)
    edits = [*of_knobs(knobs, chance), *of_rules(MAKERS[role], chance, rounds=ROUNDS)]
    found = [Variant(name, (), config) for name, config in start]
    for one in edits:
        name, config = start[0] if chance.random() < 0.7 else chance.choice(start)
        found.append(Variant(name, one, edited(config, one)))
    return found


def verdict(problems: tuple[Problem, ...], theirs: list[dict[str, str]]) -> str:
    """How the two agree on one config."""
    errors = [problem for problem in problems if problem.severity == "error"]
    if bool(errors) == bool(theirs):
        return "refused by both" if errors else "accepted by both"
    if errors:
        return "a rule of OURS" if all(map(is_ours, errors)) else "REFUSED WRONGLY"
    if any("renderer" in (problem.key or "") for problem in problems):
        return "a warning of ours, for a renderer that is not known here"
    return "not claimed" if all(map(is_not_claimed, theirs)) else "ACCEPTED WRONGLY"


@pytest.mark.parametrize("role", ["rl", "sft"])
def test_nothing_that_it_refuses_is_accepted_and_nothing_refused_that_it_takes(
    real: Real, role: str, capsys: pytest.CaptureFixture[str]
) -> None:
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for variant in variants(real, role):
        problems = check({role: ConfigFile(role, f"/{variant.origin}", variant.config)})
        theirs = real.errors(role, variant.config)
        found = verdict(problems, theirs)
        counts[found] += 1
        if found.endswith("WRONGLY"):
            ours = [problem.message for problem in problems if problem.severity == "error"]
            wrong.append(f"{found}: {variant.origin} {variant.edits}: we say {ours}, it says {theirs}")
    with capsys.disabled():
        print(f"\n{role}: {counts.total()} configs: {dict(counts)}")
    assert counts.total() >= 300
    assert not wrong, "\n".join(wrong)
