"""The real `vf-eval` of both generations asks the embedded server, in the example's environment.

`RLTUI_VERIFIERS_PYTHONS=A/bin/python:B/bin/python pytest -m verifiers -n 0 tests/verifiers`
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.engine import EXAMPLE
from tests.tinyrl.conftest import free_port, start_program, write_tiny_model
from tests.verifiers.conftest import interpreter
from tests.waiting import retry_until

from rltui.core.evals import EvalRequest, Figures, figures, verdict
from rltui.core.rollouts import Sample
from rltui.services.runs.rollouts import open_rollouts

pytestmark = [pytest.mark.verifiers, pytest.mark.timeout(300)]
NO_TOOLS = ["--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess"]


@dataclass
class Server:
    base_url: str
    model: str
    folder: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    write_tiny_model(folder / "model", seed=0)
    port = free_port()
    words = ["inference", "--model.name", "model", "--inference.server.port", str(port)]
    process = start_program(words, folder / "inference.log", folder)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:

            def is_up() -> bool:
                try:
                    return client.get("/health").status_code == 200
                except httpx.TransportError:
                    return False

            retry_until(is_up, timeout_s=60)
        yield Server(f"http://127.0.0.1:{port}/v1", "model", folder)
    finally:
        process.terminate()
        process.wait(timeout=20)


def ask(python: Path, words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(EXAMPLE), "KEY": "EMPTY", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(python.parent / "vf-eval"), "reverse-text", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=250)


def samples(folder: Path) -> list[Sample]:
    """Of the one evaluation below `folder`."""
    rollouts = open_rollouts(folder)
    rollouts.look()
    (batch,) = rollouts.batches()
    while rollouts.look(batch.key):
        pass
    return list(rollouts.table(batch.key))


def figures_of(found: list[Sample]) -> Figures:
    return figures((each.task, each.reward, each.truncated, each.failed, each.input_tokens) for each in found)


def early(server: Server, *more: str) -> list[str]:
    return ["-m", server.model, "-b", server.base_url, "-k", "KEY", "-n", "4", "-r", "2", "-s", *more]


def current(server: Server, *more: str) -> list[str]:
    client = ["--client.base-url", server.base_url, "--client.api-key-var", "KEY"]
    return ["-m", server.model, *client, "-n", "4", "-r", "2", "--no-push", "--no-rich", *more]


def test_vf_eval_0_1_9(server: Server, tmp_path: Path) -> None:
    done = ask(interpreter("0.1.9"), early(server, "-t", "8", "-C", "is_truncated,stop_condition"), tmp_path)
    assert done.returncode == 0, done.stderr
    found = samples(tmp_path)
    assert len(found) == 8
    assert not any(each.failed for each in found)
    (folder,) = tmp_path.glob("outputs/evals/reverse-text--model/*")
    metadata = json.loads((folder / "metadata.json").read_text())
    mean = figures_of(found).mean
    assert mean == pytest.approx(metadata["avg_reward"], abs=1e-6)
    assert f"reward: avg - {mean:.3f}" in done.stdout


def test_vf_eval_0_1_9_ends_well_where_nothing_was_answered(server: Server, tmp_path: Path) -> None:
    """Its exit code lies; the results do not."""
    done = ask(interpreter("0.1.9"), early(server, "-t", "500"), tmp_path)
    asked = EvalRequest(num_examples=4, rollouts_per_example=2)
    assert (done.returncode, verdict(figures_of(samples(tmp_path)), asked)[0]) == (0, "failed")


def test_vf_eval_0_4(server: Server, tmp_path: Path) -> None:
    done = ask(interpreter("0.4"), current(server, *NO_TOOLS, "--sampling.max-tokens", "8"), tmp_path)
    assert done.returncode == 0, done.stderr
    found = samples(tmp_path)
    assert len(found) == 8
    assert not any(each.failed for each in found)
    assert any(each.truncated for each in found)  # an untrained model seldom ends by itself
    assert {each.output_tokens for each in found if each.truncated} == {8}
    assert len({each.task for each in found}) == 4
