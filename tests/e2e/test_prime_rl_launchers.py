"""The layouts around prime-rl's own launchers: one component, the panes follow the files of its children."""

from __future__ import annotations

import re

import pytest
from tests.conftest import Box
from tests.fakes.prime_rl.boxed import EXPERIMENT, PrimeBox, prime_box, prime_sft_box
from tests.fakes.prime_rl.generation import GENERATIONS, Name
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]


def logged_steps(prime: PrimeBox) -> list[int]:
    """Numbers of the steps in the file that the launcher lets the trainer write."""
    logs = prime.output / "run" / "logs"
    folder = logs / "latest" if prime.generation == "C" else logs
    file = folder / f"trainer{GENERATIONS[prime.generation].log_suffix}"
    text = re.sub(r"\x1b\[[0-9;]*m", "", file.read_text()) if file.exists() else ""
    return [int(number) for number in re.findall(r"SUCCESS Step (\d+) \|", text)]


def assert_goes_on(prime: PrimeBox, edit: str, component: str) -> None:
    """Some steps, an edit with a restart, and further steps from a checkpoint."""
    generation = GENERATIONS[prime.generation]
    retry_until(lambda: len(logged_steps(prime)) >= 5, timeout_s=30)
    before = logged_steps(prime)
    assert before[0] == generation.first_step
    prime.done("set", edit, "--restart", "--yes")
    prime.pid(component, attempt=2)

    def resumed() -> list[int] | None:
        steps = logged_steps(prime)
        return steps if len(steps) >= 2 and steps[0] != generation.first_step else None

    resumed_step = retry_until(resumed, timeout_s=30)
    resumed_from = resumed_step[0] - 1 if prime.generation == "C" else resumed_step[0]
    assert resumed_from in prime.checkpoints()


@pytest.mark.slow
@pytest.mark.parametrize("generation", ["B0", "B1", "C"])
def test_rl_launcher(box: Box, generation: Name) -> None:
    prime = prime_box(box, generation)
    status = prime.up("prime-rl-single")
    assert [item["id"] for item in status["components"]] == ["rl"]
    assert_goes_on(prime, "orchestrator.batch_size=64", "rl")
    output = box.run("logs", "-c", "trainer", "--limit", "200").stdout
    assert "Step" in output, "what the trainer writes is followed as a log of its own"
    prime.assert_down_leaves_nothing()


@pytest.mark.slow
@pytest.mark.parametrize("generation", ["A1", "B0", "B1", "C"])
def test_fine_tuning(box: Box, generation: Name) -> None:
    prime = prime_sft_box(box, generation)
    framework = {"A1": "prime-rl-split", "B0": "prime-rl-merged", "B1": "prime-rl-merged", "C": "prime-rl"}
    prime.up("prime-rl-sft", "--framework", framework[generation])
    prime.wait_for_steps("sft", 5)
    prime.done("set", "optim.lr=1e-5", "--restart", "--yes")
    steps = prime.wait_for_steps("sft", 2, attempt=2)
    resumed_from = steps[0] - 1 if generation == "C" else steps[0]
    assert resumed_from in prime.checkpoints()
    prime.assert_down_leaves_nothing()


@pytest.mark.slow
def test_killed_launcher_leaves_nothing_behind(box: Box) -> None:
    """The launcher's children live on when it is killed: their processes are found and ended."""
    prime = prime_box(box, "C")
    prime.up("prime-rl-single")
    retry_until(lambda: len(logged_steps(prime)) >= 2, timeout_s=30)
    prime.kill(prime.pid("rl"))
    box.wait_for("rl", "failed")
    retry_until(lambda: not prime.programs_alive(), timeout_s=30)
    prime.assert_down_leaves_nothing()
    assert not box.tagged(EXPERIMENT)
