"""Every prime-rl layout on the stand-ins: started, edited, restarted, resumed and stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import Box
from tests.fakes.prime_rl.boxed import PrimeBox, prime_box
from tests.fakes.prime_rl.generation import GENERATIONS, Name
from tests.fakes.prime_rl.http_client import get
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

PARTS = ("inference", "orchestrator", "trainer")
LAYOUTS: dict[Name, str] = {
    "A1": "prime-rl-split",
    "B0": "prime-rl-merged",
    "B1": "prime-rl-merged",
    "C": "prime-rl",
}


@pytest.mark.slow
def test_two_runs_side_by_side(box: Box) -> None:
    """Finding P3: every port of the second one moves."""
    prime = prime_box(box, "C")
    prime.up("prime-rl")
    second = box.run("up", *prime.files, "-l", "prime-rl", "-n", "two", "-o", "out2")
    assert second.returncode == 0, second.stderr
    assert f"port {prime.ports.env} is in use by" in second.stderr
    assert "for env servers" in second.stderr
    retry_until(lambda: int(box.json("status", "two")["step"] or 0) >= 3, timeout_s=60)
    before = prime.steps("trainer")[-1]
    prime.wait_for_steps("trainer", before + 2)
    assert box.run("down", "two").returncode == 0
    prime.done("down", "one")


@pytest.mark.slow
def test_server_is_ready_once_its_clients_can_reach_it(box: Box) -> None:
    """They go through the router, which listens some time after the engine."""
    prime = prime_box(box, "C")
    prime.up("prime-rl", "--only", "inference")
    assert get(f"http://localhost:{prime.ports.server}/v1/models")["data"]
    prime.assert_down_leaves_nothing()


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def checkpoint_before(prime: PrimeBox, step: int) -> int:
    """The one that a run which goes on with `step` was resumed from, as its generation counts."""
    return step - 1 if prime.generation == "C" else step


@pytest.mark.slow
@pytest.mark.parametrize("generation", LAYOUTS)
def test_edited_run_resumes_beside_the_warm_server(box: Box, generation: Name) -> None:
    prime = prime_box(box, generation)
    prime.up(LAYOUTS[generation])
    first = prime.wait_for_steps("trainer", 4)
    assert first[0] == GENERATIONS[generation].first_step
    server = prime.pid("inference")

    prime.done("set", "orchestrator.batch_size=64", "--restart", "--yes")
    steps = prime.wait_for_steps("trainer", 3, attempt=2)
    assert prime.attempt("inference") == 1, "what reads nothing of the edit stays loaded"
    assert prime.pid("inference") == server
    resumed_from = checkpoint_before(prime, steps[0])
    assert resumed_from in prime.checkpoints()
    assert resumed_from >= prime.steps("trainer", 1)[-1] - 3, "the newest one"
    assert steps == list(range(steps[0], steps[0] + len(steps)))
    assert prime.steps("orchestrator", 2)[0] == steps[0], "both count from the same step"
    retry_until(lambda: prime.weights()["version"] > resumed_from)
    assert any("batch_size = 64" in (box.work / name).read_text() for name in prime.files)

    # Alone it would wait for ever: the plan takes its partner along and says why.
    plan = box.json("restart", "-c", "trainer", "--plan")
    assert set(plan["stop"]) == set(plan["start"]) == {"orchestrator", "trainer"}
    assert "inference" in plan["keep"]
    assert any("orchestrator" in reason for reason in plan["reasons"]), plan["reasons"]
    prime.done("restart", "-c", "trainer", "--yes")
    prime.wait_for_steps("trainer", 2, attempt=3)
    assert prime.attempt("orchestrator") == 3
    assert prime.pid("inference") == server

    assert not (prime.output / "configs").exists(), "configs are resolved elsewhere: here that deletes things"
    prime.assert_down_leaves_nothing()
