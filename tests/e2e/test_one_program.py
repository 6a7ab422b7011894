"""Pasted lines that start one program of prime-rl, as the guide to RL has them. Findings S9, R10."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.conftest import Box
from tests.fakes.prime_rl.boxed import prime_box, prime_sft_box
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow]


WHERE = ("-n", "one", "-o", "out")


@contextmanager
def taken_port() -> Iterator[int]:
    """A port on which another user's server listens."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_three_lines_start_three_components_of_one_run(box: Box) -> None:
    prime = prime_box(box, "A1")
    prime.done("up", "uv", "run", "inference", "@", "infer.toml", *WHERE)
    status = box.json("status", "one")
    states = {component["id"]: component["state"] for component in status["components"]}
    assert (states["inference"], states["trainer"]) == ("ready", "stopped")
    prime.done("up", "uv", "run", "orchestrator", "@", "orch.toml", *WHERE, "--no-wait")
    prime.done("up", "trainer", "@", "train.toml", *WHERE)
    assert len(prime.wait_for_steps("trainer", 2)) >= 2
    prime.assert_down_leaves_nothing()


def test_a_server_alone_moves_its_port_and_needs_no_file(box: Box) -> None:
    prime = prime_box(box, "A1")
    for name in ("train.toml", "orch.toml"):
        (box.work / name).unlink()
    with taken_port() as port:
        text = (box.work / "infer.toml").read_text()
        (box.work / "infer.toml").write_text(re.sub(r"port = \d+", f"port = {port}", text))
        start = prime.done("up", "infer.toml", "-n", "one", "-o", "out")
        assert f"port {port} is in use by" in start
    assert box.component("inference", experiment="one")["state"] == "ready"
    assert "trainer" not in [component["id"] for component in box.json("status", "one")["components"]]
    prime.assert_down_leaves_nothing()
    start = prime.done("up", "inference", "--model.name", "outputs/x", "-n", "two", "--no-wait")
    retry_until(lambda: box.component("inference", experiment="two")["state"] == "ready", timeout_s=30)
    copy = box.work / "outputs/inference/.rltui/config/inference.toml"
    assert 'name = "outputs/x"' in copy.read_text()
    assert box.run("down", "two").returncode == 0


def test_a_trainer_that_comes_first_starts(box: Box) -> None:
    """It was refused, with commands that led nowhere: no other file says which server it is for."""
    prime = prime_box(box, "A1")
    prime.done("up", "train.toml", *WHERE, "--no-wait")
    assert [component["id"] for component in box.json("status", "one")["components"]] == ["trainer"]
    prime.assert_down_leaves_nothing()


@pytest.mark.parametrize("generation", ["A1", "C"])
def test_torchrun_starts_the_trainer_of_sft(box: Box, generation: str) -> None:
    prime = prime_sft_box(box, generation)  # type: ignore[arg-type]
    line = "uv run torchrun --local-ranks-filter 0 --nproc-per-node 1 src/prime_rl/trainer/sft/train.py"
    prime.done("up", *line.split(), "@", "sft.toml", "--wandb.project", "p", *WHERE, "--no-wait")
    prime.wait_for_steps("sft", 2)
    prime.assert_down_leaves_nothing()
