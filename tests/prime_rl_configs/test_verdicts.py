"""Our verdict on hundreds of generated configs beside that of prime-rl's own models.

Nothing that they take is refused, but for what they leave to other programs. What they refuse and we take is
counted and told, by its kind: a checkout's own models are asked where there is one.
"""

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

from rltui.core.config.report import Problem
from rltui.frameworks import registry
from rltui.frameworks.inputs import ConfigFile
from rltui.frameworks.prime_rl.configs import CURRENT, role_in, snapshots

pytestmark = [pytest.mark.primerl, pytest.mark.timeout(900)]
FIXTURES = Path(__file__).parents[1] / "data" / "prime_rl" / "era_c"
OURS_NOW = registry.get(CURRENT).with_schemas({role: snapshots(CURRENT, role)[-1] for role in ("rl", "sft")})
"""With the schemas that were asked of the same commit."""
SEED = 20_260_821
ROUNDS = 12
OURS = (
    ("vLLM refuses it as it starts", r"gpu_memory_utilization \(.*\) must be", ""),
    ("the launcher refuses it", r"must name the port of|is not a URL such as", "base_url"),
    ("two listen on one port", r"takes port \d+, as", ""),
    ("the trainer stops as it starts", r"must be divisible by \d+, what sft\.deployment", ""),
)
"""Rules that the package leaves to vLLM, the launcher or the trainer: why, our message, our key."""


def is_ours(problem: Problem) -> bool:
    return any(re.search(pattern, problem.message) and key in (problem.key or "") for _, pattern, key in OURS)


def bases(real: Real, role: str) -> list[tuple[str, dict[str, Any]]]:
    """Sound configs to start from: our fixture first, then the examples of the checkout."""
    configs: list[tuple[str, dict[str, Any]]] = []
    for path in (FIXTURES / f"{role}.toml", *real.examples()):
        config = tomllib.loads(path.read_text())
        is_rl = "trainer" in config or "orchestrator" in config
        if is_rl == (role == "rl") and (is_rl or "data" in config) and not real.errors(role, config):
            configs.append((path.name, config))
    return configs


def variants(real: Real, role: str) -> list[Variant]:
    chance = random.Random(f"{SEED} {role}")
    start = bases(real, role)
    knobs = OURS_NOW.config.knobs({role: ConfigFile(role, "/x.toml", start[0][1])})
    edits = [*of_knobs(knobs, chance), *of_rules(MAKERS[role], chance, rounds=ROUNDS)]
    made = [Variant(name, (), config) for name, config in start]
    for one in edits:
        name, config = start[0] if chance.random() < 0.7 else chance.choice(start)
        made.append(Variant(name, one, edited(config, one)))
    return made


def verdict(problems: tuple[Problem, ...], theirs: list[dict[str, str]]) -> str:
    """How the two agree on one config."""
    errors = [problem for problem in problems if problem.severity == "error"]
    if bool(errors) == bool(theirs):
        return "refused by both" if errors else "accepted by both"
    if errors:
        return "a rule of OURS" if all(map(is_ours, errors)) else "REFUSED WRONGLY"
    return "left to theirs, with a warning" if problems else "left to theirs"


@pytest.mark.parametrize("role", ["rl", "sft"])
def test_nothing_is_refused_that_it_takes(real: Real, role: str, capsys: pytest.CaptureFixture[str]) -> None:
    counts: Counter[str] = Counter()
    left: Counter[str] = Counter()
    wrong: list[str] = []
    for variant in variants(real, role):
        problems = OURS_NOW.config.check({role: ConfigFile(role, f"/{variant.origin}", variant.config)})
        theirs = real.errors(role, variant.config)
        outcome = verdict(problems, theirs)
        counts[outcome] += 1
        if outcome == "left to theirs":
            left.update(re.sub(r"\d+|'[^']*'", "_", error["message"])[:90] for error in theirs)
        if outcome.endswith("WRONGLY"):
            ours = [problem.message for problem in problems if problem.severity == "error"]
            wrong.append(f"{outcome}: {variant.origin} {variant.edits}: we say {ours}, it says {theirs}")
    with capsys.disabled():
        print(f"\n{role}: {counts.total()} configs: {dict(counts)}")
        print("\n".join(f"  {number} left to theirs: {message}" for message, number in left.most_common()))
    assert counts.total() >= 300
    assert counts["left to theirs"] < counts.total() / 10
    assert not wrong, "\n".join(wrong)


def test_every_file_of_the_checkout_is_judged_as_it_does(real: Real) -> None:
    """With the schema of the same commit, and with the one that the file fits best."""
    checked = 0
    for path in real.examples():
        config = tomllib.loads(path.read_text())
        role = role_in(CURRENT, str(path), config)
        if role is None:  # a part of a file, or for another program
            continue
        file = ConfigFile(role, str(path), config)
        theirs = real.errors(role, config)
        for ours in (OURS_NOW, registry.get(CURRENT)):
            errors = [
                problem.message for problem in ours.config.check({role: file}) if problem.severity == "error"
            ]
            assert not errors or theirs, (path, errors)
        checked += 1
    assert checked > 40
