"""Runs that use an inference server which is none of theirs: at an address, or another experiment's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Box
from tests.e2e.gpu_box import scenario_of, with_gpus
from tests.e2e.test_prime_rl_layouts import LAYOUTS
from tests.fakes.prime_rl.boxed import PrimeBox, prime_box
from tests.fakes.prime_rl.generation import NAMES, Name
from tests.following import follow
from tests.waiting import retry_until

from rltui.core import hints

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.tmux]


@contextmanager
def lender(box: Box, generation: Name) -> Iterator[PrimeBox]:
    """The experiment `one`, of which only the inference server runs."""
    prime = prime_box(box, generation)
    prime.up(LAYOUTS[generation], "--only", "inference")
    yield prime
    box.run("down", "two")
    prime.done("down", "one")


def up_two(prime: PrimeBox, *options: str) -> dict[str, Any]:
    layout = LAYOUTS[prime.generation]
    status: dict[str, Any] = prime.box.json(
        "up", *prime.files, "-l", layout, "-n", "two", "-o", "out2", *options
    )
    return status


def steps_of_two(box: Box) -> int:
    return int(box.json("status", "two")["step"] or 0)


@pytest.mark.parametrize("generation", NAMES)
def test_the_warm_server_of_another_experiment_is_lent(box: Box, generation: Name) -> None:
    with lender(box, generation) as prime:
        before = [(box.work / name).read_text() for name in prime.files]
        status = up_two(prime, "--inference-of", "one")
        assert "inference" not in [component["id"] for component in status["components"]]
        retry_until(lambda: steps_of_two(box) >= 2, timeout_s=40)
        (server,) = box.json("status", "two")["servers"]
        assert (server["id"], server["state"], server["source"]) == ("inference", "ready", "one")
        assert [(box.work / name).read_text() for name in prime.files] == before

        # Both sides see it: what the owner's plans would do to the other is said, or refused.
        stopping = box.json("stop", "one", "-c", "inference", "--plan")
        assert any(
            "two uses the inference server" in component["message"] for component in stopping["problems"]
        )
        assert "used by two" in box.component("inference", experiment="one")["facts"]
        refusal = box.run("start", "one", "-c", "orchestrator", "-c", "trainer", "--yes")
        assert refusal.returncode == 4
        assert "rltui down two" in refusal.stderr + refusal.stdout
        assert box.run("down", "two").returncode == 0
        assert prime.attempt("inference") == 1, "it is left alone"
        theirs = box.run("eval", "run", "one", "reverse-text", "--now")
        assert (theirs.returncode, "has the weights of two" in theirs.stderr) == (4, True), theirs.stderr
        follow(box, theirs, hints.RESTART_INFERENCE, "--wait", code=0, name="one")
        evaluation = box.run("eval", "run", "one", "reverse-text", "--now", "--no-wait")
        assert "has the weights of two" not in evaluation.stderr


def test_a_server_is_not_lent_while_its_own_run_trains(box: Box) -> None:
    with lender(box, "C") as prime:
        prime.done("start", "-c", "orchestrator", "-c", "trainer", "--yes", "--wait")
        refusal = box.run(
            "up", *prime.files, "-l", "prime-rl", "-n", "two", "-o", "out2", "--inference-of", "one"
        )
        assert refusal.returncode == 4
        assert "one is training with its inference server" in refusal.stderr
        assert not (box.work / "out2" / ".rltui").exists(), "nothing is left of it"


def test_a_run_waits_for_a_server_elsewhere_and_tells_when_it_is_gone(box: Box) -> None:
    """The config names the server: no [inference], and an address."""
    with lender(box, "B0") as prime:
        text = (box.work / "rl.toml").read_text()
        alone = re.sub(r"(?ms)^\[inference.*?(?=^\[(?!inference)|\Z)", "", text)
        assert alone != text
        (box.work / "alone.toml").write_text(alone)
        prime.done("stop", "one", "-c", "inference", "--yes", "--wait")
        start = box.run("up", "alone.toml", "-n", "two", "-o", "out2", "--no-wait")
        assert start.returncode == 0, start.stderr
        assert "components that need it wait until it answers" in start.stderr
        assert "Connection refused" in box.component("orchestrator", experiment="two")["reason"]
        prime.done("start", "one", "-c", "inference", "--yes", "--wait")
        retry_until(lambda: steps_of_two(box) >= 2, timeout_s=40)
        prime.done("stop", "one", "-c", "inference", "--yes", "--wait")
        retry_until(lambda: "(external) is down" in box.run("events", "two").stdout, timeout_s=40)


GIB = 1 << 30


def two_cards(used: int, pid: int) -> str:
    """The machine of a test: `pid` holds `used` GiB of the first of two cards of 24."""
    lines = ["driver 580.95.05", "count 2"]
    for index in (0, 1):
        used_bytes = used * GIB if index == 0 else 0
        lines += [
            f"{index}.name NVIDIA GeForce RTX 4090",
            f"{index}.uuid GPU-{index}932f937-d72c-4106-c12f-20bd9faed9f6",
            f"{index}.total {24 * GIB}",
            f"{index}.reserved 0",
            f"{index}.used {used_bytes}",
        ]
    return "\n".join([*lines, f"0.compute {pid} {used * GIB}" if used else "", ""])


def test_a_trainer_is_kept_off_the_gpu_of_the_server_that_it_uses(box: Box) -> None:
    """Finding S1: it was put on that server's GPU."""
    box = with_gpus(box, two_cards(0, 0))
    with lender(box, "A1") as prime:
        scenario_of(box).write_text(two_cards(22, prime.pid("inference")))
        line = ["uv", "run", "rl", "--trainer", "@", "train.toml", "--orchestrator", "@", "orch.toml"]
        checked = json.dumps(box.json("check", "train.toml", "orch.toml", "-l", LAYOUTS["A1"])["memory"])
        assert "free on GPU 1" in checked, checked
        start = box.run("up", *line, "-n", "two", "-o", "out2", "--no-wait")
        assert start.returncode == 0, start.stderr
        assert "GPU 0 is used by one; this experiment uses GPU 1" in start.stderr
        retry_until(lambda: box.component("trainer", experiment="two")["pid"], timeout_s=40)
        pid = box.component("trainer", experiment="two")["pid"]
        assert "CUDA_VISIBLE_DEVICES=1" in Path(f"/proc/{pid}/environ").read_text().split("\0")
