"""Progress out of what the stand-ins of prime-rl print, and their checkout's own validators."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.fakes.prime_rl.boxed import PrimeBox, prime_box, prime_sft_box
from tests.fakes.prime_rl.generation import GENERATIONS, Name
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

LAYOUTS: dict[Name, str] = {
    "A1": "prime-rl-split",
    "B0": "prime-rl-merged",
    "B1": "prime-rl-merged",
    "C": "prime-rl",
}

REFUSES = """\
class OrchestratorConfig:
    @classmethod
    def model_validate(cls, data):
        class Refusal(ValueError):
            def errors(self, **options):
                return [{"loc": ("batch_size",), "type": "value_error", "msg": f"not {data['batch_size']}"}]
        if data["batch_size"] == 64:
            raise Refusal
"""
PLANS = """\
import json
from rltui.client import launch
from rltui.services.experiment.registry import known_experiments
with launch.connect(known_experiments()[0]) as wire:
    for size in (64, 32):
        request = {"action": "set", "edits": {"orchestrator.batch_size": size}, "thorough": True}
        print(json.dumps(wire.call("plan", request)["problems"]))
"""


def completed_steps(prime: PrimeBox, component: str = "trainer") -> int:
    """Steps that are done, by the newest line."""
    return prime.steps(component)[-1] + 1 - GENERATIONS[prime.generation].first_step


@pytest.mark.slow
@pytest.mark.parametrize("generation", ["A1", "B0", "B1", "C"])
def test_steps_count_as_the_trainer_completes_them(box: Box, generation: Name) -> None:
    prime = prime_box(box, generation)
    prime.up(LAYOUTS[generation])
    prime.wait_for_steps("trainer", 4)
    before = completed_steps(prime)
    status = box.status()
    assert before <= status["step"] <= completed_steps(prime)
    assert status["reward"] is not None
    trainer = box.component("trainer")
    assert any(fact.startswith("loss") for fact in trainer["facts"])

    prime.done("set", "orchestrator.batch_size=64", "--restart", "--yes")
    prime.wait_for_steps("trainer", 2, attempt=2)
    assert box.status()["step"] <= completed_steps(prime), "the resumed attempt counts on from its checkpoint"
    derived = {item["name"] for item in box.json("knobs")["derived"]}
    assert "estimated step time" in derived
    if generation != "A1":
        conversion = box.json("convert", "--plan")
        assert conversion["to"] == "tokens"
        assert conversion["measured"].startswith("mean of steps")
        assert conversion["edits"]["orchestrator.token_batch_size"] == round(64 * conversion["mean_tokens"])

    prime.done("down")
    last = completed_steps(prime)
    assert box.status()["step"] == last, "from the files alone"


@pytest.mark.slow
@pytest.mark.parametrize("generation", ["A1", "B0", "B1", "C"])
def test_sft_steps(box: Box, generation: Name) -> None:
    prime = prime_sft_box(box, generation)
    prime.up("prime-rl-sft")
    retry_until(lambda: (box.status()["step"] or 0) >= 3, timeout_s=30)
    assert any(fact.startswith("loss") for fact in box.component("sft")["facts"])
    prime.done("down")


@pytest.mark.slow
def test_a_thorough_plan_asks_prime_rl_itself(box: Box) -> None:
    prime = prime_box(box, "A1")
    root = Path(box.env["RLTUI_PRIME_RL"])
    package = root / "own/prime_rl/orchestrator"
    package.mkdir(parents=True)
    (package / "config.py").write_text(REFUSES)
    python = root / ".venv/bin/python"
    python.unlink()
    python.write_text(f'#!/bin/sh\nPYTHONPATH={root}/own exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    prime.up("prime-rl-split", "--only", "inference")
    result = subprocess.run(
        [sys.executable, "-c", PLANS], cwd=box.work, env=box.env, capture_output=True, text=True, check=True
    )
    refusal, accepted = map(json.loads, result.stdout.splitlines())
    [theirs] = [problem for problem in refusal if problem["message"] == "prime-rl says: not 64"]
    assert (theirs["severity"], theirs["key"]) == ("error", "orchestrator.batch_size")
    assert Path(theirs["file"]).name in prime.files
    assert not [problem for problem in accepted if "prime-rl says" in problem["message"]]
    prime.done("down")
